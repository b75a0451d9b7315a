"""`tdegnn reproduce ten-graphs`: a classifier without a word on ten graphs, next to the features alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import (
    AsJson,
    Device,
    DeviceOption,
    Quiet,
    Report,
    ResultLines,
    check_report,
    choose_names,
)
from tdegnn.cli.output import print_json, print_table, progress_bar
from tdegnn.cli.reproduce.operators import Workers


def ten_graphs(
    graph: Annotated[
        list[str] | None, typer.Option("--graph", help="Name of a graph. Can be repeated. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds.", min=1)] = 5,
    first_seed: Annotated[int, typer.Option(help="The first seed. The others follow it.", min=0)] = 0,
    long_seeds: Annotated[int, typer.Option(help="Seeds that are also trained for all 3,000 steps.", min=0)] = 2,
    out: ResultLines = Path("runs/ten_graphs.jsonl"),
    report: Report = False,
    workers: Workers = 1,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Test scores of `NodeClassifier()` on ten graphs, of 3,000 steps, and of the features alone."""
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.side_by_side import compute_cells
    from tdegnn.experiments.ten_graphs import (
        COLUMNS,
        DEFAULT,
        FEATURES,
        GRAPH_LINES,
        GRAPHS,
        LONG,
        compare,
        mean_scores,
        try_graph,
    )

    names = choose_names(graph, tuple(GRAPHS), "graph")
    check_report(report, out)
    if not report:
        asked = [
            (name, system, seed, out, device.value)
            for system, count in ((DEFAULT, seeds), (LONG, min(seeds, long_seeds)))
            for seed in range(first_seed, first_seed + count)
            for name in names
        ]
        with progress_bar(len(asked), "ten graphs", is_quiet=quiet or as_json) as tick:
            compute_cells(try_graph, asked, workers, lambda cell: tick(f"{cell[0]}, seed {cell[2]}"))
    lines = read_lines(out, GRAPH_LINES, graph=names)
    found = {name: mean_scores(lines, name) for name in names}
    gains = {name: {other: compare(lines, name, other) for other in (FEATURES, LONG)} for name in names}
    if as_json:
        print_json(
            {
                name: {
                    "scores": found[name],
                    "ahead": {other: None if each is None else each.gain for other, each in gains[name].items()},
                }
                for name in names
            }
        )
        return
    if not quiet:
        rows = [
            [name]
            + [f"{found[name][column]:.1f}" if column in found[name] else "-" for column in COLUMNS]
            + ["-" if each is None else str(each) for each in gains[name].values()]
            for name in names
        ]
        header = ["graph", *COLUMNS, "over features (seeds)", "over 3,000 steps (seeds)"]
        print_table("Test scores in percent: ROC-AUC for two classes, else accuracy", header, rows)
    typer.echo(f"{len(lines)} lines in {out}.")
