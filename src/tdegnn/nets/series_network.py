"""Base class of all networks for series, ours and rivals: `network(frames, graph) -> forecasts`, per batch of windows.

Frames are scaled and filled before, and forecasts are scaled back elsewhere. As for nodes, rate, seed
and step of the dropout are buffers, so that networks that differ in them can be trained as one batch. Each pass in
training mode increases the step, and so has other masks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.coefficients import TemporalCoefficients
from tdegnn.errors import InputError, check_count, check_finite
from tdegnn.graph import Graph
from tdegnn.nets.dropout import BatchShare, DropoutStream, PassDropout


class Frames(NamedTuple):
    """What is known when a forecast is made, for each window of a batch.

    Attributes:
        window: The frames a network sees, oldest first. The targets are the first channels.
        future: What is known about the steps to forecast (calendar, weather forecasts). It may have no channels.
    """

    window: Float[Tensor, "batch window nodes channels"]
    future: Float[Tensor, "batch horizon nodes known"]


class SeriesSizes(NamedTuple):
    """The sizes of a forecasting task.

    Attributes:
        window: Number of frames a network sees.
        horizon: Number of frames it forecasts.
        num_nodes: Number of nodes.
        num_channels: Channels of a frame it sees, the targets first.
        num_known: Channels of a frame it forecasts that are known in advance.
        num_targets: Channels it forecasts.
        num_waves: Number of channels from the calendar, the last ones of `num_channels` and of `num_known`.
        period: Length of the shortest season in steps. 0 if there is none.
    """

    window: int
    horizon: int
    num_nodes: int
    num_channels: int = 1
    num_known: int = 0
    num_targets: int = 1
    num_waves: int = 0
    period: int = 0


class SeriesNetwork(nn.Module, ABC):
    """Frames to forecasts.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        dropout: Fraction of the states that is dropped in training.
        seed: Seed of the dropout.

    Attributes:
        share: Which windows of a batch it is trained with, if several processes share the batch.
    """

    share: BatchShare | None = None
    dropout: Tensor
    seed: Tensor
    step: Tensor

    def __init__(self, sizes: SeriesSizes, hidden_channels: int, *, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        may_be_zero = {"num_known": sizes.num_known, "num_waves": sizes.num_waves, "period": sizes.period}
        check_count(**{name: size for name, size in sizes._asdict().items() if name not in may_be_zero})
        check_count(minimum=0, **may_be_zero)
        check_count(hidden_channels=hidden_channels)
        check_finite(dropout=dropout)
        if not 0.0 <= dropout < 1.0:
            raise InputError(f"Expected dropout to be at least 0 and below 1, got {dropout}.")
        self.sizes, self.hidden_channels = sizes, hidden_channels
        self.register_buffer("dropout", torch.tensor(dropout, dtype=torch.float64), persistent=False)
        self.register_buffer("seed", torch.tensor(seed, dtype=torch.int64), persistent=False)
        self.register_buffer("step", torch.tensor(0, dtype=torch.int64), persistent=False)

    @abstractmethod
    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""

    def _start(self, frames: Frames, graph: Graph) -> PassDropout:
        """Check the input and return the dropout of this pass."""
        sizes = self.sizes
        nodes = (graph.num_nodes,)
        expected = ((sizes.window, *nodes, sizes.num_channels), (sizes.horizon, *nodes, sizes.num_known))
        came = (tuple(frames.window.shape[1:]), tuple(frames.future.shape[1:]))
        if came != expected or sizes.num_nodes != graph.num_nodes:
            raise InputError(
                f"Expected windows of shape (batch, *{expected[0]}) and a future of (batch, *{expected[1]}) on "
                f"{sizes.num_nodes} nodes, got {came[0]} and {came[1]} on {graph.num_nodes}."
            )
        stream = None
        if self.training:
            self.step += 1  # for other masks than in the pass before
            stream = DropoutStream(self.seed, self.step, self.share)
        return PassDropout(stream, self.dropout, self.dropout)

    def _check_order(self, coefficients: TemporalCoefficients) -> None:
        """Raise an `InputError` if c weighs more frames than a window has."""
        order, window = coefficients.order, self.sizes.window
        if order > window:
            raise InputError(
                f"Expected an order of at most {window}, the number of frames in the window, got {order}. "
                "Take a longer window or a lower order."
            )

    def _flat_future(self, frames: Frames) -> Float[Tensor, "batch nodes horizon_times_known"]:
        """Return what is known about all steps to forecast, side by side for each node."""
        return frames.future.movedim(1, 2).flatten(2)

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes._asdict().items())
        return f"{sizes}, hidden_channels={self.hidden_channels}, dropout={float(self.dropout):g}"


def as_frames(
    flat: Float[Tensor, "batch nodes horizon_times_targets"], sizes: SeriesSizes
) -> Float[Tensor, "batch horizon nodes targets"]:
    """Reshape the forecasts of each node, which are side by side, to frames."""
    by_step: Tensor = flat.unflatten(-1, (sizes.horizon, sizes.num_targets))
    return by_step.movedim(2, 1)
