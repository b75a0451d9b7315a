"""Forecasts of the held-out steps by networks that had not seen them, as far as a run folder keeps them.

The networks of a run folder learned from all steps, so their forecasts of held-out steps would look better than they
are. These were made before that. Intervals are there for the last windows only: they were learned from the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from tdegnn.data.panel import Panel

# Maximum number of values in an array: 2 MB. Of longer series the last steps are kept, with fewer windows.
MOST_VALUES = 2**18
# Prefix of the names of the arrays in a run folder.
OF_HELD_OUT = "held_out."

Windows = Float[np.ndarray, "windows horizon nodes targets"]


@dataclass(frozen=True, eq=False)
class KeptForecasts:
    """Forecasts of held-out steps.

    Attributes:
        times: The times of the held-out steps.
        observed: What was observed. NaN if nothing was.
        first_steps: The place in `times` of the first step of each window.
        forecasts: The forecasts.
        low: Lower ends of intervals that were learned from other windows. NaN if there are none.
        high: Upper ends of these intervals.
    """

    times: pd.Index
    observed: Float[np.ndarray, "steps nodes targets"]
    first_steps: Int[np.ndarray, " windows"]
    forecasts: Windows
    low: Windows
    high: Windows

    @classmethod
    def of(cls, panel: Panel, first_steps: range, forecasts: Windows, ends: tuple[Windows, Windows]) -> KeptForecasts:
        """Keep the forecasts of a panel, or some of them if there are many.

        Args:
            panel: The series.
            first_steps: The first step of each window.
            forecasts: The forecasts.
            ends: Lower and upper ends of intervals, NaN if there are none.
        """
        horizon, values_per_step = forecasts.shape[1], panel.num_nodes * panel.num_targets
        earliest = max(first_steps.start, panel.num_steps - max(horizon, MOST_VALUES // values_per_step))
        later = range(earliest - first_steps.start, len(first_steps))
        stride = -(-len(later) * horizon * values_per_step // MOST_VALUES)
        # The last window is kept: it is the newest one.
        windows = np.array(later[::-1][::stride][::-1], dtype=np.int64)
        return cls(
            panel.times[earliest:],
            panel.values[earliest:, :, : panel.num_targets].copy(),
            windows - later.start,
            forecasts[windows],
            *(end[windows] for end in ends),
        )

    @property
    def horizon(self) -> int:
        """Number of steps of a window."""
        return int(self.forecasts.shape[1])

    @property
    def steps(self) -> Int[np.ndarray, "windows horizon"]:
        """The place in `times` of each step of each window."""
        return self.first_steps[:, None] + np.arange(self.horizon)

    @property
    def residuals(self) -> Windows:
        """Observed minus forecast. NaN if nothing was observed."""
        return np.asarray(self.observed[self.steps] - self.forecasts)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything as arrays, for a run folder. Dates become microseconds in UTC."""
        times = self.times
        numbers = times.as_unit("us").asi8 if isinstance(times, pd.DatetimeIndex) else times.to_numpy()
        arrays: dict[str, Any] = {**vars(self), "times": numbers}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], tail: Panel) -> KeptForecasts:
        """Read what `to_arrays` returned. Raise a `ValueError` for times that are no steps of the series.

        Args:
            arrays: The arrays, checked.
            tail: The end of the series.
        """
        times: pd.Index = pd.Index(arrays["times"])
        if isinstance(tail.times, pd.DatetimeIndex):
            dates = pd.DatetimeIndex(arrays["times"].astype("M8[us]"))
            times = dates if tail.times.tz is None else dates.tz_localize("UTC").tz_convert(tail.times.tz)
        if not (times.is_monotonic_increasing and times[-1] <= tail.times[-1]):
            raise ValueError("the times are not steps of the series")
        return cls(**{**arrays, "times": times})
