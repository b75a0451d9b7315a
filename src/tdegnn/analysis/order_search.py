"""Find the order in time of data from the data alone, and how certain it is.

For each order m, the state, its Laplacians and the lower differences are fitted to explain the m-th difference. Pieces
of the data are drawn repeatedly: the fit uses the drawn pieces, and the other pieces judge it by the explained share,
not counting what noise must leave unexplained (`order_judging`). The order of a resample is the smallest order that
explains enough, if all lower ones explain clearly less. The order of the data is the one on which most resamples agree,
and nothing else decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import ArrayLike

from tdegnn.analysis.order_judging import Judged, draw_resamples, judge
from tdegnn.analysis.order_limits import (
    ABLE_ENOUGH,
    AGREED_ENOUGH,
    FINEST,
    HIGHEST_ORDER,
    LARGEST_WINDOW,
    NUM_RESAMPLES,
    USUAL_MAX_ORDER,
)
from tdegnn.analysis.order_notes import notes_on
from tdegnn.analysis.order_report import OrderFound
from tdegnn.analysis.order_states import HasColumns, HasSeries, make_ready, read_frame, step_of
from tdegnn.analysis.order_trials import is_ruled_out, may_be_smoothness
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH
from tdegnn.analysis.weak_form import difference_kernels
from tdegnn.errors import InputError, check_count, check_finite

# Codes for a resample without an order: no order explains enough, or there is too much noise to judge.
NO_ORDER, UNABLE = 0, -1


def find_order(
    states: ArrayLike | HasSeries | HasColumns,
    graph: Any = None,
    *,
    step_size: float | None = None,
    max_order: int = USUAL_MAX_ORDER,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
    on_order: Callable[[], None] | None = None,
) -> OrderFound:
    """Find the order in time of the equation that data follow.

    Args:
        states: A panel, a frame that `read_panel` reads, or an array of shape (time, nodes), (time, nodes, channels) or
            (trajectories, time, nodes, channels), with NaN for missing values. Several trajectories from different
            initial states are more informative than one.
        graph: The graph of the nodes: a `Graph`, or anything else that `read_graph` takes, such as a networkx graph.
            Its nodes have the names of the panel's, or for an array their numbers. Default: the graph of the panel, if
            there is one.
        step_size: Time between two observations. It only scales the reported equation. Default: the step of a panel
            whose times are numbers, else 1.
        max_order: Largest order to try, at most 6.
        num_resamples: Number of times that pieces of the data are drawn.
        seed: Seed of the resamples.
        on_order: Called after each order, for example to show progress.

    Returns:
        The order (`None` if the data cannot tell), the explained share of each order, the agreement of the resamples,
        and the weights `D_j` of the lower derivatives.

    Example:
        >>> time = torch.arange(400)[:, None]
        >>> find_order(torch.sin(0.1 * time + torch.arange(3))).verdict
        'Second order, each node by itself, in 100 % of the resamples.'

    """
    check_count(max_order=max_order)
    check_count(2, num_resamples=num_resamples)
    check_count(0, seed=seed)
    states = read_frame(states) if isinstance(states, HasColumns) else states
    step_size = step_of(states) if step_size is None else step_size
    check_finite(step_size=step_size)
    if not step_size > 0:
        raise InputError(f"Expected step_size to be positive, got {step_size}.")
    if max_order > HIGHEST_ORDER:
        raise InputError(f"Expected max_order to be at most {HIGHEST_ORDER}, got {max_order}.")
    shortest = ceil(difference_kernels(max_order, FINEST).shape[1] / LARGEST_WINDOW)
    ready = make_ready(states, graph, shortest)
    resamples = draw_resamples(len(ready.pieces), num_resamples, seed)
    judged = []
    for tried in range(1, max_order + 1):
        judged.append(judge(tried, ready, resamples))
        if on_order is not None:
            on_order()
    orders = _orders_of_resamples(judged)
    orders = orders[orders != UNABLE]
    trials = tuple(replace(entry.trial, chosen=_share(orders == entry.order)) for entry in judged)
    best = max(trials, key=lambda trial: trial.chosen)
    is_able, is_agreed = len(orders) >= ABLE_ENOUGH * num_resamples, best.chosen >= AGREED_ENOUGH
    order = best.order if is_able and is_agreed else None
    return OrderFound(
        order=order,
        trials=trials,
        derivatives=() if order is None else judged[order - 1].derivatives(step_size),
        has_graph=ready.has_graph,
        noise_share=ready.noise_share,
        num_pieces=len(ready.pieces),
        num_resamples=num_resamples,
        able=len(orders) / num_resamples,
        step_size=step_size,
        notes=(*ready.notes, *notes_on(judged, order)),
    )


def _share(is_so: Bool[np.ndarray, " resamples"]) -> float:
    return float(is_so.mean()) if is_so.size else 0.0


def _orders_of_resamples(judged: Sequence[Judged]) -> Int[np.ndarray, " resamples"]:
    """Return the smallest order that explains enough per resample, or `NO_ORDER` or `UNABLE` if there is none.

    No resample chooses an order whose share may come from smoothness alone, nor one above an order that is not ruled
    out. If noise hides an order from all resamples, this order and the higher ones are not judged. If noise hides it
    from one resample only, because the change lies in other pieces, this resample is unable to judge.
    """
    found = np.full(len(judged[0].shares), NO_ORDER, dtype=np.int64)
    are_lower_ruled_out = True
    for entry in judged:
        if not entry.scales.moments:
            break
        is_open = found == NO_ORDER
        found = np.where(is_open & np.isnan(entry.shares), UNABLE, found)
        if are_lower_ruled_out and not may_be_smoothness(entry.trial):
            found = np.where(is_open & (entry.shares >= EXPLAINED_ENOUGH), entry.order, found)
        are_lower_ruled_out &= is_ruled_out(entry.trial)
    return found
