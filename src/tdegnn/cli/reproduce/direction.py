"""`tdegnn reproduce direction`: what the direction of links is worth to three systems of Table 1."""

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


def direction(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="A graph with directed links. Can be repeated. Default: all.")
    ] = None,
    system: Annotated[
        list[str] | None, typer.Option("--system", help="GCN, LINKX or DE-GNN. Can be repeated. Default: all.")
    ] = None,
    out: ResultLines = Path("runs/direction.jsonl"),
    report: Report = False,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Accuracy of three systems along links, against links, and along both directions, on ten splits."""
    from tdegnn.experiments.direction import (
        DIRECTED,
        DIRECTION_LINES,
        DIRECTIONS,
        SYSTEMS,
        summarize_directions,
        train_directions,
    )
    from tdegnn.experiments.records import read_lines
    from tdegnn.training.devices import choose_placement

    datasets = choose_names(dataset, DIRECTED, "dataset")
    systems = choose_names(system, SYSTEMS, "system")
    check_report(report, out)
    if not report:
        placement = choose_placement(device.value)
        with progress_bar(len(datasets) * len(systems), "direction", is_quiet=quiet or as_json) as tick:
            for name in datasets:
                for row in systems:
                    train_directions(name, row, out, placement)
                    tick(f"{name} {row}")
    cells = summarize_directions(read_lines(out, DIRECTION_LINES, dataset=datasets, system=systems))
    if as_json:
        print_json(
            [
                {
                    "dataset": name,
                    "system": row,
                    "direction": way,
                    "test_accuracy": cell.mean,
                    "deviation": cell.deviation,
                }
                for (name, row, way), cell in cells.items()
            ]
        )
        return
    if not quiet:
        texts = {key: f"{cell.mean:.2f} ± {cell.deviation:.2f}" for key, cell in cells.items()}
        pairs = list(dict.fromkeys((name, row) for name, row, _ in cells))
        rows = [[name, row, *(texts.get((name, row, way), "-") for way in DIRECTIONS)] for name, row in pairs]
        print_table("Test accuracy by whose states a node receives", ["dataset", "system", *DIRECTIONS], rows)
    typer.echo(f"{len(cells)} rows in {out}.")
