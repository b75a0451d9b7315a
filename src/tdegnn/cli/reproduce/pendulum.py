"""`tdegnn reproduce`: the paper's tables and figures, one subcommand each."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tdegnn.analysis.tolerances import LOOSE_TOLERANCE
from tdegnn.cli.options import AsJson, Device, DeviceOption, OutFolder, Quiet, Seed
from tdegnn.cli.output import number, print_json, print_table, progress_bar, vector

if TYPE_CHECKING:
    from tdegnn.experiments.pendulum import Effort, PendulumData, PendulumResult


reproduce = typer.Typer(help="Make a table or figure of the paper again, or one of ours.", no_args_is_help=True)


class Features(StrEnum):
    """What is observed of the pendulum."""

    ANGLE = "angle"
    COORDINATES = "coordinates"


class Optimizer(StrEnum):
    """How every model is trained."""

    ADAM = "adam"
    LBFGS = "lbfgs"


@reproduce.command()
def pendulum(
    out: OutFolder = Path("runs/pendulum"),
    features: Annotated[
        Features, typer.Option(help="What is observed: the angle, or x and y (then c is only near [2, -1]).")
    ] = Features.ANGLE,
    optimizer: Annotated[
        Optimizer, typer.Option(help="How every model is trained: Adam with three learning rates, or L-BFGS.")
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


@reproduce.command()
def coefficients(out: OutFolder = Path("runs/coefficients"), quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Tables of coefficients and roots, and the consistency figure, from the printed numbers."""
    from tdegnn.experiments.coefficients import analyze_printed_coefficients, save_plots

    printed = analyze_printed_coefficients()
    pictures = save_plots(printed, out)
    if as_json:
        print_json(
            {
                "vectors": [entry.to_record() for entry in printed],
                "pictures": [str(path) for path in pictures],
            }
        )
        return
    if not quiet:
        rows = [
            [
                f"{entry.order}",
                vector(entry.report.coefficients),
                ", ".join(f"{abs(root):.3f}" for root in entry.report.roots),
                ", ".join(f"{modulus:g}" for modulus in entry.printed_moduli),
                f"{entry.report.second_derivative_share:.1%}",
                entry.stability,
            ]
            for entry in printed
        ]
        header = ["order", "printed c", "|roots|", "printed", "y'' on a sine", "verdict"]
        print_table("Coefficients the paper prints for the pendulum", header, rows)
        typer.echo(f"Pictures: {out}/")
        return
    typer.echo("; ".join(f"order {entry.order} {entry.stability}" for entry in printed))


@reproduce.command("known-orders")
def known_orders(
    out: OutFolder = Path("runs/known-orders"),
    seeds: Annotated[
        int, typer.Option(help="Number of seeds (graphs, initial states, weights), from --seed on.", min=1)
    ] = 3,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Simulated systems of order 1, 2 and 3: is their order found? Not in the paper."""
    from tdegnn.experiments.known_orders import SYSTEMS, run_known_order
    from tdegnn.experiments.nested_orders import ORDERS
    from tdegnn.experiments.records import describe_environment, write_records
    from tdegnn.training.devices import choose_device

    chosen = choose_device(device.value)
    out.mkdir(parents=True, exist_ok=True)
    results = []
    with progress_bar(len(SYSTEMS) * seeds * len(ORDERS), "simulated systems", is_quiet=quiet or as_json) as tick:
        for system in SYSTEMS:
            for current_seed in range(seed, seed + seeds):
                results.append(run_known_order(system, current_seed, device=chosen, on_fit=partial(tick, system)))
    environment = describe_environment(chosen)
    records = [record | environment for result in results for record in result.to_records()]
    write_records(out / "known_orders.jsonl", records)
    if as_json:
        print_json(records)
        return
    num_right = sum(result.nested.dynamics_order == result.true_order for result in results)
    if not quiet:
        rows = [
            [result.system, str(result.seed), str(result.true_order), str(result.nested.dynamics_order)]
            + [f"{share:.3f}" for share in result.nested.shares.values()]
            for result in results
        ]
        header = ["system", "seed", "true order", "found"] + [f"share, o = {order}" for order in ORDERS]
        print_table("Explained share of the o-th difference, on held-out trajectories", header, rows)
    typer.echo(f"Order found for {num_right} of {len(results)} simulated systems.")


def show_pendulum(data: PendulumData, effort: Effort, seed: int, out: Path, *, is_quiet: bool, as_json: bool) -> None:
    """Run the pendulum experiment, save its pictures and result lines in `out`, and print what came out."""
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
    print_table("Predicting a pendulum (test part)", header, rows)


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
        typer.echo("A low explained share above the true order says that this fit has not converged, nothing else.\n")
