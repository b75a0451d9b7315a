"""`tdegnn reproduce pendulum`: Example 1 of the paper. `tdegnn demo` shows it too."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.analysis.tolerances import LOOSE_TOLERANCE
from tdegnn.cli.options import AsJson, Device, DeviceOption, OutFolder, Quiet, Seed
from tdegnn.cli.output import TextTable, number, print_json, print_table, progress_bar, vector

if TYPE_CHECKING:
    from tdegnn.experiments.pendulum import Effort, PendulumData, PendulumResult


class Features(StrEnum):
    """What is observed of the pendulum."""

    ANGLE = "angle"
    COORDINATES = "coordinates"


class Optimizer(StrEnum):
    """How the models are trained."""

    ADAM = "adam"
    LBFGS = "lbfgs"
    PROJECTION = "projection"


def pendulum(
    out: OutFolder = Path("runs/pendulum"),
    features: Annotated[
        Features, typer.Option(help="What is observed: the angle, or x and y, for which c is only close to [2, -1].")
    ] = Features.ANGLE,
    optimizer: Annotated[
        Optimizer,
        typer.Option(
            help="How the models are trained: Adam with three learning rates, L-BFGS, or variable projection, which "
            "solves for c and is what the demo uses."
        ),
    ] = Optimizer.ADAM,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Example 1: naive, two LSTMs and TDE-GNN of orders 1 to 5 predict a pendulum."""
    from tdegnn.experiments.pendulum import Effort, make_pendulum
    from tdegnn.training.devices import choose_device

    efforts = {
        Optimizer.ADAM: Effort(),
        Optimizer.LBFGS: Effort.quasi_newton(),
        Optimizer.PROJECTION: Effort.projected(),
    }
    data = make_pendulum(features.value, choose_device(device.value))
    shown = train_pendulum(data, efforts[optimizer], seed, out, is_quiet=quiet or as_json)
    if as_json:
        print_json(shown.to_dict())
        return
    if not quiet:
        print_tables(shown.result)
    typer.echo(shown.result.verdict())
    if not quiet:
        typer.echo(f"\nPictures and result lines: {out}/")


@dataclass(frozen=True)
class Trained:
    """The result of the pendulum experiment, its result lines, and the pictures that were saved."""

    result: PendulumResult
    records: list[dict[str, Any]]
    pictures: list[Path]

    def to_dict(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {
            "dynamics_order": self.result.dynamics_order,
            "verdict": self.result.verdict(),
            "models": self.records,
            "pictures": [str(path) for path in self.pictures],
        }


def train_pendulum(data: PendulumData, effort: Effort, seed: int, out: Path, *, is_quiet: bool) -> Trained:
    """Run the pendulum experiment, and save its pictures and result lines in `out`."""
    from tdegnn.experiments.pendulum import count_steps, run_pendulum
    from tdegnn.experiments.pendulum_plots import save_plots
    from tdegnn.experiments.records import describe_environment, write_records

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar(count_steps(effort), "pendulum", is_quiet=is_quiet) as tick:
        result = run_pendulum(data, seed, effort, on_step=tick)
    records = [record | describe_environment(data.device) for record in result.to_records()]
    write_records(out / "pendulum.jsonl", records)
    return Trained(result, records, save_plots(result, out))


def print_tables(result: PendulumResult) -> None:
    """Print how well each model predicts, and what the learned coefficients say."""
    print_table(*table_of_models(result))
    print_table(*table_of_orders(result))
    for note in notes_on_orders(result):
        typer.echo(f"{note}\n")


def table_of_models(result: PendulumResult) -> TextTable:
    """Return the errors of all models."""
    naive = result["naive"]
    rows = [
        [
            model.model,
            str(model.num_parameters),
            number(model.one_step_mse),
            f"{naive.one_step_mse / model.one_step_mse:,.0f} x",
            number(model.roll_out_mse),
            f"{model.seconds:.1f}",
        ]
        for model in result.models
    ]
    header = ["model", "parameters", "one-step MSE", "better than naive", "100-step MSE", "training s"]
    return "Predicting a pendulum (test steps)", header, rows


def table_of_orders(result: PendulumResult) -> TextTable:
    """Return what the learned c of each order says."""
    rows = []
    for order, model in sorted(result.by_order.items()):
        report = model.report()
        if report is not None:
            rows.append(
                [
                    str(order),
                    vector(report.coefficients),
                    _share(model.explained_share),
                    f"{report.max_root_modulus:.4f}",
                    f"{report.root_multiplicity}-fold",
                    f"{report.second_derivative_share:.1%}",
                    "stable" if report.is_stable else "unstable",
                ]
            )
    header = ["order", "learned c", "explained", "max |root|", "root 1 is", "y'' on a sine", ""]
    return f"What the learned coefficients say (tolerance {LOOSE_TOLERANCE:g})", header, rows


def _share(value: float | None) -> str:
    """Return an explained share, or a dash for None. Three digits would show 0.9996 as 1."""
    from tdegnn.analysis.order import show_share

    return number(None) if value is None else show_share(value, 4)


def notes_on_orders(result: PendulumResult) -> list[str]:
    """Return what a reader of `table_of_orders` should know."""
    if result.has_unconverged_orders:
        return ["A low explained share above the true order only means that this fit has not converged."]
    found = result.dynamics_order
    reports = [model.report() for order, model in result.by_order.items() if found is not None and order > found]
    if all(report is None or report.root_multiplicity == found for report in reports):
        return []
    return [
        "Above the true order, c is not unique: derivatives of the equation hold as well. The order is the smallest "
        "that explains enough."
    ]
