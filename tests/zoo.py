"""Write what the zoo says: our numbers into the package, and the systems of docs/zoo.md. Run it as `make zoo`."""

from pathlib import Path

from tdegnn.experiments.table1 import DATASETS
from tdegnn.experiments.zoo import collect_zoo, write_measured, write_measured_operators
from tests.markdown import as_table, put_into_page

ROOT = Path(__file__).parent.parent
LINES = ROOT / "results" / "table1.jsonl"
PACKAGED = ROOT / "src" / "tdegnn" / "experiments" / "measured.json"
RULES_LINES = ROOT / "results" / "operator_rules.jsonl"
PACKAGED_OPERATORS = PACKAGED.with_name("measured_operators.json")
PAGE = ROOT / "docs" / "zoo.md"


def render_equations(systems):
    """Return the systems with their equations."""
    rows = [[entry.name, f"`{entry.equation}`".replace("|", "\\|"), entry.authors] for entry in systems]
    return as_table([["system", "equation", "citation"], *rows])


def render_numbers(systems):
    """Return the systems with our numbers and the paper's."""
    datasets = [name for name in DATASETS if any(name in entry.datasets for entry in systems)]
    rows = [[entry.name, *(numbers(entry, dataset) for dataset in datasets)] for entry in systems]
    return as_table([["system", *datasets], *rows])


def numbers(entry, dataset):
    ours, paper = entry.measured.get(dataset), entry.published.get(dataset)
    shown = [] if ours is None else [f"{ours.mean:.2f}"]
    return " ".join(shown + ([] if paper is None else [f"({paper.mean:.2f})"])) or "-"


def renew(page):
    """Return the page with tables that are up to date."""
    systems = [entry for entry in collect_zoo() if entry.kind == "system"]
    page = put_into_page(page, "system", render_equations(systems))
    return put_into_page(page, "accuracies of system", render_numbers(systems))


if __name__ == "__main__":
    write_measured(LINES, PACKAGED)
    write_measured_operators(RULES_LINES, PACKAGED_OPERATORS)
    PAGE.write_text(renew(PAGE.read_text()))
