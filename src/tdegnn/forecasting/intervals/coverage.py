"""How often intervals contain what is observed: in all, by step of the horizon, by hour of the day and by node.

Beside the coverage stand the mean width and the interval score (Winkler, 1972): the width, and 2 / (1 - coverage) times
the distance of an observation outside of it. Lower is better; wide intervals and misses both cost. Divided by 4 / (1 -
coverage) it is the mean pinball loss of the two ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from tdegnn.errors import InputError
from tdegnn.forecasting.intervals.base import Residuals


def measure_coverage(
    low: Float[np.ndarray, "*shape"], high: Float[np.ndarray, "*shape"], observed: Float[np.ndarray, "*shape"]
) -> float:
    """Return the share of observed values between `low` and `high`, both included."""
    if not low.shape == high.shape == observed.shape:
        raise InputError(
            f"Expected ends of intervals and observed values of one shape, got {low.shape}, {high.shape} and "
            f"{observed.shape}."
        )
    is_observed = ~np.isnan(observed)
    if not is_observed.any():
        raise InputError(f"Expected at least one observed value, got none among {observed.size}.")
    return float(((low <= observed) & (observed <= high))[is_observed].mean())


def interval_score(low: Residuals, high: Residuals, observed: Residuals, coverage: float) -> Residuals:
    """Return the interval score of each observation. NaN if it was not observed."""
    outside = np.maximum(low - observed, 0) + np.maximum(observed - high, 0)
    return np.asarray(np.where(np.isnan(observed), np.nan, high - low + 2 / (1 - coverage) * outside))


@dataclass(frozen=True)
class CoverageReport:
    """The coverage of intervals on some windows.

    Attributes:
        aimed: Share of the observations that the intervals should contain.
        reached: Share of the observations that they contain.
        width: Mean width.
        pinball: Mean pinball loss of both ends.
        by_step: Coverage at each step of the horizon. NaN if nothing was observed.
        by_hour: Coverage at each hour of the day that occurs. Empty if times have no hours.
        by_node: Coverage of each node. NaN if nothing was observed.
    """

    aimed: float
    reached: float
    width: float
    pinball: float
    by_step: tuple[float, ...]
    by_hour: dict[int, float]
    by_node: dict[str, float]

    def __str__(self) -> str:
        nodes = [share for share in self.by_node.values() if not np.isnan(share)]
        lines = [
            f"{100 * self.reached:.1f} % of the observations are in the intervals, which aim at {100 * self.aimed:g} %",
            f"by step: {_show(self.by_step)}",
            *([f"by hour: {_show(self.by_hour.values())}"] if self.by_hour else []),
            f"by node: from {100 * min(nodes):.0f} to {100 * max(nodes):.0f} %",
        ]
        return "\n".join(lines)

    def to_record(self) -> dict[str, Any]:
        """Return the report as JSON keeps it. What was not observed is None."""
        facts = vars(self) | {"by_step": [_rounded(share) for share in self.by_step]}
        facts["by_hour"] = {str(hour): _rounded(share) for hour, share in self.by_hour.items()}
        facts["by_node"] = {node: _rounded(share) for node, share in self.by_node.items()}
        return facts


def report_coverage(
    low: Residuals,
    high: Residuals,
    observed: Residuals,
    coverage: float,
    *,
    nodes: Sequence[str],
    hours: Int[np.ndarray, "windows horizon"] | None = None,
) -> CoverageReport:
    """Return the coverage of intervals of several windows.

    Args:
        low: Lower ends, of shape (windows, horizon, nodes, targets).
        high: Upper ends.
        observed: What was observed. NaN if it was not.
        coverage: Share of the observations that the intervals should contain.
        nodes: Names of the nodes.
        hours: The hour of the day of each step, such as `Context.hours`. None if there is none.
    """
    reached = measure_coverage(low, high, observed)
    is_held = np.where(np.isnan(observed), np.nan, (low <= observed) & (observed <= high))
    scores = interval_score(low, high, observed, coverage)
    by_hour = {}
    if hours is not None:
        by_hour = {int(hour): _share(is_held[hours == hour]) for hour in np.unique(hours)}
    return CoverageReport(
        coverage,
        reached,
        float(np.nanmean(np.where(np.isnan(observed), np.nan, high - low))),
        float(np.nanmean(scores) * (1 - coverage) / 4),
        tuple(_share(is_held[:, step]) for step in range(is_held.shape[1])),
        {hour: share for hour, share in by_hour.items() if not np.isnan(share)},
        {node: _share(is_held[:, :, number]) for number, node in enumerate(nodes)},
    )


def _share(is_held: Float[np.ndarray, "*shape"]) -> float:
    known = is_held[~np.isnan(is_held)]
    return float(known.mean()) if len(known) else np.nan


def _rounded(share: float) -> float | None:
    return None if np.isnan(share) else round(share, 4)


def _show(shares: Any) -> str:
    return " ".join("-" if np.isnan(share) else f"{100 * share:.0f}" for share in shares) + " %"
