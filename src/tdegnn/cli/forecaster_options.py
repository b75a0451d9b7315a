"""The settings of a forecaster, as options of the commands that train one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from tdegnn.cli.network_options import OptimizerOption, PrecisionOption, ReadoutOption, StateNormOption
from tdegnn.cli.operator_options import OperatorSettings, operator_option, operator_part
from tdegnn.cli.options import PRECISION_HELP, DeviceOption, Rule, parse_count_or_auto, rule_argument
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tdegnn.forecasting.forecaster import Forecaster
    from tdegnn.parts import PartLike

# Options that have another name in Python.
ARGUMENTS = {"layers": "num_layers", "members": "num_members", "steps": "num_steps"}
# Options that do not apply to physical states, and why.
NOT_PHYSICAL = {
    "window": "which see the last steps, as many as --order says",
    "layers": "which have one layer per step ahead",
    "dropout": "since a state with gaps is another state",
    "network": "which have one network",
    "state_norm": "since a state that is normalized is another state",
    "readout": "which are the forecasts themselves",
    "skip": "which are the forecasts themselves",
    "identity_channels": "which see only the series that is forecast",
    "season": "which see only the series that is forecast",
    "calendar": "which see only the series that is forecast",
    "known": "which see only the series that is forecast",
    "exogenous": "which see only the series that is forecast",
    "node_features": "which see only the series that is forecast",
}


class StatesOption(StrEnum):
    """What c combines. Tests compare these names, and those below, with the settings of `Forecaster`."""

    WINDOWS = "windows"
    LATENT = "latent"
    PHYSICAL = "physical"


class SeriesNetworkOption(StrEnum):
    """The usual networks, and the paper's, which is `Forecaster.paper()` in Python."""

    AUTO = "auto"
    WALKS = "walks"
    ALONE = "alone"
    WALKS_UNNAMED = "walks-unnamed"
    ALONE_UNNAMED = "alone-unnamed"
    WALKS_LEVELS = "walks-levels"
    ALONE_LEVELS = "alone-levels"
    FRAMES = "frames"
    PAPER = "paper"


class SeriesSkipOption(StrEnum):
    """The forecast that is added to that of the layers."""

    NONE = "none"
    LAST = "last"
    SEASON = "season"
    LINEAR = "linear"
    BY_NODE = "by-node"


class ScheduleOption(StrEnum):
    """How learning rates change."""

    CONSTANT = "constant"
    COSINE = "cosine"
    ONE_CYCLE = "one-cycle"


# The settings that a number after the name of a loss gives, as in huber:0.5.
NUMBER_OF_LOSS = {"huber": "delta", "quantile": "level"}
LOSSES = ("squared", "absolute", *NUMBER_OF_LOSS)


def parse_loss(text: str) -> tuple[str, float | None]:
    """Return the name of a loss, and the number after a colon, if any."""
    name, colon, number = text.partition(":")
    if name not in LOSSES or (colon and name not in NUMBER_OF_LOSS):
        raise typer.BadParameter(f"Expected {', '.join(LOSSES)}, huber:DELTA or quantile:LEVEL, got {text!r}.")
    try:
        return name, float(number) if colon else None
    except ValueError:
        raise typer.BadParameter(f"Expected a number after {name}:, as in {name}:0.5, got {number!r}.") from None


Operator = Annotated[str | None, operator_option("walks; of latent states past-diffusion, physical hidden-diffusion")]


@dataclass(frozen=True)
class ForecasterOptions:
    """The options of a forecaster. The defaults are those of `Forecaster`.

    An option is None if the user did not give it and its default depends on the states, or it does not apply to some.
    """

    PANEL: ClassVar[str] = "The forecaster"

    network: Annotated[
        SeriesNetworkOption | None,
        typer.Option(
            help="[bold]auto[/bold] tries a few usual networks on held-out steps, unless other options describe one. "
            "[bold]walks[/bold] go along the edges; [bold]alone[/bold] does not use them; [bold]unnamed[/bold] ones "
            "have no vector of each node; [bold]levels[/bold] ones add no last value; [bold]frames[/bold] is the "
            "paper's network and a linear forecast; [bold]paper[/bold] is its Algorithm 2, of which other options "
            "change single settings.",
            show_default="auto",
        ),
    ] = None
    states: Annotated[
        StatesOption | None,
        typer.Option(
            help="What c combines: embeddings of [bold]windows[/bold] of steps; [bold]latent[/bold] states, embeddings "
            "of single steps, as in the paper; or the [bold]physical[/bold] ones, the observed steps. For physical "
            "states, `tdegnn explain` shows the order in time of the data.",
            show_default="windows, unless --network chooses",
        ),
    ] = None
    window: Annotated[
        int | None,
        typer.Option(
            help="Number of steps that a forecast sees.", min=1, show_default="chosen by errors on held-out steps"
        ),
    ] = None
    horizon: Annotated[
        int | None,
        typer.Option(help="Number of steps that are forecast at once, with intervals.", min=1, show_default="4"),
    ] = None
    order: Annotated[
        Any,
        typer.Option(
            help="Length of the history, at most the window. [bold]auto[/bold] finds it in the series.",
            parser=parse_count_or_auto,
            metavar="INTEGER|auto",
            show_default="4, on physical states 2",
        ),
    ] = None
    coefficients: Rule = None
    operator: Operator = None
    operator_setting: OperatorSettings = None
    state_norm: Annotated[
        StateNormOption | None, typer.Option(help="Normalization of each new state.", show_default="layer-norm")
    ] = None
    readout: Annotated[
        ReadoutOption | None,
        typer.Option(help="What forecasts are read from: the last state, or all.", show_default="two-layer"),
    ] = None
    skip: Annotated[
        SeriesSkipOption | None,
        typer.Option(help="Forecast that is added to that of the layers.", show_default="last"),
    ] = None
    loss: Annotated[
        Any,
        typer.Option(
            help="What forecasts pay for being wrong: squared, absolute, huber[:DELTA] or quantile[:LEVEL].",
            parser=parse_loss,
            metavar="NAME",
            show_default="squared for counts, else huber",
        ),
    ] = None
    season: Annotated[
        float | None, typer.Option(help="Length of a season in steps.", show_default="seasons of the dates")
    ] = None
    calendar: Annotated[
        bool | None,
        typer.Option(
            "--calendar/--no-calendar",
            help="Whether hour, weekday and season of the year enter by themselves.",
            show_default="calendar",
        ),
    ] = None
    known: Annotated[
        list[str] | None,
        typer.Option(help="Exogenous column whose future values predict will get. Can be repeated."),
    ] = None
    lowest: Annotated[
        float | None,
        typer.Option(help="Lowest possible value: no forecast goes below it.", show_default="0 for counts, else none"),
    ] = None
    hidden_channels: Annotated[
        int | None,
        typer.Option(
            help="Channels of a state; on physical states, hidden channels of the spatial term.",
            min=1,
            show_default="64, on physical states 32",
        ),
    ] = None
    identity_channels: Annotated[
        int | None,
        typer.Option(help="Channels of a learned vector of each node; 0 for none.", min=0, show_default="16"),
    ] = None
    layers: Annotated[int | None, typer.Option(help="Number of layers.", min=1, show_default="3")] = None
    step_size: Annotated[
        float | None,
        typer.Option(
            help="h: weight of the spatial term; on physical states, the time between steps.",
            min=0,
            show_default="1.0",
        ),
    ] = None
    dropout: Annotated[
        float | None,
        typer.Option(help="Share of the states dropped in training.", min=0, max=0.99, show_default="0.1"),
    ] = None
    optimizer: Annotated[
        OptimizerOption | None,
        typer.Option(help="How weights learn.", show_default="adamw, on physical states adam"),
    ] = None
    schedule: Annotated[
        ScheduleOption | None,
        typer.Option(help="How learning rates change.", show_default="one-cycle, on physical states constant"),
    ] = None
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Learning rate of all weights but those of c.", min=0, show_default="0.006, on physical states 0.01"
        ),
    ] = None
    weight_decay: Annotated[
        float | None,
        typer.Option(
            help="How strongly all weights but those of c are pulled to zero.",
            min=0,
            show_default="0.01, on physical states 0.0",
        ),
    ] = None
    members: Annotated[
        int | None,
        typer.Option(
            help="Number of networks. The forecast is their mean.", min=1, show_default="2, on physical states 1"
        ),
    ] = None
    steps: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of optimizer steps.",
            min=1,
            show_default="300 to 2000 by the length of the series, on physical states 1500",
        ),
    ] = None
    time_budget: Annotated[
        str | None,
        typer.Option(
            help="How long it may take, as in 90s or 2min: fewer steps are made if need be.",
            metavar="TIME",
            show_default="no limit",
        ),
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many steps without improvement.",
            min=1,
            show_default="1000, on physical states never",
        ),
    ] = None
    intervals: Annotated[
        str | None,
        typer.Option(
            help="How intervals are learned: [bold]conformal[/bold] (fixed widths), [bold]normalized[/bold] (wide "
            "where forecasts are difficult), [bold]counts[/bold], or [bold]adaptive[/bold] (they follow newer steps).",
            show_default="auto: chosen by held-out steps",
        ),
    ] = None
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Share of the observations that intervals should contain.", min=0.01, max=0.999, show_default="0.9"
        ),
    ] = None

    precision: Annotated[
        PrecisionOption | None,
        typer.Option(help=PRECISION_HELP, show_default="32-true, on physical states 64-true"),
    ] = None

    def check(self, others: Mapping[str, object]) -> None:
        """Raise an `InputError` for an option that does not apply to the chosen states, and for a wrong part.

        Args:
            others: The other options of the user, by name.
        """
        self.check_parts()
        if self.states is not StatesOption.PHYSICAL:
            return
        for name, reason in NOT_PHYSICAL.items():
            if {**vars(self), **others}.get(name) is not None:
                option = name.replace("_", "-")
                raise InputError(f"Expected no --{option} with physical states, {reason}. Leave it out.")

    def check_parts(self) -> None:
        """Raise an `InputError` for a name or a setting of a part, before a table is read. Parts import torch."""
        if self.operator is not None or self.operator_setting:
            from tdegnn.operators.registry import OPERATORS

            OPERATORS.check_makes(operator_part(self.operator, self.operator_setting), **self._some_sizes)
        if self.loss is not None and self.loss[1] is not None:
            from tdegnn.forecasting.losses import LOSSES

            LOSSES.check_makes(self._loss)
        if self.intervals is not None:
            from tdegnn.forecasting.intervals import check_intervals

            check_intervals(self.intervals)

    @property
    def _some_sizes(self) -> dict[str, Any]:
        """The sizes of an operator. What only the tables say, such as the channels of physical states, usually fits."""
        hidden = self.hidden_channels or 64
        return {
            "channels": 64 if self.states is StatesOption.PHYSICAL else hidden,
            "hidden_channels": hidden,
            "num_layers": self.layers or 3,
            "step_size": 1.0 if self.step_size is None else self.step_size,
            "order": self.order if isinstance(self.order, int) else 4,
            "num_nodes": 2,
        }

    @property
    def _loss(self) -> PartLike:
        from tdegnn.parts import Part

        name, number = self.loss
        return name if number is None else Part(name, **{NUMBER_OF_LOSS[name]: number})

    def make(self, seed: int, device: DeviceOption) -> Forecaster:
        """Return a forecaster with these settings, not trained yet.

        Args:
            seed: Seed of everything random.
            device: Where to compute.
        """
        from tdegnn.forecasting.forecaster import Forecaster

        settings: dict[str, Any] = {"seed": seed, "device": device.value, **self.arguments()}
        if self.states is StatesOption.PHYSICAL:
            return Forecaster.physical(**settings)
        if self.network is SeriesNetworkOption.PAPER:
            return Forecaster.paper(**{name: value for name, value in settings.items() if name != "network"})
        return Forecaster(**settings)

    def arguments(self) -> dict[str, Any]:
        """Return the given options as arguments of `Forecaster`."""
        given = {
            name: value.value if isinstance(value, StrEnum) else value
            for name, value in vars(self).items()
            if value is not None
        }
        if self.loss is not None:
            given["loss"] = self._loss
        rule = rule_argument(given.pop("coefficients", None))
        settings = given.pop("operator_setting", None)
        if self.operator is not None or settings:
            given["operator"] = operator_part(self.operator, settings)
        return rule | {ARGUMENTS.get(name, name): value for name, value in given.items()}
