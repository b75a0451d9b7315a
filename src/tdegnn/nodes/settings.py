"""The settings of a node network in full: its parts, its sizes, how it learns; and the network they make.

Configurations that make networks of one `shape` can be trained together (`training/members.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tdegnn.core.rules import COEFFICIENTS, RULE_OF_SYSTEM, System
from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import InputError
from tdegnn.nets.stationary import INITIAL_STATES, StationaryNetwork
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Family, PartLike, draw_network, parts_to_record
from tdegnn.training.members import GroupDescent, GroupedAdam

# The settings that are parts, and where each is found by name.
FAMILIES: dict[str, Family] = {"coefficients": COEFFICIENTS, "operator": OPERATORS, "initial_states": INITIAL_STATES}
# Paper: the attention of TDE-GNN_A has no gate.
PAPER_RULES: dict[System, str] = {**RULE_OF_SYSTEM, "TDE-GNN_A": "attention"}


@dataclass(frozen=True)
class NodeConfig:
    """Everything that determines a training, except data, split and seed. The defaults are those of the paper.

    Attributes:
        system: Name of the network in tables. If `coefficients` is None, it also names the rule for c.
        hidden_channels: Channels of a state.
        num_layers: Number of layers.
        order: Length of the history, for rules that take one.
        coefficients: The rule for c. If None, the paper's rule of the system.
        operator: The spatial term.
        initial_states: From the embedding to the first states.
        adjacency_features: Whether rows of the adjacency matrix join the features.
        normalized_features: Whether the features of each node are scaled to sum to one.
        step_size: h.
        outer_dropout: Share of the input, and of the last state, that is dropped in training.
        hidden_dropout: Share of the current state that is dropped before each layer in training.
        embedding: How embedding, initial states and readout learn.
        temporal: How c learns.
        spatial: How the spatial term learns.
        num_steps: Maximum number of optimizer steps.
        averaging: Weight of the past in the running mean of the weights, see `GroupedAdam`.
    """

    system: str = "TDE-GNN_D"
    hidden_channels: int = 64
    num_layers: int = 8
    order: int = 8
    coefficients: PartLike = None
    operator: PartLike = "diffusion"
    initial_states: PartLike = "mapped"
    adjacency_features: bool = False
    normalized_features: bool = False
    step_size: float = 0.5
    outer_dropout: float = 0.5
    hidden_dropout: float = 0.5
    embedding: GroupDescent = field(default_factory=GroupDescent)
    temporal: GroupDescent = field(default_factory=GroupDescent)
    spatial: GroupDescent = field(default_factory=GroupDescent)
    num_steps: int = 300
    averaging: float = 0.0

    @property
    def rule(self) -> PartLike:
        """The rule for c: the one given, or that of the system."""
        return rule_of(self.system, PAPER_RULES) if self.coefficients is None else self.coefficients

    @property
    def shape(self) -> tuple[Any, ...]:
        """The settings that configurations must share to be trained in one batch."""
        return (
            self.system,
            self.hidden_channels,
            self.num_layers,
            self.order,
            self.coefficients,
            self.operator,
            self.initial_states,
            self.adjacency_features,
            self.normalized_features,
            self.num_steps,
        )

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns."""
        return GroupedAdam(self.embedding, self.temporal, self.spatial, self.averaging)

    def prepare(self, dataset: NodeDataset) -> NodeDataset:
        """Return the dataset with the features that this configuration asks for."""
        if self.normalized_features:
            dataset = dataset.with_normalized_features()
        return dataset.with_adjacency_features() if self.adjacency_features else dataset

    def build(self, dataset: NodeDataset, seed: int) -> StationaryNetwork:
        """Make a network for a prepared dataset, with weights drawn from the seed."""
        return self.build_network(dataset.num_features, dataset.num_classes, seed)

    def build_network(self, num_features: int, num_outputs: int, seed: int) -> StationaryNetwork:
        """Make a network with weights drawn from the seed.

        Args:
            num_features: Features per node.
            num_outputs: Outputs per node.
            seed: Seed of weights and dropout. Torch's global generator is left as it was.
        """

        def make() -> StationaryNetwork:
            coefficients = COEFFICIENTS.make(self.rule, order=self.order, **self._sizes)
            sizes = self._sizes | {"order": coefficients.order}
            return StationaryNetwork(
                num_features,
                num_outputs,
                self.hidden_channels,
                self.num_layers,
                coefficients,
                OPERATORS.make(self.operator, **sizes),
                initial_states=INITIAL_STATES.make(self.initial_states, **sizes),
                step_size=self.step_size,
                outer_dropout=self.outer_dropout,
                hidden_dropout=self.hidden_dropout,
                seed=seed,
            )

        return draw_network(make, seed)

    def only_order(self) -> int | None:
        """Return the order of a rule that has only one, such as c = [1]. None if the rule may have any."""
        order: int | None = COEFFICIENTS.own_size(self.rule, "order", **self._sizes)
        return order

    @property
    def _sizes(self) -> dict[str, Any]:
        return {"channels": self.hidden_channels, "num_layers": self.num_layers, "step_size": self.step_size}

    def to_record(self) -> dict[str, Any]:
        """Return the settings in types that JSON supports."""
        groups = {name: asdict(getattr(self, name)) for name in ("embedding", "temporal", "spatial")}
        return parts_to_record(FAMILIES, vars(self)) | groups


def rule_of(system: str, rules: Mapping[Any, str]) -> str:
    """Return the rule for c that the name of a system stands for."""
    if system not in rules:
        raise InputError(f"Expected system to be one of {', '.join(rules)}, got {system!r}.")
    return rules[system]


_OLD_OPERATORS = {"free": "diffusion", "near identity": "near-identity"}
_OLD_RULES = {"plain": "attention", "gated": "gated-attention"}


def upgrade_settings(record: Mapping[str, Any], rules: Mapping[Any, str] = PAPER_RULES) -> dict[str, Any]:
    """Return settings in their current form: with parts instead of words and switches.

    Records of earlier versions had `attention`, `layer_maps` and `batch_norm`, and the initial states
    `"newest unmapped"`. Records in the current form are returned unchanged.

    Args:
        record: Settings of a result line, a recipe, a trial or a run folder.
        rules: The rule that the name of a system alone stands for.
    """
    settings = dict(record)
    attention, layer_maps = settings.pop("attention", None), settings.pop("layer_maps", None)
    has_norm = settings.pop("batch_norm", None)
    if layer_maps is not None or has_norm is not None:
        name = settings.get("operator", _OLD_OPERATORS[layer_maps or "free"])
        settings["operator"] = {"name": name, "settings": {"batch_norm": True}} if has_norm else name
    if settings.get("initial_states") == "newest unmapped":
        settings["initial_states"] = "newest-unmapped"
    if attention is not None and settings["system"] == "TDE-GNN_A":
        rule = _OLD_RULES[attention]
        settings |= {"coefficients": rule} if rule != rules["TDE-GNN_A"] else {}
    return settings
