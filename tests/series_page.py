"""The tables of results/README.md about Table 2 with a search for every system: see `results_page.py`."""

from statistics import fmean, pstdev

from tdegnn.experiments.records import read_lines
from tdegnn.experiments.series_search import (
    ROW,
    SEARCHED_LINES,
    SYSTEMS,
    leads_over_rivals,
    summarize_searched,
    worth_of_rules,
)
from tdegnn.experiments.sizes import SIZE_LINES, SIZES, USUAL, summarize_sizes
from tests.markdown import as_table, heading, put_into_page

SPELLED = {"la-week": "week of traffic"}


def renew_series_search(page, path):
    """Return the page with the tables of `tdegnn reproduce series-rows`."""
    lines = read_lines(path, SEARCHED_LINES)
    rows = summarize_searched(lines, ROW)
    tasks = sorted({key[:2] for key in rows})

    def text(task, system):
        own = rows.get((*task, system))
        if own is None:
            return "-"
        errors = [line["test_mse"] for line in own]
        on_validation = fmean(line["validation_mse"] for line in own)
        return f"{on_validation:.3f} / {fmean(errors):.3f} ± {pstdev(errors):.3f}"

    header = ["system", *(f"{heading(name)}, {window} lags" for name, window in tasks)]
    table = [[system, *(text(task, system) for task in tasks)] for system in SYSTEMS]
    page = put_into_page(page, "searched series row", as_table([header, *table]))
    worth = [
        [heading(name), str(window), states, system, gain.text(4)]
        for (name, window, states, system), gain in worth_of_rules(lines).items()
    ]
    header = ["dataset", "lags", "states", "system", "lower than c = [1] by"]
    page = put_into_page(page, "series rule", as_table([header, *worth]))
    leads = [
        [heading(key[0]), str(key[1]), key[2], lead.ours, lead.gain.text(4)]
        for key, lead in leads_over_rivals(rows).items()
    ]
    header = ["dataset", "lags", "rival", "ours", "error of the rival minus ours"]
    return put_into_page(page, "series lead", as_table([header, *sorted(leads)]))


def renew_sizes(page, path):
    """Return the page with the table of `tdegnn reproduce sizes`."""
    cells = summarize_sizes(read_lines(path, SIZE_LINES))
    names = list(dict.fromkeys(name for name, _ in cells))
    others = [size for size in SIZES if size != USUAL]

    def text(name, size):
        cell = cells.get((name, size))
        return "-" if cell is None else f"{cell.percent:+.1f} %, {cell.seconds:.0f} s"

    rows = [
        [
            SPELLED.get(name) or heading(name),
            str(len(cells[name, USUAL].losses)),
            f"{cells[name, USUAL].seconds:.0f} s",
            *(text(name, size) for size in others),
        ]
        for name in names
    ]
    return put_into_page(page, "size", as_table([["dataset", "seeds", "the usual size", *others], *rows]))
