"""The tables of results/README.md about the search for the best network, and about defaults: see `results_page.py`."""

from tdegnn.experiments.best_cells import BEST_LINES, WITHOUT_EMPTY
from tdegnn.experiments.best_search import most_steps, read_families
from tdegnn.experiments.best_tables import describe_backbone, summarize_best, summarize_families, validation_of
from tdegnn.experiments.defaults import COLUMNS, DEFAULT, DEFAULT_LINES, TUNED, compare_defaults
from tdegnn.experiments.node_results import NODE_LINES, paired_gain
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.table1 import DATASETS
from tests.markdown import as_table, heading, put_into_page

SEEDS_ROW = "the best of these, mean of five seeds"


def show(cell):
    return f"{cell.mean:.2f} ± {cell.deviation:.2f}"


def not_run_yet(command):
    return f"Not run yet: `{command}`."


def render_rows(found):
    """Return the rows of each dataset. What validation chose is bold."""
    columns = {}
    for name, result in found.items():
        own = {str(row): show(cell) for row, cell in result.rows.items()}
        own[str(result.best)] = f"**{own[str(result.best)]}**"
        own[SEEDS_ROW] = "-" if result.mean_of_seeds is None else show(result.mean_of_seeds)
        columns[heading(name)] = own
        if result.without_empty:
            cells = result.without_empty.items()
            columns[f"{heading(name)}{WITHOUT_EMPTY}"] = {str(row): show(cell) for row, cell in cells}
    names = dict.fromkeys(row for own in columns.values() for row in own)
    return as_table([["row", *columns], *([name, *(own.get(name, "-") for own in columns.values())] for name in names)])


def render_networks(found):
    """Return the network of each dataset, what learned time adds to it, and what the search has cost."""
    rows = [
        [
            heading(name),
            describe_backbone(result.configs[result.best]),
            f"{validation_of(result.rows[result.best]):.2f}",
            show(result.rows[result.best]),
            str(result.nested.gain),
            "; ".join(map(str, dict.fromkeys(result.nested.chosen))),
            f"{result.num_trainings:,}",
            f"{result.seconds / 3600:.1f}",
        ]
        for name, result in found.items()
    ]
    header = ["dataset", "best network", "validation", "test", "learned time adds", "rows chosen for it"]
    return as_table([[*header, "trainings", "hours, summed over processes"], *rows])


def describe_worth(name, result):
    """Return the sentence that says what learned time is worth on the best network of a dataset."""
    gain = result.nested.gain
    doubt = ", not told from nothing" if gain.low <= 0 <= gain.high else ""
    network = describe_backbone(result.configs[result.best])
    return f"{heading(name)}: on {network} ({result.rows[result.best].mean:.2f}), learned time adds {gain}{doubt}."


def render_ablation(found):
    """Return what the best row of each dataset gains by each ingredient that it has."""
    names = dict.fromkeys(name for result in found.values() for name in result.ablation)
    rows = [[name, *(str(result.ablation.get(name, "-")) for result in found.values())] for name in names]
    return as_table([["without", *map(heading, found)], *rows])


def render_families(tried):
    """Return the best of each family on each dataset: validation, test, and the last rung that it entered."""

    def text(each):
        return "-" if each is None else f"{each.validation:.2f}, {each.test:.2f} ({each.stage.removeprefix('rung ')})"

    names = dict.fromkeys(family for families in tried.values() for family in families)
    rows = [[name, *(text(families.get(name)) for families in tried.values())] for name in names]
    return as_table([["family", *map(heading, tried)], *rows])


def renew_best(page, lines, families=None):
    """Return the page with the tables of `tdegnn reproduce best`."""
    begun = [name for name in DATASETS if any(line["dataset"] == name for line in lines)]
    found = {name: result for name in begun if (result := summarize_best(lines, name, families)) is not None}
    tried = {name: summarize_families(lines, name) for name in begun}
    missing = not_run_yet("tdegnn reproduce best --out results/best.jsonl")
    steps = f"The budget of a search is {most_steps(families or read_families(), 10):,} steps per dataset."
    rest = [heading(name) for name in DATASETS if name not in found]
    notes = [steps, f"Without all rows yet: {', '.join(rest)}." if rest else ""]
    worth = "\n".join(f"- {describe_worth(name, result)}" for name, result in found.items())
    networks = "\n\n".join([render_networks(found), worth, " ".join(filter(None, notes))]) if found else missing
    page = put_into_page(page, "best network", networks)
    page = put_into_page(page, "searched row", render_rows(found) if found else missing)
    page = put_into_page(page, "ingredient", render_ablation(found) if found else missing)
    return put_into_page(page, "tried network", render_families(tried) if tried else missing)


def render_defaults(cells):
    """Return the table of defaults: one row per dataset."""

    def text(name, column):
        return show(cells[name, column]) if (name, column) in cells else "-"

    def gain(name):
        if (name, TUNED) not in cells:
            return "-"
        found = paired_gain(cells[name, DEFAULT], cells[name, TUNED])
        return str(found) if len(cells[name, DEFAULT].test_accuracies) > 1 else f"{found.mean:+.2f}"

    rows = [
        [
            heading(name),
            *(text(name, column) for column in COLUMNS),
            gain(name),
            str(len(cells[name, DEFAULT].test_accuracies)),
        ]
        for name in DATASETS
        if (name, DEFAULT) in cells
    ]
    return as_table([["dataset", *COLUMNS, "default over tuned", "splits"], *rows])


def renew_defaults(page, lines, table1_lines):
    """Return the page with the table of `tdegnn reproduce defaults`."""
    missing = not_run_yet("tdegnn reproduce defaults --out results/defaults.jsonl")
    return put_into_page(page, "default", render_defaults(compare_defaults(lines, table1_lines)) if lines else missing)


def renew_searched(page, results):
    """Return the page with all tables of this file, from the result lines in a folder."""
    page = renew_best(page, read_lines(results / "best.jsonl", BEST_LINES))
    defaults = read_lines(results / "defaults.jsonl", DEFAULT_LINES)
    return renew_defaults(page, defaults, read_lines(results / "table1.jsonl", NODE_LINES) if defaults else [])
