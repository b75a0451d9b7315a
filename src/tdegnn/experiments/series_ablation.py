"""What the graph, learned coefficients and the order each add to a forecast: one thing changed at a time.

The full forecaster is TDE-GNN_D of order 4. Beside it: the same without edges, with attention, with shorter histories;
order 1 is c = [1]. Seeds are paired: networks of one seed start with the same weights where they have the same parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tdegnn.experiments.gain import Gain
from tdegnn.experiments.records import append_lines, describe_environment, read_lines
from tdegnn.experiments.table2 import NUM_SEEDS, TASKS, prepare_series, train_honestly
from tdegnn.forecasting.settings import SeriesConfig, upgrade_settings
from tdegnn.graph import Graph
from tdegnn.training.devices import Placement

FULL = "full"


@dataclass(frozen=True)
class Variant:
    """A forecaster with one thing changed.

    Attributes:
        config: Its settings.
        has_edges: Whether it sees the graph.
    """

    config: SeriesConfig
    has_edges: bool = True


def variants(dataset: str, window: int) -> dict[str, Variant]:
    """The variants on a dataset, by name."""
    full = TASKS[dataset].config("TDE-GNN_D", window)
    assert isinstance(full, SeriesConfig)
    return {
        FULL: Variant(full),
        "without edges": Variant(full, has_edges=False),
        "attention": Variant(replace(full, system="TDE-GNN_A")),
        "order 3": Variant(replace(full, order=3)),
        "order 2": Variant(replace(full, order=2)),
        "order 1, c = [1]": Variant(replace(full, system="DE-GNN")),
    }


def train_variant(
    dataset: str, name: str, window: int, path: Path, *, placement: Placement, seeds: Sequence[int] = range(NUM_SEEDS)
) -> None:
    """Train one variant with the seeds that have no line in `path` yet, all together, and add their lines."""
    variant = variants(dataset, window)[name]
    row = {"dataset": dataset, "variant": name, "window": window, "configuration": variant.config.to_record()}
    lines = [line | {"configuration": upgrade_settings(line["configuration"])} for line in read_lines(path)]
    done = {line["seed"] for line in lines if all(line[key] == value for key, value in row.items())}
    left = [seed for seed in seeds if seed not in done]
    if not left:
        return
    prepared = prepare_series(dataset, window, placement)
    if not variant.has_edges:
        nobody = Graph(np.zeros((2, 0), dtype=np.int64), prepared.graph.num_nodes)
        prepared = replace(prepared, graph=nobody)
    outcomes = train_honestly(prepared, variant.config, left, placement)
    shared = row | {"protocol": "honest"} | describe_environment(placement.device)
    append_lines(path, [{"seed": seed} | outcome | shared for seed, outcome in zip(left, outcomes, strict=True)])


@dataclass(frozen=True)
class VariantCell:
    """A variant on a dataset.

    Attributes:
        mean: Mean test error over the seeds.
        worse: How much larger the test error is than that of the full forecaster, paired over the seeds.
    """

    mean: float
    worse: Gain


def summarize_variants(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int, str], VariantCell]:
    """Cells by dataset, window and variant. Only lines of the present settings count."""
    errors: dict[tuple[str, int, str], dict[int, float]] = {}
    for line in lines:
        dataset, window, name = line["dataset"], line["window"], line["variant"]
        if upgrade_settings(line["configuration"]) == variants(dataset, window)[name].config.to_record():
            errors.setdefault((dataset, window, name), {})[line["seed"]] = line["test_mse"]
    cells = {}
    for (dataset, window, name), by_seed in errors.items():
        full = errors.get((dataset, window, FULL), {})
        paired = [by_seed[seed] - full[seed] for seed in sorted(set(by_seed) & set(full))]
        cells[dataset, window, name] = VariantCell(float(np.mean(list(by_seed.values()))), Gain.of(paired or [np.nan]))
    return cells
