"""Readouts: maps of the last state, of the elementwise maximum over all states, or of all states side by side.

Published differential equations end with a relu of the last state, a perceptron, or the modulus of complex numbers.
Over all states, a network is a jumping knowledge network (Xu et al., 2018). "All states" are those after each layer:
the initial states are not among them.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import InputError, check_count
from tdegnn.graph import State
from tdegnn.nets.node_parts import Drop, Readout, keep_all
from tdegnn.nets.stationary import LastReadout, LinearReadout
from tdegnn.parts import Family, reset_parts


class MaximumReadout(LinearReadout):
    """A linear map of the maximum of each channel over the states after all layers.

    Args:
        channels: Channels of a state.
        num_outputs: Outputs per node.
    """

    def __init__(self, channels: int, num_outputs: int) -> None:
        super().__init__(channels, num_outputs)

    def keep(self, kept: State | None, state: State) -> State:
        """Return the maximum so far."""
        return state if kept is None else torch.maximum(kept, state)


class ConcatenatedReadout(LinearReadout):
    """A linear map of the states after all layers, side by side.

    Args:
        channels: Channels of a state.
        num_outputs: Outputs per node.
        num_layers: Number of layers.
    """

    def __init__(self, channels: int, num_outputs: int, num_layers: int) -> None:
        super().__init__(channels * num_layers, num_outputs)

    def keep(self, kept: tuple[State, ...] | None, state: State) -> tuple[State, ...]:
        """Return all states so far."""
        return (*(kept or ()), state)

    def join(self, kept: tuple[State, ...]) -> Float[Tensor, "*batch nodes joined"]:
        """Return all states side by side, that of the first layer first."""
        return torch.cat(kept, dim=-1)


class RectifiedReadout(LastReadout):
    """A linear map of the relu of the last state, as in GRAND, GREAD and GRAFF, whose layers are linear.

    Args:
        channels: Channels of a state.
        num_outputs: Outputs per node.
    """

    def join(self, kept: State) -> Float[Tensor, "*batch nodes channels"]:
        """Return the relu of the last state."""
        return torch.relu(kept)


class DroppingReadout(LastReadout):
    """A readout of the last state with several layers, between which it drops in training if `dropped` is set."""

    dropped: bool

    def read(self, joined: Float[Tensor, "*batch nodes channels"], drop: Drop) -> Float[Tensor, "*batch nodes outputs"]:
        """Return the outputs of each node, with dropout between the layers if it was asked for."""
        outputs: Tensor = self(joined, drop if self.dropped else keep_all)
        return outputs


class PerceptronReadout(DroppingReadout):
    """`Y = Z + tanh(Z) W + b`, then `tanh(Y) W' + b'`, with Z the relu of the last state: the decoder of GREAD.

    Args:
        channels: Channels of a state, and of the hidden layer.
        num_outputs: Outputs per node.
        rectified: Whether Z is the relu of the last state. Default: True. Otherwise, Z is the last state.
        dropped: Whether Z, Y and the outputs are dropped in training too, as released, Z so for the second time.
            Default: False.
    """

    def __init__(self, channels: int, num_outputs: int, *, rectified: bool = True, dropped: bool = False) -> None:
        super().__init__(channels, num_outputs)
        self.rectified, self.dropped = rectified, dropped
        self.hidden = nn.Linear(channels, channels)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        super().reset_parameters()
        reset_parts(getattr(self, "hidden", None))  # torch calls this before the hidden layer is there

    def join(self, kept: State) -> Float[Tensor, "*batch nodes channels"]:
        """Return Z."""
        return torch.relu(kept) if self.rectified else kept

    def forward(
        self, joined: Float[Tensor, "*batch nodes channels"], drop: Drop = keep_all
    ) -> Float[Tensor, "*batch nodes outputs"]:
        """Return the outputs of each node."""
        state = drop(joined)
        state = drop(state + self.hidden(torch.tanh(state)))
        return drop(super().forward(torch.tanh(state)))


class TwoLayerReadout(LastReadout):
    """`relu(F W + b) W' + b'`, a perceptron of one hidden layer on the last state.

    Args:
        channels: Channels of a state.
        num_outputs: Outputs per node.
        width: Hidden channels, as a multiple of the channels of a state. Default: 2.
    """

    def __init__(self, channels: int, num_outputs: int, *, width: int = 2) -> None:
        check_count(width=width)
        super().__init__(width * channels, num_outputs)
        self.hidden = nn.Linear(channels, width * channels)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        super().reset_parameters()
        reset_parts(getattr(self, "hidden", None))  # torch calls this before the hidden layer is there

    def forward(self, joined: Float[Tensor, "*batch nodes channels"]) -> Float[Tensor, "*batch nodes outputs"]:
        """Return the outputs of each node."""
        outputs: Tensor = super().forward(torch.relu(self.hidden(joined)))
        return outputs


class ModulusReadout(LastReadout):
    """A linear map of the modulus of the last state, whose first half of channels is real and second half imaginary.

    Args:
        channels: Channels of a state, an even number.
        num_outputs: Outputs per node.
    """

    def __init__(self, channels: int, num_outputs: int) -> None:
        _check_pairs(channels)
        super().__init__(channels // 2, num_outputs)

    def join(self, kept: State) -> Float[Tensor, "*batch nodes pairs"]:
        """Return the modulus of each pair of channels."""
        return _modulus(kept)


class ComplexReadout(DroppingReadout):
    """The modulus of complex outputs: `|Z W + b|`, or with two layers `|act(Z W + b) W' + b'|`, as in FLODE.

    Z is the last state, whose first half of channels is real and second half imaginary. W and b are complex. act is the
    leaky relu of real and imaginary parts.

    Args:
        channels: Channels of a state, an even number.
        num_outputs: Outputs per node.
        num_layers: 1 or 2. Default: 1.
        dropped: Whether the hidden layer is dropped in training as well, at the rate of the readout, as released.
            Default: False.
    """

    def __init__(self, channels: int, num_outputs: int, *, num_layers: int = 1, dropped: bool = False) -> None:
        _check_pairs(channels)
        if num_layers not in (1, 2):
            raise InputError(f"Expected a readout of 1 or 2 layers, got {num_layers}.")
        super().__init__(channels // 2, 2 * num_outputs)
        self.dropped = dropped
        self.hidden = nn.Linear(channels // 2, channels) if num_layers == 2 else None

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        super().reset_parameters()
        reset_parts(getattr(self, "hidden", None))  # torch calls this before the hidden layer is there

    def forward(
        self, joined: Float[Tensor, "*batch nodes channels"], drop: Drop = keep_all
    ) -> Float[Tensor, "*batch nodes outputs"]:
        """Return the outputs of each node."""
        if self.hidden is not None:
            joined = drop(nn.functional.leaky_relu(_complex_linear(self.hidden, joined)))
        return _modulus(_complex_linear(self, joined))


def _complex_linear(linear: nn.Linear, state: State) -> Float[Tensor, "*batch nodes mapped"]:
    """Return `Z W + b`. The first half of the outputs of `linear` is the real part of W and b."""
    real, imaginary = state.chunk(2, dim=-1)
    weight = linear.weight.mT
    (real_of_real, imaginary_of_real), (real_of_imaginary, imaginary_of_imaginary) = (
        (part @ weight).chunk(2, dim=-1) for part in (real, imaginary)
    )
    products = [real_of_real - imaginary_of_imaginary, imaginary_of_real + real_of_imaginary]
    return torch.cat(products, dim=-1) + linear.bias


def _modulus(state: State) -> Float[Tensor, "*batch nodes pairs"]:
    """Return the modulus of each pair of channels."""
    real, imaginary = state.chunk(2, dim=-1)
    squares = real.square() + imaginary.square()
    # The gradient of the root is infinite at zero. There none is passed on.
    is_positive = squares > 0
    return torch.where(is_positive, torch.sqrt(torch.where(is_positive, squares, 1.0)), 0.0)


def _check_pairs(channels: int) -> None:
    if channels % 2:
        raise InputError(f"Expected an even number of channels, pairs of complex numbers, got {channels}.")


READOUTS = Family(
    "readout",
    Readout,
    {
        "last": LastReadout,
        "max": MaximumReadout,
        "concatenation": ConcatenatedReadout,
        "relu": RectifiedReadout,
        "perceptron": PerceptronReadout,
        "two-layer": TwoLayerReadout,
        "modulus": ModulusReadout,
        "complex": ComplexReadout,
    },
)
