"""Write the tables of results/README.md and docs/honest_benchmarks.md from the result lines, as `make results` does."""

import json
from statistics import fmean, median

from tdegnn.experiments import table2
from tdegnn.experiments.best_tables import validation_of
from tdegnn.experiments.direction import DIRECTION_LINES, DIRECTIONS, summarize_directions
from tdegnn.experiments.node_results import paired_gain
from tdegnn.experiments.operator_rules import (
    EULER,
    RULE_LINES,
    RULES,
    complete_datasets,
    describe_best,
    summarize_rules,
    with_rule,
)
from tdegnn.experiments.paper import BEST_NODE_ACCURACY, FORECAST_ERRORS, NODE_ACCURACY
from tdegnn.experiments.protocols import PROTOCOLS
from tdegnn.experiments.recipe_files import read_recipes
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.series_rows import SERIES_LINES
from tdegnn.experiments.table1 import DATASETS, FIXED, LEARNED, SYSTEMS, TUNED, summarize
from tests.batches_page import renew_batches
from tests.best_page import renew_searched
from tests.defaults_page import renew_generated
from tests.gaps_page import CLOSE, renew_gaps
from tests.markdown import as_table, heading, put_into_page
from tests.operators_page import render_without_row, renew_operators
from tests.series_page import renew_series_search, renew_sizes
from tests.traffic_page import renew_traffic
from tests.zoo import LINES, ROOT, RULES_LINES

README = ROOT / "README.md"
PAGE = ROOT / "results" / "README.md"
TABLE2 = ROOT / "results" / "table2.jsonl"
HONEST_PAGE = ROOT / "docs" / "honest_benchmarks.md"
SEARCHES = ROOT / "results" / "table1_search.jsonl"
AUDIT = ROOT / "results" / "audit.json"
DIRECTION = ROOT / "results" / "direction.jsonl"


def render_accuracies(cells):
    """Return all rows of Table 1. The best of each dataset is bold."""
    best = {name: max(cell.mean for key, cell in cells.items() if key[0] == name) for name in DATASETS}

    def text(dataset, system):
        cell = cells.get((dataset, system))
        if cell is None:
            return "-"
        mean = f"**{cell.mean:.2f}**" if cell.mean == best[dataset] else f"{cell.mean:.2f}"
        return f"{mean} ± {cell.deviation:.2f}"

    rows = [[system, *(text(name, system) for name in DATASETS)] for system in SYSTEMS]
    return as_table([["system", *map(heading, DATASETS)], *(row for row in rows if set(row[1:]) != {"-"})])


def best_row(cells, dataset, systems):
    """Return the name of the row with the highest mean test accuracy, and that mean."""
    means = {system: cells[dataset, system].mean for system in systems if (dataset, system) in cells}
    best = max(means, key=means.get)
    return best, means[best]


def chosen_row(cells, dataset, systems):
    """Return the name of the row that validation chooses, and its mean test accuracy."""
    known = [system for system in systems if (dataset, system) in cells]
    chosen = max(known, key=lambda system: validation_of(cells[dataset, system]))
    return chosen, cells[dataset, chosen].mean


def printed_best(dataset):
    """Return the highest of the paper's numbers for TDE-GNN."""
    return max(NODE_ACCURACY[system][dataset].mean for system in ("TDE-GNN_D", "TDE-GNN_A"))


def render_best(cells):
    """Return our best TDE-GNN beside the paper's, and the best row of all beside the best number known."""
    rows = []
    for name, (known, whose) in BEST_NODE_ACCURACY.items():
        ours, mean = chosen_row(cells, name, TUNED)
        best, highest = best_row(cells, name, SYSTEMS)
        printed = " / ".join(f"{NODE_ACCURACY[system][name].mean:.2f}" for system in (FIXED, *LEARNED[:2]))
        rows.append(
            [
                heading(name),
                f"{mean:.2f} ({ours.removeprefix('TDE-GNN_').removeprefix('TDE-GNN, ')})",
                printed,
                f"{mean - printed_best(name):+.2f}",
                f"{highest:.2f} ({best})",
                f"{known:.2f} ({whose})",
                f"{highest - known:+.2f}",
            ]
        )
    header = [
        "dataset",
        "our best TDE-GNN",
        "paper: DE-GNN / D / A",
        "to the paper's best TDE-GNN",
        "best of all rows",
        "best known",
        "to it",
    ]
    return as_table([header, *rows])


def render_gains(cells):
    """Return what each learned rule adds over c = [1]. Intervals without zero are bold."""

    def text(gain):
        mean = f"**{gain.mean:+.2f}**" if gain.low > 0 or gain.high < 0 else f"{gain.mean:+.2f}"
        return f"{mean} ({gain.low:+.2f} to {gain.high:+.2f})"

    rows = [
        [heading(name), *(text(paired_gain(cells[name, system], cells[name, FIXED])) for system in LEARNED)]
        for name in DATASETS
    ]
    return as_table([["dataset", *LEARNED], *rows])


def render_headlines(cells, errors):
    """Return the table of the README: our numbers beside the paper's."""

    def accuracies(names):
        ours = " / ".join(f"{chosen_row(cells, name, TUNED)[1]:.2f}" for name in names)
        return [f"{ours} %", " / ".join(f"{printed_best(name):.2f}" for name in names) + " %"]

    def error(name, system="TDE-GNN_A"):
        return f"{errors[name, system, 'honest', 4][0]:.3f}"

    def printed(*names):
        return " / ".join(f"{FORECAST_ERRORS['TDE-GNN_A'][name]:.3f}" for name in names) + " (lowest on test)"

    series = "chickenpox", "wikimath"
    return as_table(
        [
            ["", "ours", "printed in the paper"],
            [
                "Squirrel / Film / Chameleon, accuracy of the best TDE-GNN",
                *accuracies(("squirrel", "film", "chameleon")),
            ],
            ["Citeseer / PubMed / Cora", *accuracies(("citeseer", "pubmed", "cora"))],
            [
                f"{' / '.join(map(heading, series))}, squared error of TDE-GNN_A at 4 lags",
                " / ".join(map(error, series)),
                printed(*series),
            ],
            [
                "PedalMe",
                f"{error('pedalme')} (pooled least squares: {error('pedalme', 'pooled AR')})",
                printed("pedalme"),
            ],
        ]
    )


def render_rules(cells):
    """Return c = [1] and what each learned rule adds, by dataset and operator, and a sentence per dataset."""
    learned = [rule for rule in RULES if rule != EULER]
    rows = [
        [
            heading(name),
            row,
            f"{own.cells[EULER].mean:.2f} ± {own.cells[EULER].deviation:.2f}",
            *map(str, map(own.gain, learned)),
        ]
        for (name, row), own in sorted(cells.items(), key=lambda item: DATASETS.index(item[0][0]))
    ]
    table = as_table([["dataset", "operator", EULER, *learned], *rows])
    return "\n".join([table, "", *(f"- {describe_best(cells, name)}" for name in complete_datasets(cells, DATASETS))])


def render_rule_notes(lines):
    """Return which cells have a configuration more than once on a split, and which trainings diverged."""
    by_cell = {}
    for line in lines:
        splits = by_cell.setdefault((line["dataset"], line["operator"], line["rule"]), {})
        splits.setdefault(line["split"], []).append(line)
    repeated, alike, diverged = 0, 0, []
    for (dataset, row, rule), splits in by_cell.items():
        # The last line of a split counts: see `Cell.from_lines`.
        earlier = [
            (line, own[-1])
            for own in splits.values()
            for line in own[:-1]
            if line["configuration"] == own[-1]["configuration"]
        ]
        repeated += bool(earlier)
        alike += bool(earlier) and all(line == last for line, last in earlier)
        count = sum(own[-1]["is_diverged"] for own in splits.values())
        if count:
            diverged.append(f"{row} with {rule} on {heading(dataset)}, {count} of {len(splits)} splits")
    return "\n".join(
        [
            f"- {repeated} of the {len(by_cell)} (dataset, row, rule) have the same configuration more than once per "
            f"split. The last line counts; in {alike} of the {repeated} these lines are equal in every entry.",
            "- Diverged, so that the best weights from before count (`is_diverged`: a score was not a number, or the "
            f"loss exploded): {'; '.join(diverged) or 'none'}.",
        ]
    )


def render_rule_counts(cells):
    """Return what each rule adds over c = [1] over all cells: means, and how often which way."""
    header = ["rule", "cells", "mean", "median", "interval above zero", "below zero", "adds more than 1", "costs more"]
    rows = []
    for rule in RULES:
        if rule != EULER:
            gains = [own.gain(rule) for own in cells.values()]
            means = [gain.mean for gain in gains]
            counts = [
                sum(gain.low > 0 for gain in gains),
                sum(gain.high < 0 for gain in gains),
                sum(mean > 1 for mean in means),
                sum(mean < -1 for mean in means),
            ]
            rows.append([rule, str(len(gains)), f"{fmean(means):+.2f}", f"{median(means):+.2f}", *map(str, counts)])
    return as_table([header, *rows])


def render_older(lines, cells, table1):
    """Return which cells are trained with another recipe than the row of Table 1 has now, with both numbers."""
    trained, recipes, rows = {}, {name: read_recipes(name) for name in DATASETS}, []
    for line in lines:
        if line["rule"] == EULER:
            trained.setdefault((line["dataset"], line["operator"]), []).append(line["configuration"])
    for (name, row), own in sorted(cells.items(), key=lambda item: DATASETS.index(item[0][0])):
        if with_rule(recipes[name][row], EULER).to_record() not in trained[name, row]:
            rows.append([heading(name), row, f"{own.cells[EULER].mean:.2f}", f"{table1[name, row].mean:.2f}"])
    table = as_table([["dataset", "row", "here, c = [1]", "Table 1"], *rows])
    return f"{len(rows)} of the {len(cells)} cells have a recipe that is older than that of Table 1:\n\n{table}"


def renew(page):
    """Return the page with tables that are up to date."""
    cells = summarize(read_lines(LINES))
    page = put_into_page(page, "row", render_accuracies(cells))
    page = renew_gaps(page, cells, SEARCHES)
    page = put_into_page(page, "best row", render_best(cells))
    page = put_into_page(page, "gain", render_gains(cells))
    page = renew_searched(page, LINES.parent)
    page = renew_generated(page, LINES.parent)
    page = renew_traffic(page, LINES.parent / "traffic.jsonl")
    page = renew_series_search(page, LINES.parent / "table2_searched.jsonl")
    page = renew_sizes(page, LINES.parent / "sizes.jsonl")
    page = renew_operators(page, LINES.parent)
    page = renew_batches(page, LINES.parent / "mini_batches.jsonl")
    rule_lines = read_lines(RULES_LINES, RULE_LINES)
    rules = summarize_rules(rule_lines)
    page = put_into_page(page, "operators by rule", render_rules(rules))
    page = put_into_page(page, "notes on rule", render_rule_notes(rule_lines))
    page = put_into_page(page, "rule count", render_rule_counts(rules))
    page = put_into_page(page, "row-less operator", render_without_row(rule_lines))
    return put_into_page(page, "older recipe", render_older(rule_lines, rules, cells))


def render_verdicts(cells):
    """Return, per system of the paper, on which datasets its published number is reached, passed or missed."""
    rows = []
    for system, printed in NODE_ACCURACY.items():
        gaps = {name: cells[name, system].mean - accuracy.mean for name, accuracy in printed.items()}
        passed = [heading(name) for name, gap in gaps.items() if gap > CLOSE]
        missed = [f"{heading(name)} {gap:+.1f}" for name, gap in gaps.items() if gap < -CLOSE]
        reached = len(gaps) - len(passed) - len(missed)
        rows.append([system, str(reached), ", ".join(passed) or "-", ", ".join(missed) or "-", PROTOCOLS[system].note])
    header = ["system", f"within {CLOSE} points", "ours higher", "ours lower", "how the published numbers were made"]
    return as_table([header, *rows])


def render_twins(found):
    rows = [
        [heading(each["dataset"]), *(f"{100 * each[name]:.1f} %" for name in ("twins", "covered", "accuracy"))]
        for each in found
    ]
    return as_table(
        [["dataset", "nodes with a twin", "test nodes with a twin in training", "its label is right"], *rows]
    )


def render_selection(found):
    rows = [
        [
            each["stage"],
            str(each["num_searches"]),
            f"{each['num_configurations']:.0f}",
            f"{each['mean_gain']:.2f}",
            f"{each['highest_gain']:.2f}",
        ]
        for each in found
    ]
    return as_table([["search", "searches", "configurations each", "points added, mean", "highest"], *rows])


def render_directions(cells):
    pairs = {key[:2] for key in cells if all((*key[:2], way) in cells for way in DIRECTIONS)}

    def text(cell):
        return f"{cell.mean:.2f} ± {cell.deviation:.2f}"

    rows = [
        [heading(name), system, *(text(cells[name, system, way]) for way in DIRECTIONS)]
        for name, system in sorted(pairs, key=lambda pair: (DATASETS.index(pair[0]), pair[1]))
    ]
    return as_table([["dataset", "system", *DIRECTIONS], *rows])


def renew_honest(page):
    """Return the page on honest benchmarks with tables that are up to date."""
    audit = json.loads(AUDIT.read_text())
    page = put_into_page(page, "verdict", render_verdicts(summarize(read_lines(LINES))))
    page = put_into_page(page, "twin", render_twins(audit["twins"]))
    page = put_into_page(page, "selection", render_selection(audit["selection"]))
    return put_into_page(
        page, "direction", render_directions(summarize_directions(read_lines(DIRECTION, DIRECTION_LINES)))
    )


def renew_readme(page):
    """Return the README with numbers that are up to date."""
    errors = table2.summarize(read_lines(TABLE2, SERIES_LINES))
    return put_into_page(page, "number", render_headlines(summarize(read_lines(LINES)), errors))


PAGES = {README: renew_readme, PAGE: renew, HONEST_PAGE: renew_honest}

if __name__ == "__main__":
    for path, renew_page in PAGES.items():
        path.write_text(renew_page(path.read_text()))
