"""GGCN (Yan et al., 2022): signed messages by cosine, corrected by degrees, with a skip sum that fades with depth.

`Z_l = softplus(s) (c_0 relu(T) M - c_1 relu(-T) M + c_2 M)`, `M = H_{l-1} W_l + b_l`, c the softmax of three numbers,
`T_ij = cos(M_i, M_j) S_ij softplus(u (sqrt(d_j / d_i) - 1) + v)` over the other nodes j that node i receives from.
`H_0 = elu(X W + b)`, `H_1 = H_0 + elu(Z_1)`, `H_l = H_{l-1} + ln(eta / (l + 1)^3 + 1) elu(Z_l)`; Z_1 is of X, and the
last Z are the scores. S is the convolution of `gcn.py`, d what a node receives plus 1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from tdegnn.adjacency import keep
from tdegnn.errors import InputError
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features, apply_linear
from tdegnn.operators.signed_messages import edge_cosines, signed_product
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.sparse import SparseMatrix


class SignedNetwork(RivalNodeNetwork):
    """Signed and degree-corrected messages.

    The step is that of the released code. Edge weights are used, in S and d. A node that receives nothing has
    `Z = softplus(s) c_2 M`. Outer dropout applies to the features, hidden dropout to what each layer adds to the sum.
    A network of one layer has no sum: its scores are Z_1.

    Deviation: the paper has another skip; the sum here is that of the released code.

    Deviation: the released code divides the degree ratio by the weight of the edge, which is 1 in all its graphs. Here
    weights do not enter the ratio.

    Args:
        eta: How much layers after the first add to the sum, at least 0. Published: 0.02 to 1.2. Default: 1.
    """

    equation = (
        "H_l = H_(l-1) + ln(eta / (l + 1)^3 + 1) elu(Z_l), M = H_(l-1) W_l + b_l, "
        "Z_l = softplus(s) (c_0 relu(T) M - c_1 relu(-T) M + c_2 M), T = scaled cosines of M along edges"
    )
    citation = (
        "Yan et al., 2022, Two Sides of the Same Coin: Heterophily and Oversmoothing in Graph Convolutional "
        "Neural Networks"
    )

    eta: Tensor

    def _make_layers(self, eta: float = 1.0) -> None:
        if not 0.0 <= eta < float("inf"):
            raise InputError(f"Expected eta to be at least 0 and finite, got {eta}.")
        self._register_setting("eta", eta)
        self.convolutions = nn.ModuleList(SignedConvolution(*sizes) for sizes in pairwise(self._state_sizes))
        self.embedding = nn.Linear(self.num_features, self.hidden_channels) if self.num_layers > 1 else None

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        first, *others = self.convolutions
        edges = _corrected_edges(graph, next(self.parameters()))
        dropped = drop.input(features)
        answer: Tensor = first(dropped, edges)
        if self.embedding is None:
            return answer
        state, share = functional.elu(apply_linear(self.embedding, dropped)), torch.ones_like(self.eta)
        for depth, convolution in enumerate(others, start=1):
            state = state + share.to(state.dtype) * drop.hidden(functional.elu(answer))
            answer = convolution(state, edges)
            share = torch.log(self.eta / (depth + 2) ** 3 + 1.0)
        return answer


class CorrectedEdges(NamedTuple):
    """What the messages of all layers share.

    Attributes:
        matrix: S without its diagonal.
        degree_gaps: `sqrt(d_j / d_i) - 1` for each entry.
    """

    matrix: SparseMatrix
    degree_gaps: Float[Tensor, " entries"]


class SignedConvolution(nn.Module):
    """One layer, from a state to Z.

    Args:
        num_inputs: Channels of the state.
        num_outputs: Channels of Z.
    """

    def __init__(self, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_inputs, num_outputs)
        self.mixture = nn.Parameter(torch.empty(3))
        self.scale = nn.Parameter(torch.empty(()))
        self.degree_slope = nn.Parameter(torch.empty(()))
        self.degree_offset = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the numbers to their first values, as published. The linear map draws its weights itself."""
        for parameter, value in (
            (self.mixture, 0.0),
            (self.scale, 2.0),
            (self.degree_slope, 0.5),
            (self.degree_offset, 0.0),
        ):
            nn.init.constant_(parameter, value)

    def forward(self, state: SparseMatrix | Tensor, edges: CorrectedEdges) -> Float[Tensor, "nodes channels"]:
        """Return Z."""
        mapped = apply_linear(self.linear, state)
        corrections = functional.softplus(self.degree_slope * edges.degree_gaps + self.degree_offset)
        values = edge_cosines(edges.matrix, mapped) * edges.matrix.values * corrections
        alike, different, own = torch.softmax(self.mixture, dim=0)
        received = signed_product(edges.matrix, values, mapped, alike, different)
        answer: Tensor = functional.softplus(self.scale) * (received + own * mapped)
        return answer


def _corrected_edges(graph: Graph, like: Tensor) -> CorrectedEdges:
    def build() -> CorrectedEdges:
        received = graph.received.tocsr()
        loops = received.diagonal()
        others = (received - scipy.sparse.diags_array(loops)).tocsr()
        others.eliminate_zeros()
        # A self-loop that exists keeps its weight, as in `convolution_matrix`.
        degrees = others.sum(axis=1) + np.where(loops == 0, 1.0, loops)
        scale = scipy.sparse.diags_array(degrees**-0.5)
        matrix = SparseMatrix.from_scipy(scale @ others @ scale)
        gaps = degrees[matrix.columns] ** 0.5 / degrees[matrix.rows] ** 0.5 - 1.0
        return CorrectedEdges(matrix.to(like.device, like.dtype), torch.as_tensor(gaps).to(like))

    return keep(graph, "corrected edges", like, build)
