"""Would a choice of size help a forecaster? Held-out losses of the usual network with other channels and layers.

Each network is trained on the first 80 % of a series as `fit` trains one before it chooses: all but the held-out end.
The later steps are not used. Losses are given as shares of that of the usual size.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tdegnn.data.benchmarks.load import load_panel
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.experiments.traffic import DATASET, HORIZON, split_of
from tdegnn.forecasting.forecaster import Forecaster
from tdegnn.training.devices import DeviceName, choose_placement

# The horizon of each series.
HORIZONS = {"chickenpox": 1, "pedalme": 1, "wikimath": 1, DATASET: HORIZON}
USUAL = "usual"
# Settings by name. The usual network has 64 channels and three layers.
SIZES: dict[str, dict[str, Any]] = {
    USUAL: {"network": "walks"},
    "32 channels": {"hidden_channels": 32},
    "128 channels": {"hidden_channels": 128},
    "2 layers": {"num_layers": 2},
    "4 layers": {"num_layers": 4},
}
SIZE_LINES = LineKind(
    "sizes of forecasters",
    {"dataset": str, "size": str, "seed": int, "loss": float, "seconds": float},
    identity=("dataset", "size", "seed", "settings"),
)


@dataclass(frozen=True)
class SizeCell:
    """A size on a series, over the seeds that the usual size has too.

    Attributes:
        losses: Held-out loss, by seed.
        ratios: This loss over that of the usual size, by seed.
        seconds: How long a training took, the mean.
    """

    losses: Mapping[int, float]
    ratios: Mapping[int, float]
    seconds: float

    @property
    def percent(self) -> float:
        """By how many percent the loss is above that of the usual size, the mean over the seeds."""
        return 100 * (float(np.mean(list(self.ratios.values()))) - 1)


def try_size(dataset: str, size: str, seed: int, path: Path, device: DeviceName = "auto") -> None:
    """Train a network of one size and add its held-out loss to `path`, unless that has the line.

    Args:
        dataset: One of `HORIZONS`.
        size: One of `SIZES`.
        seed: The seed of its weights.
        path: The results file.
        device: Where to compute.
    """
    cell = {"dataset": dataset, "size": size, "seed": seed, "settings": SIZES[size]}
    if any(read_lines(path, SIZE_LINES, **{entry: [value] for entry, value in cell.items()})):
        return
    panel = load_panel(dataset)
    forecaster = Forecaster(horizon=HORIZONS[dataset], seed=seed, num_members=1, device=device, **SIZES[size])
    began = time.perf_counter()
    tried = forecaster.try_out(panel[: split_of(panel)])
    seconds = time.perf_counter() - began
    environment = describe_environment(choose_placement(device).device)
    line = {**cell, "loss": tried.loss, "window": tried.window, "seconds": seconds, "protocol": "honest"}
    append_lines(path, [{**line, **environment}], SIZE_LINES)


def summarize_sizes(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], SizeCell]:
    """Return the cells by dataset and size, each compared with the usual size from the same seeds."""
    cells = {}
    for dataset in HORIZONS:
        own = {name: [line for line in lines if (line["dataset"], line["size"]) == (dataset, name)] for name in SIZES}
        usual = {line["seed"]: line["loss"] for line in own[USUAL]}
        for name, of_size in own.items():
            losses = {line["seed"]: line["loss"] for line in of_size if line["seed"] in usual}
            if losses:
                ratios = {seed: loss / usual[seed] for seed, loss in losses.items()}
                cells[dataset, name] = SizeCell(losses, ratios, float(np.mean([line["seconds"] for line in of_size])))
    return cells
