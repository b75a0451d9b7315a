"""`tdegnn reproduce mini-batches`: one recipe on the whole graph, by partitions and by neighborhoods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import (
    AsJson,
    Datasets,
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


def mini_batches(
    dataset: Datasets = None,
    splits: Annotated[int, typer.Option(help="Number of splits, from the first on.", min=1, max=10)] = 10,
    epochs: Annotated[int, typer.Option(help="How often each training node is seen.", min=1)] = 400,
    out: ResultLines = Path("runs/mini_batches.jsonl"),
    report: Report = False,
    workers: Workers = 1,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Accuracy of one recipe on PubMed and Squirrel: on the whole graph, by partitions and by neighborhoods."""
    from tdegnn.experiments.mini_batches import BATCH_LINES, BATCHES, DATASETS, compare_batches, try_batches
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.side_by_side import compute_cells

    names = choose_names(dataset, DATASETS, "dataset")
    check_report(report, out)
    if not report:
        asked = [
            (name, system, split, out, device.value, epochs)
            for split in range(splits)
            for name in names
            for system in BATCHES
        ]
        with progress_bar(len(asked), "mini-batches", is_quiet=quiet or as_json) as tick:
            compute_cells(try_batches, asked, workers, lambda cell: tick(f"{cell[0]}, {cell[1]}, split {cell[2]}"))
    lines = read_lines(out, BATCH_LINES, dataset=names)
    found = {name: compare_batches(lines, name) for name in names}
    if as_json:
        print_json(
            {
                name: {
                    system: {
                        "test_accuracy": each.cell.mean,
                        "deviation": each.cell.deviation,
                        "splits": len(each.cell.test_accuracies),
                        "seconds": each.seconds,
                        "difference": each.difference,
                        "is_within": each.is_within,
                    }
                    for system, each in systems.items()
                }
                for name, systems in found.items()
            }
        )
        return
    if not quiet:
        rows = [
            [
                name,
                system,
                f"{each.cell.mean:.2f} ± {each.cell.deviation:.2f} ({len(each.cell.test_accuracies)})",
                "-" if each.difference is None else f"{each.difference:+.2f}",
                "-" if each.is_within is None else "yes" if each.is_within else "no",
                f"{each.seconds:.1f}",
            ]
            for name, systems in found.items()
            for system, each in systems.items()
        ]
        header = ["dataset", "training", "test (splits)", "over the whole graph", "within one deviation", "seconds"]
        print_table("Test accuracy in percent", header, rows)
    typer.echo(f"{len(lines)} lines in {out}.")
