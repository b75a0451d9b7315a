"""Run folders in which one bit of a file is flipped: each kind of file in turn."""

from __future__ import annotations

import random
from pathlib import Path

from tests.faults.folder_damage import FILES, KINDS, trained, try_flip


def try_one(seed: int, folder: Path) -> str:
    """Flip a bit, and use the folder."""
    draw = random.Random(seed)
    name, file = draw.choice(KINDS), FILES[seed % len(FILES)]
    return try_flip(name, file, draw.randrange(8 * (trained(name) / file).stat().st_size), folder)
