"""Write what the zoo says: our numbers into the package, and the systems of docs/zoo.md. Run it as `make zoo`."""

from pathlib import Path

from tdegnn.experiments.table1 import DATASETS
from tdegnn.experiments.zoo import collect_zoo, write_measured, write_measured_operators
from tests.markdown import put_into_page

ROOT = Path(__file__).parent.parent
LINES = ROOT / "results" / "table1.jsonl"
PACKAGED = ROOT / "src" / "tdegnn" / "experiments" / "measured.json"
RULES_LINES = ROOT / "results" / "operator_rules.jsonl"
PACKAGED_OPERATORS = PACKAGED.with_name("measured_operators.json")
PAGE = ROOT / "docs" / "zoo.md"


def render_table():
    """Return the table of the systems, with our numbers and the paper's."""
    entries = [entry for entry in collect_zoo() if entry.kind == "system"]
    datasets = [name for name in DATASETS if any(name in entry.datasets for entry in entries)]
    rows = [["system", "citation", *datasets], ["---"] * (2 + len(datasets))]
    rows += [[entry.name, entry.authors, *(numbers(entry, dataset) for dataset in datasets)] for entry in entries]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)


def numbers(entry, dataset):
    ours, paper = entry.measured.get(dataset), entry.published.get(dataset)
    shown = [] if ours is None else [f"{ours.mean:.2f}"]
    return " ".join(shown + ([] if paper is None else [f"({paper.mean:.2f})"])) or "-"


def renew(page):
    """Return the page with a table that is up to date."""
    return put_into_page(page, "system", render_table())


if __name__ == "__main__":
    write_measured(LINES, PACKAGED)
    write_measured_operators(RULES_LINES, PACKAGED_OPERATORS)
    PAGE.write_text(renew(PAGE.read_text()))
