"""`tdegnn reproduce pendulum`: Example 1 of the paper. `tdegnn demo` shows it too."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tdegnn.analysis.tolerances import LOOSE_TOLERANCE
from tdegnn.cli.options import AsJson, Device, DeviceOption, OutFolder, Quiet, Seed
from tdegnn.cli.output import number, print_json, print_table, progress_bar, vector

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


def pendulum(
    out: OutFolder = Path("runs/pendulum"),
    features: Annotated[
        Features, typer.Option(help="What is observed: the angle, or x and y, for which c is only close to [2, -1].")
    ] = Features.ANGLE,
    optimizer: Annotated[
        Optimizer, typer.Option(help="How the models are trained: Adam with three learning rates, or L-BFGS.")
    ] = Optimizer.ADAM,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Example 1: naive, two LSTMs and TDE-GNN of orders 1 to 5 predict a pendulum."""
    from tdegnn.experiments.pendulum import Effort, make_pendulum
    from tdegnn.training.devices import choose_device

    data = make_pendulum(features.value, choose_device(device.value))
    effort = Effort() if optimizer is Optimizer.ADAM else Effort.quasi_newton()
    show_pendulum(data, effort, seed, out, is_quiet=quiet, as_json=as_json)


def show_pendulum(data: PendulumData, effort: Effort, seed: int, out: Path, *, is_quiet: bool, as_json: bool) -> None:
    """Run the pendulum experiment, save its pictures and result lines in `out`, and print the results."""
    from tdegnn.experiments.pendulum import count_steps, run_pendulum
    from tdegnn.experiments.pendulum_plots import save_plots
    from tdegnn.experiments.records import describe_environment, write_records

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar(count_steps(effort), "pendulum", is_quiet=is_quiet or as_json) as tick:
        result = run_pendulum(data, seed, effort, on_step=tick)
    records = [record | describe_environment(data.device) for record in result.to_records()]
    write_records(out / "pendulum.jsonl", records)
    pictures = save_plots(result, out)
    if as_json:
        print_json(
            {
                "dynamics_order": result.dynamics_order,
                "verdict": result.verdict(),
                "models": records,
                "pictures": [str(path) for path in pictures],
            }
        )
        return
    if not is_quiet:
        _print_models(result)
        _print_orders(result)
    typer.echo(result.verdict())
    if not is_quiet:
        typer.echo(f"\nPictures and result lines: {out}/")


def _print_models(result: PendulumResult) -> None:
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
    print_table("Predicting a pendulum (test steps)", header, rows)


def _print_orders(result: PendulumResult) -> None:
    rows = []
    for order, model in sorted(result.by_order.items()):
        report = model.report()
        if report is not None:
            rows.append(
                [
                    str(order),
                    vector(report.coefficients),
                    number(model.explained_share),
                    f"{report.max_root_modulus:.4f}",
                    f"{report.root_multiplicity}-fold",
                    f"{report.second_derivative_share:.1%}",
                    "stable" if report.is_stable else "unstable",
                ]
            )
    header = ["order", "learned c", "explained", "max |root|", "root 1 is", "y'' on a sine", ""]
    print_table(f"What the learned coefficients say (tolerance {LOOSE_TOLERANCE:g})", header, rows)
    if result.has_unconverged_orders:
        typer.echo("A low explained share above the true order only means that this fit has not converged.\n")
