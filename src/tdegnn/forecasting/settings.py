"""The settings of a `Forecaster`: what they mean, their defaults, and the networks they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, get_args

from sklearn.base import BaseEstimator

from tdegnn.core.rules import COEFFICIENTS, RULE_OF_SYSTEM, SYSTEMS, System
from tdegnn.data.panel import Panel
from tdegnn.errors import LARGEST_VALUE, Argument, InputError, check_count, check_count_or_auto, check_finite
from tdegnn.forecasting.intervals import INTERVALS, check_intervals, fewest_residuals
from tdegnn.forecasting.linear_skip import SKIPS, fits_by_node, is_solved, make_skip
from tdegnn.nets.physical_series import PhysicalSeriesNetwork
from tdegnn.nets.series_network import SeriesSizes
from tdegnn.nets.temporal import TemporalNetwork
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Family, PartLike, draw_network, parts_from_record, parts_to_record
from tdegnn.training.devices import DeviceName, Precision
from tdegnn.training.members import GroupDescent, GroupedAdam
from tdegnn.training.order_choice import AUTO, USUAL_ORDER, ChosenOrder, Order, order_of_series

DEFAULT_SYSTEM: System = "TDE-GNN_D"
States = Literal["latent", "physical"]
# The parts of a forecaster that a user may exchange, by the argument that takes them.
FAMILIES: dict[str, Family] = {family.noun: family for family in (COEFFICIENTS, OPERATORS, SKIPS, INTERVALS)}


@dataclass(kw_only=True, repr=False, eq=False)
class ForecasterSettings(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """The settings of a forecaster.

    Parts (`coefficients`, `operator`, `skip`, `intervals`) are given by name, as a class of your own, or as a
    `tdegnn.parts.Part` of these with settings. All but `intervals` may also be objects, which are copied. Weights are
    drawn anew for each network. An object without `reset_parameters` keeps those it has, so that all networks start
    with them.

    Attributes:
        system: A short name for a rule that gives c: `"DE-GNN"` is c = [1], `"TDE-GNN_D"` a learned vector (the
            default), `"TDE-GNN_A"` attention behind a gate, `"TDE-GNN_S"` a learned vector that is always stable.
        coefficients: The rule that gives c, in place of `system`: a name such as `"attention"`, the paper's, or your
            own `TemporalCoefficients`.
        operator: The spatial term s: a name such as `"diffusion"`, or your own `SpatialOperator`. If None, one that
            sees the features of the whole window, or, on physical states, one with a hidden layer.
        skip: The forecast that is added to that of the layers: `"none"`, `"linear"`, `"by-node"` (linear, with weights
            per node as far as they help on the held-out steps), or your own module `skip(frames, graph) -> forecast`,
            which learns as embeddings do. If None, `"by-node"` if that fits into memory, else `"linear"`.
        intervals: How intervals are learned: `"auto"` chooses by the held-out steps, `"conformal"` (fixed widths),
            `"normalized"` (wide where forecasts are difficult), `"counts"`, `"adaptive"` (they follow newer steps), or
            your own `Intervals`.
        window: Number of steps a forecast sees. If None, chosen on the held-out steps.
        horizon: Number of steps that are forecast at once. `predict` goes further by forecasting from its forecasts.
        order: Number of frames that become states, at most the window. `"auto"` takes the order in time of the series
            themselves, as `tdegnn.find_order` finds it (`order_` says which, `order_choice_` why). Rules of one order
            only, such as c = [1], keep theirs.
        season: Length of a season in steps. If None, seasons follow from the dates.
        known: Names of channels whose future values `predict` will be given.
        lowest: The lowest possible value: no forecast and no interval goes below. 0 for counts.
        states: What c combines: `"latent"` states, or `"physical"` ones, the observed frames themselves. Then c can be
            read: `explain` describes the data. See `Forecaster.physical` for suitable settings.
        hidden_channels: Channels of a state. On physical states, hidden channels of the spatial term.
        num_layers: Number of layers.
        step_size: h.
        dropout: Share of states that is dropped in training.
        learning_rate: How fast all weights but those of c learn.
        weight_decay: How strongly they are pulled to zero.
        c_learning_rate: How fast c learns.
        c_weight_decay: How strongly c is pulled to forward Euler.
        num_members: Number of networks, each with its own seed. Their mean is the forecast.
        num_steps: Maximum number of optimizer steps.
        validate_every: Steps between two validations on the held-out windows.
        patience: Training ends when the held-out error has not improved for this many steps. If None, it ends after
            `num_steps`.
        batch_size: Windows per step. If None, chosen so that a step takes a few milliseconds.
        coverage: Share of the observations that intervals should contain.
        seed: Seed of weights, dropout and the order of windows.
        device: `"auto"`, `"cpu"` or `"cuda"`.
        precision: `"32-true"` or `"64-true"`, for numbers of 32 or 64 bits.
    """

    system: System | None = None
    coefficients: PartLike | None = None
    operator: PartLike | None = None
    skip: PartLike | None = None
    intervals: PartLike = "auto"
    window: int | None = None
    horizon: int = 1
    order: Order = 4
    season: float | None = None
    known: Sequence[str] = ()
    lowest: float | None = None
    states: States = "latent"
    hidden_channels: int = 32
    num_layers: int = 2
    step_size: float = 1.0
    dropout: float = 0.3
    learning_rate: float = 0.003
    weight_decay: float = 0.01
    c_learning_rate: float = 0.001
    c_weight_decay: float = 0.01
    num_members: int = 3
    num_steps: int = 300
    validate_every: int = 10
    patience: int | None = 100
    batch_size: int | None = None
    coverage: float = 0.9
    seed: int = 0
    device: DeviceName = "auto"
    precision: Precision = "32-true"

    @classmethod
    def physical(cls, order: Order = 2, **settings: Any) -> Self:
        """Return a forecaster whose c can be read: on the observed frames, without decay, in 64 bits, to convergence.

        Args:
            order: Number of frames that c weighs, or `"auto"`.
            settings: Other settings. `step_size` is the time between two frames.
        """
        chosen: dict[str, Any] = dict(
            states="physical",
            window=USUAL_ORDER if order == AUTO else max(order, 2),
            skip="none",
            learning_rate=0.01,
            weight_decay=0.0,
            c_learning_rate=0.01,
            c_weight_decay=0.0,
            num_members=1,
            num_steps=1500,
            validate_every=50,
            patience=None,
            precision="64-true",
        )
        return cls(order=order, **chosen | settings)

    def check_settings(self) -> None:
        """Raise an `InputError` for a setting that is wrong whatever the data, and that no network checks."""
        if self.system is not None and self.coefficients is not None:
            text = "Expected system or coefficients, got both. A system is a short name for a rule: leave "
            raise InputError(text, Argument("system"), " out.")
        for name, family in FAMILIES.items():
            if getattr(self, name) is not None:
                family.check(getattr(self, name))
        check_intervals(self.intervals)
        check_count_or_auto(order=self.order)
        check_count(
            horizon=self.horizon,
            num_members=self.num_members,
            num_steps=self.num_steps,
            validate_every=self.validate_every,
            patience=1 if self.patience is None else self.patience,
            batch_size=1 if self.batch_size is None else self.batch_size,
        )
        check_count(minimum=0, seed=self.seed)
        self.check_lowest()
        if self.season is not None:
            check_finite(season=self.season)
        for name in ("learning_rate", "weight_decay", "c_learning_rate", "c_weight_decay"):
            check_finite(**{name: getattr(self, name)})
            if getattr(self, name) < 0:
                raise InputError(f"Expected {name} to be at least 0, got {getattr(self, name)}.")
        fewest_residuals(self.coverage)  # refuses a coverage outside of 0 to 1

    def check_lowest(self) -> None:
        """Raise an `InputError` for a lowest value that no forecast could have."""
        if self.lowest is not None:
            check_finite(lowest=self.lowest)
            if abs(self.lowest) > LARGEST_VALUE:
                raise InputError(f"Expected lowest to be at most {LARGEST_VALUE:g} in size, got {self.lowest}.")

    def choose_order(self, panel: Panel, window: int) -> ChosenOrder:
        """Return the length of the history, given or found, on the training steps of a panel."""
        only = self.network_config(1, SeriesSizes(window, self.horizon, panel.num_nodes)).only_order(panel.num_targets)
        if only is not None:
            return ChosenOrder(only)
        if self.order == AUTO:
            return order_of_series(panel, window)
        if self.order > window:
            reason = f"An order of {self.order} was asked for, but a window has {window} steps: it is {window}."
            return ChosenOrder(window, reason)
        return ChosenOrder(self.order)

    def network_config(self, order: int, sizes: SeriesSizes) -> SeriesConfig:
        """Return the settings of the networks, with a history of this length, for a task of these sizes."""
        groups = GroupDescent(self.learning_rate, self.weight_decay)
        return SeriesConfig(
            system=self.system or DEFAULT_SYSTEM,
            coefficients=self.coefficients,
            operator=self.operator,
            hidden_channels=self.hidden_channels,
            num_layers=self.num_layers,
            order=order,
            step_size=self.step_size,
            dropout=self.dropout,
            skip=("by-node" if fits_by_node(sizes) else "linear") if self.skip is None else self.skip,
            embedding=groups,
            temporal=GroupDescent(self.c_learning_rate, self.c_weight_decay),
            spatial=groups,
            num_steps=self.num_steps,
            batch_size=self.batch_size,
            states=self.states,
        )

    def to_record(self) -> dict[str, Any]:
        """Return all settings, as a run folder stores them."""
        return parts_to_record(FAMILIES, self.get_params(deep=False) | {"known": list(self.known)})

    @classmethod
    def from_record(cls, record: Mapping[str, Any], **given: PartLike) -> Self:
        """Return the settings that `to_record` of this or an earlier version wrote.

        Args:
            record: The settings of a run folder.
            given: The user's own parts, by argument: code is never imported by a name in a folder.
        """
        settings = parts_from_record(FAMILIES, upgrade_settings(record), given)
        settings["known"] = tuple(settings["known"])
        if settings.get("coefficients") is not None:
            settings["system"] = None  # an earlier version had both
        return cls(**settings)


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

    @property
    def shape(self) -> tuple[Any, ...]:
        """The settings that configurations must share to be trained in one batch."""
        parts = (self.system, self.coefficients, self.operator, self.skip, self.states)
        return (*parts, self.hidden_channels, self.num_layers, self.order, self.num_steps, self.batch_size)

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns."""
        skip = self.linear if is_solved(self.skip) else self.embedding
        return GroupedAdam(self.embedding, self.temporal, self.spatial, self.averaging, skip)

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

    def build(self, sizes: SeriesSizes, seed: int) -> TemporalNetwork | PhysicalSeriesNetwork:
        """Return a network of these sizes, its weights drawn from the seed."""
        if self.states not in get_args(States):
            raise InputError(f"Expected states to be one of {', '.join(get_args(States))}, got {self.states!r}.")
        return draw_network(lambda: self._make(sizes, seed), seed)

    def _make(self, sizes: SeriesSizes, seed: int) -> TemporalNetwork | PhysicalSeriesNetwork:
        known = self._sizes(sizes.num_targets, sizes.num_nodes)
        coefficients = COEFFICIENTS.make(self.rule, **known)
        operator = None if self.operator is None else OPERATORS.make(self.operator, **known)
        if self.states == "physical":
            return PhysicalSeriesNetwork(
                sizes, self.hidden_channels, coefficients, operator=operator, step_size=self.step_size, seed=seed
            )
        return TemporalNetwork(
            sizes,
            self.hidden_channels,
            self.num_layers,
            coefficients,
            operator=operator,
            step_size=self.step_size,
            skip=make_skip(self.skip, sizes, **known),
            dropout=self.dropout,
            seed=seed,
        )

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
        parts = {name: getattr(self, name) for name in ("coefficients", "operator", "skip")}
        kept = {name: FAMILIES[name].to_record(part) for name, part in parts.items() if part is not None}
        return {name: value for name, value in asdict(self).items() if name not in parts} | kept


def upgrade_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a run folder or a result line of any version, as this version writes them.

    Earlier versions had `attention` ("plain" or "gated") in addition to the system, spelled `by-node` with a space, and
    had no custom parts.
    """
    upgraded = {name: value for name, value in settings.items() if name != "attention"}
    if upgraded.get("skip") == "by node":
        upgraded["skip"] = "by-node"
    if settings.get("system") == "TDE-GNN_A" and settings.get("attention") == "plain":
        upgraded["coefficients"] = "attention"
    return upgraded
