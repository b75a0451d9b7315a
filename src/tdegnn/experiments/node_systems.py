"""Node classification, system by system: many configurations, splits and seeds trained in one batch.

Configurations are in `nodes/settings.py`. Nothing is chosen here: `table1.py` chooses, by validation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import InputError
from tdegnn.nodes.settings import NodeConfig
from tdegnn.rivals.nodes.config import RivalConfig
from tdegnn.training.devices import Placement
from tdegnn.training.loop import Look, fit
from tdegnn.training.node_training import NodeTraining

AnyConfig: TypeAlias = NodeConfig | RivalConfig


@dataclass(frozen=True)
class NodeRun:
    """The result of one training.

    Attributes:
        config: Its configuration.
        split: Which split.
        seed: Seed of weights and dropout.
        validation_accuracy: The accuracy on validation at the chosen step. Unless chosen by the loss, the highest.
        test_accuracy: The accuracy on test at that step.
        best_step: That step.
        is_diverged: Whether the scores stopped being numbers, or the loss exploded, after that step.
    """

    config: AnyConfig
    split: int
    seed: int
    validation_accuracy: float
    test_accuracy: float
    best_step: int
    is_diverged: bool

    def to_record(self) -> dict[str, Any]:
        """Return a result line."""
        return {
            "system": self.config.system,
            "split": self.split,
            "seed": self.seed,
            "protocol": "honest",
            "validation_accuracy": self.validation_accuracy,
            "test_accuracy": self.test_accuracy,
            "configuration": self.config.to_record(),
            "epoch": self.best_step,
            "is_diverged": self.is_diverged,
        }


class PreparedNodes:
    """A dataset as configurations ask for it. Those that ask for the same share it, and what is kept for its graph.

    Args:
        dataset: The nodes, as loaded.
    """

    def __init__(self, dataset: NodeDataset) -> None:
        self.dataset = dataset
        self._by_request: dict[tuple[Any, ...], NodeDataset] = {}
        self.splits = range(dataset.num_splits)

    def for_config(self, config: AnyConfig) -> NodeDataset:
        """Return the nodes as a configuration prepares them."""
        has_rows = isinstance(config, NodeConfig) and config.adjacency_features
        request = (config.direction, config.self_loops, config.normalized_features, has_rows)
        if request not in self._by_request:
            self._by_request[request] = config.prepare(self.dataset)
        return self._by_request[request]


def train_together(
    dataset: NodeDataset,
    configs: Sequence[AnyConfig],
    splits: Sequence[int],
    *,
    seed: int = 0,
    placement: Placement | None = None,
    validate_every: int = 3,
) -> list[NodeRun]:
    """Train every configuration on every split, all in one batch.

    Args:
        dataset: The nodes, as loaded.
        configs: Configurations of one shape.
        splits: Which of the dataset's splits.
        seed: Seed of weights and dropout, the same for all configurations on a split, so that they can be compared.
        placement: Where to compute. Default: on the CPU.
        validate_every: Steps between two validations.
    """
    if len({config.shape for config in configs}) != 1:
        raise InputError("Expected configurations of one shape, got several. Train them shape by shape.")
    members = [(config, split, seed + 1000 * split) for config in configs for split in splits]
    return train_members(configs[0].prepare(dataset), members, placement=placement, validate_every=validate_every)[1]


def train_members(
    prepared: NodeDataset,
    members: Sequence[tuple[AnyConfig, int, int]],
    *,
    placement: Placement | None = None,
    validate_every: int = 3,
    on_look: Callable[[Look], None] | None = None,
) -> tuple[NodeTraining, list[NodeRun]]:
    """Train members of one shape in one batch; return the training, which has their networks, and their results.

    Args:
        prepared: The nodes, as their configurations prepare them.
        members: Configuration, split and seed of each.
        placement: Where to compute. Default: on the CPU.
        validate_every: Steps between two validations.
        on_look: Called with the result of each validation.
    """
    regime = members[0][0]
    training = NodeTraining(
        [config.build(prepared, member_seed) for config, _, member_seed in members],
        [config.descent for config, _, _ in members],
        prepared,
        [split for _, split, _ in members],
        placement,
        regime.select_by,
    )
    result = fit(
        training,
        num_steps=regime.num_steps,
        validate_every=validate_every,
        patience=regime.patience,
        on_look=on_look,
    )
    outcomes = zip(
        members,
        training.validation_accuracy.tolist(),
        training.test_accuracy.tolist(),
        result.best_steps.tolist(),
        result.is_diverged.tolist(),
        strict=True,
    )
    return training, [NodeRun(*member, *outcome) for member, *outcome in outcomes]
