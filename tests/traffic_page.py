"""The tables of results/README.md about the week of traffic: see `results_page.py`."""

from tdegnn.experiments.records import read_lines
from tdegnn.experiments.traffic import (
    FOLD_LINES,
    PAIRS,
    REACHES,
    TRAFFIC_LINES,
    paired_differences,
    summarize_traffic,
    worth_of_edges,
)
from tests.markdown import as_table, put_into_page


def renew_traffic(page, path):
    """Return the page with the tables of `tdegnn reproduce traffic`."""
    lines = read_lines(path, TRAFFIC_LINES)
    means = summarize_traffic(lines)
    rows = [["", *REACHES.values(), "coverage of 90 % intervals, by step"]]
    for name, mean in means.items():
        errors = [f"{mae:.2f} / {rmse:.2f}" for mae, rmse in zip(mean["mae"], mean["rmse"], strict=True)]
        covered = [100 * share for share in mean["coverage"]]
        rows.append([name, *errors, f"{min(covered):.1f} to {max(covered):.1f} %" if covered else "-"])
    page = put_into_page(page, "traffic error", as_table(rows))
    on_gpu = read_lines(path.with_name("traffic_h200.jsonl"), TRAFFIC_LINES)
    rows = [["", "two cores", "one H200"]]
    rows.append(["default", *(f"{_first_fit(own):.0f} s" for own in (lines, on_gpu))])
    page = put_into_page(page, "traffic time", as_table(rows))
    rows = [["", "MAE", "RMSE"]]
    for of, over in PAIRS:
        if {of, over} <= {*means}:
            found = paired_differences(means[of], means[over])
            rows.append([f"{over} minus {of}", *map(str, found.values())])
    page = put_into_page(page, "traffic difference", as_table(rows))
    worth = worth_of_edges(read_lines(path.with_name("traffic_folds.jsonl"), FOLD_LINES), lines)
    rows = [[steps, *map(str, found.values())] for steps, found in worth.items()]
    return put_into_page(page, "traffic fold", as_table([["judged on", "MAE", "RMSE"], *rows]))


def _first_fit(lines):
    # The first seed was fitted while nothing else ran.
    return next(line["seconds"] for line in lines if (line["forecaster"], line["seed"]) == ("default", 0))
