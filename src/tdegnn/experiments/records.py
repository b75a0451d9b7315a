"""Result lines: one JSON object a training, with what is needed to make it again."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdegnn.version import __version__

if TYPE_CHECKING:
    import torch


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Versions and the device, for a result line."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    versions = {package: version(package) for package in ("torch", "torch-geometric", "numpy", "scipy")}
    return {
        "versions": {"tdegnn": __version__, "python": platform.python_version(), **versions},
        "device": f"{device.type} ({name})",
    }


def finite_or_null(value: Any) -> Any:
    """The value with every number that JSON cannot say (infinite, not a number) as null."""
    if isinstance(value, Mapping):
        return {name: finite_or_null(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the lines to `path`, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text("".join(json.dumps(finite_or_null(record), allow_nan=False) + "\n" for record in records))
    unfinished.replace(path)
