"""The tables of results/README.md about the week of traffic: see `results_page.py`."""

from tdegnn.experiments.records import read_lines
from tdegnn.experiments.traffic import PAIRS, REACHES, TRAFFIC_LINES, paired_differences, summarize_traffic
from tests.markdown import as_table, put_into_page


def renew_traffic(page, path):
    """Return the page with the tables of `tdegnn reproduce traffic`."""
    means = summarize_traffic(read_lines(path, TRAFFIC_LINES))
    rows = [["", *REACHES.values(), "coverage of 90 % intervals, by step", "seconds to fit"]]
    for name, mean in means.items():
        errors = [f"{mae:.2f} / {rmse:.2f}" for mae, rmse in zip(mean["mae"], mean["rmse"], strict=True)]
        covered = [100 * share for share in mean["coverage"]]
        others = [f"{min(covered):.1f} to {max(covered):.1f} %", f"{mean['seconds']:.0f}"] if covered else ["-", "-"]
        rows.append([name, *errors, *others])
    page = put_into_page(page, "traffic error", as_table(rows))
    rows = [["", "MAE", "RMSE"]]
    for of, over in PAIRS:
        if {of, over} <= {*means}:
            found = paired_differences(means[of], means[over])
            rows.append([f"{over} minus {of}", *map(str, found.values())])
    return put_into_page(page, "traffic difference", as_table(rows))
