"""Measure the cost of attention over the direct rule, in a training step of the paper's network at the size of Cora.

n = 2,708 nodes, k = 64 channels, L = o = 8, the paper's Algorithm 1: a shared embedding of 1,433 sparse features, o
initial maps, L layers with dropout before each, dropout, a readout; cross-entropy, backward, Adam. (Dropout of the
features is left out.) For comparison: the same step without dropout, whose random numbers are expensive on a CPU; the
layers alone; and the paper's attention written out plainly, with every state projected and an o x o map per node. Our
attention must give the same numbers as the plain one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from benchmarks.timing import interleaved_medians
from tdegnn import AttentionCoefficients, DiffusionOperator, DirectCoefficients, Graph, integrate
from tdegnn.core.coefficients import Combine, TemporalCoefficients
from tdegnn.core.combination import Coefficients, History, normalize_sum
from tdegnn.graph import State
from tdegnn.sparse import SparseMatrix

NODES, EDGES, FEATURES, CHANNELS, LAYERS, CLASSES = 2708, 5278, 1433, 64, 8, 7
ORDER, STEP_SIZE = LAYERS, 0.1


class PlainAttention(AttentionCoefficients):
    """The paper's attention as printed: a map of all pairs of states. Only the row of the current state is used."""

    def combine(self, history: History, layer: int) -> tuple[State, Coefficients]:  # noqa: ARG002
        """Return the weighted sum and the weights."""
        stacked = torch.stack(history, dim=-2)
        scores = self.query(stacked) @ self.key(stacked).mT / self.channels**0.5
        coefficients = normalize_sum(scores.mean(dim=0)[0])
        return torch.einsum("p,npk->nk", coefficients, stacked), coefficients

    def prepare(self) -> Combine:
        """Return `combine`. Nothing is prepared, because the paper computes everything in every layer."""
        return self.combine


class Network(nn.Module):
    """The paper's network for node classification."""

    def __init__(self, coefficients: TemporalCoefficients, graph: Graph, features: SparseMatrix) -> None:
        super().__init__()
        self.coefficients, self.graph, self.features = coefficients, graph, features
        self.embedding = nn.Parameter(torch.randn(FEATURES, CHANNELS) / FEATURES**0.5)
        self.bias = nn.Parameter(torch.zeros(CHANNELS))
        self.initial_maps = nn.Parameter(torch.randn(ORDER, CHANNELS, CHANNELS) / CHANNELS**0.5)
        self.operator = DiffusionOperator(CHANNELS, LAYERS, STEP_SIZE)
        self.dropout = nn.Dropout(0.5)
        self.readout = nn.Linear(CHANNELS, CLASSES)

    def forward(self) -> Tensor:
        """Return the scores of the classes."""
        embedded = torch.relu(self.features @ self.embedding + self.bias)
        history = [embedded @ initial_map for initial_map in self.initial_maps]
        logits: Tensor = self.readout(self.dropout(self.run_layers(history, self.dropout)))
        return logits

    def run_layers(self, history: list[Tensor], state_map: nn.Module | None = None) -> Tensor:
        """Return the state after the last layer."""
        return integrate(
            history,
            self.graph,
            self.coefficients,
            self.operator,
            num_layers=LAYERS,
            step_size=STEP_SIZE,
            state_map=state_map,
        ).state


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    graph = Graph(random.integers(0, NODES, (2, EDGES)), NODES)
    features = scipy.sparse.random_array((NODES, FEATURES), density=0.0127, rng=random)
    dense_ready = SparseMatrix.from_scipy(features).to(torch.device("cpu"), torch.float32)
    labels = torch.from_numpy(random.integers(0, CLASSES, NODES))

    attention = AttentionCoefficients(ORDER, CHANNELS)
    plain = PlainAttention(ORDER, CHANNELS)
    plain.load_state_dict(attention.state_dict())
    start = Network(DirectCoefficients(ORDER), graph, dense_ready)
    networks = {"direct": start}
    for name, rule in (("attention", attention), ("plain attention", plain)):
        networks[name] = copy.deepcopy(start)
        networks[name].coefficients = rule

    yield "attention: largest difference to the paper's map", _difference(networks), "", 1e-5
    whole = interleaved_medians({name: _training_step(net, labels) for name, net in networks.items()}, repetitions=60)
    for network in networks.values():
        network.dropout = nn.Dropout(0.0)
    steady = interleaved_medians({name: _training_step(net, labels) for name, net in networks.items()}, repetitions=60)
    layers = interleaved_medians({name: _layer_step(net) for name, net in networks.items()}, repetitions=60)
    for name, seconds in whole.items():
        yield f"training step, {name}", 1e3 * seconds, "ms"
    yield "training step, attention / direct", whole["attention"] / whole["direct"], "x", 1.4
    yield "training step, plain attention / direct", whole["plain attention"] / whole["direct"], "x"
    yield "training step without dropout, attention / direct", steady["attention"] / steady["direct"], "x", 1.4
    yield "layers alone, attention / direct", layers["attention"] / layers["direct"], "x"


def _difference(networks: dict[str, Network]) -> float:
    scores = {}
    with torch.no_grad():
        for name in ("attention", "plain attention"):
            torch.manual_seed(1)  # the same dropout for both
            scores[name] = networks[name]()
    return float((scores["attention"] - scores["plain attention"]).abs().max())


def _training_step(network: Network, labels: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(), labels).backward()
        optimizer.step()

    return step


def _layer_step(network: Network) -> Callable[[], None]:
    history = [torch.randn(NODES, CHANNELS, requires_grad=True) for _ in range(ORDER)]

    def step() -> None:
        network.zero_grad()
        network.run_layers(history).square().mean().backward()

    return step
