"""`--batches` and `--batches-set`: how to train on a part of the graph at a time, with settings of its own.

The names and settings are those of `batches/registry.py`, which imports torch. They are checked when a command runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tdegnn.cli.operator_options import parse_settings
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.parts import PartLike

BATCHES_SET = "--batches-set"


class BatchesOption(StrEnum):
    """How batches are made. A test compares the names with `batches/registry.py`."""

    PARTITIONS = "partitions"
    RANGES = "ranges"
    NEIGHBORHOODS = "neighborhoods"


BatchesChoice = Annotated[
    BatchesOption | None,
    typer.Option(
        "--batches",
        help="Train on a part of the graph at a time: some partitions (by METIS, or ranges of nodes), or drawn "
        "neighborhoods of training nodes.",
        show_default="the whole graph",
    ),
]
BatchesSettings = Annotated[
    list[str] | None,
    typer.Option(
        BATCHES_SET,
        help="A setting of --batches: num_parts, parts_per_batch and halo of partitions and ranges, batch_size and "
        "num_neighbors of neighborhoods, batches_per_step of all, as in num_parts=64. Can be repeated.",
        metavar="NAME=VALUE",
    ),
]


def batches_part(name: BatchesOption | None, settings: Sequence[str] | None) -> PartLike:
    """Return the batches that were asked for, checked. None if none were.

    Args:
        name: Their name, if one was given.
        settings: Their settings, as in `num_parts=64`.
    """
    from tdegnn.batches.registry import BATCHES
    from tdegnn.parts import Part

    given = parse_settings(settings or (), BATCHES_SET)
    if name is None:
        if given:
            raise InputError(f"Expected --batches with {BATCHES_SET}, got none. Add it.")
        return None
    part = Part(name.value, **given)
    BATCHES.check_settings(part)
    return part if part.settings else name.value
