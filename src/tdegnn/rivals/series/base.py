"""The constructor and the readout that all rivals for series share. Their own files hold equations and layers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.nets.series_network import Frames, SeriesNetwork, SeriesSizes, as_frames


class RivalSeriesNetwork(SeriesNetwork):
    """A published network for series, with a linear readout from its states and from what is known of the future.

    Its weights are drawn from torch's generator. Dropout applies to the states before the readout, unless the class
    says otherwise; classes list their own settings.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        dropout: Fraction of the states that is dropped in training. Default: 0.
        seed: Seed of the dropout. Default: 0.
        settings: Settings of this network only. Their defaults are the published values, or the usual ones.
    """

    def __init__(
        self, sizes: SeriesSizes, hidden_channels: int, *, dropout: float = 0.0, seed: int = 0, **settings: Any
    ) -> None:
        super().__init__(sizes, hidden_channels, dropout=dropout, seed=seed)
        known_channels = sizes.horizon * sizes.num_known
        self.readout = nn.Linear(self._read_channels + known_channels, sizes.horizon * sizes.num_targets)
        self._make_layers(**settings)

    @property
    def _read_channels(self) -> int:
        """Channels of the states that the readout gets."""
        return self.hidden_channels

    # `*args` only so that the arguments of an override may differ: settings come by name.
    @abstractmethod
    def _make_layers(self, *args: Any, **settings: Any) -> None:
        """Make the layers before the readout, from the sizes and the settings of this network."""

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for module in self.modules():
            if module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()  # type: ignore[operator]

    def _read(
        self, frames: Frames, *states: Float[Tensor, "batch nodes _"]
    ) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecast from `[*states, future]`."""
        return as_frames(self.readout(torch.cat([*states, self._flat_future(frames)], dim=-1)), self.sizes)
