"""`tdegnn reproduce audit`: what makes accuracies on benchmarks high besides a network. Nothing is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import AsJson, Datasets, Quiet, choose_names
from tdegnn.cli.output import print_json, print_table


def audit(
    dataset: Datasets = None,
    searches: Annotated[
        Path | None,
        typer.Option(
            help="Lines of a search, as in results/table1_search.parquet: what would a choice by test accuracy add?",
            show_default="none",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Twins among the nodes of benchmarks, whose labels can be looked up; and what a choice by test accuracy adds."""
    from tdegnn.data.benchmarks.load import load_nodes
    from tdegnn.errors import InputError
    from tdegnn.experiments.audit import report_selection, report_twins
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.row_search import TRIAL_LINES
    from tdegnn.experiments.table1 import DATASETS

    if searches is not None and not searches.exists():
        raise InputError(f"Expected lines of a search at {searches}, got no such file. Check the path.")
    names = choose_names(dataset, DATASETS, "dataset")
    twins = {name: report_twins(load_nodes(name)) for name in names}
    selection = [] if searches is None else report_selection(read_lines(searches, TRIAL_LINES))
    if as_json:
        records = [{"dataset": name, **found.to_record()} for name, found in twins.items()]
        print_json({"twins": records, "selection": [found.to_record() for found in selection]})
        return
    if not quiet:
        rows = [
            [name, f"{100 * found.twins:.1f} %", f"{100 * found.covered:.1f} %", f"{100 * found.accuracy:.1f} %"]
            for name, found in twins.items()
        ]
        header = ["dataset", "nodes with a twin", "test nodes with a twin in training", "its label is right"]
        print_table("Twins: nodes with the same list of links", header, rows)
        if selection:
            header = ["search", "searches", "configurations each", "mean gain, points", "highest"]
            rows = [
                [
                    found.stage,
                    str(found.num_searches),
                    f"{found.num_configurations:.0f}",
                    f"{found.mean_gain:.2f}",
                    f"{found.highest_gain:.2f}",
                ]
                for found in selection
            ]
            print_table("What a choice by test accuracy adds to the reported number", header, rows)
    typer.echo(f"{len(twins)} datasets and {sum(found.num_searches for found in selection)} searches looked at.")
