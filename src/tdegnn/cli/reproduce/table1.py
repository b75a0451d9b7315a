"""`tdegnn reproduce table1 | runtimes`: node classification and its runtimes, next to the paper's numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.options import AsJson, Datasets, Device, DeviceOption, Quiet, Seed, choose_names, with_groups
from tdegnn.cli.output import TextTable, print_json, print_table
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.experiments.node_results import Cell


@with_groups
def table1(
    dataset: Datasets = None,
    system: Annotated[
        list[str] | None,
        typer.Option("--system", help="A row, for example TDE-GNN_D or LINK-ridge. Can be repeated. Default: all."),
    ] = None,
    run: ExperimentOptions = ExperimentOptions(Path("runs/table1.jsonl")),
    seed: Seed = 0,
) -> None:
    """Table 1: test accuracy on ten splits, for c = [1], a learned vector, attention, a stable vector, and rivals."""
    from tdegnn.experiments.node_results import NODE_LINES, train_row
    from tdegnn.experiments.recipe_files import read_recipes
    from tdegnn.experiments.table1 import (
        DATASETS,
        KERNEL_RIDGE,
        LINK_RIDGE,
        SOLVED,
        SYSTEMS,
        solve_kernel_ridge,
        solve_link_ridge,
        summarize,
    )

    datasets = choose_names(dataset, DATASETS, "dataset")
    systems = choose_names(system, SYSTEMS, "system")
    if run.must_compute():
        placement = run.placement
        with run.progress(len(datasets) * len(systems), "table 1") as tick:
            for name in datasets:
                recipes = read_recipes(name)
                missing = [row for row in system or () if row not in recipes and row not in SOLVED]
                if missing:
                    raise InputError(
                        f"Expected a system with a recipe for {name}, got {missing[0]}, which has none yet."
                    )
                for row in systems:
                    if row == LINK_RIDGE:
                        solve_link_ridge(name, run.out)
                    elif row == KERNEL_RIDGE:
                        solve_kernel_ridge(name, run.out, placement.device)
                    elif row in recipes:
                        train_row(name, recipes[row], run.out, placement=placement, seed=seed)
                    tick(f"{name} {row}")
    cells = summarize(run.read(NODE_LINES, dataset=datasets, system=systems))
    tables = [_table_of_accuracies(cells, datasets, systems), *_table_of_gains(cells, datasets)]
    run.show(_to_records(cells), tables, f"{len(cells)} rows of 10 splits, chosen by validation, in {run.out}.")


def runtimes(
    out: Annotated[Path, typer.Option("--out", "-o", help="File of result lines. It is overwritten.")] = Path(
        "runs/runtimes.jsonl"
    ),
    repetitions: Annotated[int, typer.Option(help="Number of measurements per system.", min=1)] = 30,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Table of runtimes: a training step and an inference on Cora, and the number of parameters."""
    from tdegnn.data.benchmarks.load import load_nodes
    from tdegnn.experiments.paper import RUNTIMES
    from tdegnn.experiments.records import describe_environment, write_records
    from tdegnn.experiments.runtimes import measure_runtimes
    from tdegnn.training.devices import choose_placement

    chosen = choose_placement(device.value)
    measured = measure_runtimes(load_nodes("cora"), chosen, repetitions)
    records = [runtime.to_record() | describe_environment(chosen.device) for runtime in measured]
    write_records(out, records)
    if as_json:
        print_json(records)
        return
    if not quiet:
        rows = []
        for runtime in measured:
            training, inference, thousands = RUNTIMES[runtime.system]
            numbers = [f"{runtime.training_ms:.2f}", f"{training:g}", f"{runtime.inference_ms:.2f}", f"{inference:g}"]
            rows.append([runtime.system, *numbers, f"{runtime.num_parameters:,}", f"{thousands:g} thousand"])
        header = ["system", "training ms", "paper", "inference ms", "paper", "parameters", "paper"]
        print_table(f"Cora, 64 channels, 8 layers, order 8, on {chosen.device.type} (paper: RTX 3090)", header, rows)
    slowest = max(measured, key=lambda runtime: runtime.training_ms)
    typer.echo(f"Slowest is {slowest.system}: {slowest.training_ms / measured[0].training_ms:.2f} times DE-GNN.")


def _table_of_accuracies(cells: Mapping[tuple[str, str], Cell], datasets: list[str], systems: list[str]) -> TextTable:
    from tdegnn.experiments.paper import BEST_NODE_ACCURACY, NODE_ACCURACY

    rows = []
    for name in datasets:
        best, whose = BEST_NODE_ACCURACY.get(name, (None, ""))
        for row in systems:
            cell = cells.get((name, row))
            if cell is None:
                continue
            printed = NODE_ACCURACY.get(row, {}).get(name)
            rows.append(
                [
                    name,
                    row,
                    f"{cell.mean:.2f} ± {cell.deviation:.2f}",
                    "-" if printed is None else f"{printed.mean:.2f}",
                    "-" if printed is None else f"{cell.mean - printed.mean:+.2f}",
                    "-" if best is None else f"{cell.mean - best:+.2f} ({whose})",
                ]
            )
    header = ["dataset", "system", "test accuracy", "paper", "difference", "to the best known"]
    return "Node classification, mean over 10 splits, chosen by validation", header, rows


def _table_of_gains(cells: Mapping[tuple[str, str], Cell], datasets: list[str]) -> Iterator[TextTable]:
    """Return a table, or nothing if no learned row has its row of c = [1]."""
    from tdegnn.experiments.node_results import paired_gain
    from tdegnn.experiments.table1 import FIXED, LEARNED

    rows = [
        [name, row, str(paired_gain(cells[name, row], cells[name, FIXED]))]
        for name in datasets
        for row in LEARNED
        if (name, row) in cells and (name, FIXED) in cells
    ]
    if rows:
        header = ["dataset", "system", "points over DE-GNN (95 % interval)"]
        yield "Gain of learned coefficients over c = [1], paired over the splits", header, rows


def _to_records(cells: Mapping[tuple[str, str], Cell]) -> list[dict[str, Any]]:
    return [
        {
            "dataset": name,
            "system": row,
            "test_accuracy": cell.mean,
            "deviation": cell.deviation,
            "splits": cell.test_accuracies,
        }
        for (name, row), cell in cells.items()
    ]
