"""The settings of a forecaster, as options of the commands that train one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from tdegnn.cli.options import DeviceOption, SystemOption, parse_order
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tdegnn.forecasting.forecaster import Forecaster

# What Python calls otherwise.
ARGUMENTS = {"coefficients": "system", "layers": "num_layers", "members": "num_members", "steps": "num_steps"}
# What means nothing on physical states, and why.
NOT_PHYSICAL = {
    "window": "which see the last steps, as many as --order says",
    "layers": "which have one layer for each step ahead",
    "dropout": "as a state with holes is another state",
    "season": "which see what is forecast and nothing else",
    "known": "which see what is forecast and nothing else",
    "exogenous": "which see what is forecast and nothing else",
    "node_features": "which see what is forecast and nothing else",
}


class StatesOption(StrEnum):
    """What c combines."""

    LATENT = "latent"
    PHYSICAL = "physical"


@dataclass(frozen=True)
class ForecasterOptions:
    """What a user may say about a forecaster. Their defaults are those of `Forecaster`, but for the horizon.

    Only the steps of the horizon have intervals; with one step, the default in Python, most forecasts had none. Where
    the default depends on the states, or an option makes no sense on some, None is what the user did not say.
    """

    PANEL: ClassVar[str] = "The forecaster"

    states: Annotated[
        StatesOption,
        typer.Option(
            help="What c combines: states of the network, or (physical) the observed steps themselves; then "
            "`tdegnn explain` says of which order in time the data are."
        ),
    ] = StatesOption.LATENT
    window: Annotated[
        int | None, typer.Option(help="Steps a forecast sees; chosen by the held-out steps without it.", min=1)
    ] = None
    horizon: Annotated[int, typer.Option(help="Steps that are forecast at once, with intervals.", min=1)] = 4
    order: Annotated[
        Any,
        typer.Option(
            help="Length of the history, at most the window; [bold]auto[/bold] finds it in the series.",
            parser=parse_order,
            metavar="INTEGER|auto",
            show_default="4, on physical states 2",
        ),
    ] = None
    coefficients: Annotated[
        SystemOption,
        typer.Option("--coefficients", "--system", help="c = [1], a learned vector, attention, or a stable vector."),
    ] = SystemOption.DIRECT
    season: Annotated[
        float | None, typer.Option(help="Steps until a season comes round; what the dates say without it.")
    ] = None
    known: Annotated[
        list[str] | None,
        typer.Option(help="Exogenous column whose future will be given to predict; may be given several times."),
    ] = None
    lowest: Annotated[
        float | None, typer.Option(help="Where values end: nothing below it is forecast. 0 for counts.")
    ] = None
    hidden_channels: Annotated[
        int, typer.Option(help="Channels of a state; hidden ones of the spatial term on physical states.", min=1)
    ] = 32
    layers: Annotated[int | None, typer.Option(help="Number of layers.", min=1, show_default="2")] = None
    step_size: Annotated[
        float, typer.Option(help="h: weight of the spatial term, on physical states the time from step to step.", min=0)
    ] = 1.0
    dropout: Annotated[
        float | None, typer.Option(help="Part of states dropped in training.", min=0, max=0.99, show_default="0.3")
    ] = None
    learning_rate: Annotated[
        float | None,
        typer.Option(help="How fast all but c learns.", min=0, show_default="0.003, on physical states 0.01"),
    ] = None
    members: Annotated[
        int | None,
        typer.Option(help="Networks whose mean is the forecast.", min=1, show_default="3, on physical states 1"),
    ] = None
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of the optimizer at most.", min=1, show_default="300, on physical states 1500"),
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(
            help="End after so many steps without improvement.", min=1, show_default="100, on physical states never"
        ),
    ] = None
    coverage: Annotated[
        float, typer.Option(help="How often intervals are to hold what is observed.", min=0.01, max=0.999)
    ] = 0.9

    def check(self, others: Mapping[str, object]) -> None:
        """Raise an `InputError` for an option that means nothing on the states that are asked for.

        Args:
            others: What else the user said, by the name of the option.
        """
        if self.states is StatesOption.LATENT:
            return
        for name, reason in NOT_PHYSICAL.items():
            if {**vars(self), **others}.get(name) is not None:
                option = name.replace("_", "-")
                raise InputError(f"Expected no --{option} with physical states, {reason}. Leave it out.")

    def make(self, seed: int, device: DeviceOption) -> Forecaster:
        """A forecaster with these settings, not trained yet.

        Args:
            seed: Seed of everything random.
            device: Where to compute.
        """
        from tdegnn.forecasting.forecaster import Forecaster

        said = {name: value for name, value in vars(self).items() if value is not None and name != "states"}
        settings: dict[str, Any] = {"seed": seed, "device": device.value}
        settings |= {ARGUMENTS.get(name, name): value for name, value in said.items()}
        settings["system"] = self.coefficients.value
        is_physical = self.states is StatesOption.PHYSICAL
        return Forecaster.physical(**settings) if is_physical else Forecaster(**settings)
