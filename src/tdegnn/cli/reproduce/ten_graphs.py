"""`tdegnn reproduce ten-graphs`: a classifier without a word on ten graphs, next to the features alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions, Workers


@with_groups
def ten_graphs(
    graph: Annotated[
        list[str] | None, typer.Option("--graph", help="Name of a graph. Can be repeated. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds.", min=1)] = 5,
    first_seed: Annotated[int, typer.Option(help="The first seed. The others follow it.", min=0)] = 0,
    long_seeds: Annotated[int, typer.Option(help="Seeds that are also trained for all 3,000 steps.", min=0)] = 2,
    run: ExperimentOptions = ExperimentOptions(Path("runs/ten_graphs.jsonl")),
    workers: Workers = 1,
) -> None:
    """Test scores of `NodeClassifier()` on ten graphs, of 3,000 steps, and of the features alone."""
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
    asked = [
        (name, system, seed, run.out, run.device.value)
        for system, count in ((DEFAULT, seeds), (LONG, min(seeds, long_seeds)))
        for seed in range(first_seed, first_seed + count)
        for name in names
    ]
    run.compute(try_graph, asked, "ten graphs", lambda name, _, seed, *__: f"{name}, seed {seed}", workers)
    lines = run.read(GRAPH_LINES, graph=names)
    found = {name: mean_scores(lines, name) for name in names}
    gains = {name: {other: compare(lines, name, other) for other in (FEATURES, LONG)} for name in names}
    record = {
        name: {
            "scores": found[name],
            "ahead": {other: None if each is None else each.gain for other, each in gains[name].items()},
        }
        for name in names
    }
    rows = [
        [name]
        + [f"{found[name][column]:.1f}" if column in found[name] else "-" for column in COLUMNS]
        + ["-" if each is None else str(each) for each in gains[name].values()]
        for name in names
    ]
    header = ["graph", *COLUMNS, "over features (seeds)", "over 3,000 steps (seeds)"]
    title = "Test scores in percent: ROC-AUC for two classes, else accuracy"
    run.show(record, [(title, header, rows)], f"{len(lines)} lines in {run.out}.")
