"""The GRU and the LSTM of the rivals for series: gates, and the loop over frames.

GRU: `z, r = s(X_t + G(H))`, `C = tanh(X_t + K(r . H))`, `H' = z . H + (1 - z) . C`. LSTM: `i, f, o = s(X_t + G(H))`,
`c' = f . c + i . tanh(X_t + G(H))`, `H' = o . tanh(c')`.

X_t is what a network makes of frame t, one block of channels per gate, biases included. It needs no state, so it is
computed for all frames at once. G and K are products of the state with weights or with any kind of convolution; the
networks differ only in them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames
from tdegnn.rivals.series.base import RivalSeriesNetwork

Product: TypeAlias = Callable[[Tensor], Tensor]
States: TypeAlias = Float[Tensor, "batch window nodes channels"]


class ConvolutionalGRU(RivalSeriesNetwork):
    """A GRU whose products, of the frame and of the state, are convolutions of one kind.

    Args:
        num_hops: Number of edges that a convolution reaches. Default: 2.

    Attributes:
        convolution: The class of the convolutions, made from the channels before and after, `num_hops` and `bias`.
    """

    convolution: ClassVar[type[nn.Module]]

    def _make_layers(self, num_hops: int = 2) -> None:
        make, channels = partial(self.convolution, num_hops=num_hops), self.hidden_channels
        self.input_product = make(self.sizes.num_channels, 3 * channels)
        self.gate_product = make(channels, 2 * channels, bias=False)
        self.candidate_product = make(channels, channels, bias=False)

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
    """Return the state of a GRU after each frame, starting from zeros.

    Args:
        inputs: `X_t` for z, r and C, side by side.
        gate_product: G, for z and r side by side.
        candidate_product: K.
    """
    hidden = _zero_state(inputs, num_gates=3)
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
    """Return the state after one update of a GRU. Arguments as in `run_gru`."""
    keep_input, reset_input, candidate_input = inputs.chunk(3, dim=-1)
    keep_product, reset_product = gate_product(hidden).chunk(2, dim=-1)
    keep, reset = torch.sigmoid(keep_input + keep_product), torch.sigmoid(reset_input + reset_product)
    candidate = torch.tanh(candidate_input + candidate_product(reset * hidden))
    return torch.lerp(candidate, hidden, keep)


def run_lstm(inputs: Float[Tensor, "batch window nodes four_times_channels"], product: Product) -> States:
    """Return the state of an LSTM after each frame, starting from zeros.

    Args:
        inputs: `X_t` for i, f, o and the candidate, side by side.
        product: G, for the same.
    """
    hidden = cell = _zero_state(inputs, num_gates=4)
    states = []
    for frame in inputs.unbind(1):
        hidden, cell = update_lstm(frame + product(hidden), cell)
        states.append(hidden)
    return torch.stack(states, dim=1)


def update_lstm(
    products: Float[Tensor, "*batch four_times_channels"], cell: Float[Tensor, "*batch channels"]
) -> tuple[Float[Tensor, "*batch channels"], Float[Tensor, "*batch channels"]]:
    """Return the hidden state and the cell state after one update of an LSTM, from `X_t + G(H)`."""
    take, keep, show, candidate = products.chunk(4, dim=-1)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(take) * torch.tanh(candidate)
    return torch.sigmoid(show) * torch.tanh(cell), cell


def _zero_state(inputs: Float[Tensor, "batch window nodes gate_channels"], num_gates: int) -> Tensor:
    return torch.zeros_like(inputs[:, 0, :, : inputs.shape[-1] // num_gates])
