"""`tdegnn data check`: read the user's own files, and report what is in them or what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.options import AsJson, reads_files, with_groups
from tdegnn.cli.output import print_json, print_notes
from tdegnn.cli.series import SeriesFile, TableOptions, read_series

if TYPE_CHECKING:
    from tdegnn.data.panel import Panel


@reads_files
@with_groups
def check(
    series: SeriesFile,
    tables: TableOptions,
    window: Annotated[int, typer.Option(help="Number of steps that a forecast would see.", min=1)] = 4,
    horizon: Annotated[int, typer.Option(help="Number of steps that it would forecast.", min=1)] = 4,
    as_json: AsJson = False,
) -> None:
    """Read your own series and graph, and report what is in them or what is wrong."""
    panel = read_series(series, tables)
    facts = _facts(panel, series, window, horizon)
    if as_json:
        print_json(facts)
        return
    notes = facts.pop("notes")
    facts["windows"] = " / ".join(map(str, facts["windows"])) + " (training / validation / test)"
    facts["observed"] = f"{facts['observed']:.1%}"
    for name, fact in facts.items():
        words = ", ".join(fact) if isinstance(fact, list) else fact
        typer.echo(f"{name.replace('_', ' '):<16} {words or 'none'}")
    print_notes(notes)


def _facts(panel: Panel, series: Path, window: int, horizon: int) -> dict[str, Any]:
    from tdegnn.data.splits import split_chronologically
    from tdegnn.data.times.times import describe_step, show_time

    counts = split_chronologically(panel.num_steps, window).count_windows(horizon)
    notes = list(panel.notes)
    if 0 in counts:
        notes.append("Not every subset has a window: take a shorter horizon, a shorter window or a longer series.")
    return {
        "series": str(series),
        "nodes": panel.num_nodes,
        "steps": panel.num_steps,
        "step": describe_step(panel.times),
        "from": show_time(panel.times[0]),
        "to": show_time(panel.times[-1]),
        "time_zone": panel.time_zone,
        "forecast": list(panel.channels[: panel.num_targets]),
        "exogenous": list(panel.channels[panel.num_targets :]),
        "observed": float(panel.observed.mean()),
        "graph": None if panel.graph is None else str(panel.graph),
        "windows": counts,
        "notes": notes,
    }
