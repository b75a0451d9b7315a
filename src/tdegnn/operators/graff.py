"""Gradient flow with attraction and repulsion: `s(F; G) = P F W - F Om + b F0`, the spatial term of GRAFF.

Di Giovanni, Rowbottom, Chamberlain, Markovich, Bronstein, 2023, Understanding Convolution on Graphs via Energies. W is
symmetric: along an eigenvector with a positive eigenvalue neighbors attract each other, with a negative one they repel
each other. The weights are shared by all layers. The context keeps F0, the state of the first layer.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import scaled_matrix
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError, check_choice, check_count, check_fits
from tdegnn.graph import Graph, State
from tdegnn.operators.mixing_operator import FirstState

Mixing = Literal["diagonal", "diagonally-dominant"]
GraffActivation = Literal["relu"]
SMALLEST_VARIANCE = 1e-5  # that of `nn.BatchNorm1d`


class GraffOperator(SpatialOperator):
    """The spatial term of GRAFF, `s(F; G) = P F W - F Om + b F0`, or the relu of it.

    `P = D_r^-1/2 A' D_c^-1/2` has no self-loops. W is symmetric, Om diagonal and b a number from 0. Edge weights are
    used. A node that receives nothing has the rate `-F Om + b F0`.

    Paper: the source term is `-F0 Wt` with a matrix. Deviation: as released, it is a number b, and no gradient passes
    through F0. On two datasets the code has neither Om nor b, and a batch norm that is never trained and never uses
    running statistics: here these are settings, `own_terms` and `standardized`.

    Args:
        channels: Channels of a state.
        mixing: How W is made. `"diagonal"`: w on the diagonal. `"diagonally-dominant"`: `M = (V + V^T) / 2` off the
            diagonal, and `t_i sum_j |M_ij| + r_i` on it. Default: `"diagonally-dominant"`.
        activation: `"relu"` for the relu of the rate. If None, the rate is linear. Default: None.
        own_terms: Whether there are the terms `-F Om + b F0`. Default: True.
        standardized: Whether each channel of the rate is shifted and scaled to mean 0 and variance 1 over the nodes,
            before the relu if there is one. Default: False.
    """

    equation = "P F W - F Om + b F0, W symmetric"
    citation = (
        "Di Giovanni, Rowbottom, Chamberlain, Markovich, Bronstein, 2023, Understanding Convolution on Graphs via "
        "Energies"
    )

    def __init__(
        self,
        channels: int,
        *,
        mixing: Mixing = "diagonally-dominant",
        activation: GraffActivation | None = None,
        own_terms: bool = True,
        standardized: bool = False,
    ) -> None:
        super().__init__()
        check_count(channels=channels)
        check_choice(get_args(Mixing), mixing=mixing)
        if activation not in (None, *get_args(GraffActivation)):
            raise InputError(f"Expected activation to be 'relu' or None, got {activation!r}.")
        self.channels, self.mixing, self.activation = channels, mixing, activation
        self.own_terms, self.standardized = own_terms, standardized
        self.reach = None if standardized else 1  # mean and variance are those over all nodes
        if own_terms:
            self.decay = nn.Parameter(torch.empty(channels))  # Om
            self.source = nn.Parameter(torch.empty(()))  # b
        # r of a diagonally dominant W
        self.diagonal = nn.Parameter(torch.empty(channels))
        if mixing == "diagonally-dominant":
            self.off_diagonal = nn.Parameter(torch.empty(channels, channels))  # V, whose diagonal is not used
            self.dominance = nn.Parameter(torch.empty(channels))  # t
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, diagonals between -1 and 1, V as Glorot does. Set b to zero."""
        if self.own_terms:
            nn.init.uniform_(self.decay, -1.0, 1.0)
            nn.init.zeros_(self.source)
        nn.init.uniform_(self.diagonal, -1.0, 1.0)
        if self.mixing == "diagonally-dominant":
            nn.init.xavier_uniform_(self.off_diagonal)
            nn.init.uniform_(self.dominance, -1.0, 1.0)

    def forward(
        self,
        state: State,
        graph: Graph,
        layer: int,  # noqa: ARG002
        context: FirstState | None = None,
    ) -> tuple[State, FirstState]:
        """Return `P F W - F Om + b F0`, and keep F0."""
        check_fits(state, self.diagonal, self.channels)
        kept = FirstState(state.detach()) if context is None else context
        mixed = state @ self.mixing_matrix() if self.mixing == "diagonally-dominant" else state * self.diagonal
        rate = scaled_matrix(graph, state) @ mixed
        if self.own_terms:
            rate = rate - state * self.decay + self.source * kept.state
        if self.standardized:
            variance, mean = torch.var_mean(rate, dim=-2, keepdim=True, correction=0)
            rate = (rate - mean) * (variance + SMALLEST_VARIANCE).rsqrt()
        return torch.relu(rate) if self.activation == "relu" else rate, kept

    def mixing_matrix(self) -> Float[Tensor, "channels channels"]:
        """Return W."""
        if self.mixing == "diagonal":
            return torch.diag(self.diagonal)
        off_diagonal = self.off_diagonal - torch.diag(self.off_diagonal.diagonal())
        symmetric = (off_diagonal + off_diagonal.mT) / 2
        return symmetric + torch.diag(self.dominance * symmetric.abs().sum(dim=1) + self.diagonal)

    def extra_repr(self) -> str:
        """Return the settings shown by `repr`."""
        return f"channels={self.channels}, mixing={self.mixing!r}, activation={self.activation!r}"
