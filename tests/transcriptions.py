"""The dense transcriptions of a family: `DENSE`, by name, of every test file in a folder."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def transcriptions_of(folder: Path) -> dict[str, Callable[..., Any]]:
    """Return what the files `test_*.py` of a folder of tests transcribe, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for path in sorted(folder.glob("test_*.py")):
        if "\nDENSE = " not in path.read_text(encoding="utf-8"):
            continue
        module = import_module(".".join(("tests", *path.relative_to(Path(__file__).parent).with_suffix("").parts)))
        twice = found.keys() & module.DENSE.keys()
        assert not twice, f"Expected one transcription of each name, got two of {', '.join(twice)}. Delete one."
        found.update(module.DENSE)
    return found


def check_all_have_one(names: list[str], dense: dict[str, Callable[..., Any]], folder: str) -> None:
    """Raise an error that lists the names without a transcription."""
    missing = [name for name in names if name not in dense]
    assert not missing, (
        f"Expected a dense transcription of each equation, got none of {', '.join(missing)}. "
        f"Write it in tests/{folder}/test_NAME.py and add it to DENSE there."
    )
