"""The rivals for node classification by the names they have in tables, all built the same way.

`NODE_NETWORKS["GCN"](num_features, num_outputs, num_nodes, hidden_channels=64, num_layers=2)`. What only one of them
knows (`alpha`, `theta`, `eps`, `num_heads`) may be given by name too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from tdegnn.nets.node_network import NodeNetwork
from tdegnn.rivals.nodes.fagcn import FrequencyAdaptiveNetwork
from tdegnn.rivals.nodes.gat import GraphAttentionNetwork
from tdegnn.rivals.nodes.gcn import GraphConvolutionalNetwork
from tdegnn.rivals.nodes.gcnii import InitialResidualNetwork
from tdegnn.rivals.nodes.linkx import LinkxNetwork
from tdegnn.rivals.nodes.mlp import MultilayerPerceptron


@runtime_checkable
class NodeNetworkBuilder(Protocol):
    """Makes a network of given sizes."""

    def __call__(
        self,
        num_features: int,
        num_outputs: int,
        num_nodes: int,
        *,
        hidden_channels: int,
        num_layers: int,
        outer_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        seed: int = 0,
        **settings: Any,
    ) -> NodeNetwork:
        """Return the network; its weights come from torch's generator, `seed` is that of the dropout."""


def _for_any_graph(network: Callable[..., NodeNetwork]) -> NodeNetworkBuilder:
    """The builder of a network whose weights do not belong to nodes."""

    def build(num_features: int, num_outputs: int, num_nodes: int, **settings: Any) -> NodeNetwork:  # noqa: ARG001
        return network(num_features, num_outputs, **settings)

    return build


def _build_linkx(num_features: int, num_outputs: int, num_nodes: int, **settings: Any) -> NodeNetwork:
    return LinkxNetwork(num_features, num_outputs, num_nodes, **settings)


NODE_NETWORKS: dict[str, NodeNetworkBuilder] = {
    "MLP": _for_any_graph(MultilayerPerceptron),
    "GCN": _for_any_graph(GraphConvolutionalNetwork),
    "GAT": _for_any_graph(GraphAttentionNetwork),
    "GCNII": _for_any_graph(InitialResidualNetwork),
    "LINKX": _build_linkx,
    "FAGCN": _for_any_graph(FrequencyAdaptiveNetwork),
}
