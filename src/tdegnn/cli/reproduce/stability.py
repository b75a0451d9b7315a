"""`tdegnn reproduce stable-pendulum | depth`: effects of stable coefficients, on the pendulum and in deep networks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.options import (
    AsJson,
    Device,
    DeviceOption,
    OutFolder,
    Picture,
    Quiet,
    Seed,
    choose_names,
    with_groups,
)
from tdegnn.cli.output import number, print_json, print_table, progress_bar
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions
from tdegnn.cli.reproduce.pendulum import Optimizer

if TYPE_CHECKING:
    from tdegnn.core.rules import System


def stable_pendulum(
    out: OutFolder = Path("runs/stable-pendulum"),
    seeds: Annotated[int, typer.Option(help="Number of seeds of the initial weights, from --seed on.", min=1)] = 5,
    optimizer: Annotated[
        Optimizer, typer.Option(help="How the models are trained: Adam with three learning rates, or L-BFGS.")
    ] = Optimizer.ADAM,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The pendulum at order 5, with free and with stable coefficients: errors, roots, long runs. Not in the paper."""
    from tdegnn.analysis.plots import save_figure
    from tdegnn.experiments.pendulum import Effort, make_pendulum
    from tdegnn.experiments.records import describe_environment, write_records
    from tdegnn.experiments.stable_pendulum import count_steps, run_stable_pendulum
    from tdegnn.experiments.stable_pendulum_plots import plot_stable_pendulum
    from tdegnn.training.devices import choose_device

    data = make_pendulum(device=choose_device(device.value))
    effort = Effort() if optimizer is Optimizer.ADAM else Effort.quasi_newton()
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar(count_steps(effort, seeds), "stable pendulum", is_quiet=quiet or as_json) as tick:
        results = run_stable_pendulum(data, range(seed, seed + seeds), effort, on_step=tick)
    records = [result.to_record() | describe_environment(data.device) for result in results]
    write_records(out / "stable_pendulum.jsonl", records)
    picture = save_figure(plot_stable_pendulum(results), out / "stable_pendulum.png")
    if as_json:
        print_json({"runs": records, "picture": str(picture)})
        return
    if not quiet:
        rows = [
            [
                record["model"],
                "-" if record["seed"] is None else str(record["seed"]),
                number(record["one_step_mse"]),
                f"{record['max_root_modulus']:.4f}",
                f"{record['max_free_root_modulus']:.4f}",
                number(record["run_mse_1000"]),
                number(record["largest_angle"]),
                number(record["last_swing"]),
                f"{record['num_bounded_steps']:,}",
            ]
            for record in records
        ]
        header = ["c", "seed", "one-step MSE", "max |root|", "of the free ones", "1,000-step MSE"]
        header += ["largest angle", "last swing", "bounded steps"]
        print_table("The pendulum at order 5 (angles in units of the true amplitude)", header, rows)
        typer.echo(f"Picture and result lines: {out}/")
    bounded: dict[str, list[bool]] = {}
    for result in results:
        bounded.setdefault(result.contestant, []).append(result.is_bounded)
    told = "; ".join(f"{name}: {sum(found)} of {len(found)}" for name, found in bounded.items())
    typer.echo(f"Runs of 1,000 steps that stay bounded. {told}.")


@with_groups
def depth(
    task: Annotated[
        list[str] | None,
        typer.Option("--task", help="cora, chameleon, chain or half-chain. Can be repeated. Default: all."),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option("--system", help="A system, for example TDE-GNN_S. Can be repeated. Default: all four."),
    ] = None,
    run: ExperimentOptions = ExperimentOptions(Path("runs/depth.jsonl")),
    picture: Picture = None,
    seed: Seed = 0,
) -> None:
    """Networks of 64 and 256 layers: accuracy, states and gradients by layer, for four systems. Not in the paper."""
    from tdegnn.analysis.plots import save_figure
    from tdegnn.experiments.depth import DEPTH_LINES, SYSTEMS, TASKS, choose_lines, train_depth
    from tdegnn.experiments.depth_plots import plot_depth
    from tdegnn.training.devices import choose_placement

    def train(name: str, row: System) -> None:
        placement = choose_placement(run.device.value, TASKS[name].precision)
        train_depth(name, TASKS[name].configs(row), run.out, placement=placement, seed=seed)

    tasks, systems = choose_names(task, tuple(TASKS), "task"), choose_names(system, SYSTEMS, "system")
    run.compute(train, [(name, row) for name in tasks for row in systems], "depth")
    asked = run.read(DEPTH_LINES, dataset=tasks, system=systems)
    # Each split adds a thousand to the seed.
    chosen = choose_lines([line for line in asked if line["seed"] == seed + 1000 * line["split"]])
    drawn = save_figure(plot_depth(chosen), picture or run.out.with_suffix(".png"))
    records = [_summary(name, row, lines) for (name, row), lines in chosen.items()]
    header = ["task", "system", "splits", "test accuracy", "h", "learning rate", "max |root|"]
    header += ["last / first state", "first / last gradient"]
    rows = [
        [
            record["task"],
            record["system"],
            str(record["splits"]),
            f"{100 * record['test_accuracy']:.2f} ± {100 * record['deviation']:.2f}",
            number(record["step_size"]),
            number(record["learning_rate"]),
            number(record["max_root_modulus"]),
            number(record["state_growth"]),
            number(record["gradient_growth"]),
        ]
        for record in records
    ]
    run.show(
        {"rows": records, "picture": str(drawn)},
        [("Deep networks, the settings that validation chose; growth is a median", header, rows)],
        f"{len(records)} rows in {run.out}, figure in {drawn}.",
    )


def _summary(name: str, system: str, lines: list[Any]) -> dict[str, Any]:
    """Return a row of the table: mean test accuracy, the chosen settings, and growth over all layers after training."""
    import numpy as np

    def median(values: list[float | None]) -> float:
        return float(np.median([np.nan if value is None else value for value in values]))

    def ratio(row: str, to: int, by: int) -> float:
        ends = [(line["trained"][row][to], line["trained"][row][by]) for line in lines]
        return median([None if None in pair or not pair[1] else pair[0] / pair[1] for pair in ends])

    accuracies = [line["test_accuracy"] for line in lines]
    return {
        "task": name,
        "system": system,
        "splits": len(lines),
        "test_accuracy": float(np.mean(accuracies)),
        "deviation": float(np.std(accuracies)),
        "step_size": lines[0]["configuration"]["step_size"],
        "learning_rate": lines[0]["configuration"]["spatial"]["learning_rate"],
        "max_root_modulus": median([line["max_root_modulus"] for line in lines]),
        "state_growth": ratio("states", -1, 0),
        "gradient_growth": ratio("gradients", 0, -1),
    }
