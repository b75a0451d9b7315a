"""Result lines: one JSON object a training, with what is needed to make it again."""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdegnn.errors import InputError
from tdegnn.runs.safe_files import finite_or_null
from tdegnn.version import describe_versions

if TYPE_CHECKING:
    import torch


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Versions and the device, for a result line."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"versions": describe_versions(), "device": f"{device.type} ({name})"}


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the lines to `path`, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text("".join(json.dumps(finite_or_null(record), allow_nan=False) + "\n" for record in records))
    unfinished.replace(path)


def read_lines(path: Path, **asked: Collection[Any]) -> list[dict[str, Any]]:
    """Result lines; none where there is no file yet. A last line that was cut off is left out.

    Args:
        path: The file.
        asked: What may stand under a name, as in `dataset=["cora"]`; other lines are left out.
    """
    texts = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    lines = []
    for number, text in enumerate(texts, start=1):
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if isinstance(line, dict):
            lines.append(line)
        elif number < len(texts) or text.endswith("\n"):
            raise InputError(f"Expected result lines in {path}, line {number} is none. Choose another file.")
    return [line for line in lines if all(line.get(name) in values for name, values in asked.items())]


def append_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Add result lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [json.dumps(finite_or_null(line), allow_nan=False) + "\n" for line in lines]
    _cut_unfinished_line(path)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(texts)


def _cut_unfinished_line(path: Path) -> None:
    """Cut off what a process that was killed had begun to write."""
    if path.exists():
        with path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
