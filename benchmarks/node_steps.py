"""Training steps on one drawn graph: our network, a plain transcription of its equations, and PyG's GCN.

All three have the same depth and width, the same loss (cross-entropy of all nodes) and the optimizer Adam. The first
two begin with the same weights and must have the same losses, to rounding. Dropout is left out, because masks of
different generators could not be compared. `as_trained` makes the steps that `NodeClassifier.fit` makes, with dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tdegnn import Graph
from tdegnn.core.rules import System
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.nodes.settings import NodeConfig

CHANNELS, LAYERS, STEP_SIZE, LEARNING_RATE = 64, 4, 0.5, 0.01
FEATURES, CLASSES = 64, 8
# What tables call the rules for c: c = [1], a learned vector, attention.
SYSTEMS: dict[str, System] = {"c = [1]": "DE-GNN", "learned vector": "TDE-GNN_D", "attention": "TDE-GNN_A"}

Step = Callable[[], Tensor]


@dataclass(frozen=True)
class Nodes:
    """What is trained on, on the device.

    Attributes:
        graph: A graph of random edges, each of which carries messages both ways.
        features: Random features.
        labels: Random classes.
    """

    graph: Graph
    features: Tensor
    labels: Tensor

    @staticmethod
    def draw(num_nodes: int, num_edges: int, device: torch.device, dtype: torch.dtype = torch.float32) -> Nodes:
        """Draw nodes and edges, always the same ones for a size."""
        draw = np.random.default_rng(0)
        graph = Graph(draw.integers(0, num_nodes, (2, num_edges), dtype=np.int32), num_nodes)
        features = torch.as_tensor(draw.standard_normal((num_nodes, FEATURES), dtype=np.float32))
        labels = torch.as_tensor(draw.integers(0, CLASSES, num_nodes))
        return Nodes(graph, features.to(device, dtype), labels.to(device))

    @property
    def num_messages(self) -> int:
        """Number of messages: entries of the matrix of the graph."""
        return int(self.graph.received.nnz)


def make_network(system: System, num_layers: int = LAYERS) -> StationaryNetwork:
    """Make our network, always with the same weights."""
    sizes = dict(hidden_channels=CHANNELS, num_layers=num_layers, order=num_layers, step_size=STEP_SIZE)
    return NodeConfig(system, **sizes).build_network(FEATURES, CLASSES, seed=0)


def our_step(system: System, nodes: Nodes, message_type: torch.dtype | None = None) -> Step:
    """Return a function that makes a training step of our network, and returns the loss before it."""
    # In evaluation mode nothing is dropped. Gradients are the same.
    network = make_network(system).to(nodes.features).eval()
    network.operator.message_type = message_type
    return _descending(network.parameters(), lambda: network(nodes.features, nodes.graph), nodes.labels)


def plain_step(system: System, nodes: Nodes) -> Step:
    """Return the same function for the transcription, with the same weights at its start."""
    network = make_network(system).to(nodes.features)
    weights = {name: parameter.detach().clone().requires_grad_() for name, parameter in network.named_parameters()}
    messages = PlainMessages.of(nodes)
    return _descending(weights.values(), lambda: plain_scores(weights, nodes.features, messages), nodes.labels)


def pyg_step(nodes: Nodes, graph: Tensor) -> Step:
    """Return the same function for PyG's GCN, on `edges_of` or `rows_of` the nodes."""
    network = make_gcn(nodes, dropout=0.0)
    return _descending(network.parameters(), lambda: network[1](network[0](nodes.features, graph)), nodes.labels)


def make_gcn(nodes: Nodes, dropout: float) -> Any:
    """Return PyG's GCN, which normalizes the graph once (`cached`), and a linear readout."""
    from torch_geometric.nn.models import GCN

    torch.manual_seed(0)
    # All layers have the same width, as ours have: without `out_channels` the last one is no narrower.
    layers = GCN(FEATURES, CHANNELS, LAYERS, dropout=dropout, cached=True)
    return nn.ModuleList([layers, nn.Linear(CHANNELS, CLASSES)]).to(nodes.features)


def edges_of(nodes: Nodes) -> Tensor:
    """Return sources and targets of the messages, as PyG usually takes a graph."""
    return nodes.graph.messages[0].to(nodes.features.device)


def rows_of(nodes: Nodes) -> Tensor:
    """Return the matrix of the messages in compressed rows, which PyG multiplies by instead of gathering."""
    received = nodes.graph.received.tocsr()
    pointers, columns = (torch.as_tensor(each, dtype=torch.int64) for each in (received.indptr, received.indices))
    ones = torch.ones(received.nnz, dtype=nodes.features.dtype)
    matrix = torch.sparse_csr_tensor(pointers, columns, ones, received.shape, check_invariants=False)
    return matrix.to(nodes.features.device)


def as_trained(system: System, nodes: Nodes, dropout: float) -> Step:
    """Return the step that `NodeClassifier.fit` makes on a whole graph: with dropout, and recorded if it is small."""
    from tdegnn.training.devices import Placement
    from tdegnn.training.node_training import Classification, NodeSubsets, TaskTraining

    config = NodeConfig(
        system,
        hidden_channels=CHANNELS,
        num_layers=LAYERS,
        order=LAYERS,
        step_size=STEP_SIZE,
        outer_dropout=dropout,
        hidden_dropout=dropout,
    )
    everything = np.ones((1, nodes.graph.num_nodes), dtype=bool)
    training = TaskTraining(
        [config.build_network(FEATURES, CLASSES, 0)],
        [config.descent],
        (nodes.features, nodes.graph),
        Classification(nodes.labels),
        NodeSubsets(everything, everything, everything),
        Placement(nodes.features.device, nodes.features.dtype),
    )

    def step() -> Tensor:
        training.step()
        return training.last_losses()[0]

    return step


def pyg_as_trained(nodes: Nodes, dropout: float) -> Step:
    """Return a step of PyG's GCN with dropout: of the input, after each layer but the last, and before the readout."""
    network, edges, drop = make_gcn(nodes, dropout), edges_of(nodes), nn.Dropout(dropout)
    return _descending(
        network.parameters(), lambda: network[1](drop(network[0](drop(nodes.features), edges))), nodes.labels
    )


@dataclass(frozen=True)
class PlainMessages:
    """Who sends to whom, with the weights of `P = D_r^-1/2 A' D_c^-1/2`, and who receives anything."""

    sources: Tensor
    targets: Tensor
    weights: Tensor
    receives: Tensor

    @staticmethod
    def of(nodes: Nodes) -> PlainMessages:
        """Compute the weights of an unweighted graph from degrees, once."""
        sources, targets = edges_of(nodes)
        num_nodes = nodes.graph.num_nodes
        received, sent = (torch.bincount(ends, minlength=num_nodes) for ends in (targets, sources))
        scales = [degrees.clamp(min=1).to(nodes.features.dtype).rsqrt() for degrees in (received, sent)]
        weights = scales[0][targets] * scales[1][sources]
        return PlainMessages(sources, targets, weights, (received > 0).to(weights.dtype)[:, None])


def plain_scores(weights: Mapping[str, Tensor], features: Tensor, messages: PlainMessages) -> Tensor:
    """Return the scores of `StationaryNetwork` with its own weights, as a reader of the paper would compute them."""
    embedded = torch.relu(features @ weights["embedding.weight"].T + weights["embedding.bias"])
    history = [embedded @ initial for initial in weights["initial_states.maps"]] or [embedded]
    for layer_map in weights["operator.weight"]:
        state = history[0]
        sent = messages.weights[:, None] * state[messages.sources]
        received = torch.zeros_like(state).index_add(0, messages.targets, sent)
        laplacian = messages.receives * state - received
        rate = torch.relu((state - STEP_SIZE * laplacian) @ layer_map)
        summed = sum(c * past for c, past in zip(plain_coefficients(weights, history), history, strict=True))
        history = [summed + STEP_SIZE * rate, *history[:-1]]
    return history[0] @ weights["readout.weight"].T + weights["readout.bias"]


def plain_coefficients(weights: Mapping[str, Tensor], history: list[Tensor]) -> Tensor:
    """Return c: `[1]`, the learned vector divided by its sum, or scores of the current state divided by their sum."""
    if "coefficients.raw" in weights:
        raw = weights["coefficients.raw"][0]
    elif "coefficients.query.weight" in weights:
        query = _project(weights, "query", history[0])
        raw = torch.stack([(query * _project(weights, "key", state)).sum(dim=1).mean() for state in history])
    else:
        return history[0].new_ones(1)
    return raw / raw.sum()


def _project(weights: Mapping[str, Tensor], name: str, state: Tensor) -> Tensor:
    return state @ weights[f"coefficients.{name}.weight"].T + weights[f"coefficients.{name}.bias"]


def _descending(parameters: Any, scores: Callable[[], Tensor], labels: Tensor) -> Step:
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(scores(), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
