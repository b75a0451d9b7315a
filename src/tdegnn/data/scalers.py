"""Scalers: series in units of their own spread, fitted to the training steps only.

`transform` turns x into `(x - center) / scale`, `invert` turns it back. Each channel has its own scale, each node may
have one. Values that were not observed (NaN) do not count and do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor

from tdegnn.errors import InputError, check_count

Per = Literal["node", "all"]
Training: TypeAlias = Float[np.ndarray, "time nodes channels"]
Values = TypeVar("Values", Real[np.ndarray, "*batch nodes channels"], Real[Tensor, "*batch nodes channels"])

# Distance of the quartiles of a normal distribution, in standard deviations.
QUARTILES_APART = 1.349
# A spread up to this share of the center is rounding: the series is constant.
ROUNDING = 1e-12
# Squares of smaller spreads do not fit into float64: the series counts as constant, which a note of the panel says.
UNDERFLOW = 1e-150


@dataclass(frozen=True, eq=False)
class Scaler:
    """A center and a scale per channel, and per node or for all nodes together (one row).

    Attributes:
        center: The value that becomes zero.
        scale: The distance from the center that becomes one. Positive.
    """

    center: Float[np.ndarray, "rows channels"]
    scale: Float[np.ndarray, "rows channels"]

    @classmethod
    def standard(cls, training: Training, per: Per = "node") -> Scaler:
        """Scale by mean and standard deviation.

        A constant series has scale 1. A node without observations takes the center and scale of all nodes together.

        Args:
            training: The training steps of the series, with NaN for what was not observed.
            per: `"node"`: each node has its own center and scale. `"all"`: one for all nodes.
        """
        return _fit(_mean_and_deviation, training, per)

    @classmethod
    def robust(cls, training: Training, per: Per = "node") -> Scaler:
        """Scale by median and interquartile range, which outliers do not move. Arguments as in `standard`.

        The range is divided by 1.349, so that it is the standard deviation of a normal distribution. If the quartiles
        are equal and the values are not, the scale is the standard deviation.
        """
        return _fit(_median_and_quartiles, training, per)

    @classmethod
    def identity(cls, num_channels: int) -> Scaler:
        """Return a scaler that does not change values."""
        check_count(num_channels=num_channels)
        return cls(np.zeros((1, num_channels)), np.ones((1, num_channels)))

    def transform(self, values: Values) -> Values:
        """Return `(x - center) / scale`, in the precision and on the device of `values`."""
        center, scale = self._like(values)
        scaled: Values = (values - center) / scale
        return scaled

    def invert(self, values: Values) -> Values:
        """Return `x * scale + center`, in the precision and on the device of `values`."""
        center, scale = self._like(values)
        original: Values = values * scale + center
        return original

    def _like(self, values: Values) -> tuple[Any, Any]:
        """Return center and scale of the type of `values`: arrays or tensors."""
        num_rows, num_channels = self.center.shape
        # Otherwise, broadcasting would turn one node into several.
        if values.ndim < 2 or values.shape[-1] != num_channels or num_rows not in (1, values.shape[-2]):
            nodes = "nodes" if num_rows == 1 else f"{num_rows} nodes"
            raise InputError(
                f"Expected values of shape (..., {nodes}, {num_channels} channels), for which this scaler was made, "
                f"got {tuple(values.shape)}."
            )
        is_float = values.is_floating_point() if isinstance(values, Tensor) else values.dtype.kind == "f"
        if not is_float:
            # Whole numbers would round center and scale.
            raise InputError(f"Expected floating-point values, got {values.dtype}. Convert them first.")
        if isinstance(values, Tensor):
            return torch.tensor(self.center).to(values), torch.tensor(self.scale).to(values)
        return self.center.astype(values.dtype), self.scale.astype(values.dtype)


# Statistics take series as columns, each with an observation, and return two numbers per series: center and scale.
Series: TypeAlias = Float[np.ndarray, "observations series"]
Numbers: TypeAlias = Float[np.ndarray, " series"]
Statistics: TypeAlias = Callable[[Series], tuple[Numbers, Numbers]]


def _fit(statistics: Statistics, training: Training, per: Per) -> Scaler:
    if per not in get_args(Per):
        raise InputError(f"Expected per to be 'node' or 'all', got {per!r}.")
    values = np.asarray(training, dtype=np.float64)
    if values.ndim != 3:
        raise InputError(f"Expected training values of shape (time, nodes, channels), got {values.shape}.")
    if np.isinf(values).any():
        raise InputError("Expected finite training values, or NaN for what was not observed, got infinity.")
    is_known = ~np.isnan(values).all(axis=0)
    if not is_known.any(axis=0).all():
        unknown = np.flatnonzero(~is_known.any(axis=0)).tolist()
        raise InputError(
            f"Expected an observation in every channel of the training steps, got none in {unknown} (counted from 0). "
            "Leave these channels out or train on more steps."
        )
    num_nodes, num_channels = is_known.shape
    of_all = Scaler(*(row[None] for row in statistics(values.reshape(-1, num_channels))))
    if per == "all":
        return of_all
    center, scale = np.repeat(of_all.center, num_nodes, axis=0), np.repeat(of_all.scale, num_nodes, axis=0)
    center[is_known], scale[is_known] = statistics(values[:, is_known])
    return Scaler(center, scale)


def _mean_and_deviation(series: Series) -> tuple[Numbers, Numbers]:
    # Relative to the lowest value: the rounded mean of many equal numbers may differ from that number.
    lowest = np.nanmin(series, axis=0)
    center = lowest + np.nanmean(series - lowest, axis=0)
    deviation = np.nanstd(series - lowest, axis=0)
    return center, np.where(_is_rounding(deviation, center), 1.0, deviation)


def _median_and_quartiles(series: Series) -> tuple[Numbers, Numbers]:
    lower, center, upper = np.nanquantile(series, [0.25, 0.5, 0.75], axis=0)
    spread = (upper - lower) / QUARTILES_APART
    return center, np.where(_is_rounding(spread, center), _mean_and_deviation(series)[1], spread)


def _is_rounding(spread: Numbers, center: Numbers) -> Bool[np.ndarray, " series"]:
    return np.asarray(spread <= np.maximum(ROUNDING * np.abs(center), UNDERFLOW))
