"""`tdegnn reproduce known-orders`: whether nested fits find the order of simulated systems."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import AsJson, Device, DeviceOption, OutFolder, Quiet, Seed
from tdegnn.cli.output import print_json, print_table, progress_bar


class Optimizer(StrEnum):
    """How each history length is trained."""

    PROJECTION = "projection"
    LBFGS = "lbfgs"


def known_orders(
    out: OutFolder = Path("runs/known-orders"),
    seeds: Annotated[
        int, typer.Option(help="Number of seeds (graphs, initial states, weights), from --seed on.", min=1)
    ] = 3,
    optimizer: Annotated[
        Optimizer,
        typer.Option(
            help="How networks are trained: by variable projection, which solves for c, or by L-BFGS, with which not "
            "every fit above the true order converges."
        ),
    ] = Optimizer.PROJECTION,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the order of simulated systems of order 1, 2 and 3. Not in the paper."""
    from tdegnn.analysis.order import show_share
    from tdegnn.experiments.known_orders import SYSTEMS, run_known_order
    from tdegnn.experiments.nested_orders import ORDERS, PROJECTED, QUASI_NEWTON
    from tdegnn.experiments.records import describe_environment, write_records
    from tdegnn.training.devices import choose_device

    chosen, effort = choose_device(device.value), PROJECTED if optimizer is Optimizer.PROJECTION else QUASI_NEWTON
    out.mkdir(parents=True, exist_ok=True)
    results = []
    with progress_bar(len(SYSTEMS) * seeds * len(ORDERS), "simulated systems", is_quiet=quiet or as_json) as tick:
        for system in SYSTEMS:
            for current_seed in range(seed, seed + seeds):
                tick_system = partial(tick, system)
                results.append(run_known_order(system, current_seed, device=chosen, effort=effort, on_fit=tick_system))
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
            + [show_share(share) for share in result.nested.shares.values()]
            for result in results
        ]
        header = ["system", "seed", "true order", "found"] + [f"share, o = {order}" for order in ORDERS]
        print_table("Explained share of the o-th difference, on held-out trajectories", header, rows)
    typer.echo(f"Order found for {num_right} of {len(results)} simulated systems.")
