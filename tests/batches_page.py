"""The table of results/README.md about trainings in batches: see `results_page.py`."""

from tdegnn.experiments.mini_batches import BATCH_LINES, DATASETS, RIVALS, compare_batches
from tdegnn.experiments.records import read_lines
from tests.markdown import as_table, put_into_page


def renew_batches(page, path):
    """Return the page with the table of `tdegnn reproduce mini-batches`."""
    lines = read_lines(path, BATCH_LINES)
    rows = [["dataset", "training", "steps", "test accuracy (splits)", "over the whole graph", "seconds"]]
    for name in DATASETS:
        for system, way in compare_batches(lines, name).items():
            accuracy = f"{way.cell.mean:.2f} ± {way.cell.deviation:.2f} ({len(way.cell.test_accuracies)})"
            difference = f"{way.difference:+.2f}" if system != RIVALS[system] else ""
            rows.append([name, system, f"{way.num_steps:,}", accuracy, difference, f"{way.seconds:.0f}"])
    return put_into_page(page, "mini-batche", as_table(rows))
