"""Options that several commands share, with one help text each."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class DeviceOption(StrEnum):
    """Where to compute."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.", min=0, max=2**32 - 1)]
Device = Annotated[
    DeviceOption,
    typer.Option("--device", help="Where to compute; [bold]auto[/bold] takes a GPU if there is one."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
OutFolder = Annotated[Path, typer.Option("--out", "-o", help="Folder for pictures and result lines.", file_okay=False)]
