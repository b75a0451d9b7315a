"""Write the tables of Table 1 and of operators by rules into results/README.md. Run it as `make results`."""

from tdegnn.experiments.operator_rules import EULER, RULE_LINES, RULES, describe_best, summarize_rules
from tdegnn.experiments.paper import NODE_ACCURACY
from tdegnn.experiments.protocols import PROTOCOLS
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.table1 import DATASETS, SYSTEMS, summarize
from tests.zoo import LINES, ROOT, put_into_page

PAGE = ROOT / "results" / "README.md"
RULES_LINES = ROOT / "results" / "operator_rules.jsonl"
# A difference beyond this many points needs a reason.
CLOSE = 1.5


def heading(dataset):
    name, _, rest = dataset.partition("-")
    spelled = {"pubmed": "PubMed"}.get(name, name.capitalize())
    return f"{spelled}, {rest}" if rest else spelled


def as_table(rows):
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])


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


def render_published(cells):
    """Return the published numbers, ours minus them, and how they were made. Differences beyond `CLOSE` are bold."""
    names = [name for name in DATASETS if name in NODE_ACCURACY["GCN"]]

    def text(dataset, system):
        printed = NODE_ACCURACY[system].get(dataset)
        if printed is None or (dataset, system) not in cells:
            return "-"
        gap = cells[dataset, system].mean - printed.mean
        return f"{printed.mean:.2f}, " + (f"**{gap:+.2f}**" if abs(gap) > CLOSE else f"{gap:+.2f}")

    rows = [
        [
            system,
            *(text(name, system) for name in names),
            "yes" if PROTOCOLS[system].is_ours else "no",
            PROTOCOLS[system].note,
        ]
        for system in NODE_ACCURACY
    ]
    header = ["system", *map(heading, names), "same protocol", "how the published numbers were made"]
    return as_table([header, *rows])


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
        for (name, row), own in cells.items()
    ]
    table = as_table([["dataset", "operator", EULER, *learned], *rows])
    found = [name for name in DATASETS if any(key[0] == name for key in cells)]
    return "\n".join([table, "", *(f"- {describe_best(cells, name)}" for name in found)])


def renew(page):
    """Return the page with tables that are up to date."""
    cells = summarize(read_lines(LINES))
    page = put_into_page(page, "row", render_accuracies(cells))
    page = put_into_page(page, "published number", render_published(cells))
    rules = summarize_rules(read_lines(RULES_LINES, RULE_LINES))
    return put_into_page(page, "operators by rule", render_rules(rules)) if rules else page


if __name__ == "__main__":
    PAGE.write_text(renew(PAGE.read_text()))
