"""Notes on data that a reader of the verdict should know: what may be missing, and what noise or coarse steps hide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tdegnn.analysis.order_judging import Judged
from tdegnn.analysis.order_limits import FEWEST_PIECES
from tdegnn.analysis.order_trials import OrderTrial, is_enough, is_left_unexplained, lacks_a_term, percent_reached
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH
from tdegnn.analysis.weak_form import Moments

COARSE = (
    "The series change about as fast as they are observed, so differences approximate derivatives poorly: observe more "
    "often to be sure."
)
UNEXPLAINED = (
    "Some of the leading difference is left unexplained, and it is not noise: something outside the data acts on the "
    "series, or nodes act on each other in a way that no Laplacian of these edges describes, such as a nonlinear one."
)
LACKING = (
    "Order {order} explains {share}, nearly enough. Its equation may lack a term: a nonlinear coupling of the nodes "
    "(such as saturation, or sines of differences; the search knows polynomials up to degree three), a state that was "
    "not observed, or a force from outside."
)
STANDS_FOR = (
    "Order 1 explains {share}, nearly enough. So the second order may stand for something else in an equation of first "
    "order: a nonlinear coupling of the nodes (such as saturation, or sines of differences; the search knows "
    "polynomials up to degree three), a state that was not observed, or a force from outside."
)
FAST_CHANGES = (
    "Noise hides changes within less than {width} steps. Order {order} explains {share} of slower changes, but less of "
    "faster ones. The share shown for it is the one to expect of all changes, as if there were no noise."
)


def notes_on(judged: Sequence[Judged], order: int | None) -> list[str]:
    """Return the notes on an order that was found, or on data that cannot tell their order."""
    notes = []
    if order is not None and is_left_unexplained(judged[order - 1].trial):
        notes.append(UNEXPLAINED)
    if order == 2 and lacks_a_term(judged[0].trial):
        notes.append(STANDS_FOR.format(share=percent_reached(judged[0].trial.explained_share or 0.0)))
    if order is None:
        trials = [entry.trial for entry in judged]
        notes.extend(_missing_terms(trials))
        notes.extend(_hidden_changes(trials))
    if any(entry.scales.is_coarse for entry in judged[: order or len(judged)]):
        notes.append(COARSE)
    first = judged[0].scales.moments
    if order is None and first:
        notes.extend(_few_pieces(first[0]))
    return notes


def _missing_terms(trials: Sequence[OrderTrial]) -> list[str]:
    """Say what may be missing if a low order explains nearly enough."""
    return [
        LACKING.format(order=trial.order, share=percent_reached(trial.explained_share or 0.0))
        for trial in trials
        if lacks_a_term(trial)
    ][:1]


def _hidden_changes(trials: Sequence[OrderTrial]) -> list[str]:
    """Say why an order that explains enough of what noise leaves visible does not explain enough of everything."""
    return [
        FAST_CHANGES.format(width=trial.half_widths[0], order=trial.order, share=percent_reached(trial.visible_share))
        for trial in trials
        if trial.visible_share is not None and trial.visible_share >= EXPLAINED_ENOUGH and not is_enough(trial)
    ][:1]


def _few_pieces(first: Moments) -> list[str]:
    """Say if nearly all change lies in a few pieces."""
    variances = np.maximum(first.products[:, -1, -1] - first.noise[:, -1, -1] * first.counts.sum(axis=1), 0)
    num_full = variances.sum() ** 2 / max(np.square(variances).sum(), np.finfo(float).tiny)
    if num_full >= min(FEWEST_PIECES, len(variances) / 2):
        return []
    return [
        f"Nearly all change lies in {max(round(num_full), 1)} of {len(variances)} pieces of the data: use only the "
        "stretch with change, or several trajectories."
    ]
