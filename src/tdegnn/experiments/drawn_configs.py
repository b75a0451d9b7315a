"""Configurations at random: numbers drawn from ranges, and settings written flat, as `row_searches.toml` has them.

`learning_rate` and `weight_decay` hold for all weights, `spatial.weight_decay` for those of one group. A setting of an
operator is written `operator.alpha`, one of a rival `own_settings.alpha`. Nothing is trained or chosen here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tdegnn.experiments.node_systems import AnyConfig
from tdegnn.experiments.recipe_files import GROUPS, config_from_record
from tdegnn.rivals.nodes.registry import NODE_NETWORKS

# Lowest, highest, and whether the scale is logarithmic.
Range: TypeAlias = tuple[float, float, bool]
RATES = ("learning_rate", "weight_decay")
# Of every search. Some add more.
RANGES: dict[str, Range] = {
    "learning_rate": (1e-3, 5e-2, True),
    "weight_decay": (1e-6, 2e-2, True),
    "outer_dropout": (0.0, 0.8, False),
}


def read_ranges(written: Mapping[str, Sequence[Any]]) -> dict[str, Range]:
    """Return ranges that are written as `[lowest, highest]`, or `[lowest, highest, "log"]`."""
    return {name: (low, high, scale == ["log"]) for name, (low, high, *scale) in written.items()}


def draw(random: np.random.Generator, ranges: Mapping[str, Range]) -> dict[str, float]:
    """Draw each number, evenly on its scale."""
    return {name: number_at(limits, random.random()) for name, limits in ranges.items()}


def draw_near(
    random: np.random.Generator, ranges: Mapping[str, Range], center: Mapping[str, float], width: float
) -> dict[str, float]:
    """Draw each number near another one, and inside its range.

    Args:
        random: The generator.
        ranges: The range of each number.
        center: Numbers that are good already. They may be outside the ranges.
        width: Standard deviation, as a share of the range.
    """
    shares = {name: _share(limits, center[name]) + width * random.normal() for name, limits in ranges.items()}
    return {name: number_at(ranges[name], min(max(share, 0.0), 1.0)) for name, share in shares.items()}


def number_at(limits: Range, share: float) -> float:
    """Return the number at a place of a range, from 0 to 1."""
    low, high, is_logarithmic = limits
    return low * (high / low) ** share if is_logarithmic else low + (high - low) * share


def _share(limits: Range, number: float) -> float:
    low, high, is_logarithmic = limits
    if not is_logarithmic:
        return (number - low) / (high - low)
    return math.log(max(number, low) / low) / math.log(high / low)


def config_of(system: str, settings: Mapping[str, Any]) -> AnyConfig:
    """Return a configuration from settings that are written flat.

    Args:
        system: Its name. That of a rival makes a configuration of the rival.
        settings: The settings. Those that are left out have their defaults.
    """
    record = {"system": system, **settings}
    groups = ("embedding", "spatial") if system in NODE_NETWORKS else GROUPS
    rates = {rate: record.pop(rate) for rate in RATES}
    record |= {group: rates | _take(record, f"{group}.") for group in groups}
    own = _take(record, "own_settings.")
    if own:
        record["own_settings"] = {**record.get("own_settings", {}), **own}
    of_operator = _take(record, "operator.")
    if of_operator:
        given: Any = record["operator"]
        name, known = (given, {}) if isinstance(given, str) else (given["name"], given["settings"])
        record["operator"] = {"name": name, "settings": {**known, **of_operator}}
    return config_from_record(record)


def _take(record: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Remove the settings whose names begin with this, and return them without it."""
    return {name.removeprefix(prefix): record.pop(name) for name in list(record) if name.startswith(prefix)}
