"""The settings of a forecaster, as options of the commands that train one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from tdegnn.cli.options import DeviceOption, SystemOption

if TYPE_CHECKING:
    from tdegnn.data.panel import Panel
    from tdegnn.estimators.forecaster import Forecaster

# Values of a panel up to which it is small: more threads of the CPU gain nothing, and lose much on a busy machine.
SMALL_PANEL = 2**16


@dataclass(frozen=True)
class ForecasterOptions:
    """What a user may say about a forecaster. Their defaults are those of `Forecaster`, but for the horizon.

    Only the steps of the horizon have intervals; with one step, the default in Python, most forecasts had none.
    """

    PANEL: ClassVar[str] = "The forecaster"

    window: Annotated[
        int | None, typer.Option(help="Steps a forecast sees; chosen by the held-out steps without it.", min=1)
    ] = None
    horizon: Annotated[int, typer.Option(help="Steps that are forecast at once, with intervals.", min=1)] = 4
    order: Annotated[int, typer.Option(help="Length of the history, at most the window.", min=1)] = 4
    coefficients: Annotated[
        SystemOption, typer.Option("--coefficients", "--system", help="c = [1], a learned vector, or attention.")
    ] = SystemOption.DIRECT
    season: Annotated[
        float | None, typer.Option(help="Steps until a season comes round; what the dates say without it.")
    ] = None
    known: Annotated[
        list[str] | None,
        typer.Option(help="Exogenous column whose future will be given to predict; may be given several times."),
    ] = None
    hidden_channels: Annotated[int, typer.Option(help="Channels of a state.", min=1)] = 32
    layers: Annotated[int, typer.Option(help="Number of layers.", min=1)] = 2
    dropout: Annotated[float, typer.Option(help="Part of states dropped in training.", min=0, max=0.99)] = 0.3
    learning_rate: Annotated[float, typer.Option(help="How fast all but c learns.", min=0)] = 0.003
    members: Annotated[int, typer.Option(help="Networks whose mean is the forecast.", min=1)] = 3
    steps: Annotated[int, typer.Option(help="Steps of the optimizer at most.", min=1)] = 300
    patience: Annotated[int, typer.Option(help="End after so many steps without improvement.", min=1)] = 100
    coverage: Annotated[
        float, typer.Option(help="How often intervals are to hold what is observed.", min=0.01, max=0.999)
    ] = 0.9

    def make(self, seed: int, device: DeviceOption) -> Forecaster:
        """A forecaster with these settings, not trained yet."""
        from tdegnn.estimators.forecaster import Forecaster
        from tdegnn.training.device import choose_device

        # A device that is not there should be noticed before there is a run folder.
        choose_device(device.value)
        return Forecaster(
            system=self.coefficients.value,
            window=self.window,
            horizon=self.horizon,
            order=self.order,
            season=self.season,
            known=tuple(self.known or ()),
            hidden_channels=self.hidden_channels,
            num_layers=self.layers,
            dropout=self.dropout,
            learning_rate=self.learning_rate,
            num_members=self.members,
            num_steps=self.steps,
            patience=self.patience,
            coverage=self.coverage,
            seed=seed,
            device=device.value,
        )


def threads_for(panel: Panel) -> AbstractContextManager[None]:
    """Compute with one thread of the CPU meanwhile, where the panel is small."""
    from tdegnn.training.threads import single_thread

    return single_thread() if panel.values.size <= SMALL_PANEL else nullcontext()
