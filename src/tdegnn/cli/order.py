"""`tdegnn order`: the order in time of the equation that series follow."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.analysis.order_limits import HIGHEST_ORDER, NUM_RESAMPLES, USUAL_MAX_ORDER
from tdegnn.cli.options import AsJson, Quiet, Seed, reads_files, with_groups
from tdegnn.cli.output import print_json, print_notes, print_table, progress_stages
from tdegnn.cli.series import SeriesFile, TableOptions, read_series
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.analysis.order_report import OrderFound
    from tdegnn.analysis.order_trials import OrderTrial
    from tdegnn.data.panel import Panel

# The order of an oscillation.
OSCILLATES_FROM = 2


@reads_files
@with_groups
def order(
    series: SeriesFile,
    tables: TableOptions,
    max_order: Annotated[
        int, typer.Option("--max-order", help="Largest order to try.", min=1, max=HIGHEST_ORDER)
    ] = USUAL_MAX_ORDER,
    step_size: Annotated[
        float | None,
        typer.Option(
            "--step-size",
            help="Time between two steps, for the printed equation.",
            show_default="the step of times that are numbers",
        ),
    ] = None,
    resamples: Annotated[
        int,
        typer.Option(
            "--resamples", help="Number of resamples of the data, which show how certain the verdict is.", min=2
        ),
    ] = NUM_RESAMPLES,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for a picture and the numbers.", file_okay=False)
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the order in time of the equation that series on a graph follow, and how certain it is."""
    if step_size is not None and not step_size > 0:
        raise InputError(f"Expected --step-size to be positive, got {step_size}.")
    with progress_stages(is_quiet=quiet or as_json) as show:
        show("reading tables", 0, None)
        from tdegnn.analysis.order_search import find_order

        panel = read_series(series, tables)
        done = count(1)
        show("orders", 0, max_order)
        found = find_order(
            panel,
            step_size=step_size,
            max_order=max_order,
            num_resamples=resamples,
            seed=seed,
            on_order=lambda: show("orders", next(done), max_order),
        )
    notes = [*panel.notes, *found.notes, *_notes_of_season(panel, found)]
    record = found.to_dict() | {"notes": notes}
    if out is not None:
        _save(found, record, out)
    if as_json:
        print_json(record)
        return
    if quiet:
        typer.echo(found.verdict)
        return
    _print_trials(found)
    typer.echo(found.verdict)
    _print_equation(found)
    print_notes(notes)
    if out is not None:
        typer.echo(f"Picture and numbers: {out}/")


def _notes_of_season(panel: Panel, found: OrderFound) -> list[str]:
    from tdegnn.data.times.seasons import seasons_of

    if found.order is None or found.order < OSCILLATES_FROM or not seasons_of(panel.times):
        return []
    return ["A season alone is of second order. Remove the season to find the order of the rest."]


def _save(found: OrderFound, record: dict[str, Any], folder: Path) -> None:
    from tdegnn.analysis.order_plots import plot_order
    from tdegnn.analysis.plots import save_figure
    from tdegnn.files import finite_or_null, to_json, write_whole

    save_figure(plot_order(found), folder / "order.png")
    write_whole(folder / "order.json", f"{to_json(finite_or_null(record), indent=2)}\n".encode())


def _print_trials(found: OrderFound) -> None:
    noise = f"about {found.noise_share:.2g} of the signal" if found.noise_share < 10 else "larger than the signal"
    header = ["order", "explained share", "95 % interval", "noise in it", "resamples that chose it"]
    rows = [_trial_row(trial) for trial in found.trials]
    print_table(f"What each order explains of held-out data (noise is {noise})", header, rows)


def _trial_row(trial: OrderTrial) -> list[str]:
    from tdegnn.analysis.order_trials import percent_reached

    noise, chosen = f"{100 * min(trial.noise, 1.0):.1f} %", percent_reached(trial.chosen)
    if trial.explained_share is None or trial.low is None or trial.high is None:
        return [str(trial.order), "hidden by noise", "-", noise, chosen]
    explained, low, high = (percent_reached(share, 1) for share in (trial.explained_share, trial.low, trial.high))
    return [str(trial.order), explained, f"{low} to {high}", noise, chosen]


def _print_equation(found: OrderFound) -> None:
    if found.order is None:
        return
    typer.echo(f"Equation: {found.equation}")
    for entry in found.derivatives:
        interval = (
            f"{entry.weight:.3g} ({entry.low:.3g} to {entry.high:.3g}) in units of steps, where D_{found.order} = 1"
        )
        typer.echo(f"D_{entry.order} = {interval}: {entry.meaning}.")
    if any(trial.order > found.order for trial in found.trials):
        typer.echo("The order is the smallest that explains enough; the shares of larger ones tell nothing more.")
