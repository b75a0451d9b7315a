"""The settings of a forecaster, as options of the commands that train one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from tdegnn.cli.operator_options import OperatorSettings, operator_option, operator_part
from tdegnn.cli.options import DeviceOption, Rule, parse_order, rule_argument
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tdegnn.forecasting.forecaster import Forecaster

# Options that have another name in Python.
ARGUMENTS = {"layers": "num_layers", "members": "num_members", "steps": "num_steps"}
# Options that do not apply to physical states, and why.
NOT_PHYSICAL = {
    "window": "which see the last steps, as many as --order says",
    "layers": "which have one layer per step ahead",
    "dropout": "since a state with gaps is another state",
    "season": "which see only the series that is forecast",
    "known": "which see only the series that is forecast",
    "exogenous": "which see only the series that is forecast",
    "node_features": "which see only the series that is forecast",
}


class StatesOption(StrEnum):
    """What c combines."""

    LATENT = "latent"
    PHYSICAL = "physical"


Operator = Annotated[str | None, operator_option("past-diffusion, on physical states hidden-diffusion")]


@dataclass(frozen=True)
class ForecasterOptions:
    """The options of a forecaster. The defaults are those of `Forecaster`, except for the horizon.

    Only the steps of the horizon have intervals; with the default of Python, one step, most forecasts would have none.
    An option is None if the user did not give it and its default depends on the states, or it does not apply to some.
    """

    PANEL: ClassVar[str] = "The forecaster"

    states: Annotated[
        StatesOption,
        typer.Option(
            help="What c combines: [bold]latent[/bold] states of the network, or the [bold]physical[/bold] ones, the "
            "observed steps. For physical states, `tdegnn explain` shows the order in time of the data."
        ),
    ] = StatesOption.LATENT
    window: Annotated[
        int | None,
        typer.Option(
            help="Number of steps that a forecast sees.", min=1, show_default="chosen by errors on held-out steps"
        ),
    ] = None
    horizon: Annotated[int, typer.Option(help="Number of steps that are forecast at once, with intervals.", min=1)] = 4
    order: Annotated[
        Any,
        typer.Option(
            help="Length of the history, at most the window. [bold]auto[/bold] finds it in the series.",
            parser=parse_order,
            metavar="INTEGER|auto",
            show_default="4, on physical states 2",
        ),
    ] = None
    coefficients: Rule = None
    operator: Operator = None
    operator_setting: OperatorSettings = None
    season: Annotated[
        float | None, typer.Option(help="Length of a season in steps.", show_default="seasons of the dates")
    ] = None
    known: Annotated[
        list[str] | None,
        typer.Option(help="Exogenous column whose future values predict will get. Can be repeated."),
    ] = None
    lowest: Annotated[
        float | None, typer.Option(help="Lowest possible value: no forecast goes below it. 0 for counts.")
    ] = None
    hidden_channels: Annotated[
        int, typer.Option(help="Channels of a state; on physical states, hidden channels of the spatial term.", min=1)
    ] = 32
    layers: Annotated[int | None, typer.Option(help="Number of layers.", min=1, show_default="2")] = None
    step_size: Annotated[
        float, typer.Option(help="h: weight of the spatial term; on physical states, the time between steps.", min=0)
    ] = 1.0
    dropout: Annotated[
        float | None,
        typer.Option(help="Share of the states dropped in training.", min=0, max=0.99, show_default="0.3"),
    ] = None
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Learning rate of all weights but those of c.", min=0, show_default="0.003, on physical states 0.01"
        ),
    ] = None
    members: Annotated[
        int | None,
        typer.Option(
            help="Number of networks. The forecast is their mean.", min=1, show_default="3, on physical states 1"
        ),
    ] = None
    steps: Annotated[
        int | None,
        typer.Option(help="Maximum number of optimizer steps.", min=1, show_default="300, on physical states 1500"),
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many steps without improvement.", min=1, show_default="100, on physical states never"
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
        float, typer.Option(help="Share of the observations that intervals should contain.", min=0.01, max=0.999)
    ] = 0.9

    def check(self, others: Mapping[str, object]) -> None:
        """Raise an `InputError` for an option that does not apply to the chosen states.

        Args:
            others: The other options of the user, by name.
        """
        if self.states is StatesOption.LATENT:
            return
        for name, reason in NOT_PHYSICAL.items():
            if {**vars(self), **others}.get(name) is not None:
                option = name.replace("_", "-")
                raise InputError(f"Expected no --{option} with physical states, {reason}. Leave it out.")

    def make(self, seed: int, device: DeviceOption) -> Forecaster:
        """Return a forecaster with these settings, not trained yet.

        Args:
            seed: Seed of everything random.
            device: Where to compute.
        """
        from tdegnn.forecasting.forecaster import Forecaster

        settings: dict[str, Any] = {"seed": seed, "device": device.value, **self._arguments()}
        is_physical = self.states is StatesOption.PHYSICAL
        return Forecaster.physical(**settings) if is_physical else Forecaster(**settings)

    def _arguments(self) -> dict[str, Any]:
        """Return the given options as arguments of `Forecaster`."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        del given["states"]
        rule = rule_argument(given.pop("coefficients", None))
        settings = given.pop("operator_setting", None)
        if self.operator is not None or settings:
            given["operator"] = operator_part(self.operator, settings)
        return rule | {ARGUMENTS.get(name, name): value for name, value in given.items()}
