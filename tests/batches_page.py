"""The table of results/README.md about trainings in batches: see `results_page.py`.

`python -m tests.batches_page` measures which share of the nodes each batch sees, for `results/batch_shares.json`. It
reads the datasets and cuts them by METIS, which a page that is only compared with its lines should not do.
"""

import json
from importlib.metadata import version
from pathlib import Path

from tdegnn.experiments.mini_batches import BATCH_LINES, DATASETS, RIVALS, WAYS, compare_batches, shares_of_nodes
from tdegnn.experiments.records import read_lines
from tdegnn.files import write_whole
from tdegnn.runs.run_folder import describe_versions
from tests.markdown import as_table, put_into_page

SHARES = Path(__file__).parents[1] / "results" / "batch_shares.json"


def renew_batches(page, path):
    """Return the page with the table of `tdegnn reproduce mini-batches`."""
    lines, shares = read_lines(path, BATCH_LINES), json.loads(SHARES.read_text())["shares"]
    header = ["dataset", "training", "nodes per batch", "steps", "test accuracy (splits)", "over the whole graph"]
    rows = [[*header, "seconds"]]
    for name in DATASETS:
        for system, way in compare_batches(lines, name).items():
            accuracy = f"{way.cell.mean:.2f} ± {way.cell.deviation:.2f} ({len(way.cell.test_accuracies)})"
            difference = f"{way.difference:+.2f}" if system != RIVALS[system] else ""
            seen = in_words(shares[name][system]) if WAYS[system] else "all"
            rows.append([name, system, seen, f"{way.num_steps:,}", accuracy, difference, f"{way.seconds:.0f}"])
    return put_into_page(page, "mini-batche", as_table(rows))


def in_words(shares):
    """The smallest and the largest share of the nodes that a batch sees."""
    return f"{100 * min(shares):.0f} to {100 * max(shares):.0f} %"


def measure_shares():
    """Return the share of the nodes that each batch of the first epoch of split 0 sees, by dataset and way to train."""
    return {name: {way: shares_of_nodes(name, way) for way in WAYS if WAYS[way]} for name in DATASETS}


if __name__ == "__main__":
    versions = describe_versions() | {"pymetis": version("pymetis")}
    found = {"versions": versions, "split": 0, "shares": measure_shares()}
    write_whole(SHARES, (json.dumps(found, indent=1) + "\n").encode())
