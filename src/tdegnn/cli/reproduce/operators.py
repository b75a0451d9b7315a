"""`tdegnn reproduce rows | operators`: settings of published systems, and every operator with every rule for c."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tdegnn.cli.options import Datasets, Device, DeviceOption, Quiet, ResultLines, choose_names, with_groups
from tdegnn.cli.output import progress_bar
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions, Workers

Rows = Annotated[
    list[str] | None, typer.Option("--system", help="A row, for example GREAD. Can be repeated. Default: all.")
]


def rows(
    dataset: Datasets = None,
    system: Rows = None,
    out: ResultLines = Path("runs/rows.jsonl"),
    trials: Annotated[Path, typer.Option("--trials-file", help="File that gets one line per configuration.")] = Path(
        "runs/rows_trials.jsonl"
    ),
    recipes: Annotated[
        Path | None,
        typer.Option(
            help="Folder that gets the best configuration of each row, as recipes, and its runs, as table1.jsonl.",
            show_default="none",
        ),
    ] = None,
    workers: Workers = 1,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
) -> None:
    """Search the settings of published systems for Table 1: twelve configurations each, chosen by validation."""
    from tdegnn.experiments.row_search import adopt_rows, read_row_searches, search_row
    from tdegnn.experiments.side_by_side import compute_cells
    from tdegnn.experiments.table1 import DATASETS
    from tdegnn.training.devices import choose_placement

    datasets = choose_names(dataset, DATASETS, "dataset")
    systems = choose_names(system, tuple(read_row_searches()), "system")
    placement = choose_placement(device.value)
    cells = [(name, row, trials, out, placement) for name in datasets for row in systems]
    with progress_bar(len(cells), "rows", is_quiet=quiet) as tick:
        compute_cells(search_row, cells, workers, lambda cell: tick(f"{cell[0]} {cell[1]}"))
    if recipes is not None:
        adopt_rows(trials, out, recipes, recipes / "table1.jsonl")
    typer.echo(f"{len(cells)} rows searched: configurations in {trials}, runs in {out}.")


@with_groups
def operators(
    dataset: Datasets = None,
    system: Rows = None,
    run: ExperimentOptions = ExperimentOptions(Path("runs/operator_rules.jsonl")),
    workers: Workers = 1,
) -> None:
    """Table of operators by rules for c: what learned time adds over c = [1] on each spatial term, on ten splits."""
    from tdegnn.experiments.operator_rules import (
        EULER,
        RULE_LINES,
        RULES,
        complete_datasets,
        describe_best,
        operator_rows,
        summarize_rules,
        train_rules,
    )
    from tdegnn.experiments.table1 import DATASETS

    datasets = choose_names(dataset, DATASETS, "dataset")
    systems = choose_names(system, operator_rows(), "system")
    asked = ((name, row, run.out, run.placement) for name in datasets for row in systems)
    run.compute(train_rules, asked, "operators", num_workers=workers)
    cells = summarize_rules(run.read(RULE_LINES, dataset=datasets, operator=systems))
    records: list[dict[str, Any]] = [
        {
            "dataset": name,
            "operator": row,
            "rule": rule,
            "test_accuracy": own.cells[rule].mean,
            "deviation": own.cells[rule].deviation,
            "over_euler": None if rule == EULER else str(own.gain(rule)),
        }
        for (name, row), own in cells.items()
        for rule in RULES
    ]
    learned = [rule for rule in RULES if rule != EULER]
    table = [
        [
            name,
            row,
            f"{own.cells[EULER].mean:.2f} ± {own.cells[EULER].deviation:.2f}",
            *map(str, map(own.gain, learned)),
        ]
        for (name, row), own in cells.items()
    ]
    header = ["dataset", "operator", EULER, *(f"{rule}, points over it" for rule in learned)]
    title = "Operators by rules for c, mean over 10 splits, paired over the splits"
    complete = complete_datasets(cells, datasets) if system is None and not run.quiet else ()
    num_found = len({name for name, _ in cells})
    verdicts = [
        *(describe_best(cells, name) for name in complete),
        f"{len(cells)} operators on {num_found} datasets with {len(RULES)} rules each in {run.out}.",
    ]
    run.show(records, [(title, header, table)], "\n".join(verdicts))
