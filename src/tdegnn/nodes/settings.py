"""The settings of a node network in full: its parts, its sizes, how it learns; and the network they make.

Configurations that make networks of one `shape` can be trained together (`training/members.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tdegnn.batches.registry import BATCHES
from tdegnn.core.operator import SpatialOperator
from tdegnn.core.rules import COEFFICIENTS, RULE_OF_SYSTEM, System
from tdegnn.core.segments import SegmentLength
from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import InputError, check_choice
from tdegnn.nets.input_maps import INPUT_MAPS
from tdegnn.nets.node_skips import SKIPS
from tdegnn.nets.readouts import READOUTS
from tdegnn.nets.state_norms import STATE_NORMS
from tdegnn.nets.stationary import INITIAL_STATES, StationaryNetwork
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import (
    Family,
    Part,
    PartLike,
    PartRecord,
    draw_network,
    drawing_weights,
    parts_must_fit,
    parts_to_record,
)
from tdegnn.training.members import GroupDescent, GroupedAdam
from tdegnn.training.node_training import TrainingRegime

# The settings that are parts, and where each is found by name.
FAMILIES: dict[str, Family] = {
    "coefficients": COEFFICIENTS,
    "operator": OPERATORS,
    "initial_states": INITIAL_STATES,
    "input_map": INPUT_MAPS,
    "state_norm": STATE_NORMS,
    "readout": READOUTS,
    "skip": SKIPS,
}
# The settings of an estimator that are parts: those of its network, and how it is trained.
ESTIMATOR_FAMILIES = FAMILIES | {"batches": BATCHES}
# Paper: the attention of TDE-GNN_A has no gate.
PAPER_RULES: dict[System, str] = {**RULE_OF_SYSTEM, "TDE-GNN_A": "attention"}


@dataclass(frozen=True)
class NodeConfig(TrainingRegime):
    """Everything that determines a training, except data, split and seed. The defaults are those of the paper.

    See also `TrainingRegime`.

    Attributes:
        system: Name of the network in tables. If `coefficients` is None, it also names the rule for c.
        hidden_channels: Channels of a state.
        num_layers: Number of layers.
        order: Length of the history, for rules that take one.
        coefficients: The rule for c. If None, the paper's rule of the system.
        operator: The spatial term.
        initial_states: From the embedding to the first states.
        adjacency_features: Whether rows of the adjacency matrix join the features.
        step_size: h.
        outer_dropout: Share of the input, and of what the readout reads, that is dropped in training.
        hidden_dropout: Share of the current state that is dropped before each layer in training.
        embedding: How all other parts learn: input map, initial states, state norm, readout and skip.
        temporal: How c learns.
        spatial: How the spatial term learns.
        averaging: Weight of the past in the running mean of the weights, see `GroupedAdam`.
        input_map: From the features to the embedding.
        state_norm: Applied to the new state after each layer. If None, states stay as they are.
        readout: From the states to the outputs.
        skip: Scores that are added to the outputs. If None, nothing is added.
        readout_dropout: Share of what the readout reads that is dropped in training. If None, `outer_dropout`.
    """

    system: str = "TDE-GNN_D"
    hidden_channels: int = 64
    num_layers: int = 8
    order: int = 8
    coefficients: PartLike = None
    operator: PartLike = "diffusion"
    initial_states: PartLike = "mapped"
    adjacency_features: bool = False
    step_size: float = 0.5
    outer_dropout: float = 0.5
    hidden_dropout: float = 0.5
    embedding: GroupDescent = field(default_factory=GroupDescent)
    temporal: GroupDescent = field(default_factory=GroupDescent)
    spatial: GroupDescent = field(default_factory=GroupDescent)
    averaging: float = 0.0
    input_map: PartLike = "linear"
    state_norm: PartLike = None
    readout: PartLike = "last"
    skip: PartLike = None
    readout_dropout: float | None = None

    @property
    def rule(self) -> PartLike:
        """The rule for c: the one given, or that of the system."""
        return rule_of(self.system, PAPER_RULES) if self.coefficients is None else self.coefficients

    @property
    def shape(self) -> tuple[Any, ...]:
        """The settings that configurations must share to be trained in one batch, but for fractions of the operator."""
        return (
            self.system,
            self.hidden_channels,
            self.num_layers,
            self.order,
            self.coefficients,
            _without_fractions(self.operator),
            self.initial_states,
            self.input_map,
            self.state_norm,
            self.readout,
            self.skip,
            self.readout_dropout is None,
            self.adjacency_features,
            *super().shape,
        )

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns."""
        return self.optimizer_kind(self.embedding, self.temporal, self.spatial, self.averaging, skip=self.embedding)

    def _join_features(self, dataset: NodeDataset) -> NodeDataset:
        return dataset.with_adjacency_features() if self.adjacency_features else dataset

    def build(self, dataset: NodeDataset, seed: int) -> StationaryNetwork:
        """Make a network for a prepared dataset, with weights drawn from the seed."""
        return self.build_network(dataset.num_features, dataset.num_classes, seed, dataset.num_nodes)

    def build_network(
        self,
        num_features: int,
        num_outputs: int,
        seed: int,
        num_nodes: int | None = None,
        segment_length: SegmentLength = None,
    ) -> StationaryNetwork:
        """Make a network with weights drawn from the seed.

        Args:
            num_features: Features per node.
            num_outputs: Outputs per node.
            seed: Seed of weights and dropout. Torch's global generator is left as it was.
            num_nodes: Number of nodes, for parts that keep something for each of them.
            segment_length: Layers per segment, see `integrate`. It is no setting of a configuration: it changes the
                memory of a training, and none of its numbers.
        """
        known = self._sizes | {"num_features": num_features, "num_outputs": num_outputs}
        known |= {} if num_nodes is None else {"num_nodes": num_nodes}

        def make() -> StationaryNetwork:
            coefficients = COEFFICIENTS.make(self.rule, order=self.order, **known)
            sizes = known | {"order": coefficients.order}
            others = {
                name: None if given is None else FAMILIES[name].make(given, **sizes)
                for name, given in self._other_parts.items()
            }
            return StationaryNetwork(
                num_features,
                num_outputs,
                self.hidden_channels,
                self.num_layers,
                coefficients,
                _for_nodes(OPERATORS.make(self.operator, **sizes)),
                **others,
                step_size=self.step_size,
                outer_dropout=self.outer_dropout,
                hidden_dropout=self.hidden_dropout,
                readout_dropout=self.readout_dropout,
                seed=seed,
                segment_length=segment_length,
            )

        return draw_network(make, seed)

    def check(self) -> None:
        """Raise an `InputError` for parts or sizes that make no network. Needs no data.

        Of a class of one's own, only the names of its settings are checked: it may need the data to be made.
        """
        parts = {"coefficients": self.rule, "operator": self.operator, **self._other_parts}
        given = {name: part for name, part in parts.items() if part is not None}
        for name, part in given.items():
            FAMILIES[name].check_settings(part)
        if not any(isinstance(record, dict) and "class" in record for record in self.part_records().values()):
            with parts_must_fit():
                self.build_network(num_features=1, num_outputs=2, seed=0, num_nodes=2)

    def check_operator(self) -> None:
        """Raise an `InputError` for an operator that refuses its settings, or is not for nodes. Needs no data."""
        some = {"num_features": 1, "num_outputs": 2, "num_nodes": 2, "order": self.order}
        with drawing_weights(0):
            _for_nodes(OPERATORS.make(self.operator, **self._sizes, **some))

    def only_order(self) -> int | None:
        """Return the order of a rule that has only one, such as c = [1]. None if the rule may have any."""
        order: int | None = COEFFICIENTS.own_size(self.rule, "order", **self._sizes)
        return order

    @property
    def is_for_its_nodes(self) -> bool:
        """Whether the network knows the nodes of its training one by one, and can predict no others."""
        parts = {"coefficients": self.rule, "operator": self.operator, **self._other_parts}
        given = {name: part for name, part in parts.items() if part is not None}
        return self.adjacency_features or any(FAMILIES[name].takes(part, "num_nodes") for name, part in given.items())

    @property
    def _other_parts(self) -> dict[str, PartLike]:
        """The parts besides c and s, as arguments of the network."""
        return {name: getattr(self, name) for name in FAMILIES if name not in ("coefficients", "operator")}

    @property
    def _sizes(self) -> dict[str, Any]:
        channels = {"channels": self.hidden_channels, "hidden_channels": self.hidden_channels}
        return {**channels, "num_layers": self.num_layers, "step_size": self.step_size}

    def part_records(self) -> dict[str, PartRecord | None]:
        """Return the parts as a run folder keeps them, by the setting that takes them. None for no part."""
        parts = {"coefficients": self.rule, "operator": self.operator, **self._other_parts}
        return {name: None if part is None else FAMILIES[name].to_record(part) for name, part in parts.items()}

    def to_record(self) -> dict[str, Any]:
        """Return the settings in types that JSON supports."""
        groups = {name: asdict(getattr(self, name)) for name in ("embedding", "temporal", "spatial")}
        return parts_to_record(FAMILIES, vars(self)) | groups


def _without_fractions(part: PartLike) -> PartLike:
    """Return a part without the settings that are fractions: members of a batch may differ in them."""
    if not isinstance(part, Part):
        return part
    return Part(part.kind, **{name: value for name, value in part.settings.items() if not isinstance(value, float)})


def _for_nodes(operator: SpatialOperator) -> SpatialOperator:
    """Return an operator that needs no past features. Raise an `InputError` for one that does."""
    if operator.takes_past_features:
        kinds = {name: OPERATORS.resolve(name).kind for name in OPERATORS.names}
        names = [name for name, kind in kinds.items() if not getattr(kind, "takes_past_features", False)]
        raise InputError(
            f"Expected an operator for nodes, such as {', '.join(names)}, got {type(operator).__name__}, which needs "
            "the features of past frames. It is for a Forecaster."
        )
    return operator


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
    if layer_maps is not None:
        check_choice(_OLD_OPERATORS, layer_maps=layer_maps)
    if attention is not None:
        check_choice(_OLD_RULES, attention=attention)
    if layer_maps is not None or has_norm is not None:
        name = settings.get("operator", _OLD_OPERATORS[layer_maps or "free"])
        settings["operator"] = {"name": name, "settings": {"batch_norm": True}} if has_norm else name
    if settings.get("initial_states") == "newest unmapped":
        settings["initial_states"] = "newest-unmapped"
    if attention is not None and settings["system"] == "TDE-GNN_A":
        rule = _OLD_RULES[attention]
        settings |= {"coefficients": rule} if rule != rules["TDE-GNN_A"] else {}
    return settings
