"""The settings of a `Forecaster`: what they mean, and their defaults. `series_config.py` makes networks from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from tdegnn.core.rules import System
from tdegnn.data.panel import Panel
from tdegnn.data.times.seasons import Season, seasons_of
from tdegnn.errors import (
    LARGEST_VALUE,
    Argument,
    InputError,
    check_choice,
    check_count,
    check_count_or_auto,
    check_finite,
    check_truth,
)
from tdegnn.forecasting.intervals import INTERVALS, check_intervals, fewest_residuals
from tdegnn.forecasting.linear_skip import fits_by_node
from tdegnn.forecasting.losses import LOSSES, Loss
from tdegnn.forecasting.series_config import DEFAULT_SYSTEM, NETWORK_PARTS, SeriesConfig, States
from tdegnn.forecasting.time_budget import parse_seconds
from tdegnn.nets.series_network import SeriesSizes
from tdegnn.parts import Family, PartLike, parts_from_record, parts_to_record
from tdegnn.training.devices import DeviceName, Precision
from tdegnn.training.members import OPTIMIZERS, GroupDescent, OptimizerName
from tdegnn.training.network_choice import ChosenNetwork, given_settings
from tdegnn.training.order_choice import AUTO, USUAL_ORDER, ChosenOrder, Order, order_of_series
from tdegnn.training.schedules import SCHEDULES, ScheduleName

NetworkName = Literal[
    "auto", "walks", "alone", "walks-unnamed", "alone-unnamed", "walks-levels", "alone-levels", "frames"
]
# The parts of a forecaster that a user may exchange, by the argument that takes them.
FAMILIES: dict[str, Family] = NETWORK_PARTS | {LOSSES.noun: LOSSES, INTERVALS.noun: INTERVALS}


# How the paper's networks, and those of earlier versions, are made and learn.
PLAIN: dict[str, Any] = dict(
    network=None,
    state_norm=None,
    readout="last",
    loss="squared",
    hidden_channels=32,
    identity_channels=0,
    num_layers=2,
    dropout=0.3,
    optimizer="adam",
    schedule="constant",
    learning_rate=0.003,
    num_steps=300,
    validate_every=10,
    patience=100,
)


@dataclass(kw_only=True, repr=False, eq=False)
class ForecasterSettings(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """The settings of a forecaster.

    Parts (`coefficients`, `operator`, `state_norm`, `readout`, `skip`, `loss`, `intervals`) are given by name, as a
    class of your own, or as a `tdegnn.parts.Part` of these with settings. All but `intervals` may also be objects,
    which are copied. Weights are drawn anew for each network. An object without `reset_parameters` keeps those it has,
    so that all networks start with them.

    Attributes:
        system: A short name for a rule that gives c: `"DE-GNN"` is c = [1], `"TDE-GNN_D"` a learned vector (the
            default), `"TDE-GNN_A"` attention behind a gate, `"TDE-GNN_S"` a learned vector that is always stable.
        coefficients: The rule that gives c, in place of `system`: a name such as `"attention"`, the paper's, or your
            own `TemporalCoefficients`.
        network: `"auto"` tries a few usual networks for some steps, and trains the one that is best on the held-out
            steps (`network_choice_` says which and why). If any setting of the network is given, that is used instead.
            Or the name of one: `"walks"`, the defaults below; `"alone"`, the same without edges; `"walks-unnamed"` and
            `"alone-unnamed"`, without vectors of nodes; `"walks-levels"` and `"alone-levels"`, without a skip;
            `"frames"`, the paper's states with a linear skip. If None, the settings as they are.
        operator: The spatial term s: a name such as `"walks"`, or your own `SpatialOperator`. If None, the usual one of
            the states: `"walks"` on windows, `"past-diffusion"` on latent states, `"hidden-diffusion"` on physical
            ones.
        state_norm: Applied to each new state: `"layer-norm"` (the default), `"unit-length"`, or your own `StateNorm`.
            If None, states stay as they are.
        readout: From the states to the forecasts: `"two-layer"` (the default), `"last"` (a linear map of the last
            state), any other of `tdegnn.nets.readouts.READOUTS`, or your own `Readout`.
        skip: The forecast that is added to that of the layers: `"none"`, `"last"` (the newest value), `"season"` (the
            value one season before), `"linear"`, `"by-node"` (linear, with weights per node as far as they help on the
            held-out steps), or your own module `skip(frames, graph) -> forecast`, which learns as embeddings do. If
            None, `"last"` on windows, else `"by-node"` if that fits into memory, else `"linear"`.
        loss: What forecasts pay in training and on the held-out steps: `"squared"`, `"absolute"`, `"huber"`,
            `"quantile"` (`Part("quantile", level=0.9)`), or your own `Loss`. If None, `"squared"` for counts, whose
            mean is wanted, else `"huber"`.
        intervals: How intervals are learned: `"auto"` chooses by the held-out steps, `"conformal"` (fixed widths),
            `"normalized"` (wide where forecasts are difficult), `"counts"`, `"adaptive"` (they follow newer steps), or
            your own `Intervals`.
        window: Number of steps a forecast sees. If None, chosen on the held-out steps.
        horizon: Number of steps that are forecast at once, with intervals. `predict` goes further by forecasting from
            its forecasts.
        order: Number of frames that become states, at most the window. `"auto"` takes the order in time of the series
            themselves, as `tdegnn.find_order` finds it (`order_` says which, `order_choice_` why). Rules of one order
            only, such as c = [1], keep theirs.
        season: Length of a season in steps. If None, seasons follow from the dates.
        calendar: Whether hour, weekday and season of the year enter by themselves, as far as dates have them and two
            rounds of each were observed. A season that is given takes their place.
        known: Names of channels whose future values `predict` will be given.
        lowest: The lowest possible value: no forecast and no interval goes below. If None, 0 for counts, and none for
            other series.
        states: What c combines: embeddings of the `"windows"` that end at the newest steps; `"latent"` states,
            embeddings of the newest frames, as in the paper; or `"physical"` ones, the observed frames themselves. Then
            c can be read: `explain` describes the data. See `Forecaster.paper` and `Forecaster.physical` for suitable
            settings.
        hidden_channels: Channels of a state. On physical states, hidden channels of the spatial term.
        identity_channels: Channels of a learned vector of each node. If 0, nodes have none.
        num_layers: Number of layers.
        step_size: h.
        dropout: Share of what the readout reads that is dropped in training; of latent states, also in each layer.
        optimizer: `"adamw"`, or `"adam"`, whose weight decay is a part of the gradient.
        schedule: How learning rates change in the course of the training: `"one-cycle"` (up in the first tenth of the
            steps, then down to zero), `"cosine"` (down to zero) or `"constant"`.
        learning_rate: How fast all weights but those of c learn.
        weight_decay: How strongly they are pulled to zero.
        c_learning_rate: How fast c learns.
        c_weight_decay: How strongly c is pulled to forward Euler.
        num_members: Number of networks, each with its own seed. Their mean is the forecast.
        num_steps: Maximum number of optimizer steps. If None, enough to see each window 24 times, but at least 300 and
            at most 2,000.
        time_budget: Seconds that `fit` may take, or a text such as `"2min"`: fewer steps are made if need be. If None,
            there is no limit.
        validate_every: Steps between two validations on the held-out windows.
        patience: Training ends when the held-out error has not improved for this many steps, or after `num_steps`. If
            None, only then. It is long, since a cycle of learning rates that is cut short has not had its low ones.
        batch_size: Windows per step. If None, up to 64, fewer on many nodes.
        coverage: Share of the observations that intervals should contain.
        seed: Seed of weights, dropout and the order of windows.
        device: `"auto"`, `"cpu"` or `"cuda"`.
        precision: `"32-true"` or `"64-true"`, for numbers of 32 or 64 bits, or `"bf16-mixed"`, for 32 bits and 16 for
            what travels along edges.
    """

    system: System | None = None
    coefficients: PartLike | None = None
    network: NetworkName | None = "auto"
    operator: PartLike | None = None
    state_norm: PartLike | None = "layer-norm"
    readout: PartLike = "two-layer"
    skip: PartLike | None = None
    loss: PartLike | None = None
    intervals: PartLike = "auto"
    window: int | None = None
    horizon: int = 4
    order: Order = 4
    season: float | None = None
    calendar: bool = True
    known: Sequence[str] = ()
    lowest: float | None = None
    states: States = "windows"
    hidden_channels: int = 64
    identity_channels: int = 16
    num_layers: int = 3
    step_size: float = 1.0
    dropout: float = 0.1
    optimizer: OptimizerName = "adamw"
    schedule: ScheduleName = "one-cycle"
    learning_rate: float = 0.006
    weight_decay: float = 0.01
    c_learning_rate: float = 0.001
    c_weight_decay: float = 0.01
    num_members: int = 2
    num_steps: int | None = None
    time_budget: float | str | None = None
    validate_every: int = 20
    patience: int | None = 1000
    batch_size: int | None = None
    coverage: float = 0.9
    seed: int = 0
    device: DeviceName = "auto"
    precision: Precision = "32-true"

    @classmethod
    def paper(cls, **settings: Any) -> Self:
        """Return a forecaster with the paper's network, its Algorithm 2: one network on latent states, without a skip.

        Args:
            settings: Other settings.
        """
        return cls(**PLAIN | dict(states="latent", skip="none", num_members=1) | settings)

    @classmethod
    def physical(cls, order: Order = 2, **settings: Any) -> Self:
        """Return a forecaster whose c can be read: on the observed frames, without decay, in 64 bits, to convergence.

        Args:
            order: Number of frames that c weighs, or `"auto"`.
            settings: Other settings. `step_size` is the time between two frames.
        """
        chosen: dict[str, Any] = PLAIN | dict(
            states="physical",
            window=USUAL_ORDER if order == AUTO else max(order, 2),
            skip="none",
            dropout=0.0,
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
            hidden_channels=self.hidden_channels,
            num_layers=self.num_layers,
            horizon=self.horizon,
            num_members=self.num_members,
            num_steps=1 if self.num_steps is None else self.num_steps,
            validate_every=self.validate_every,
            patience=1 if self.patience is None else self.patience,
            batch_size=1 if self.batch_size is None else self.batch_size,
        )
        check_count(minimum=0, seed=self.seed, identity_channels=self.identity_channels)
        if self.network is not None:
            check_choice(get_args(NetworkName), network=self.network)
        check_choice(get_args(States), states=self.states)
        check_choice(tuple(OPTIMIZERS), optimizer=self.optimizer)
        check_choice(tuple(SCHEDULES), schedule=self.schedule)
        check_truth(calendar=self.calendar)
        self.check_lowest()
        if self.time_budget is not None:
            parse_seconds(self.time_budget)
        if self.season is not None:
            check_finite(season=self.season)
        check_finite(step_size=self.step_size, dropout=self.dropout)
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

    def seasons_of(self, times: pd.Index) -> tuple[Season, ...]:
        """Return the season that the user gave, or the seasons of dates unless the calendar is left out."""
        return seasons_of(times, self.season) if self.calendar or self.season is not None else ()

    def lowest_of(self, *, are_counts: bool) -> float | None:
        """Return the lowest value of forecasts, given or usual. None if there is none."""
        self.check_lowest()
        return 0.0 if self.lowest is None and are_counts else self.lowest

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
            state_norm=self.state_norm,
            readout=self.readout,
            hidden_channels=self.hidden_channels,
            identity_channels=self.identity_channels,
            num_layers=self.num_layers,
            order=order,
            step_size=self.step_size,
            dropout=self.dropout,
            skip=self._usual_skip(sizes) if self.skip is None else self.skip,
            optimizer=self.optimizer,
            schedule=self.schedule,
            embedding=groups,
            temporal=GroupDescent(self.c_learning_rate, self.c_weight_decay),
            spatial=groups,
            states=self.states,
        )

    def with_network(self, network: ChosenNetwork | None) -> Self:
        """Return a copy with the settings of a usual network, except for those the user gave. If None, itself."""
        if network is None:
            return self
        given = given_settings(self, ForecasterSettings)
        settings = {name: value for name, value in network.settings.items() if name not in given}
        return type(self)(**self.get_params(deep=False) | parts_from_record(FAMILIES, settings, {}))

    def make_loss(self, panel: Panel) -> Loss:
        """Return the loss, given or usual for these series."""
        usual = "squared" if are_counts(panel) else "huber"
        loss: Loss = LOSSES.make(usual if self.loss is None else self.loss)
        return loss

    def _usual_skip(self, sizes: SeriesSizes) -> str:
        if self.states == "windows":
            return "last"
        return "by-node" if fits_by_node(sizes) else "linear"

    def to_record(self) -> dict[str, Any]:
        """Return all settings, as a run folder stores them."""
        return parts_to_record(FAMILIES, self.get_params(deep=False) | {"known": list(self.known)})

    @classmethod
    def from_record(cls, record: Mapping[str, Any], **given: PartLike) -> Self:
        """Return the settings that `to_record` of this or an earlier version wrote.

        Args:
            record: The settings of a run folder, or some of them, as in a recipe of `tdegnn sweep`.
            given: The user's own parts, by argument: code is never imported by a name in a folder.
        """
        settings = parts_from_record(FAMILIES, upgrade_settings(record), given)
        settings["known"] = tuple(settings.get("known", ()))
        if settings.get("coefficients") is not None:
            settings["system"] = None  # an earlier version had both
        return cls(**settings)


def are_counts(panel: Panel) -> bool:
    """Return whether all observed targets are whole numbers of at least zero."""
    observed = panel.values[..., : panel.num_targets]
    with np.errstate(invalid="ignore"):
        return not ((observed < 0) | (observed != np.round(observed)) & ~np.isnan(observed)).any()


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
