"""`tdegnn reproduce stable-pendulum | depth`: what stable coefficients change, on the pendulum and in deep networks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import AsJson, Device, DeviceOption, OutFolder, Quiet, Seed
from tdegnn.cli.output import number, print_json, print_table, progress_bar
from tdegnn.cli.reproduce import Optimizer


def stable_pendulum(
    out: OutFolder = Path("runs/stable-pendulum"),
    seeds: Annotated[int, typer.Option(help="Number of seeds of the initial weights, from --seed on.", min=1)] = 5,
    optimizer: Annotated[
        Optimizer, typer.Option(help="How every model is trained: Adam with three learning rates, or L-BFGS.")
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
    from tdegnn.training.device import choose_device

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
