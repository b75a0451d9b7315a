"""Say in one sentence why data cannot tell their order. The reason follows from what the resamples chose."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from tdegnn.analysis.order_limits import ABLE_ENOUGH, CLEARLY_LOWER
from tdegnn.analysis.order_trials import (
    OrderTrial,
    is_enough,
    is_ruled_out,
    lacks_a_term,
    may_be_smoothness,
    percent_reached,
)
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH

# What fewer resamples chose is not listed.
RARE = 0.05


def find_reason(trials: Sequence[OrderTrial], *, noise_share: float, able: float) -> str:
    """Return why the data cannot tell their order. See `OrderFound` for the arguments."""
    # If noise hides an order, the orders above it are not judged either.
    seen = list(takewhile(lambda trial: trial.explained_share is not None, trials))
    noise = f"noise ({noise_share:.0%} of the signal)" if noise_share < 10 else "noise"
    if not seen:
        return f"{noise} hides even the first differences"
    if able < ABLE_ENOUGH:
        return f"only {percent_reached(able)} of the resamples could judge, the others saw little but {noise}"
    if max(trial.chosen for trial in trials) > RARE:
        return _disagreement(trials)
    enough = next((trial for trial in seen if is_enough(trial)), None)
    if enough is not None and may_be_smoothness(enough):
        return _smoothness(enough)
    near = next((trial for trial in seen if enough and trial.order < enough.order and not is_ruled_out(trial)), None)
    if enough is not None and near is not None:
        return _two_orders(near, enough)
    return _too_little(seen, noise, is_hidden=len(seen) < len(trials))


def _disagreement(trials: Sequence[OrderTrial]) -> str:
    chosen = [(f"order {trial.order}", trial.chosen) for trial in trials]
    none = ("no order", 1.0 - sum(trial.chosen for trial in trials))
    listed = [f"{name} in {percent_reached(share)}" for name, share in (*chosen, none) if share >= RARE]
    return f"the resamples disagree: {', '.join(listed)}"


def _two_orders(near: OrderTrial, enough: OrderTrial) -> str:
    """Say why no resample chose the order that explains enough: a lower one nearly does."""
    needed, too_little = percent_reached(EXPLAINED_ENOUGH), percent_reached(CLEARLY_LOWER)
    return (
        f"order {near.order} explains {near.range}, neither enough ({needed}) nor clearly too little (below "
        f"{too_little}), so order {enough.order} is not chosen, though it explains {enough.range}"
    )


def _smoothness(trial: OrderTrial) -> str:
    return (
        f"order {trial.order} explains {percent_reached(trial.explained_share or 0.0)}, and what is left is not noise: "
        "filtered chance looks like this too"
    )


def _too_little(seen: Sequence[OrderTrial], noise: str, *, is_hidden: bool) -> str:
    best = max(seen, key=lambda trial: trial.explained_share or 0.0)
    rest = f"and {noise} hides the higher ones" if is_hidden else "so chance, or something not in the data, is at work"
    if any(lacks_a_term(trial) for trial in seen):
        hidden = f", and {noise} hides the higher ones" if is_hidden else ""
        rest = f"so a nonlinear coupling of the nodes, something not in the data, or chance is at work{hidden}"
    most, enough = percent_reached(best.explained_share or 0.0), percent_reached(EXPLAINED_ENOUGH)
    return (
        f"no order up to {seen[-1].order} explains enough, at most {most} (order {best.order}) where {enough} are "
        f"needed, {rest}"
    )
