"""The origins of a backtest: where forecasts begin, and how often everything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tdegnn.data.splits import rolling_origins
from tdegnn.errors import check_count
from tdegnn.forecasting.held_out import fewest_steps

# Share of the series whose steps are forecast, if the user does not say how many origins there are.
LAST_PART = 0.2
# Maximum number of such origins, and of the values that a method forecasts from all of them.
MOST_ORIGINS, MOST_VALUES = 500, 2**22
# Number of origins if everything is trained anew for each.
NUM_REFITS = 3


@dataclass(frozen=True)
class Origins:
    """The origins of a backtest.

    Attributes:
        firsts: The first step that is forecast from each origin. Its data end one step earlier.
        refit: Whether everything is trained anew for each origin.
    """

    firsts: range
    refit: bool

    @property
    def trainings(self) -> list[range]:
        """The origins that each training serves. It sees the steps before the first of them."""
        return [self.firsts[place : place + 1] for place in range(len(self.firsts))] if self.refit else [self.firsts]


def choose_origins(
    num_steps: int,
    horizon: int,
    num_series: int,
    *,
    window: int = 1,
    num_folds: int | None = None,
    stride: int | None = None,
    refit: bool = False,
) -> Origins:
    """Return the origins. The last one is `horizon` steps before the end of the series.

    Args:
        num_steps: Number of observed steps.
        horizon: Number of steps that are forecast from an origin.
        num_series: Number of values per step.
        window: Number of steps that a forecast sees.
        num_folds: Number of origins. If None, those of the last fifth of the series; 3 with `refit`.
        stride: Steps from one origin to the next. If None, the horizon if `num_folds` or `refit` is given, else 1, or
            more to keep to the maximum number of origins.
        refit: Whether everything is trained anew for each origin.
    """
    check_count(num_steps=num_steps, horizon=horizon, stride=1 if stride is None else stride)
    if num_folds is None and refit:
        num_folds = NUM_REFITS
    if num_folds is None:
        num_left = num_steps - fewest_steps(window, horizon)
        num_possible = max(1, min(ceil(LAST_PART * num_steps), num_left) - horizon + 1)
        most = max(1, min(MOST_ORIGINS, MOST_VALUES // (horizon * num_series)))
        stride = -(-num_possible // most) if stride is None else stride
        num_folds = 1 + (num_possible - 1) // stride
    stride = horizon if stride is None else stride
    folds = rolling_origins(num_steps, horizon, num_folds, stride=stride, window=window)
    return Origins(range(folds[0].test.start, folds[-1].test.start + 1, stride), refit)
