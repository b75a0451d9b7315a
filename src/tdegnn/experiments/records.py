"""Result lines: one JSON object a training, with what is needed to make it again."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdegnn.training.environment import describe_versions
from tdegnn.training.json_values import finite_or_null

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


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Result lines; none where there is no file yet."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def append_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Add result lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
