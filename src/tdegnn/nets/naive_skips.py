"""Skips without weights: the last value, and the value one season before. The layers learn the difference to it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import Argument, InputError
from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames, SeriesSizes


class LastValueSkip(nn.Module):
    """The newest value of each node, for all steps of the horizon.

    Args:
        sizes: The sizes of the task.
    """

    def __init__(self, sizes: SeriesSizes) -> None:
        super().__init__()
        self.sizes = sizes

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:  # noqa: ARG002
        """Return the newest values, repeated."""
        newest = frames.window[:, -1:, :, : self.sizes.num_targets]
        return newest.expand(-1, self.sizes.horizon, -1, -1)


class SeasonSkip(nn.Module):
    """The value of each node one season before each step of the horizon.

    Args:
        sizes: The sizes of the task.
        period: Length of a season in steps, at most the window.
    """

    def __init__(self, sizes: SeriesSizes, period: int) -> None:
        super().__init__()
        of_season = Argument("skip", "season")
        if period < 1:
            raise InputError(
                "Expected series with a season for ", of_season, ", got none. Pass ", Argument("season"), "."
            )
        if period > sizes.window:
            raise InputError(
                f"Expected a window of at least {period} steps, a season, for ",
                of_season,
                f", got {sizes.window}. Take a longer window.",
            )
        self.sizes, self.period = sizes, period

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:  # noqa: ARG002
        """Return the values one season before. Beyond the first season, the season repeats itself."""
        first = self.sizes.window - self.period
        places = [first + step % self.period for step in range(self.sizes.horizon)]
        return torch.stack([frames.window[:, place, :, : self.sizes.num_targets] for place in places], dim=1)
