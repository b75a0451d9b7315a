"""The search space of a sweep: the paper's ranges, further choices, and the configuration of a trial.

The space `families` is in `family_space.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from tdegnn.core.rules import System
from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import InputError, check_count
from tdegnn.experiments.drawn_configs import Range
from tdegnn.experiments.family_space import family_config, family_ranges, family_shapes
from tdegnn.experiments.recipe_files import GROUPS, config_from_record
from tdegnn.nodes.settings import FAMILIES, NodeConfig
from tdegnn.parts import PartLike

Space = Literal["paper", "wide", "families"]

# Paper: the table of hyperparameter ranges. Lowest, highest, and whether the scale is logarithmic.
RANGES: dict[str, Range] = {
    "embedding_learning_rate": (1e-4, 1e-1, True),
    "temporal_learning_rate": (1e-4, 1e-1, True),
    "spatial_learning_rate": (1e-4, 1e-1, True),
    "embedding_weight_decay": (0.0, 0.01, False),
    "temporal_weight_decay": (0.0, 0.01, False),
    "spatial_weight_decay": (0.0, 0.01, False),
    "outer_dropout": (0.0, 0.9, False),
    "hidden_dropout": (0.0, 0.9, False),
    "step_size": (0.001, 1.0, False),
}
# Settings that determine the shape of a network, so they are the same for all trials of a batch.
SHAPES: dict[str, dict[str, tuple[Any, ...]]] = {
    "paper": {"batch_norm": (True, False), "hidden_channels": (8, 16, 32, 64, 128, 256)},
    # Deviation: settings that the paper does not vary, and that decide some datasets.
    "wide": {
        "batch_norm": (True, False),
        "hidden_channels": (8, 16, 32, 64, 128, 256),
        "num_layers": (2, 4, 8),
        "adjacency_features": (True, False),
        "normalized_features": (True, False),
        "initial_states": ("mapped", "newest-unmapped"),
        "operator": ("diffusion", "near-identity"),
        "coefficients": ("attention", "gated-attention"),
    },
}


@dataclass(frozen=True)
class SweepSettings:
    """The settings of a sweep.

    Attributes:
        system: The system whose settings are searched.
        num_splits: Number of splits on which trials are evaluated.
        num_steps: Optimizer steps in a trial that is not stopped by halving.
        space: The paper's ranges, more of them, or the families of networks in `best_searches.toml`.
        seed: Seed of the trials, the weights and the dropout.
        coefficients: The rule for c in all trials: a name, a class or an object. If None, that of the system.
        operator: The spatial term in all trials. If None, the sweep chooses. Families have their own.
    """

    system: System = "TDE-GNN_D"
    num_splits: int = 3
    num_steps: int = 300
    space: Space = "paper"
    seed: int = 0
    coefficients: PartLike = None
    operator: PartLike = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("system", self.system, get_args(System)),
            ("space", self.space, get_args(Space)),
        ):
            if value not in known:
                raise InputError(f"Expected {name} to be one of {', '.join(known)}, got {value!r}. Choose one of them.")
        check_count(num_splits=self.num_splits, num_steps=self.num_steps)
        for name, given in self._parts.items():
            FAMILIES[name].check(given)
        if self.operator is not None:
            NodeConfig(operator=self.operator).check_operator()
        if self.space == "families" and self.operator is not None:
            raise InputError(
                "Expected no operator with the space families, each of which has its own, got "
                f"{FAMILIES['operator'].name_of(self.operator)!r}. Leave out one of them."
            )

    @property
    def _parts(self) -> dict[str, PartLike]:
        given = {"coefficients": self.coefficients, "operator": self.operator}
        return {name: part for name, part in given.items() if part is not None}

    def check_splits(self, dataset: NodeDataset) -> None:
        """Raise an `InputError` if the dataset has fewer splits."""
        if self.num_splits > dataset.num_splits:
            raise InputError(
                f"Expected at most {dataset.num_splits} splits, the number in {dataset.name}, got {self.num_splits}."
            )

    def shapes(self, dataset: NodeDataset) -> dict[str, tuple[Any, ...]]:
        """Return the choices that determine the shape of a network."""
        if self.space == "families":
            return family_shapes(dataset)
        fixed = set(self._parts)
        if self.operator is not None:
            fixed.add("batch_norm")  # it is a setting of the operator
        if self.system != "TDE-GNN_A":
            fixed.add("coefficients")  # the other systems have one rule
        if dataset.has_negative_features:
            fixed.add("normalized_features")  # they cannot be scaled to sum to one
        return {name: choices for name, choices in SHAPES[self.space].items() if name not in fixed}

    @property
    def ranges(self) -> dict[str, Range]:
        """The ranges of what else trials draw."""
        return family_ranges() if self.space == "families" else RANGES

    def config(self, params: Mapping[str, Any]) -> NodeConfig:
        """Return the configuration of a trial."""
        if self.space == "families":
            return replace(family_config(self.system, params), num_steps=self.num_steps, **self._parts)
        chosen = {name: value for name, value in params.items() if not name.startswith(GROUPS)}
        for group in GROUPS:
            rates = ("learning_rate", "weight_decay")
            chosen[group] = {rate: params[f"{group}_{rate}"] for rate in rates}
        config = config_from_record({"system": self.system, "num_steps": self.num_steps, **chosen})
        assert isinstance(config, NodeConfig)  # our systems are
        # Paper: the order is the number of layers.
        return replace(config, order=1 if self.system == "DE-GNN" else config.num_layers, **self._parts)

    def to_record(self) -> dict[str, Any]:
        """Return the settings as a study stores them. Parts that are not given are left out."""
        parts = {name: FAMILIES[name].to_record(given) for name, given in self._parts.items()}
        plain = replace(self, coefficients=None, operator=None)
        return {name: value for name, value in asdict(plain).items() if value is not None} | parts
