"""The settings of a `Forecaster`: what they mean, what they are without being said, and what they make of networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

import torch
from sklearn.base import BaseEstimator

from tdegnn.core.rules import Attention, System, check_choices, make_rule
from tdegnn.data.panel import Panel
from tdegnn.data.times.seasons import Season, seasons_of
from tdegnn.errors import InputError, check_count, check_finite
from tdegnn.forecasting.intervals import fewest_residuals
from tdegnn.forecasting.linear_skip import LinearSkip, fits_by_node
from tdegnn.nets.physical_series import PhysicalSeriesNetwork
from tdegnn.nets.series_network import SeriesSizes
from tdegnn.nets.temporal import TemporalNetwork
from tdegnn.training.devices import DeviceName, Precision
from tdegnn.training.members import GroupDescent, GroupedAdam
from tdegnn.training.order_choice import AUTO, USUAL_ORDER, Order, check_order

# Waves of a season that the user names; as many as tell its shape without following its noise.
NUM_WAVES = 3


@dataclass(kw_only=True, repr=False, eq=False)
class ForecasterSettings(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """What a user may say about a forecaster.

    Attributes:
        system: Which rule gives c: `"DE-GNN"` c = [1], `"TDE-GNN_D"` a learned vector, `"TDE-GNN_A"` attention,
            `"TDE-GNN_S"` a vector that is stable whatever it learns.
        window: Number of steps a forecast sees; without it, chosen by the held-out steps.
        horizon: Number of steps that are forecast at once. `predict` goes on further on its own forecasts.
        order: Frames that become states, at most the window; `"auto"` for the order in time of the series themselves,
            as `tdegnn.find_order` finds it (`order_` says which, `order_choice_` why).
        season: Steps until a season comes round; without it, what the dates say.
        known: Names of channels whose future values `predict` will be given.
        lowest: Values end here: no forecast and no interval goes below. 0 for counts.
        states: What c combines: `"latent"` states, or `"physical"` ones, the observed frames themselves. Then c can be
            read: `explain` speaks of the data. See `Forecaster.physical` for settings that go with it.
        hidden_channels: Channels of a state; hidden channels of the spatial term where states are physical.
        num_layers: Number of layers.
        step_size: h.
        dropout: Part of states that is dropped in training.
        skip: The linear forecast beside the layers: `"none"`, `"linear"`, or `"by node"`, with weights of each node's
            own as far as the held-out steps want them. Without it, by node where that fits into memory.
        attention: For TDE-GNN_A: that of the paper, `"plain"`, or `"gated"`, which starts as forward Euler.
        learning_rate: How fast all but c learns.
        weight_decay: How strongly it is pulled to zero.
        c_learning_rate: How fast c learns.
        c_weight_decay: How strongly c is pulled to forward Euler.
        num_members: Networks, from seeds of their own, whose mean is the forecast.
        num_steps: Number of steps of the optimizer at most.
        validate_every: Steps between two looks at the held-out windows.
        patience: Training ends when they have not improved for so many steps. Without it, after `num_steps`.
        batch_size: Windows a step; without it as many as make a quick step.
        coverage: How often intervals are to hold what is observed.
        seed: Seed of weights, dropout and the order of windows.
        device: `"auto"`, `"cpu"` or `"cuda"`.
        precision: Numbers of 32 or of 64 bits, `"32-true"` or `"64-true"`.
    """

    system: System = "TDE-GNN_D"
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
    skip: Skip | None = None
    attention: Attention = "gated"
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
        """A forecaster whose c can be read: on the observed frames, without decay, in 64 bits, to convergence.

        Args:
            order: Number of frames that c weighs, or `"auto"`.
            settings: Anything else; `step_size` is the time between two frames.
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

    def _check_settings(self) -> None:
        """Raise an `InputError` for a setting that is wrong whatever the data, and that no network looks at."""
        check_order(self.order)
        check_count(
            horizon=self.horizon,
            num_members=self.num_members,
            num_steps=self.num_steps,
            validate_every=self.validate_every,
            patience=1 if self.patience is None else self.patience,
            batch_size=1 if self.batch_size is None else self.batch_size,
        )
        check_count(minimum=0, seed=self.seed)
        for name in ("lowest", "season"):
            if getattr(self, name) is not None:
                check_finite(**{name: getattr(self, name)})
        for name in ("learning_rate", "weight_decay", "c_learning_rate", "c_weight_decay"):
            check_finite(**{name: getattr(self, name)})
            if getattr(self, name) < 0:
                raise InputError(f"Expected {name} to be at least 0, got {getattr(self, name)}.")
        fewest_residuals(self.coverage)  # refuses a coverage that is none

    def _seasons(self, panel: Panel) -> tuple[Season, ...]:
        """The seasons that the user names, or that the dates say."""
        if self.season is None:
            return seasons_of(panel.times)
        num_waves = min(NUM_WAVES, int((self.season - 1e-9) // 2))
        if num_waves < 1:
            raise InputError(f"Expected a season of more than two steps, got {self.season:g}.")
        return (Season(float(self.season), num_waves),)

    def _series_config(self, order: int, sizes: SeriesSizes) -> SeriesConfig:
        """The settings of its networks."""
        groups = GroupDescent(self.learning_rate, self.weight_decay)
        return SeriesConfig(
            system=self.system,
            hidden_channels=self.hidden_channels,
            num_layers=self.num_layers,
            order=order,
            step_size=self.step_size,
            dropout=self.dropout,
            skip=self.skip or ("by node" if fits_by_node(sizes) else "linear"),
            attention=self.attention,
            embedding=groups,
            temporal=GroupDescent(self.c_learning_rate, self.c_weight_decay),
            spatial=groups,
            num_steps=self.num_steps,
            batch_size=self.batch_size,
            states=self.states,
        )


Skip = Literal["none", "linear", "by node"]
States = Literal["latent", "physical"]


@dataclass(frozen=True)
class SeriesConfig:
    """Everything that decides a training besides data, windows and seed.

    Attributes:
        system: Which rule gives c: c = [1], a learned vector, attention, a stable vector.
        hidden_channels: Channels of a state.
        num_layers: Number of layers.
        order: Frames that become states; at most the window, 1 for DE-GNN.
        step_size: h.
        dropout: Part of states that is dropped in training.
        skip: The linear forecast beside the layers: none, the same for all nodes, or with weights of each node's own.
        attention: For TDE-GNN_A: that of the paper, or behind a gate that starts closed, as forward Euler.
        embedding: How embeddings and readout learn.
        temporal: How c learns.
        spatial: How the layers learn.
        linear: How the skip learns after it was solved (`ridge_skip.py`); not at all by default.
        num_steps: Number of steps of the optimizer at most.
        batch_size: Windows a step; all without it.
        states: What c combines: states of the network's own, or the observed frames themselves. The latter have no
            layers, no skip and no dropout; then c can be read.
        averaging: Part of the past in the running mean of the weights that are kept; 0 keeps the last ones.
    """

    system: System = "TDE-GNN_D"
    hidden_channels: int = 32
    num_layers: int = 2
    order: int = 4
    step_size: float = 1.0
    dropout: float = 0.3
    skip: Skip = "linear"
    attention: Attention = "gated"
    embedding: GroupDescent = field(default_factory=lambda: GroupDescent(0.003, 0.01))
    temporal: GroupDescent = field(default_factory=lambda: GroupDescent(0.001, 0.01))
    spatial: GroupDescent = field(default_factory=lambda: GroupDescent(0.003, 0.01))
    linear: GroupDescent = field(default_factory=lambda: GroupDescent(0.0))
    num_steps: int = 300
    batch_size: int | None = None
    states: States = "latent"
    averaging: float = 0.0

    @property
    def shape(self) -> tuple[Any, ...]:
        """What configurations must share to be trained in one batch."""
        sizes = (self.system, self.hidden_channels, self.num_layers, self.order)
        return (*sizes, self.skip, self.attention, self.num_steps, self.batch_size, self.states)

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns."""
        return GroupedAdam(self.embedding, self.temporal, self.spatial, self.averaging, self.linear)

    def build(self, sizes: SeriesSizes, seed: int) -> TemporalNetwork | PhysicalSeriesNetwork:
        """A network of these sizes, its weights drawn from the seed."""
        check_choices(self, system=System, skip=Skip, attention=Attention, states=States)
        network = self._make(sizes, seed)
        # Only now: parts have drawn weights when they were made, some rules more than others.
        torch.manual_seed(seed)
        network.reset_parameters()
        return network

    def _make(self, sizes: SeriesSizes, seed: int) -> TemporalNetwork | PhysicalSeriesNetwork:
        channels = sizes.num_targets if self.states == "physical" else self.hidden_channels
        coefficients = make_rule(self.system, self.order, channels, self.attention)
        if self.states == "physical":
            return PhysicalSeriesNetwork(sizes, self.hidden_channels, coefficients, step_size=self.step_size, seed=seed)
        return TemporalNetwork(
            sizes,
            self.hidden_channels,
            self.num_layers,
            coefficients,
            step_size=self.step_size,
            skip=None if self.skip == "none" else LinearSkip(sizes, is_by_node=self.skip == "by node"),
            dropout=self.dropout,
            seed=seed,
        )

    def to_record(self) -> dict[str, Any]:
        """Settings for a result line."""
        return asdict(self)
