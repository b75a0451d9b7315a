"""The families of `best_searches.toml` as a space for `tdegnn sweep`: what a trial draws, and its configuration.

A trial draws a family and one of its shapes, self-loops, a state norm, and the place of each number in the range that
the family has for it, from 0 to 1. So all trials draw the same names, whatever their families; places of numbers that a
family does not have are not used. The rule for c is that of the system, of order 2, and starts at c = [1].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from tdegnn.core.rules import RULE_OF_SYSTEM, System
from tdegnn.data.nodes import NodeDataset
from tdegnn.experiments.best_search import RUNG_3, Candidate, read_families
from tdegnn.experiments.drawn_configs import Range, number_at
from tdegnn.experiments.operator_rules import RULES, with_rule
from tdegnn.nets.state_norms import STATE_NORMS
from tdegnn.nodes.settings import NodeConfig

FAMILY = "family"


@cache
def _groups() -> dict[str, Candidate]:
    """Return a candidate without numbers for each shape of each family."""
    candidates = [Candidate(family, shape, {}) for family in read_families() for shape in range(len(family.shapes))]
    return {candidate.group: candidate for candidate in candidates}


def _place(name: str) -> str:
    return f"place of {name}"


@cache
def family_ranges() -> dict[str, Range]:
    """Return the ranges of what a trial draws besides its shape."""
    names = dict.fromkeys(name for family in read_families() for name in family.limits)
    return {_place(name): (0.0, 1.0, False) for name in names}


def family_shapes(dataset: NodeDataset) -> dict[str, tuple[Any, ...]]:
    """Return the choices that determine the shape of a network."""
    is_negative = dataset.has_negative_features  # such features cannot be scaled to sum to one
    groups = [
        group
        for group, candidate in _groups().items()
        if not (is_negative and candidate.settings.get("normalized_features"))
    ]
    return {FAMILY: tuple(groups), "self_loops": (False, True), "state_norm": (None, *STATE_NORMS.names)}


def family_config(system: System, params: Mapping[str, Any]) -> NodeConfig:
    """Return the configuration of a trial.

    Args:
        system: The system, which has a rule for c.
        params: What the trial has drawn.
    """
    empty = _groups()[params[FAMILY]]
    places = {name: params[_place(name)] for name in empty.family.limits}
    numbers = {name: number_at(limits, places[name]) for name, limits in empty.family.limits.items()}
    rule = next(rule for rule, name in RULES.items() if name == RULE_OF_SYSTEM[system])
    config = with_rule(replace(empty, numbers=numbers).config(RUNG_3), rule)
    return replace(config, system=system, self_loops=params["self_loops"], state_norm=params["state_norm"])
