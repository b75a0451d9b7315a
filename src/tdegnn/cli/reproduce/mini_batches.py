"""`tdegnn reproduce mini-batches`: one recipe on whole graphs, with short messages too, and by batches of two kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import Datasets, choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions, Workers


@with_groups
def mini_batches(
    dataset: Datasets = None,
    splits: Annotated[int, typer.Option(help="Number of splits, from the first on.", min=1, max=10)] = 10,
    epochs: Annotated[
        int, typer.Option(help="How often each training node is seen; by small partitions, an eighth of that.", min=1)
    ] = 400,
    run: ExperimentOptions = ExperimentOptions(Path("runs/mini_batches.jsonl")),
    workers: Workers = 1,
) -> None:
    """Accuracy of one recipe on PubMed and Squirrel: on the whole graph, with messages of 16 bits, and by batches."""
    from tdegnn.experiments.mini_batches import BATCH_LINES, DATASETS, WAYS, compare_batches, try_batches

    names = choose_names(dataset, DATASETS, "dataset")
    run.compute(
        try_batches,
        [
            (name, system, split, run.out, run.device.value, epochs)
            for split in range(splits)
            for name in names
            for system in WAYS
        ],
        "mini-batches",
        lambda name, system, split, *_: f"{name}, {system}, split {split}",
        workers,
    )
    lines = run.read(BATCH_LINES, dataset=names)
    found = {name: compare_batches(lines, name) for name in names}
    record = {
        name: {
            system: {
                "test_accuracy": each.cell.mean,
                "deviation": each.cell.deviation,
                "splits": len(each.cell.test_accuracies),
                "steps": each.num_steps,
                "seconds": each.seconds,
                "difference": each.difference,
                "is_within": each.is_within,
            }
            for system, each in systems.items()
        }
        for name, systems in found.items()
    }
    rows = [
        [
            name,
            system,
            f"{each.num_steps}",
            f"{each.cell.mean:.2f} ± {each.cell.deviation:.2f} ({len(each.cell.test_accuracies)})",
            "-" if each.difference is None else f"{each.difference:+.2f}",
            "-" if each.is_within is None else "yes" if each.is_within else "no",
            f"{each.seconds:.1f}",
        ]
        for name, systems in found.items()
        for system, each in systems.items()
    ]
    header = ["dataset", "training", "steps", "test (splits)", "over the whole graph"]
    header += ["within one deviation", "seconds"]
    run.show(record, [("Test accuracy in percent", header, rows)], f"{len(lines)} lines in {run.out}.")
