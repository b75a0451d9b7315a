"""The gain of a forecast from the graph, from learned coefficients and from the order, changing one at a time.

The full forecaster is TDE-GNN_D of order 4. The variants have no edges, attention, or shorter histories; order 1 is
c = [1]. Seeds are paired: parts that two networks of one seed share start with the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tdegnn.experiments.gain import Gain
from tdegnn.experiments.records import LineKind, append_lines, describe_environment
from tdegnn.experiments.series_rows import as_written_now, missing_seeds, prepare_series, train_honestly
from tdegnn.experiments.series_tasks import NUM_SEEDS, TASKS
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.graph import Graph
from tdegnn.training.devices import Placement

FULL = "full"
VARIANT_LINES = LineKind(
    "the variants of a forecaster",
    {"dataset": str, "variant": str, "window": int, "seed": int, "test_mse": float, "configuration": dict},
    identity=("dataset", "variant", "window", "seed", "configuration"),
)


@dataclass(frozen=True)
class Variant:
    """A forecaster with one thing changed.

    Attributes:
        config: Its settings.
        has_edges: Whether it sees the graph. Default: True.
    """

    config: SeriesConfig
    has_edges: bool = True


def variants(dataset: str, window: int) -> dict[str, Variant]:
    """Return the variants on a dataset, by name."""
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
    left = missing_seeds(path, row, seeds, VARIANT_LINES)
    if not left:
        return
    prepared = prepare_series(dataset, window, placement)
    if not variant.has_edges:
        no_edges = np.zeros((2, 0), dtype=np.int64)
        prepared = replace(prepared, graph=Graph(no_edges, prepared.graph.num_nodes))
    outcomes = train_honestly(prepared, variant.config, left, placement)
    shared = row | {"protocol": "honest"} | describe_environment(placement.device)
    lines = [{"seed": seed} | outcome | shared for seed, outcome in zip(left, outcomes, strict=True)]
    append_lines(path, lines, VARIANT_LINES)


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
    """Return cells by dataset, window and variant. Only lines of the current settings count."""
    errors: dict[tuple[str, int, str], dict[int, float]] = {}
    for line in lines:
        dataset, window, name = line["dataset"], line["window"], line["variant"]
        if as_written_now(line)["configuration"] == variants(dataset, window)[name].config.to_record():
            errors.setdefault((dataset, window, name), {})[line["seed"]] = line["test_mse"]
    cells = {}
    for (dataset, window, name), by_seed in errors.items():
        full = errors.get((dataset, window, FULL), {})
        paired = [by_seed[seed] - full[seed] for seed in sorted(set(by_seed) & set(full))]
        cells[dataset, window, name] = VariantCell(float(np.mean(list(by_seed.values()))), Gain.of(paired or [np.nan]))
    return cells
