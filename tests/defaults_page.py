"""The tables of results/README.md about defaults on generated and bundled data: see `results_page.py`."""

from tdegnn.experiments.hourly_counts import COUNT_LINES, summarize_counts
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.ten_graphs import COLUMNS, FEATURES, GRAPH_LINES, GRAPHS, LONG, compare, mean_scores
from tests.markdown import as_table, put_into_page


def renew_generated(page, folder):
    """Return the page with the tables of `tdegnn reproduce ten-graphs` and `hourly-counts`."""
    lines = read_lines(folder / "ten_graphs.parquet", GRAPH_LINES)
    rows = [["graph", *COLUMNS, "over features (seeds)", "over 3,000 steps (seeds)"]]
    trained = {line["graph"] for line in lines}
    for name in [name for name in GRAPHS if name in trained]:
        scores, gains = mean_scores(lines, name), [compare(lines, name, other) for other in (FEATURES, LONG)]
        rows.append([name, *(f"{scores[column]:.1f}" for column in COLUMNS), *map(str, gains)])
    page = put_into_page(page, "ten graph", f"{as_table(rows)}\n\n{tell_origin(lines)}")
    counts = read_lines(folder / "hourly_counts.jsonl", COUNT_LINES)
    found = summarize_counts(counts)
    shares = [f"{100 * found[name]:.1f} %" for name in ("coverage", "coverage_of_positive", "coverage_of_zeros")]
    rows = [
        [
            "seeds",
            "MSE over that of the true rate",
            "of the mean by hour and weekday",
            "in intervals",
            "positive",
            "zeros",
        ],
        [f"{found['seeds']:.0f}", f"{found['error_ratio']:.3f}", f"{found['naive_ratio']:.3f}", *shares],
    ]
    return put_into_page(page, "hourly count", f"{as_table(rows)}\n\n{tell_origin(counts)}")


def tell_origin(lines):
    """Return which seeds, versions and devices the lines are from."""
    seeds, devices = ({line[name] for line in lines} for name in ("seed", "device"))
    versions = {", ".join(f"{name} {number}" for name, number in line["versions"].items()) for line in lines}
    parts = ", ".join(map(str, sorted(seeds))), "; or ".join(sorted(versions)), ", ".join(sorted(devices))
    return f"Seeds {'; '.join(parts)}."
