"""Means over what a node receives, `(G F)_i = sum_j G_ij F_j` with rows of G that sum to one: constant, or attention.

`G = D^-1 A'`, or the attention of GRAND (Chamberlain et al., 2021), with a map to queries and one to keys per head r:
`G_ij = mean_r softmax_j(Q_r(F_i) . K_r(F_j) / sqrt(d))`. Written once for all systems that diffuse with such a G:
`operators/mixing_operator.py` makes it a part of an operator, chosen by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import pattern_of, scaled_matrix
from tdegnn.edge_values import edge_scores, row_softmax, row_sums, spread_rows, weighted_product
from tdegnn.errors import InputError, check_choice, check_count
from tdegnn.graph import Graph, State
from tdegnn.parts import Family, PartLike
from tdegnn.sparse import SparseMatrix

EdgeWeights: TypeAlias = Float[Tensor, "*batch entries"]

# What every weight of the maps to queries and keys starts at. Biases are drawn: they make the channels differ.
FIRST_WEIGHT = 1e-5


class EdgeMixing(nn.Module, ABC):
    """G, a mean over what a node receives. A node that receives nothing, not even from itself, gets zero.

    Args:
        channels: Channels of a state.
        self_loops: Whether a node receives from itself too.
    """

    def __init__(self, channels: int, self_loops: bool) -> None:
        super().__init__()
        check_count(channels=channels)
        self.self_loops = self_loops

    def reset_parameters(self) -> None:
        """Draw the weights anew, if there are any."""

    @property
    def is_local(self) -> bool:
        """Whether what a node receives depends on its neighbors only."""
        return True

    @abstractmethod
    def weigh(self, state: State, graph: Graph) -> EdgeWeights | None:
        """Return G for this state, one number per edge. None if it does not depend on the state."""

    @abstractmethod
    def mix(self, weights: EdgeWeights | None, state: State, graph: Graph) -> State:
        """Return `G F`.

        Args:
            weights: What `weigh` returned, for this state or an earlier one.
            state: F.
            graph: The graph.
        """

    def extra_repr(self) -> str:
        """Return the settings shown by `repr`."""
        return f"self_loops={self.self_loops}"


class ConstantMixing(EdgeMixing):
    """The mean with the weights of the edges, `G = D^-1 A'`."""

    def weigh(self, state: State, graph: Graph) -> EdgeWeights | None:  # noqa: ARG002
        """Return None: the weights are those of the graph."""
        return None

    def mix(self, weights: EdgeWeights | None, state: State, graph: Graph) -> State:  # noqa: ARG002
        """Return `D^-1 A' F`."""
        return scaled_matrix(graph, state, -1.0, 0.0, self_loops=self.self_loops) @ state


class AttentionMixing(EdgeMixing):
    """The attention of GRAND, `G_ij = mean_r normalize_j(Q_r(F_i) . K_r(F_j) / sqrt(d))`.

    All weights of the maps start at the same small number, as in the released code: attention starts (almost) uniform.
    Weights of edges are not used.

    Deviation: the largest score, from which squareplus counts, is that of one batch element.

    Args:
        channels: Channels of a state.
        self_loops: Whether a node attends to itself too.
        num_heads: Number of heads. Default: 4.
        attention_channels: Channels of queries and keys, all heads together. Default: 64.
        normalization: What makes the weights of a row positive with sum one, `"softmax"` (default) or `"squareplus"`.
    """

    def __init__(
        self,
        channels: int,
        self_loops: bool,
        *,
        num_heads: int = 4,
        attention_channels: int = 64,
        normalization: str = "softmax",
    ) -> None:
        super().__init__(channels, self_loops)
        check_count(num_heads=num_heads, attention_channels=attention_channels)
        check_choice(NORMALIZATIONS, normalization=normalization)
        if attention_channels % num_heads:
            raise InputError(
                f"Expected attention_channels to be a multiple of num_heads = {num_heads}, got {attention_channels}."
            )
        self.num_heads, self.normalization = num_heads, normalization
        self.query_map = nn.Linear(channels, attention_channels)
        self.key_map = nn.Linear(channels, attention_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start close to uniform attention."""
        for linear in (self.query_map, self.key_map):
            linear.reset_parameters()
            nn.init.constant_(linear.weight, FIRST_WEIGHT)

    @property
    def is_local(self) -> bool:
        """Whether the weights of a row depend on that row only. Those of squareplus count from the largest of all."""
        return self.normalization != "squareplus"

    def weigh(self, state: State, graph: Graph) -> EdgeWeights:
        """Return the attention of each node to those that it receives from, the mean of all heads."""
        pattern = pattern_of(graph, state, self_loops=self.self_loops)
        queries, keys = (self._by_head(linear(state)) for linear in (self.query_map, self.key_map))
        scores = edge_scores(pattern, queries, keys) / queries.shape[-1] ** 0.5
        return NORMALIZATIONS[self.normalization](pattern, scores).mean(dim=-2)

    def mix(self, weights: EdgeWeights | None, state: State, graph: Graph) -> State:
        """Return `G F`."""
        assert weights is not None  # from `weigh`
        return weighted_product(pattern_of(graph, state, self_loops=self.self_loops), weights, state)

    def _by_head(self, mapped: State) -> Float[Tensor, "*batch heads nodes head_channels"]:
        heads: Tensor = mapped.unflatten(-1, (self.num_heads, -1))
        return heads.movedim(-2, -3)

    def extra_repr(self) -> str:
        """Return the settings shown by `repr`."""
        return f"{super().extra_repr()}, num_heads={self.num_heads}, normalization={self.normalization!r}"


def row_squareplus(pattern: SparseMatrix, scores: Float[Tensor, "*batch heads entries"]) -> Tensor:
    """Return weights `squareplus(score - largest)` of each row, scaled to sum to one in each row that is not empty."""
    if scores.shape[-1] == 0:
        return scores
    below = scores.amax(dim=(-2, -1), keepdim=True) - scores
    # Equal to (z + sqrt(z^2 + 4)) / 2 with z = -below, without the difference of two large numbers.
    positive = 2 / (below + (below.square() + 4).sqrt())
    return positive / spread_rows(pattern, row_sums(pattern, positive))


NORMALIZATIONS: dict[str, Callable[[SparseMatrix, Tensor], Tensor]] = {
    "softmax": row_softmax,
    "squareplus": row_squareplus,
}

MIXINGS = Family("mixing", EdgeMixing, {"constant": ConstantMixing, "attention": AttentionMixing})


def make_mixing(given: str | Mapping[str, Any], channels: int, self_loops: bool) -> EdgeMixing:
    """Make the mixing of an operator.

    Args:
        given: A name, or a record with settings, which JSON can keep: `{"name": "attention", "settings": {...}}`.
        channels: Channels of a state.
        self_loops: Whether a node receives from itself too.
    """
    part: PartLike = given
    if isinstance(given, Mapping):
        is_record = isinstance(given.get("name"), str) and isinstance(given.get("settings", {}), Mapping)
        if not is_record or not set(given) <= {"name", "settings"}:
            raise InputError(
                f'Expected mixing to be a name or {{"name": ..., "settings": {{...}}}}, got {dict(given)}.'
            )
        part = MIXINGS.from_record(dict(given))
    made: EdgeMixing = MIXINGS.make(part, channels=channels, self_loops=self_loops)
    return made
