"""Deep networks: do 64 and 256 layers train, and how large are states and gradients from layer to layer?

Compares c = [1], a learned vector, attention and a stable vector, all else equal: node classification on Cora and
Chameleon with 64 layers, and a symbol that 256 layers carry along a chain of up to 256 or 128 nodes. Learning rate and
step size are chosen by validation. Each training is a line of the results file. Trainings that are already there are
not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tdegnn.analysis.stencil import characteristic_roots
from tdegnn.core.rules import System
from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import check_count
from tdegnn.experiments.node_results import NODE_LINES
from tdegnn.experiments.node_systems import AnyConfig, train_members
from tdegnn.experiments.recipe_files import config_from_record
from tdegnn.experiments.records import append_lines, describe_environment, read_lines
from tdegnn.graph import Graph
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import Placement, Precision, place
from tdegnn.training.members import GroupDescent
from tdegnn.training.node_training import Classification, as_input

SYSTEMS: tuple[System, ...] = ("DE-GNN", "TDE-GNN_D", "TDE-GNN_A", "TDE-GNN_S")
LEARNING_RATES = (0.0001, 0.0003, 0.001, 0.003)
CHAIN, HALF_CHAIN, LONGEST_CHAIN = "chain", "half-chain", 256
NUM_QUARTERS = 4
DEPTH_LINES = replace(
    NODE_LINES,
    name="the study of depth",
    entries={**NODE_LINES.entries, "seed": int, "untrained": dict, "trained": dict, "max_root_modulus": float},
)
# Dropout in every layer would leave nothing of a state after 64 of them, and batch norm would hide how it grows. If the
# newest initial state has no map, the learned vectors start as the same network as c = [1].
PLAIN = NodeConfig(
    order=4, operator="near-identity", initial_states="newest-unmapped", outer_dropout=0.0, hidden_dropout=0.0
)


@dataclass(frozen=True)
class DepthTask:
    """Something to learn with a deep network.

    Attributes:
        title: Its title in the figure.
        load: Loads or makes the nodes.
        config: The settings that all rules share.
        step_sizes: The h that validation chooses from.
        precision: `"32-true"` or `"64-true"`, for numbers of 32 or 64 bits.
        quarters: For chains, the quarter of the lengths in which the chain of each node lies. Accuracy is also reported
            by quarter.
    """

    title: str
    load: Callable[[], NodeDataset]
    config: NodeConfig
    step_sizes: tuple[float, ...]
    precision: Precision = "32-true"
    quarters: Callable[[NodeDataset], Int[np.ndarray, " nodes"]] | None = None

    def configs(self, system: System) -> list[NodeConfig]:
        """Return the configurations that validation chooses from, the same number for each rule."""
        decay = self.config.spatial.weight_decay
        return [
            replace(
                self.config,
                system=system,
                order=1 if system == "DE-GNN" else self.config.order,
                step_size=step_size,
                embedding=GroupDescent(learning_rate, decay),
                temporal=GroupDescent(learning_rate),
                spatial=GroupDescent(learning_rate, decay),
            )
            for step_size in self.step_sizes
            for learning_rate in LEARNING_RATES
        ]


def make_chains(
    longest: int = LONGEST_CHAIN, num_chains: int = 64, num_symbols: int = 4, num_splits: int = 5, seed: int = 0
) -> NodeDataset:
    """Make chains of nodes. The last node of a chain must predict the symbol of the first one.

    A node receives from the one before it, so a symbol needs a layer for each edge. (If nodes received from both sides,
    a symbol would be halved at every node.) Lengths and symbols are random; symbols are equally frequent. Half of the
    chains are for training, a quarter each for validation and test, by their last nodes; other nodes have no label.
    The chains test depth: a network that carries symbols along its training chains does so along all of them.

    Args:
        longest: Maximum number of nodes of a chain. The minimum is two.
        num_chains: Number of chains.
        num_symbols: Number of symbols, which are the classes. The feature of a first node is its symbol, one-hot.
        num_splits: Number of divisions of the chains into training, validation and test.
        seed: Seed of everything random.
    """
    check_count(2, longest=longest, num_symbols=num_symbols)
    check_count(4, num_chains=num_chains)
    random = np.random.default_rng(seed)
    lengths = random.integers(2, longest + 1, num_chains)
    lengths[0] = longest
    last = np.cumsum(lengths) - 1
    num_nodes = int(last[-1]) + 1
    symbols = random.permutation(np.arange(num_chains) % num_symbols)
    features = np.zeros((num_nodes, num_symbols), dtype=np.float32)
    features[last - lengths + 1, symbols] = 1.0
    labels = np.full(num_nodes, -1, dtype=np.int64)
    labels[last] = symbols
    sources = np.setdiff1d(np.arange(num_nodes), last)
    graph = Graph(np.stack([sources, sources + 1]), num_nodes, direction="in")
    masks = np.zeros((3, num_splits, num_nodes), dtype=bool)
    for split in range(num_splits):
        subset_of = np.array([0, 0, 1, 2])[random.permutation(np.arange(num_chains) % 4)]
        masks[subset_of, split, last] = True
    return NodeDataset(CHAIN, features, graph, labels, *masks)


def chain_quarters(chains: NodeDataset) -> Int[np.ndarray, " nodes"]:
    """Return, at the last node of each chain, the quarter of the longest length in which its own lies. Else 0."""
    last = np.flatnonzero(chains.labels >= 0)
    lengths = np.diff(last, prepend=-1)
    quarters = np.zeros(chains.num_nodes, dtype=np.int64)
    quarters[last] = -(-NUM_QUARTERS * lengths // lengths.max())
    return quarters


_NODES = replace(PLAIN, num_layers=64, outer_dropout=0.5, spatial=GroupDescent(weight_decay=5e-4))
# States may double in each layer, and with h = 1 they must for a symbol to keep its size. 32 bits end at 2^128.
_CHAINS = DepthTask(
    "Chains of up to 256 nodes",
    make_chains,
    replace(PLAIN, hidden_channels=16, num_layers=256),
    (0.5, 1.0),
    "64-true",
    chain_quarters,
)
TASKS = {
    "cora": DepthTask("Cora", partial(load_nodes, "cora"), replace(_NODES, normalized_features=True), (0.05, 0.2)),
    "chameleon": DepthTask("Chameleon", partial(load_nodes, "chameleon"), _NODES, (0.05, 0.2)),
    CHAIN: _CHAINS,
    # Half of what a layer hands on stays behind, so what 256 layers carry is on its way around node 128.
    HALF_CHAIN: replace(_CHAINS, title="Chains of up to 128 nodes", load=partial(make_chains, LONGEST_CHAIN // 2)),
}


@dataclass(frozen=True)
class LayerNorms:
    """How large states and gradients are, from the first state F[0] to the last one F[L].

    Attributes:
        states: Root mean square of each state over nodes and channels.
        gradients: Norm of the gradient of the training loss by each state.
    """

    states: tuple[float, ...]
    gradients: tuple[float, ...]


def measure_norms(
    network: StationaryNetwork,
    inputs: tuple[Any, Graph],
    task: Classification,
    mask: Bool[Tensor, " nodes"],
) -> LayerNorms:
    """Measure one pass forward and one back, without dropout.

    Args:
        network: A network with any weights.
        inputs: Features and graph.
        task: Computes the loss.
        mask: The nodes that count in the loss.
    """
    network.eval()
    with torch.enable_grad(), _remembered(network.operator, network.readout) as states:
        losses = task.losses(network(*inputs)[None], mask[None])
    gradients = torch.autograd.grad(losses.sum(), states)
    return LayerNorms(
        tuple(_four_digits(state.detach().double().square().mean().sqrt()) for state in states),
        tuple(_four_digits(gradient.double().norm()) for gradient in gradients),
    )


@contextmanager
def _remembered(*parts: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the first input of each call of these parts: for the operator, the state of each layer."""
    seen: list[Tensor] = []

    def remember(part: nn.Module, inputs: tuple[Any, ...]) -> None:  # noqa: ARG001
        seen.append(inputs[0])

    hooks = [part.register_forward_pre_hook(remember) for part in parts]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _four_digits(value: Float[Tensor, ""]) -> float:
    """Round a norm for a result line, which has hundreds of them."""
    return float(f"{float(value):.4g}")


def largest_root_modulus(coefficients: Float[Tensor, "layers order"]) -> float:
    """Return the largest modulus of a root of c in any layer. NaN if c is not finite."""
    vectors = np.unique(coefficients.detach().double().cpu().numpy(), axis=0)
    if not np.isfinite(vectors).all():
        return float("nan")
    # Large weights that cancel sum to one only up to their rounding errors.
    return max(float(np.abs(characteristic_roots(vector / vector.sum())).max()) for vector in vectors)


def train_depth(
    task_name: str, configs: Sequence[NodeConfig], path: Path, *, placement: Placement, seed: int = 0
) -> None:
    """Train configurations on the splits that have no line in `path` yet, all together, and add their lines.

    Args:
        task_name: One of `TASKS`.
        configs: The task's configurations of one system.
        path: File of result lines.
        placement: Where to compute, in the precision of the task.
        seed: Seed of weights and dropout. Each split adds a thousand.
    """
    task = TASKS[task_name]
    dataset = configs[0].prepare(task.load())
    done = {
        (config_from_record(line["configuration"]), line["split"], line.get("seed"))
        for line in read_lines(path, DEPTH_LINES, dataset=[task_name])
    }
    members = [(config, split, seed + 1000 * split) for config in configs for split in range(dataset.num_splits)]
    members = [member for member in members if member not in done]
    if not members:
        return
    training, runs = train_members(dataset, members, placement=placement)
    lines = []
    for number, run in enumerate(runs):
        trained = training.members.network(number)
        assert isinstance(trained, StationaryNetwork)
        untrained = place(run.config.build(dataset, run.seed), placement)
        seen = _look_inside(untrained, trained, task, dataset, run.split, placement)
        lines.append({"experiment": "depth", "dataset": task_name, **run.to_record(), **seen})
    environment = describe_environment(placement.device)
    append_lines(path, [line | environment for line in lines], DEPTH_LINES)


def _look_inside(
    untrained: nn.Module,
    trained: StationaryNetwork,
    task: DepthTask,
    dataset: NodeDataset,
    split: int,
    placement: Placement,
) -> dict[str, Any]:
    """Return norms by layer before and after training, the largest root of c, and the accuracy by quarter of chains."""
    assert isinstance(untrained, StationaryNetwork)
    inputs = (as_input(dataset, placement), dataset.graph)
    classes = Classification(torch.as_tensor(dataset.labels)).to(placement.device, placement.dtype)
    mask = torch.as_tensor(dataset.training_masks[split], device=placement.device)
    seen: dict[str, Any] = {
        "untrained": asdict(measure_norms(untrained, inputs, classes, mask)),
        "trained": asdict(measure_norms(trained, inputs, classes, mask)),
    }
    with torch.no_grad():
        seen["max_root_modulus"] = largest_root_modulus(trained.integrate(*inputs).coefficients)
        is_right = trained(*inputs).argmax(dim=-1).cpu().numpy() == dataset.labels
    if task.quarters is not None:
        quarters, is_test = task.quarters(dataset), dataset.test_masks[split]
        seen["test_accuracy_by_quarter"] = {
            str(quarter): float(is_right[is_test & (quarters == quarter)].mean())
            for quarter in np.unique(quarters[is_test])
        }
    return seen


def choose_lines(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, System], list[Mapping[str, Any]]]:
    """Return, by task and system, the lines of the configuration with the highest mean validation accuracy.

    Only current configurations of the tasks count, and only those with as many splits as any of them has.
    """
    chosen: dict[tuple[str, System], list[Mapping[str, Any]]] = {}
    for name, task in TASKS.items():
        for system in SYSTEMS:
            by_config: dict[AnyConfig, list[Mapping[str, Any]]] = {config: [] for config in task.configs(system)}
            for line in lines:
                if (line["dataset"], line["system"]) == (name, system):
                    config = config_from_record(line["configuration"])
                    by_config.get(config, []).append(line)
            most = max(len(found) for found in by_config.values())
            if most:
                finished = [found for found in by_config.values() if len(found) == most]
                chosen[name, system] = max(finished, key=_mean_validation_accuracy)
    return chosen


def _mean_validation_accuracy(lines: Sequence[Mapping[str, Any]]) -> float:
    return float(np.mean([line["validation_accuracy"] for line in lines]))
