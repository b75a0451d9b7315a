"""GREAD: diffusion and a reaction, `s(F; G) = sg(a) (G_0 F - F) + r(F) diag(b)`.

Choi et al. (2023), GREAD: Graph Neural Reaction-Diffusion Networks. `G_0` is a mean over what a node receives, constant
or the attention of the first state `F_0`. Six reactions r: Fisher, Allen-Cahn, Zeldovich, source term, blurring and
sharpening, filter bank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from tdegnn.errors import check_choice
from tdegnn.graph import Graph, State
from tdegnn.operators.mixing_operator import MixingOperator


class Reaction(NamedTuple):
    """A reaction term.

    Attributes:
        equation: r(F) in plain text.
        rate: Computes it from F, `G F`, `F_0` and a function that multiplies with G.
    """

    equation: str
    rate: Callable[[State, State, State, Callable[[State], State]], State]


REACTIONS: dict[str, Reaction] = {
    "f": Reaction("F (1 - F)", lambda state, _mixed, _first, _mix: state * (1 - state)),
    "ac": Reaction("F (1 - F^2)", lambda state, _mixed, _first, _mix: state * (1 - state.square())),
    "z": Reaction("F^2 (1 - F)", lambda state, _mixed, _first, _mix: state.square() * (1 - state)),
    "st": Reaction("F0", lambda _state, _mixed, first, _mix: first),
    "bs": Reaction("G (F - G F)", lambda state, mixed, _first, mix: mix(state - mixed)),
    "fb": Reaction("F + G F", lambda state, mixed, _first, _mix: state + mixed),
}


class GreadOperator(MixingOperator):
    """Reaction and diffusion, `s(F; G) = sg(a) (G_0 F - F) + r(F) diag(b)`.

    a starts at 0; b has one number per channel, drawn from -1 to 1.

    Paper: `s = a (G - I) F + b r(F)`. Deviation: as released, `sg(a)` is learned, one number or one per channel, the
    attention is computed once from the first state, and `F_0` has no gradient. The solver is the integrator, with steps
    of one size.

    Args:
        channels: Channels of a state.
        reaction: r, one of `"f"` (Fisher), `"ac"` (Allen-Cahn), `"z"` (Zeldovich), `"st"` (source term), `"bs"`
            (blurring and sharpening, the default) and `"fb"` (filter bank).
        mixing: G, `"attention"` (default) or `"constant"`; with settings `{"name": ..., "settings": {...}}`.
        self_loops: Whether a node receives from itself too. Default: True. Otherwise a node that receives nothing gets
            zero.
        rate_per_channel: Whether each channel has its own a, as released for most datasets. Default: False.
    """

    def __init__(
        self,
        channels: int,
        *,
        reaction: str = "bs",
        mixing: str | Mapping[str, Any] = "attention",
        self_loops: bool = True,
        rate_per_channel: bool = False,
    ) -> None:
        super().__init__(channels, mixing=mixing, self_loops=self_loops)
        check_choice(REACTIONS, reaction=reaction)
        self.reaction = reaction
        if reaction == "bs" and self.reach is not None:
            self.reach = 2  # G of what G returns
        # Each reaction is a system of its own in `tdegnn zoo`.
        self.equation = f"sg(a) (G F - F) + b ({REACTIONS[reaction].equation}), G = attention of F0"  # type: ignore[misc]
        self.citation = "Choi et al., 2023, GREAD: Graph Neural Reaction-Diffusion Networks"  # type: ignore[misc]
        if rate_per_channel:
            self.raw_rate = nn.Parameter(torch.zeros(channels))
        self.reaction_scale = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw b and the weights of G anew, and start with `a = 0`."""
        super().reset_parameters()
        nn.init.uniform_(self.reaction_scale, -1.0, 1.0)

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:  # noqa: ARG002
        """Return `sg(a) (G_0 F - F) + r(F) diag(b)`, and what is kept of layer 0."""
        first = self._look_back(state, graph, context)

        def mix(values: State) -> State:
            return self.mixing.mix(first.weights, values, graph)

        mixed = mix(state)
        reaction = REACTIONS[self.reaction].rate(state, mixed, first.state, mix)
        return torch.sigmoid(self.raw_rate) * (mixed - state) + self.reaction_scale * reaction, first

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"{super().extra_repr()}, reaction={self.reaction!r}"
