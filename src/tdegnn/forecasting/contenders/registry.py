"""What a forecaster can be compared with, by name. To add a method, write a class of `Contender` and a line here.

A line names the module of the class: nothing is imported before it is asked for, so that the command line lists all
names at once, and the library does not depend on the published networks it is compared with.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tdegnn.errors import InputError, suggest

if TYPE_CHECKING:
    from tdegnn.forecasting.contenders.contender import Contender
    from tdegnn.parts import Family, PartLike


@dataclass(frozen=True)
class Listed:
    """Where a contender is found.

    Attributes:
        module: The module of its class.
        kind: The name of its class.
        settings: Settings that make it this contender.
    """

    module: str
    kind: str
    settings: dict[str, Any] = field(default_factory=dict)


def _classical(kind: str, **settings: Any) -> Listed:
    return Listed("tdegnn.forecasting.contenders.classical", kind, settings)


def _cell(system: str) -> Listed:
    return Listed("tdegnn.rivals.series.contender", "CellContender", {"system": system})


CELLS = ("DCRNN", "GConvGRU", "GC-LSTM", "DyGrAE", "EvolveGCN-O", "T-GCN", "A3T-GCN", "MPNN-LSTM", "AGCRN")
CONTENDERS: dict[str, Listed] = {
    "mean": _classical("MeanContender"),
    "last": _classical("LastContender"),
    "season": _classical("SeasonContender"),
    "calendar": _classical("CalendarContender"),
    "ridge": _classical("RidgeContender"),
    "ridge-by-node": _classical("RidgeContender", per="node"),
    **{system.lower(): _cell(system) for system in CELLS},
    "lightgbm": _classical("BoostedContender"),
    "autoarima": _classical("StatisticalContender", model="AutoARIMA"),
    "autoets": _classical("StatisticalContender", model="AutoETS"),
    "autotheta": _classical("StatisticalContender", model="AutoTheta"),
}
# Names that stand for several.
NAIVE = "naive"
GROUPS: dict[str, tuple[str, ...]] = {
    NAIVE: ("mean", "last", "season", "calendar"),
    "cells": tuple(system.lower() for system in CELLS),
}


def expand_name(name: str) -> tuple[str, ...]:
    """Return the contenders that a name stands for. Capital letters, spaces, `-` and `_` do not count.

    Raises:
        InputError: There is no such name.
    """
    known = {_plain(each): (each,) for each in CONTENDERS} | {_plain(each): names for each, names in GROUPS.items()}
    if _plain(name) not in known:
        names = (*CONTENDERS, *GROUPS)
        raise InputError(f"Expected a method among {', '.join(names)}, got {name!r}.{suggest(name, names)}")
    return known[_plain(name)]


def make_contenders(against: Sequence[PartLike]) -> dict[str, Contender]:
    """Return contenders by their names in tables, each once.

    Args:
        against: Names of contenders or groups, classes, or a `Part` of these with settings.

    Raises:
        InputError: There is no such name, a setting is wrong, or a package that a contender needs is missing.
    """
    from tdegnn.parts import Part

    if isinstance(against, str):
        raise InputError(f"Expected a list of methods, got the text {against!r}. Pass [{against!r}].")
    family = contender_family()
    made: dict[str, Contender] = {}
    for given in against:
        part = given if isinstance(given, Part) else Part(given)
        kinds = expand_name(part.kind) if isinstance(part.kind, str) else (part.kind,)
        for kind in kinds:
            named = Part(kind, **part.settings)
            name = family.name_of(named)
            if part.settings or not isinstance(kind, str):
                name = _unused(name, made)
            made[name] = family.make(named)
    return made


def contender_family() -> Family:
    """Return all contenders as a family of parts. This imports them."""
    from tdegnn.forecasting.contenders.contender import Contender
    from tdegnn.parts import Family, Part

    members = {
        name: Part(getattr(import_module(listed.module), listed.kind), **listed.settings)
        for name, listed in CONTENDERS.items()
    }
    return Family("against", Contender, members)


def _unused(name: str, taken: dict[str, Any]) -> str:
    """Return a name that no other contender has: the same one may come with several settings."""
    numbered = (name, *(f"{name} {number}" for number in range(2, len(taken) + 2)))
    return next(each for each in numbered if each not in taken)


def _plain(name: str) -> str:
    return re.sub(r"[-_\s]", "", name.lower())
