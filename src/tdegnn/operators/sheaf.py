"""Diffusion on a learned sheaf: `s(F; G) = tanh(e_l) F - elu(L_F (I x W1_l) F W2_l)`, neural sheaf diffusion.

Bodnar, Di Giovanni, Chamberlain, Lio, Bronstein, 2022, Neural Sheaf Diffusion: A Topological Perspective on Heterophily
and Oversmoothing in GNNs. The channels of a node are a stalk of d rows. A restriction map per end of an edge, which
depends on the states of both ends, says how stalks are compared along the edge. The three classes differ in the kind
of maps: diagonal, orthogonal ("bundle") or any. The context is handed on untouched.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import scaled_matrix
from tdegnn.core.operator import SpatialOperator
from tdegnn.edge_values import edge_sums, row_sums, weighted_product
from tdegnn.errors import InputError, check_count, check_fits, check_layer
from tdegnn.graph import Graph, State
from tdegnn.operators.restriction_maps import inverse_square_roots, orthogonal_maps, transposed_product
from tdegnn.sparse import SparseMatrix


class SheafDiffusion(SpatialOperator):
    """Neural sheaf diffusion, `s(F; G) = tanh(e_l) F - elu(L_F (I x W1_l) F W2_l)`. Base of the three kinds of maps.

    The state of a node is a matrix X_u of d = `stalk_channels` rows. For each edge e between u and v there are two maps
    (d, d), `M_ue` from `tanh([x_u, x_v] V_l)` and `M_ve` from `tanh([x_v, x_u] V_l)`. With `D_u = sum_e M_ue^T M_ue`
    and `N = (D + I)^-1/2`, the normalized Laplacian is
    `(L_F X)_u = N_u sum_e M_ue^T (M_ue N_u X_u - M_ve N_v X_v)`.

    With c = [1] and h = 1 a step is the published one. Edge weights, if there are any, multiply the terms of both sums.
    The Laplacian is that of the undirected graph, A' and its transpose together (the larger of both weights), whatever
    the direction: an edge has two ends, and both are compared. A node without edges has the rate `tanh(e_l) F`.

    Deviation: published graphs are undirected and unweighted.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own V, W1, W2 and e.
        stalk_channels: d. It must divide `channels`. Default: 2.
        fixed_channel: Whether the maps of the last stalk channel are not learned, but 1 at one end of an edge and -1 at
            the other ("low pass" in the released code). Default: False.
        learned_weights: Whether edges have learned weights `(sg([x_u, x_v] w_l) sg([x_v, x_u] w_l))^2`, as released for
            orthogonal maps. Default: False.
    """

    _least_channels: ClassVar[int] = 1
    reach = 2  # N of a neighbor depends on all its edges
    citation = (
        "Bodnar, Di Giovanni, Chamberlain, Lio, Bronstein, 2022, Neural Sheaf Diffusion: A Topological Perspective on "
        "Heterophily and Oversmoothing in GNNs"
    )

    def __init__(
        self,
        channels: int,
        num_layers: int,
        *,
        stalk_channels: int = 2,
        fixed_channel: bool = False,
        learned_weights: bool = False,
    ) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        check_count(self._least_channels + fixed_channel, stalk_channels=stalk_channels)
        if channels % stalk_channels:
            raise InputError(
                f"Expected stalk_channels to divide the {channels} channels of a state, got {stalk_channels}."
            )
        self.channels, self.num_layers, self.stalk_channels = channels, num_layers, stalk_channels
        self.fixed_channel, self.learned_weights = fixed_channel, learned_weights
        self.map_channels = stalk_channels - fixed_channel  # channels of the stalk that learned maps are for
        features = channels // stalk_channels
        # V, for the state of the own end and of the other end of an edge, and w if there is one
        num_numbers = self._numbers_per_map + learned_weights
        self.map_weight = nn.Parameter(torch.empty(num_layers, 2, channels, num_numbers))
        self.stalk_weight = nn.Parameter(torch.empty(num_layers, stalk_channels, stalk_channels))  # W1
        self.feature_weight = nn.Parameter(torch.empty(num_layers, features, features))  # W2
        self.growth = nn.Parameter(torch.empty(num_layers, stalk_channels))  # e
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw V (as a linear layer would) and W2 (orthogonal) anew. W1 returns to the identity and e to zero."""
        bound = (2 * self.channels) ** -0.5
        nn.init.uniform_(self.map_weight, -bound, bound)
        with torch.no_grad():
            self.stalk_weight.copy_(torch.eye(self.stalk_channels).expand_as(self.stalk_weight))
        for weight in self.feature_weight:
            nn.init.orthogonal_(weight)
        nn.init.zeros_(self.growth)

    @property
    @abstractmethod
    def _numbers_per_map(self) -> int:
        """How many numbers make a restriction map."""

    @abstractmethod
    def _laplacian(
        self,
        pattern: SparseMatrix,
        weights: Float[Tensor, "*one edges"],
        own: Float[Tensor, "*batch numbers edges"],
        other: Float[Tensor, "*batch numbers edges"],
        stalks: Float[Tensor, "*batch stalk nodes features"],
    ) -> Float[Tensor, "*batch stalk nodes features"]:
        """Return `L_F` times the stalks, from weights of edges and the numbers that make the maps of both ends."""

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return `tanh(e_l) F - elu(L_F (I x W1_l) F W2_l)`."""
        check_layer(layer, self.num_layers)
        check_fits(state, self.map_weight, self.channels)
        pattern = scaled_matrix(graph, state, 0.0, 0.0, direction="both")
        # [x_u, x_v] V is a sum of two products on nodes. Only the numbers of the maps are on edges.
        to_own, to_other = (state @ self.map_weight[layer, end] for end in (0, 1))
        own, other = edge_sums(pattern, to_own.mT, to_other.mT), edge_sums(pattern, to_other.mT, to_own.mT)
        weights = pattern.values
        if self.learned_weights:
            weights = weights * (torch.sigmoid(own[..., -1:, :]) * torch.sigmoid(other[..., -1:, :])).square()
            own, other = own[..., :-1, :], other[..., :-1, :]
        own, other = torch.tanh(own), torch.tanh(other)
        mixed = state @ torch.kron(self.stalk_weight[layer].mT.contiguous(), self.feature_weight[layer])
        stalks = mixed.unflatten(-1, (self.stalk_channels, -1)).movedim(-2, -3)
        change = self._laplacian(pattern, weights, own, other, stalks[..., : self.map_channels, :, :])
        if self.fixed_channel:
            change = torch.cat([change, _opposite_laplacian(pattern, stalks[..., -1:, :, :])], dim=-3)
        change = change.movedim(-3, -2).flatten(-2)
        growth = torch.tanh(self.growth[layer]).repeat_interleave(self.channels // self.stalk_channels)
        return growth * state - nn.functional.elu(change), context

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"channels={self.channels}, num_layers={self.num_layers}, stalk_channels={self.stalk_channels}"


class DiagonalSheafDiffusion(SheafDiffusion):
    """Neural sheaf diffusion with diagonal restriction maps, `diag(tanh([x_u, x_v] V_l))`: d numbers per edge end.

    See `SheafDiffusion` for the equation and the arguments.
    """

    equation = "tanh(e_l) F - elu(L_F (I x W1_l) F W2_l), maps diag(tanh([x_u, x_v] V_l))"

    @property
    def _numbers_per_map(self) -> int:
        return self.map_channels

    def _laplacian(self, pattern: SparseMatrix, weights: Tensor, own: Tensor, other: Tensor, stalks: Tensor) -> Tensor:
        degrees = row_sums(pattern, weights * own.square())[..., None]
        norm = (degrees + 1).rsqrt()
        scaled = norm * stalks
        return norm * (degrees * scaled - weighted_product(pattern, weights * own * other, scaled))


class BundleSheafDiffusion(SheafDiffusion):
    """Neural sheaf diffusion with orthogonal restriction maps: `d (d - 1) / 2` numbers per edge end.

    The numbers `tanh([x_u, x_v] V_l)` make a product of Householder reflections, one of the parametrizations of the
    published code. D is the degree of the node, since `M^T M = I`. At least 2 stalk channels have learned maps. See
    `SheafDiffusion` for the equation and the arguments.
    """

    _least_channels = 2

    equation = "tanh(e_l) F - elu(L_F (I x W1_l) F W2_l), maps orthogonal, from tanh([x_u, x_v] V_l)"

    @property
    def _numbers_per_map(self) -> int:
        return self.map_channels * (self.map_channels - 1) // 2

    def _laplacian(self, pattern: SparseMatrix, weights: Tensor, own: Tensor, other: Tensor, stalks: Tensor) -> Tensor:
        degrees = row_sums(pattern, weights)[..., None]
        norm = (degrees + 1).rsqrt()
        scaled = norm * stalks
        maps = (orthogonal_maps(numbers, self.map_channels) for numbers in (own, other))
        return norm * (degrees * scaled - _transport(pattern, weights, transposed_product(*maps), scaled))


class GeneralSheafDiffusion(SheafDiffusion):
    """Neural sheaf diffusion with any restriction maps, `tanh([x_u, x_v] V_l)`: d^2 numbers per edge end.

    Deviation: the published code computes `(D + I)^-1/2` by a decomposition, and adds noise to D in training, or the
    gradient would be infinite for equal eigenvalues. Here it is computed without one, and without noise
    (`operators/restriction_maps.py`). See `SheafDiffusion` for the equation and the arguments.
    """

    equation = "tanh(e_l) F - elu(L_F (I x W1_l) F W2_l), maps tanh([x_u, x_v] V_l)"

    @property
    def _numbers_per_map(self) -> int:
        return self.map_channels**2

    def _laplacian(self, pattern: SparseMatrix, weights: Tensor, own: Tensor, other: Tensor, stalks: Tensor) -> Tensor:
        sizes = (self.map_channels, self.map_channels)
        own, other = own.unflatten(-2, sizes), other.unflatten(-2, sizes)
        degrees = row_sums(pattern, weights[..., None, :] * transposed_product(own, own))
        identity = torch.eye(self.map_channels, dtype=stalks.dtype, device=stalks.device)[..., None]
        norm = inverse_square_roots(degrees + identity)
        scaled = _multiply(norm, stalks)
        received = _transport(pattern, weights, transposed_product(own, other), scaled)
        return _multiply(norm, _multiply(degrees, scaled) - received)


def _multiply(
    blocks: Float[Tensor, "*batch stalk stalk nodes"], stalks: Float[Tensor, "*batch stalk nodes features"]
) -> Float[Tensor, "*batch stalk nodes features"]:
    """Return the product of the matrix and the stalk of each node."""
    return torch.einsum("...abn,...bnf->...anf", blocks, stalks)


def _opposite_laplacian(
    pattern: SparseMatrix, stalk: Float[Tensor, "*batch 1 nodes features"]
) -> Float[Tensor, "*batch 1 nodes features"]:
    """Return the normalized Laplacian of maps 1 and -1, `N (D + A) N` with `N = (D + I)^-1/2`, times a channel."""
    degrees = row_sums(pattern, pattern.values)[:, None]
    norm = (degrees + 1).rsqrt()
    scaled = norm * stalk
    return norm * (degrees * scaled + pattern @ scaled)


def _transport(
    pattern: SparseMatrix,
    weights: Float[Tensor, "*one edges"],
    maps: Float[Tensor, "*batch stalk stalk edges"],
    stalks: Float[Tensor, "*batch stalk nodes features"],
) -> Float[Tensor, "*batch stalk nodes features"]:
    """Return what each node receives: the sum over its edges of the weight, the map and the stalk of the other end."""
    each_row = stalks[..., None, :, :, :].expand(*maps.shape[:-1], *stalks.shape[-2:])
    return weighted_product(pattern, weights[..., None, :] * maps, each_row).sum(dim=-3)
