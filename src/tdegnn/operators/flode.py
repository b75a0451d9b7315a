"""Fractional powers of a directed graph: `s(F; G) = -i a U S^p V^T F W` with complex states, the term of FLODE.

Maskey, Paolino, Bacho, Kutyniok, 2023, A Fractional Graph Laplacian Approach to Oversmoothing. `L = U S V^T` is the
singular value decomposition of `L = D_r^-1/2 A' D_c^-1/2`, computed once per graph. The exponent p and the scale a are
learned, and W is a complex diagonal matrix, all shared by the layers. The context is handed on untouched.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import keep, scaled_array
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError, check_choice, check_count, check_fits
from tdegnn.graph import Graph, State
from tdegnn.sparse import SparseMatrix

Equation = Literal["schroedinger", "heat"]

# Up to this many nodes all singular values are computed, by a dense decomposition. Beyond, the `USUAL_RANK` largest, or
# as many as `rank` says, and `EXTRA_VECTORS` more, are found by subspace iteration.
MOST_DENSE_NODES = 6_000
USUAL_RANK = 256
EXTRA_VECTORS = 64
ITERATIONS = 10


class FlodeOperator(SpatialOperator):
    """The spatial term of FLODE, `s(F; G) = -i a U S^p V^T F W`, or `-a U S^p V^T F W` for the heat equation.

    For `kind="schroedinger"` the states are complex, stored as pairs of channels: the first half of the channels is the
    real part and the second half the imaginary one. On an undirected graph with real W, the rate is perpendicular to
    the state, so that the exact flow keeps its size. `0^p` is 0 for any p: the singular values of zero are left out.
    Edge weights are used. A node that receives nothing has rate zero. The `step_size` of the integrator multiplies a.

    Paper: p and a start at 1, W is drawn from a normal distribution, as in the code. Deviation: the code's a is
    complex, ours real; W can turn the rate in the same way. Deviation: if `rank` is less than the number of nodes, only
    the largest singular values are used, which are approximate for more than 6,000 nodes. `U S^p V^T` does not depend
    on the signs of singular vectors, nor on the basis for a repeated value, unless `rank` cuts through repeated ones.

    Args:
        channels: Channels of a state. Even for `kind="schroedinger"`.
        kind: `"schroedinger"` or `"heat"`. Default: `"schroedinger"`.
        rank: Number of singular values that are used, the largest ones. If None, all for graphs with up to 6,000 nodes,
            and 256 for larger ones. A step takes time and memory in proportion to it. For 2,700 nodes the first step
            takes half a minute on one core, for the decomposition, and a few seconds on an undirected graph. Default:
            None.
        self_loops: Whether a node receives from itself too. Default: False.
    """

    equation = "-i a U S^p V^T F W, U S V^T = D_r^-1/2 A' D_c^-1/2"
    citation = "Maskey, Paolino, Bacho, Kutyniok, 2023, A Fractional Graph Laplacian Approach to Oversmoothing"
    reach = None  # singular vectors have a number for each node

    def __init__(
        self, channels: int, *, kind: Equation = "schroedinger", rank: int | None = None, self_loops: bool = False
    ) -> None:
        super().__init__()
        check_count(channels=channels, rank=1 if rank is None else rank)
        check_choice(get_args(Equation), kind=kind)
        if kind == "schroedinger" and channels % 2:
            raise InputError(
                f"Expected channels to be even, since complex states are pairs of channels, got {channels}. Take one "
                'more, or kind="heat", whose states are real.'
            )
        self.channels, self.kind, self.rank, self.self_loops = channels, kind, rank, self_loops
        self.exponent = nn.Parameter(torch.empty(()))
        self.scale = nn.Parameter(torch.empty(()))
        self.weight = nn.Parameter(torch.empty(channels))  # the diagonal of W, in the order of the channels
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set exponent and scale to one, and draw W anew."""
        nn.init.ones_(self.exponent)
        nn.init.ones_(self.scale)
        nn.init.normal_(self.weight)

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:  # noqa: ARG002
        """Return `-i a U S^p V^T F W`, or the rate of the heat equation."""
        check_fits(state, self.weight, self.channels)
        vectors = _decompose(graph, state, self.rank, self.self_loops)
        powers = self.scale * torch.exp(self.exponent * vectors.log_values)
        received = vectors.left @ (powers[:, None] * (vectors.right.mT @ state))
        if self.kind == "heat":
            return -received * self.weight, context
        real, imaginary = received.chunk(2, dim=-1)
        real_weight, imaginary_weight = self.weight.chunk(2)
        # -i (x + i y) (u + i v) = (x v + y u) - i (x u - y v)
        real_rate = real * imaginary_weight + imaginary * real_weight
        imaginary_rate = imaginary * imaginary_weight - real * real_weight
        return torch.cat([real_rate, imaginary_rate], dim=-1), context

    def extra_repr(self) -> str:
        """Return the settings shown by `repr`."""
        return f"channels={self.channels}, kind={self.kind!r}, rank={self.rank}, self_loops={self.self_loops}"


class _SingularVectors(NamedTuple):
    """Singular values that are not zero, as logarithms, and their vectors."""

    left: Float[Tensor, "nodes rank"]
    log_values: Float[Tensor, " rank"]
    right: Float[Tensor, "nodes rank"]


def _decompose(graph: Graph, like: Tensor, rank: int | None, self_loops: bool) -> _SingularVectors:
    """Return the singular vectors of L with the largest values, on the device and in the precision of `like`."""

    def build() -> _SingularVectors:
        matrix = scaled_array(graph, self_loops=self_loops)
        most = graph.num_nodes if graph.num_nodes <= MOST_DENSE_NODES else USUAL_RANK
        left, values, right = _largest(matrix, min(graph.num_nodes, most if rank is None else rank), like.device)
        is_positive = values > values.amax() * graph.num_nodes * torch.finfo(torch.float64).eps
        kept = (left[:, is_positive], torch.log(values[is_positive]), right[:, is_positive])
        return _SingularVectors(*(each.to(like.dtype) for each in kept))

    return keep(graph, ("singular", rank, self_loops), like, build)


def _largest(matrix: scipy.sparse.csr_array, rank: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return left vectors, singular values and right vectors, as columns, in float64 on the device."""
    num_nodes = matrix.shape[0]
    if num_nodes <= MOST_DENSE_NODES:
        dense = torch.as_tensor(matrix.toarray()).to(device)
        is_symmetric = bool(torch.allclose(dense, dense.mT, rtol=0.0, atol=1e-12))
        left, values, right = _decompose_symmetric(dense) if is_symmetric else torch.linalg.svd(dense)
        return left[:, :rank], values[:rank], right[:rank].mT
    # A block of vectors, and not one as in SciPy's `svds`, which misses repeated values: of the 140 of Cora that are 1,
    # it finds 85.
    start = np.random.default_rng(0).standard_normal((num_nodes, min(num_nodes, rank + EXTRA_VECTORS)))
    basis = torch.as_tensor(start).to(device)
    forward = SparseMatrix.from_scipy(matrix).to(device, torch.float64)
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(forward.transposed @ torch.linalg.qr(forward @ basis)[0])[0]
    tall, corner = torch.linalg.qr(forward @ basis)
    # The corner is small. On CUDA devices its decomposition does not always converge where values are repeated.
    left, values, right = (each.to(device) for each in torch.linalg.svd(corner.cpu()))
    return tall @ left[:, :rank], values[:rank], basis @ right[:rank].mT


def _decompose_symmetric(dense: Float[Tensor, "nodes nodes"]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the singular value decomposition of a symmetric matrix, ten times as fast, from its eigenvectors."""
    eigenvalues, vectors = torch.linalg.eigh((dense + dense.mT) / 2)
    order = eigenvalues.abs().argsort(descending=True, stable=True)
    left = vectors[:, order]
    return left, eigenvalues[order].abs(), (left * eigenvalues[order].sign()).mT
