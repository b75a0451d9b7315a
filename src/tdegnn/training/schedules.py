"""Schedules: how learning rates change in the course of a training, as factors of the rates that were given.

A schedule is a function of the share of steps that are done. So the same schedule serves trainings of any length, and
a training that is resumed continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi
from typing import Literal, TypeAlias

ScheduleName = Literal["constant", "cosine", "one-cycle"]
Schedule: TypeAlias = Callable[[float], float]

# The share of steps in which "one-cycle" warms up, and the factor that it starts with.
WARM_UP, START = 0.1, 0.04


def constant(share: float) -> float:  # noqa: ARG001 (the same in every step)
    """Return 1."""
    return 1.0


def cosine(share: float) -> float:
    """Return a factor that falls from 1 to 0 along half a cosine."""
    return 0.5 * (1 + cos(pi * share))


def one_cycle(share: float) -> float:
    """Return a factor that rises to 1 in the first tenth of the steps, and then falls to 0, both along a cosine."""
    if share < WARM_UP:
        return START + (1 - START) * (1 - cosine(share / WARM_UP))
    return cosine((share - WARM_UP) / (1 - WARM_UP))


SCHEDULES: dict[ScheduleName, Schedule] = {"constant": constant, "cosine": cosine, "one-cycle": one_cycle}
