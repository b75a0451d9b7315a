"""`tdegnn reproduce order-found`: how far the verdict of `tdegnn order` can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import AsJson, Quiet, Report, ResultLines, check_report, choose_names
from tdegnn.cli.output import print_json, print_table, progress_bar


def order_found(
    system: Annotated[
        list[str] | None, typer.Option("--system", help="Name of a system. Can be repeated. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds (graphs, initial states, noise).", min=1)] = 20,
    out: ResultLines = Path("runs/order_found.jsonl"),
    report: Report = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the order of simulated systems from the data alone, with more and more noise. Not in the paper."""
    from tdegnn.experiments.order_found import (
        FIRST_SEED,
        ORDER_LINES,
        SYSTEMS,
        breaking_noises,
        count_runs,
        run_missing,
        summarize_orders,
    )
    from tdegnn.experiments.records import read_lines

    systems = choose_names(system, tuple(SYSTEMS), "system")
    check_report(report, out)
    if not report:
        with progress_bar(count_runs(systems, seeds), "order found", is_quiet=quiet or as_json) as tick:
            run_missing(out, systems, range(FIRST_SEED, FIRST_SEED + seeds), on_run=tick)
    cells = summarize_orders(read_lines(out, ORDER_LINES, system=systems))
    if as_json:
        print_json([{"system": name, "noise": noise, **vars(cell)} for (name, noise), cell in cells.items()])
        return
    broken = breaking_noises(cells)
    if not quiet:
        noises = sorted({noise for _, noise in cells})
        rows = []
        for name, breaks_at in broken.items():
            of_system = [cells.get((name, noise)) for noise in noises]
            rows.append(
                [
                    name,
                    *(_verdicts(cell.num_right, cell.num_wrong, cell.num_runs) if cell else "-" for cell in of_system),
                    "-" if breaks_at is None else f"{breaks_at:g}",
                ]
            )
        header = ["system", *(f"noise {noise:g}" for noise in noises), "breaks at"]
        print_table("Right verdicts (wrong ones in brackets; in the other runs the data could not tell)", header, rows)
    num_wrong = sum(cell.num_wrong for cell in cells.values())
    typer.echo(f"{sum(cell.num_runs for cell in cells.values())} runs in {out}; {num_wrong} verdicts are wrong.")


def _verdicts(num_right: int, num_wrong: int, num_runs: int) -> str:
    return f"{num_right}/{num_runs}" + (f" ({num_wrong})" if num_wrong else "")
