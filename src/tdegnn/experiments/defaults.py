"""What `NodeClassifier()` does without a word: default, tuned, logistic regression and kernel ridge, on ten splits.

A split takes one `fit` with all settings at their defaults. It also measures the baselines. The tuned row is the
learned c of Table 1 that has the highest mean accuracy on validation, read from the lines of that table.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.experiments import table1
from tdegnn.experiments.node_results import NODE_LINES, Cell
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.nodes.classifier import NodeClassifier
from tdegnn.nodes.settings import FAMILIES
from tdegnn.parts import parts_to_record
from tdegnn.training.devices import DeviceName, choose_placement

DEFAULT, TUNED, FEATURES, LINKS = "default", "tuned", "logistic regression", "kernel ridge"
COLUMNS = (DEFAULT, TUNED, FEATURES, LINKS)
DEFAULT_LINES = LineKind(
    "defaults",
    {**NODE_LINES.entries, "notes": list, "seconds": float},
    identity=("dataset", "system", "split", "seed", "configuration"),
)


def try_defaults(dataset_name: str, split: int, path: Path, device: DeviceName = "auto") -> None:
    """Fit a classifier with default settings to one split, unless `path` has its lines, and add them.

    Args:
        dataset_name: The dataset.
        split: Which of its splits.
        path: The results file.
        device: Where to compute.
    """
    model = NodeClassifier(device=device)
    # The device is no setting of the result.
    configuration = parts_to_record(FAMILIES, model.get_params(deep=False) | {"device": "auto"})
    known = read_lines(path, DEFAULT_LINES, dataset=[dataset_name], split=[split], system=[DEFAULT])
    if any(line["configuration"] == configuration for line in known):
        return
    began = time.perf_counter()
    model.fit(load_nodes(dataset_name), split=split)
    seconds, summary = time.perf_counter() - began, model.summary_
    own = {"validation": summary["validation_score"], "test": summary["test_score"]}
    scores = {DEFAULT: own, **{name: summary["baselines"].get(name) for name in (FEATURES, LINKS)}}
    placement = choose_placement(device)
    lines = [
        {
            "dataset": dataset_name,
            "system": system,
            "split": split,
            "seed": model.seed,
            "validation_accuracy": found["validation"],
            "test_accuracy": found["test"],
            "configuration": configuration,
            "notes": model.notes_ if system == DEFAULT else [],
            "seconds": seconds,
            **describe_environment(placement.device),
        }
        for system, found in scores.items()
        if found is not None
    ]
    append_lines(path, lines, DEFAULT_LINES)


def compare_defaults(
    lines: Sequence[Mapping[str, Any]], table1_lines: Sequence[Mapping[str, Any]]
) -> dict[tuple[str, str], Cell]:
    """Return the cells of the table, by dataset and column. Only splits on which the default was tried count.

    Args:
        lines: The lines of this experiment. Of several settings, those that come last count.
        table1_lines: The lines of Table 1.
    """
    newest = {line["dataset"]: line["configuration"] for line in lines}
    by_cell: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["configuration"] == newest[line["dataset"]]:
            by_cell.setdefault((line["dataset"], line["system"]), []).append(line)
    cells = {key: Cell.from_lines(own) for key, own in by_cell.items()}
    for dataset in newest:
        own = [line for line in table1_lines if line["dataset"] == dataset]
        learned = [cell for (_, system), cell in table1.summarize(own).items() if system in table1.TUNED]
        if learned:
            best = max(learned, key=lambda cell: fmean(cell.validation_accuracies.values()))
            cells[dataset, TUNED] = _on_splits(best, set(cells[dataset, DEFAULT].test_accuracies))
    return cells


def _on_splits(cell: Cell, splits: set[int]) -> Cell:
    """Return a cell of some splits only."""
    kept = [
        {split: value for split, value in values.items() if split in splits}
        for values in (cell.test_accuracies, cell.validation_accuracies)
    ]
    return Cell(*kept)
