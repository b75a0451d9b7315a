"""The tables of results/README.md about published numbers, and what each search has cost: see `results_page.py`."""

from statistics import fmean
from typing import NamedTuple

from tdegnn.experiments.as_published import PUBLISHED_LINES, summarize_published_ways
from tdegnn.experiments.direction import DIRECTION_LINES, summarize_directions
from tdegnn.experiments.paper import PUBLISHED_ACCURACY
from tdegnn.experiments.protocols import CLOSE, PROTOCOLS, cause_shown
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.row_search import read_row_searches
from tdegnn.experiments.table1 import DATASETS, SYSTEMS
from tdegnn.experiments.without_rows import ROWLESS_LINES, summarize_rowless
from tests.markdown import as_table, heading, put_into_page

# Showed where to put a space, and were no candidates.
EXPLORE = "explore"
SAME = {True: "yes", False: "no", None: "unknown"}


def gap_of(cells, dataset, system):
    """Ours minus the published number. None if there is one of them only."""
    printed = PUBLISHED_ACCURACY[system].get(dataset)
    if printed is None or (dataset, system) not in cells:
        return None
    return cells[dataset, system].mean - printed.mean


def large_gaps(cells):
    """The cells beyond `CLOSE`, by system and dataset."""
    gaps = {(system, name): gap_of(cells, name, system) for system in PUBLISHED_ACCURACY for name in DATASETS}
    return {key: gap for key, gap in gaps.items() if gap is not None and abs(gap) > CLOSE}


def render_published(cells):
    """Return the published numbers, ours minus them, and how they were made. Differences beyond `CLOSE` are bold."""

    def text(dataset, system):
        gap = gap_of(cells, dataset, system)
        if gap is None:
            return "-"
        shown = f"**{gap:+.2f}**" if abs(gap) > CLOSE else f"{gap:+.2f}"
        return f"{PUBLISHED_ACCURACY[system][dataset].mean:.2f}, {shown}"

    rows = [
        [system, *(text(name, system) for name in DATASETS), SAME[PROTOCOLS[system].is_ours], PROTOCOLS[system].note]
        for system in PUBLISHED_ACCURACY
    ]
    return as_table(
        [["system", *map(heading, DATASETS), "same protocol", "how the published numbers were made"], *rows]
    )


class Made(NamedTuple):
    """A cell that was made as the published number. `judged` is what it would be on all splits, as far as ours says."""

    what: str
    accuracy: float
    judged: float
    num_splits: int = 10

    def __str__(self):
        splits = {1: " (one split)", 10: ""}.get(self.num_splits, f" ({self.num_splits} splits)")
        return f"{self.accuracy:.2f}{splits}"


def on_all_splits(cell, ours):
    """The mean of a cell, moved by what ours has on all splits beyond the splits of the cell."""
    own = [ours.test_accuracies[split] for split in cell.test_accuracies]
    return cell.mean + ours.mean - fmean(own)


def made_as_published(cells, searched, results):
    """By system and dataset, our cell with what is known of how the published number was made.

    Args:
        cells: The cells of Table 1.
        searched: The lines of the searches.
        results: The folder of results.
    """
    rowless = summarize_rowless(read_lines(results / "without_rows.jsonl", ROWLESS_LINES))
    found = {
        (system, name): Made("Without rows of the adjacency matrix", cell.mean, cell.mean)
        for (name, system), cell in rowless.items()
    }
    directions = summarize_directions(read_lines(results / "direction.jsonl", DIRECTION_LINES))
    for (name, system, direction), cell in directions.items():
        if direction == PROTOCOLS[system].direction:
            found[system, name] = Made("Direction", cell.mean, cell.mean)
    for system, search in read_row_searches().items():
        for name, settings in search.rerun.items():
            record = search.known(name)[-1].to_record()
            for line in searched:
                if (line["dataset"], line["configuration"]) == (name, record):
                    what = "Direction and settings" if "direction" in settings else "Settings"
                    found[system, name] = Made(what, *[100 * line["test_accuracy"]] * 2)
    lines = read_lines(results / "as_published.jsonl", PUBLISHED_LINES)
    for (system, name), (way, cell) in summarize_published_ways(lines).items():
        # Other splits have nothing to do with ours.
        judged = cell.mean if "random splits" in way.data else on_all_splits(cell, cells[name, system])
        found[system, name] = Made(way.made, cell.mean, judged, len(cell.test_accuracies))
    return found


def cause_of(key, made, ours):
    """What is known of the cause of a large gap: what runs show, and what there is to say beyond it."""
    system, name = key
    note = PROTOCOLS[system].gaps.get(name)
    shown = cause_shown(made.what, PUBLISHED_ACCURACY[system][name].mean, ours, made.judged) if made else None
    return " ".join(filter(None, (shown, note))) or "Unknown: nothing was trained to find it."


def render_large_gaps(cells, searched, made):
    """Return each difference beyond `CLOSE`, with the best test accuracy of any configuration that was tried.

    Args:
        cells: The cells of Table 1.
        searched: The lines of the searches.
        made: What `made_as_published` returns.
    """
    rows = []
    for (system, name), gap in large_gaps(cells).items():
        tried = [line for line in searched if (line["system"], line["dataset"]) == (system, name)]
        highest = max(100 * line["test_accuracy"] for line in tried)
        own, ours = made.get((system, name)), cells[name, system].mean
        rows.append(
            [
                system,
                heading(name),
                f"{PUBLISHED_ACCURACY[system][name].mean:.2f}",
                f"{ours:.2f}",
                f"{gap:+.2f}",
                f"{highest:.2f} of {count_configs(tried)}",
                "-" if own is None else str(own),
                cause_of((system, name), own, ours),
            ]
        )
    header = ["system", "dataset", "published", "ours", "difference", "best test of any configuration tried"]
    return as_table([[*header, "made as published", "what is known of the cause"], *rows])


def count_configs(lines):
    return len({str(line["configuration"]) for line in lines})


def render_budgets(searched):
    """Return what the search of each system has tried, and its time where the lines have it."""
    rows = []
    for system in SYSTEMS:
        own = [line for line in searched if line["system"] == system and line["stage"] != EXPLORE]
        if not own:
            continue
        tried = [count_configs([line for line in own if line["dataset"] == name]) for name in DATASETS]
        steps = {line["configuration"]["num_steps"] for line in own}
        rows.append([system, *map(str, tried), f"{max(steps):,}", *map(seconds_on(own), ("cuda", "cpu"))])
    total = seconds_on(searched)
    rows.append(["all", *["" for _ in DATASETS], "", total("cuda"), total("cpu")])
    header = ["system", *map(heading, DATASETS), "most steps", "seconds, H200 (searches)", "seconds, CPU (searches)"]
    return as_table([header, *rows])


def seconds_on(lines):
    """A function that says how long the searches on a kind of device took. Each line has the time of its search."""

    def text(device):
        searches = {
            (line["system"], line["dataset"], line["seconds_of_the_search"])
            for line in lines
            if "seconds_of_the_search" in line and line["device"].startswith(device)
        }
        if searches:
            return f"{sum(seconds for _, _, seconds in searches):,.0f} ({len(searches)})"
        is_used = any(line["device"].startswith(device) for line in lines)
        return "not recorded" if is_used else "-"

    return text


def renew_gaps(page, cells, path):
    """Return the page with the tables of this file.

    Args:
        page: The page.
        cells: The cells of Table 1.
        path: The lines of the searches.
    """
    searched = read_lines(path)
    made = made_as_published(cells, searched, path.parent)
    page = put_into_page(page, "published number", render_published(cells))
    page = put_into_page(page, "large gap", render_large_gaps(cells, searched, made))
    return put_into_page(page, "budget", render_budgets(searched))
