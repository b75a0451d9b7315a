"""The settings of a network for series: its parts, its sizes, how it learns; and the network they make.

Configurations that make networks of one `shape` can be trained together (`training/members.py`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from tdegnn.core.rules import COEFFICIENTS, RULE_OF_SYSTEM, SYSTEMS, System
from tdegnn.errors import InputError, check_choice
from tdegnn.forecasting.linear_skip import SKIPS, is_solved, make_skip
from tdegnn.nets.physical_series import PhysicalSeriesNetwork
from tdegnn.nets.readouts import READOUTS
from tdegnn.nets.series_network import SeriesSizes
from tdegnn.nets.state_norms import STATE_NORMS
from tdegnn.nets.temporal import TemporalNetwork
from tdegnn.nets.window_network import WindowNetwork
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Family, PartLike, PartRecord, draw_network
from tdegnn.training.members import OPTIMIZERS, GroupDescent, GroupedAdam, OptimizerName
from tdegnn.training.schedules import ScheduleName

DEFAULT_SYSTEM: System = "TDE-GNN_D"
States = Literal["windows", "latent", "physical"]
ForecastNetwork: TypeAlias = WindowNetwork | TemporalNetwork | PhysicalSeriesNetwork
# The parts of a network, by the setting that takes them.
NETWORK_PARTS: dict[str, Family] = {
    family.noun: family for family in (COEFFICIENTS, OPERATORS, STATE_NORMS, READOUTS, SKIPS)
}
# Other states have an operator of their own, which their network makes.
USUAL_OPERATORS: dict[States, str] = {"windows": "walks"}
# Settings that result lines of earlier versions do not have.
ADDED_SETTINGS = ("state_norm", "readout", "identity_channels", "optimizer", "schedule")


@dataclass(frozen=True)
class SeriesConfig:
    """Everything that determines a training, except data, windows and seed.

    Attributes that are not listed, and parts, are as in `ForecasterSettings`.

    Attributes:
        system: Name of the row in a table of results. If `coefficients` is None, also the short name of the rule for c.
        order: Number of frames that become states, at most the window. Rules of one order only keep theirs.
        skip: The forecast that is added to that of the layers.
        embedding: How embeddings, the readout and the user's own skip learn.
        temporal: How c learns.
        spatial: How the spatial term learns.
        linear: How a linear skip learns after it was solved (`linear_skip.py`). By default, it does not.
        batch_size: Windows per step. If None, all.
        states: What c combines: latent states of the network, or the observed frames themselves. With the latter there
            are no layers, no skip and no dropout, and c can be read.
        averaging: Weight of the past in the running mean of the weights. If 0, the last weights are used.
        coefficients: The rule that gives c. If None, that of the system.
        operator: The spatial term. If None, the usual one of the states.
        state_norm: Applied to each new state. If None, states stay as they are.
        readout: From the states to the forecasts.
        identity_channels: Channels of a learned vector of each node. If 0, nodes have none.
        optimizer: `"adam"` or `"adamw"`.
        schedule: How learning rates change over `num_steps` steps.
    """

    system: str = DEFAULT_SYSTEM
    hidden_channels: int = 32
    num_layers: int = 2
    order: int = 4
    step_size: float = 1.0
    dropout: float = 0.3
    skip: PartLike = "linear"
    embedding: GroupDescent = field(default_factory=lambda: GroupDescent(0.003, 0.01))
    temporal: GroupDescent = field(default_factory=lambda: GroupDescent(0.001, 0.01))
    spatial: GroupDescent = field(default_factory=lambda: GroupDescent(0.003, 0.01))
    linear: GroupDescent = field(default_factory=lambda: GroupDescent(0.0))
    num_steps: int = 300
    batch_size: int | None = None
    states: States = "latent"
    averaging: float = 0.0
    coefficients: PartLike | None = None
    operator: PartLike | None = None
    state_norm: PartLike | None = None
    readout: PartLike = "last"
    identity_channels: int = 0
    optimizer: OptimizerName = "adam"
    schedule: ScheduleName = "constant"

    @property
    def shape(self) -> tuple[Any, ...]:
        """The settings that configurations must share to be trained in one batch."""
        parts = (self.system, self.coefficients, self.operator, self.skip, self.states, self.state_norm, self.readout)
        sizes = (self.hidden_channels, self.identity_channels, self.num_layers, self.order)
        return (*parts, *sizes, self.num_steps, self.batch_size, self.optimizer, self.schedule)

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns."""
        skip = self.linear if is_solved(self.skip) else self.embedding
        return OPTIMIZERS[self.optimizer](self.embedding, self.temporal, self.spatial, self.averaging, skip)

    @property
    def rule(self) -> PartLike:
        """The rule for c: the one given, or that of the system."""
        if self.coefficients is not None:
            return self.coefficients
        if self.system not in RULE_OF_SYSTEM:
            raise InputError(f"Expected system to be one of {', '.join(SYSTEMS)}, got {self.system!r}.")
        return RULE_OF_SYSTEM[self.system]

    def only_order(self, num_targets: int) -> int | None:
        """Return the order of a rule that has only one, such as c = [1]. None if the rule may have any."""
        order: int | None = COEFFICIENTS.own_size(self.rule, "order", **self._sizes(num_targets, 1))
        return order

    def build(self, sizes: SeriesSizes, seed: int) -> ForecastNetwork:
        """Return a network of these sizes, its weights drawn from the seed."""
        check_choice(get_args(States), states=self.states)
        return draw_network(lambda: self._make(sizes, seed), seed)

    def _make(self, sizes: SeriesSizes, seed: int) -> ForecastNetwork:
        known = self._sizes(sizes.num_targets, sizes.num_nodes)
        coefficients = COEFFICIENTS.make(self.rule, **known)
        given = self._operator
        operator = None if given is None else OPERATORS.make(given, **known)
        if self.states == "physical":
            return PhysicalSeriesNetwork(
                sizes, self.hidden_channels, coefficients, operator=operator, step_size=self.step_size, seed=seed
            )
        kind: Any = WindowNetwork if self.states == "windows" else TemporalNetwork
        known["num_outputs"] = sizes.horizon * sizes.num_targets
        network: ForecastNetwork = kind(
            sizes,
            self.hidden_channels,
            self.num_layers,
            coefficients,
            operator=operator,
            identity_channels=self.identity_channels,
            state_norm=None if self.state_norm is None else STATE_NORMS.make(self.state_norm, **known),
            readout=READOUTS.make(self.readout, **known),
            step_size=self.step_size,
            skip=make_skip(self.skip, sizes, period=sizes.period, **known),
            dropout=self.dropout,
            seed=seed,
        )
        return network

    @property
    def _operator(self) -> PartLike | None:
        """The spatial term: the one given, or the usual one of the states. None if their network makes it."""
        return USUAL_OPERATORS.get(self.states) if self.operator is None else self.operator

    def part_records(self) -> dict[str, PartRecord | None]:
        """Return the parts as a run folder keeps them, by the setting that takes them. None for no part."""
        parts = {name: getattr(self, name) for name in NETWORK_PARTS}
        parts |= {"coefficients": self.rule, "operator": self._operator}
        return {name: None if part is None else NETWORK_PARTS[name].to_record(part) for name, part in parts.items()}

    def _sizes(self, num_targets: int, num_nodes: int) -> dict[str, Any]:
        """The sizes of parts. On physical states, a layer is an observed step, and there is one at a time."""
        is_physical = self.states == "physical"
        return {
            "channels": num_targets if is_physical else self.hidden_channels,
            "hidden_channels": self.hidden_channels,
            "num_layers": 1 if is_physical else self.num_layers,
            "step_size": self.step_size,
            "order": self.order,
            "num_nodes": num_nodes,
        }

    def to_record(self) -> dict[str, Any]:
        """Return the settings for a result line. Parts that are not given are left out."""
        parts = {name: getattr(self, name) for name in NETWORK_PARTS}
        kept = {name: NETWORK_PARTS[name].to_record(part) for name, part in parts.items() if part is not None}
        # Lines of earlier versions do not have these settings: they say the same as long as nobody changes them.
        added = {name: getattr(SeriesConfig, name) for name in ADDED_SETTINGS}
        plain = {name: value for name, value in asdict(self).items() if name not in parts}
        return {name: value for name, value in (plain | kept).items() if value != added.get(name, ...)}
