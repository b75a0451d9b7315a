"""`tdegnn zoo`: the spatial terms and the systems, with equation, citation, settings and numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.options import AsJson
from tdegnn.cli.output import num_columns, print_json, print_table

if TYPE_CHECKING:
    from tdegnn.experiments.zoo import Measured, Setting, ZooEntry

# Columns of a terminal on which two numbers of each dataset are side by side.
WIDE = 140
NOT_TRAINED = "Not trained on the benchmarks by a recipe of"


def zoo(
    name: Annotated[
        str | None, typer.Argument(help="An operator or a system, to show all about it.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List spatial terms (for --operator) and systems: equation, citation, and the paper's and our accuracy."""
    from tdegnn.experiments.zoo import collect_zoo, find_entries

    entries = collect_zoo()
    if name is not None:
        entries = find_entries(name, entries)
    if as_json:
        print_json([entry.to_record() for entry in entries])
    elif name is not None:
        for entry in entries:
            _print_entry(entry)
    else:
        _print_lists(entries)


def _print_lists(entries: Sequence[ZooEntry]) -> None:
    from tdegnn.experiments.table1 import DATASETS
    from tdegnn.experiments.zoo import tabulate_by_rule

    operators = [entry for entry in entries if entry.kind == "operator"]
    systems = [entry for entry in entries if entry.kind == "system"]
    rows = [[entry.name, entry.equation, entry.authors] for entry in operators]
    print_table("Spatial terms s, for --operator", ["name", "equation", "citation"], rows, num_texts=3)
    (header, *rows), others = tabulate_by_rule(operators)
    title = "Our test accuracy with an operator, in percent: c = [1] / the best learned rule by validation"
    _print_numbers(title, header, rows)
    typer.echo(f"{NOT_TRAINED} their own, so without numbers: {', '.join(others)}.\n")
    datasets = [name for name in DATASETS if any(name in entry.datasets for entry in systems)]
    rows = [[entry.name, entry.equation, entry.authors] for entry in systems]
    title = "Systems: a layer, the scores, or s in F[l+1] = sum_p c_p F[l-p+1] + h s(F[l]; G)"
    print_table(title, ["name", "equation", "citation"], rows, num_texts=3)
    rows = [[entry.name, *(_numbers(entry, dataset) for dataset in datasets)] for entry in systems]
    title = "Systems: our test accuracy (the published one), in percent"
    _print_numbers(title, ["name", *datasets], rows)
    typer.echo("All about one, with its settings: tdegnn zoo NAME")


def _print_numbers(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print accuracies, those of a cell one below the other if the terminal is narrow."""
    headings = [name.replace("-", "-\n") for name in header]
    if num_columns() < WIDE:
        rows = [[name, *(cell.replace(" (", "\n(").replace("/ ", "/\n") for cell in cells)] for name, *cells in rows]
    print_table(title, headings, rows)


def _numbers(entry: ZooEntry, dataset: str) -> str:
    ours, paper = entry.measured.get(dataset), entry.published.get(dataset)
    parts = [] if ours is None else [f"{ours.mean:.1f}"]
    return " ".join([*parts, *([] if paper is None else [f"({paper.mean:.1f})"])]) or "-"


def _print_entry(entry: ZooEntry) -> None:
    facts = [
        ["equation", entry.equation],
        ["citation", entry.citation],
        *(["deviation", each] for each in entry.deviations),
        ["operators" if entry.kind == "system" else "systems", ", ".join(entry.see)],
    ]
    print_table(f"{entry.name} ({entry.kind})", ["", ""], [fact for fact in facts if fact[1]], num_texts=2)
    if entry.settings:
        rows = [[_name(each), _shown(each.default), each.meaning] for each in entry.settings]
        print_table("Settings", ["name", "default", "meaning"], rows, num_texts=3)
    if entry.by_rule:
        rows = [
            [name, found.row, _mean(found.fixed), f"{_mean(found.learned)} ({found.rule})", str(found.fixed.num_splits)]
            for name, found in ((name, entry.by_rule[name]) for name in entry.datasets)
        ]
        header = ["dataset", "recipe of the row", "c = [1]", "best learned rule by validation", "splits"]
        print_table("Our test accuracy in percent", header, rows, num_texts=2)
    elif entry.kind == "operator":
        typer.echo(f"{NOT_TRAINED} its own: we have no numbers with this operator.\n")
    if entry.kind == "system" and entry.datasets:
        rows = []
        for dataset in entry.datasets:
            ours, paper = entry.measured.get(dataset), entry.published.get(dataset)
            rows.append(
                [
                    dataset,
                    "-" if paper is None else str(paper),
                    "-" if ours is None else _mean(ours),
                    "-" if ours is None else str(ours.num_splits),
                ]
            )
        print_table("Test accuracy in percent", ["dataset", "published", "ours", "splits"], rows)


def _mean(numbers: Measured) -> str:
    return f"{numbers.mean:.2f} ± {numbers.deviation:.2f}"


def _name(setting: Setting) -> str:
    return f"{setting.within}: {setting.name}" if setting.within else setting.name


def _shown(default: Any) -> str:
    """Return a default as it is typed after `--set NAME=`."""
    return default if isinstance(default, str) else json.dumps(default, default=str)
