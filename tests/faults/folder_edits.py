"""Run folders in which one entry of a JSON file is edited: all edits, each with and without new digests."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from tests.faults.folder_damage import KINDS, OLD_KINDS, Edit, answer, apply_edit, single_edits, trained


def num_inputs() -> int:
    """Return the number of edits. Seeds from there on begin again with the first one."""
    return 2 * len(_all_edits())


def try_one(seed: int, folder: Path) -> str:
    """Edit an entry, and use the folder. Odd seeds also compute all digests anew."""
    number, is_signed = divmod(seed % num_inputs(), 2)
    name, edit = _all_edits()[number]
    run = shutil.copytree(trained(name), folder / "run")
    apply_edit(edit, run, is_signed=is_signed == 1)
    # Folders of older versions have no digests.
    return answer(name, run, may_differ=is_signed == 1 or name in OLD_KINDS)


@cache
def _all_edits() -> list[tuple[str, Edit]]:
    return [(name, edit) for name in (*KINDS, *OLD_KINDS) for edit in single_edits(trained(name))]
