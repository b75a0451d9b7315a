"""What the recurrent networks for series share: gates, the loop over frames, and the readout.

GRU: `z, r = s(X_t + G(H))`, `C = tanh(X_t + K(r . H))`, `H' = z . H + (1 - z) . C`. LSTM: `i, f, o = s(X_t + G(H))`,
`c' = f . c + i . tanh(X_t + G(H))`, `H' = o . tanh(c')`.

X_t is what a network makes of frame t, one part a gate, biases included; since it needs no state it comes for all
frames at once. G and K are products of the state, any kind of convolution, which is what the networks differ in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames, SeriesNetwork, SeriesSizes, as_frames

Product: TypeAlias = Callable[[Tensor], Tensor]
States: TypeAlias = Float[Tensor, "batch window nodes channels"]


class RecurrentNetwork(SeriesNetwork):
    """A network with a linear readout from states and from what is known of the future.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        read_channels: Channels the readout gets, besides those of the future; `hidden_channels` without it.
        dropout: Part of the states that is dropped in training.
        seed: Seed of the dropout.
    """

    def __init__(
        self,
        sizes: SeriesSizes,
        hidden_channels: int,
        *,
        read_channels: int | None = None,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(sizes, hidden_channels, dropout=dropout, seed=seed)
        known_channels = sizes.horizon * sizes.num_known
        self.readout = nn.Linear((read_channels or hidden_channels) + known_channels, sizes.horizon * sizes.num_targets)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for part in self.modules():
            if part is not self and hasattr(part, "reset_parameters"):
                part.reset_parameters()  # type: ignore[operator]

    def _read(
        self, frames: Frames, *states: Float[Tensor, "batch nodes _"]
    ) -> Float[Tensor, "batch horizon nodes targets"]:
        """The forecast from `[*states, future]`."""
        return as_frames(self.readout(torch.cat([*states, self._flat_future(frames)], dim=-1)), self.sizes)


class ConvolutionalGRU(RecurrentNetwork):
    """A GRU whose products, of the frame and of the state, are convolutions of one kind.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        make_convolution: From channels before, channels after and `bias` to a module `convolution(state, graph)`.
        dropout: Part of the last state that is dropped in training.
        seed: Seed of the dropout.
    """

    def __init__(
        self,
        sizes: SeriesSizes,
        hidden_channels: int,
        make_convolution: Callable[..., nn.Module],
        *,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(sizes, hidden_channels, dropout=dropout, seed=seed)
        self.input_product = make_convolution(sizes.num_channels, 3 * hidden_channels)
        self.gate_product = make_convolution(hidden_channels, 2 * hidden_channels, bias=False)
        self.candidate_product = make_convolution(hidden_channels, hidden_channels, bias=False)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        states = run_gru(
            self.input_product(frames.window, graph),
            partial(self.gate_product, graph=graph),
            partial(self.candidate_product, graph=graph),
        )
        return self._read(frames, drop.hidden(states[:, -1]))


def run_gru(
    inputs: Float[Tensor, "batch window nodes three_times_channels"], gate_product: Product, candidate_product: Product
) -> States:
    """The state of a GRU after each frame, from a state of zeros on.

    Args:
        inputs: `X_t` for z, r and C, side by side.
        gate_product: G, for z and r side by side.
        candidate_product: K.
    """
    hidden = _zeros_like_part(inputs[:, 0], num_parts=3)
    states = []
    for frame in inputs.unbind(1):
        hidden = update_gru(frame, hidden, gate_product, candidate_product)
        states.append(hidden)
    return torch.stack(states, dim=1)


def update_gru(
    inputs: Float[Tensor, "*batch three_times_channels"],
    hidden: Float[Tensor, "*batch channels"],
    gate_product: Product,
    candidate_product: Product,
) -> Float[Tensor, "*batch channels"]:
    """One update of a GRU; see `run_gru`."""
    keep_input, reset_input, candidate_input = inputs.chunk(3, dim=-1)
    keep_product, reset_product = gate_product(hidden).chunk(2, dim=-1)
    keep, reset = torch.sigmoid(keep_input + keep_product), torch.sigmoid(reset_input + reset_product)
    candidate = torch.tanh(candidate_input + candidate_product(reset * hidden))
    return torch.lerp(candidate, hidden, keep)


def run_lstm(inputs: Float[Tensor, "batch window nodes four_times_channels"], product: Product) -> States:
    """The state of an LSTM after each frame, from states of zeros on.

    Args:
        inputs: `X_t` for i, f, o and the candidate, side by side.
        product: G, likewise.
    """
    hidden = cell = _zeros_like_part(inputs[:, 0], num_parts=4)
    states = []
    for frame in inputs.unbind(1):
        hidden, cell = update_lstm(frame + product(hidden), cell)
        states.append(hidden)
    return torch.stack(states, dim=1)


def update_lstm(
    products: Float[Tensor, "*batch four_times_channels"], cell: Float[Tensor, "*batch channels"]
) -> tuple[Float[Tensor, "*batch channels"], Float[Tensor, "*batch channels"]]:
    """Hidden and cell state after one update of an LSTM, from `X_t + G(H)`."""
    take, keep, show, candidate = products.chunk(4, dim=-1)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(take) * torch.tanh(candidate)
    return torch.sigmoid(show) * torch.tanh(cell), cell


def _zeros_like_part(inputs: Tensor, num_parts: int) -> Tensor:
    return torch.zeros_like(inputs[..., : inputs.shape[-1] // num_parts])
