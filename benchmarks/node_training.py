"""Measure training for node classification: an epoch against a plain transcription of the paper, and many runs at once.

On the CPU: an epoch with an evaluation at the size of Cora (k = 64, L = o = 8), by the library and by the paper's
Algorithm 1 as printed, with dense features, the Laplacian built from the edges in every layer, an o x o attention map
per node, `nn.Dropout`, and Adam with three groups. On a CUDA device: 250 epochs of 40 runs of Chameleon trained
together. If a dataset is not on this machine, a random graph of its size replaces it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from benchmarks.timing import interleaved_medians
from tdegnn import Graph, load_nodes
from tdegnn.core.rules import System
from tdegnn.data.benchmarks.catalogue import find_benchmark
from tdegnn.data.benchmarks.fetch import locate
from tdegnn.data.nodes import NodeDataset
from tdegnn.experiments.node_systems import train_together
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import choose_placement
from tdegnn.training.members import GroupedAdam
from tdegnn.training.node_training import NodeTraining

CHANNELS, LAYERS, STEP_SIZE, DROPOUT, LEARNING_RATE = 64, 8, 0.5, 0.5, 1e-3
REPETITIONS = 25
CONFIGS, SPLITS, EPOCHS = 4, 10, 250


class PlainNetwork(nn.Module):
    """The paper's Algorithm 1, as a reader would implement it."""

    def __init__(self, num_features: int, num_classes: int, *, is_attending: bool) -> None:
        super().__init__()
        self.embedding = nn.Linear(num_features, CHANNELS)
        self.initial_maps = nn.ModuleList(nn.Linear(CHANNELS, CHANNELS, bias=False) for _ in range(LAYERS))
        self.raw = nn.Parameter(torch.eye(LAYERS)[0]) if not is_attending else None
        self.query, self.key = (nn.Linear(CHANNELS, CHANNELS) if is_attending else None for _ in range(2))
        self.layer_maps = nn.ModuleList(nn.Linear(CHANNELS, CHANNELS, bias=False) for _ in range(LAYERS))
        self.readout = nn.Linear(CHANNELS, num_classes)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, features: Tensor, edges: Tensor) -> Tensor:
        """Return the scores of the classes."""
        embedded = torch.relu(self.embedding(self.dropout(features)))
        history = [initial_map(embedded) for initial_map in self.initial_maps]
        for layer_map in self.layer_maps:
            history[0] = self.dropout(history[0])
            stacked = torch.stack(history, dim=1)
            c = self.coefficients(stacked)
            spatial = torch.relu(layer_map(history[0] - STEP_SIZE * laplacian(history[0], edges)))
            newest = torch.einsum("p,npk->nk", c, stacked) + STEP_SIZE * spatial
            history = [newest, *history[:-1]]
        scores: Tensor = self.readout(self.dropout(history[0]))
        return scores

    def coefficients(self, stacked: Tensor) -> Tensor:
        """Return c from states of shape (nodes, order, channels)."""
        if self.raw is not None:
            return self.raw / self.raw.sum()
        assert self.query is not None
        assert self.key is not None
        attention = self.query(stacked) @ self.key(stacked).mT / CHANNELS**0.5
        row = attention.mean(dim=0)[0]
        return row / row.sum()

    def groups(self) -> list[dict[str, object]]:
        """Return the parameter groups: embeddings and readout, coefficients, spatial term."""
        temporal = [self.raw] if self.raw is not None else [*self.query.parameters(), *self.key.parameters()]  # type: ignore[union-attr]
        outer = [self.embedding, self.initial_maps, self.readout]
        return [
            {"params": [parameter for part in outer for parameter in part.parameters()]},
            {"params": temporal},
            {"params": list(self.layer_maps.parameters())},
        ]


def laplacian(state: Tensor, edges: Tensor) -> Tensor:
    """Return `L F` with L built from the edges, as in the authors' layers."""
    targets, sources = edges
    degrees = state.new_zeros(len(state)).scatter_add_(0, targets, state.new_ones(targets.numel()))
    scale = degrees.clamp(min=1).rsqrt()
    weights = scale[targets] * scale[sources]
    received = torch.zeros_like(state).index_add_(0, targets, weights[:, None] * state[sources])
    return state - received


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    cora = _load("cora")
    for name, system in (("attention", "TDE-GNN_A"), ("direct", "TDE-GNN_D")):
        contestants = {"ours": _our_epoch(cora, system), "plain": _plain_epoch(cora, is_attending=name == "attention")}
        seconds = interleaved_medians(contestants, repetitions=REPETITIONS)
        for contestant, median in seconds.items():
            yield f"epoch on Cora, {name}, {contestant}", 1e3 * median, "ms"
        ratio = seconds["ours"] / seconds["plain"]
        # The goal, five times faster, concerns the paper's map of all pairs of states. The direct rule has no map.
        yield (f"epoch on Cora, {name}, ours / plain", ratio, "x", *([0.2] if name == "attention" else []))
    yield from measure_many()


def measure_many() -> Iterator[tuple[str, float, str, float]]:
    if not torch.cuda.is_available():
        print("left out: 40 runs of Chameleon together need a CUDA device")
        return
    yield f"{EPOCHS} epochs of {CONFIGS * SPLITS} runs of Chameleon", _train_many(_load("chameleon")), "s", 3.0


def _our_epoch(dataset: NodeDataset, system: System) -> Callable[[], object]:
    config = NodeConfig(
        system,
        CHANNELS,
        LAYERS,
        order=LAYERS,
        step_size=STEP_SIZE,
        outer_dropout=DROPOUT,
        hidden_dropout=DROPOUT,
    )
    training = NodeTraining([config.build(dataset, seed=0)], [GroupedAdam()], dataset, [0])

    def epoch() -> None:
        training.step()
        training.validate()

    return epoch


def _plain_epoch(dataset: NodeDataset, *, is_attending: bool) -> Callable[[], object]:
    torch.manual_seed(0)
    network = PlainNetwork(dataset.num_features, dataset.num_classes, is_attending=is_attending)
    optimizer = torch.optim.Adam(network.groups(), lr=LEARNING_RATE)
    features = torch.tensor(scipy.sparse.csr_array(dataset.features).toarray())
    edges = torch.tensor(np.stack(dataset.graph.received.nonzero()))
    labels = torch.tensor(dataset.labels)
    training, validation, test = (
        torch.tensor(masks[0]) for masks in (dataset.training_masks, dataset.validation_masks, dataset.test_masks)
    )

    def epoch() -> list[float]:
        network.train()
        optimizer.zero_grad()
        scores = network(features, edges)
        nn.functional.cross_entropy(scores[training], labels[training]).backward()
        optimizer.step()
        network.eval()
        with torch.no_grad():
            is_right = network(features, edges).argmax(dim=1) == labels
        return [float(is_right[mask].float().mean()) for mask in (training, validation, test)]

    return epoch


def _train_many(dataset: NodeDataset) -> float:
    # The configurations differ as those of a sweep do.
    configs = [
        NodeConfig("TDE-GNN_D", 128, 4, order=4, step_size=step_size, num_steps=EPOCHS)
        for step_size in np.linspace(0.1, 1.0, CONFIGS).tolist()
    ]
    splits = [split % dataset.num_splits for split in range(SPLITS)]
    placement = choose_placement("cuda")

    def run(chosen: list[NodeConfig]) -> float:
        started = time.perf_counter()
        train_together(dataset, chosen, splits, placement=placement, validate_every=3)
        torch.cuda.synchronize()
        return time.perf_counter() - started

    run(configs)  # warm-up: libraries initialize in the first run
    return min(run(configs) for _ in range(3))


def _load(name: str) -> NodeDataset:
    """Load the dataset if its files are on this machine, else make a random one of its size."""
    benchmark = find_benchmark(name, "nodes")
    if all(locate(file) for file in benchmark.files):
        return load_nodes(name)
    print(f"random nodes of the size of {name}: its files are not on this machine (tdegnn data fetch {name})")
    counts = benchmark.statistics
    random = np.random.default_rng(0)
    num_nodes, num_features = counts.nodes, int(counts.features or 0)
    features = scipy.sparse.random_array((num_nodes, num_features), density=0.0127, rng=random)
    parts = random.permuted(np.repeat([np.arange(num_nodes)], 10, axis=0), axis=1) / num_nodes
    return NodeDataset(
        name,
        scipy.sparse.csr_array(features, dtype=np.float32),
        Graph(random.integers(0, num_nodes, (2, counts.edges)), num_nodes),
        random.integers(0, int(counts.classes or 2), num_nodes),
        parts < 0.48,
        (parts >= 0.48) & (parts < 0.8),
        parts >= 0.8,
    )
