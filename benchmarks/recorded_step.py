"""Does a recorded training step pay on a CPU? Steps with and without recording, of networks at their default settings.

Cora: one member, sparse features. Chickenpox: three members on 64 windows per step, and one member on one window per
step, as the paper trains. LA traffic: 207 sensors, window and horizon of 12, one and three members. A ratio below 1
says that the recorded step is faster. Steps too large to be recorded run plainly in both cases: their ratio is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.timing import interleaved_medians
from tdegnn import (
    DirectCoefficients,
    Forecaster,
    Graph,
    NearIdentityDiffusion,
    NodeClassifier,
    Panel,
    load_nodes,
    load_panel,
)
from tdegnn.data.benchmarks.catalogue import find_benchmark
from tdegnn.data.benchmarks.fetch import locate, mirror
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.linear_skip import LinearSkip
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.nets.stationary import NewestUnmapped, StationaryNetwork
from tdegnn.nets.temporal import TemporalNetwork
from tdegnn.training.members import GroupedAdam
from tdegnn.training.node_training import NodeTraining
from tdegnn.training.replay import NUM_WARM_UP

# Rows, nodes times windows, and windows that a `Forecaster` puts into one step.
MOST_ROWS, MOST_WINDOWS = 2**14, 64
REPETITIONS = 40
# Recording and checking take one step each.
BEFORE = NUM_WARM_UP + 3

Training = NodeTraining | SeriesTraining


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    for name, start, repetitions in _workloads():
        recorded, plain = start(), start()
        plain._step = plain._train  # type: ignore[assignment] # never recorded
        contestants = {"recorded": recorded.step, "plain": plain.step}
        seconds = interleaved_medians(contestants, repetitions, BEFORE)
        yield f"training step, {name}, plain", 1e3 * seconds["plain"], "ms"
        note = "" if recorded._step.is_replaying else " (too large to be recorded)"
        yield f"training step, {name}, recorded / plain{note}", seconds["recorded"] / seconds["plain"], "x"


def _workloads() -> Iterator[tuple[str, Callable[[], Training], int]]:
    if _is_here("cora", "nodes"):
        yield "Cora", _cora, REPETITIONS
    if _is_here("chickenpox", "series"):
        panel = load_panel("chickenpox")
        yield "Chickenpox, 3 members", lambda: _series(panel, 4, 1, 3), REPETITIONS
        yield "Chickenpox, 1 window per step", lambda: _series(panel, 4, 1, 1, batch_size=1), 5 * REPETITIONS
    traffic = _la_traffic()
    if traffic is not None:
        yield "LA traffic, 1 member", lambda: _series(traffic, 12, 12, 1), 8
        yield "LA traffic, 3 members", lambda: _series(traffic, 12, 12, 3), 5


def _cora() -> NodeTraining:
    dataset, usual = load_nodes("cora"), NodeClassifier()
    channels, num_layers = usual.hidden_channels, usual.num_layers
    assert isinstance(usual.order, int)
    torch.manual_seed(0)
    network = StationaryNetwork(
        dataset.num_features,
        dataset.num_classes,
        channels,
        num_layers,
        DirectCoefficients(usual.order),
        NearIdentityDiffusion(channels, num_layers, usual.step_size, batch_norm=True),
        initial_states=NewestUnmapped(usual.order, channels),
        step_size=usual.step_size,
        outer_dropout=usual.outer_dropout,
        hidden_dropout=usual.hidden_dropout,
    )
    return NodeTraining([network], [GroupedAdam()], dataset, [0])


def _series(panel: Panel, window: int, horizon: int, num_members: int, batch_size: int | None = None) -> SeriesTraining:
    usual = Forecaster()
    assert isinstance(usual.order, int)
    assert panel.graph is not None
    maker = FrameMaker.fit(panel, window, horizon)
    windows, sizes = maker.windows(panel), maker.sizes(panel.num_nodes)
    torch.manual_seed(0)
    networks: Sequence[nn.Module] = [
        TemporalNetwork(
            sizes,
            usual.hidden_channels,
            usual.num_layers,
            DirectCoefficients(usual.order),
            step_size=usual.step_size,
            skip=LinearSkip(sizes, is_by_node=True),
            dropout=usual.dropout,
            seed=seed,
        )
        for seed in range(num_members)
    ]
    return SeriesTraining(
        networks,
        [GroupedAdam()] * num_members,
        panel.graph,
        windows,
        windows,
        batch_size=batch_size or min(MOST_WINDOWS, MOST_ROWS // panel.num_nodes),
    )


def _is_here(name: str, kind: str) -> bool:
    is_here = all(locate(file) for file in find_benchmark(name, kind).files)  # type: ignore[arg-type]
    if not is_here:
        print(f"left out: {name}, its files are not on this machine (tdegnn data fetch {name})")
    return is_here


def _la_traffic() -> Panel | None:
    """A week of speeds on the highways of Los Angeles, if the mirror folder has it."""
    source = mirror()
    folder = source / "traffic" if isinstance(source, Path) else None
    if folder is None or not (folder / "la_week_speed.csv").is_file():
        print("left out: LA traffic, there is no traffic/la_week_speed.csv in the folder TDEGNN_MIRROR")
        return None
    speeds = np.loadtxt(folder / "la_week_speed.csv", delimiter=",", skiprows=1)
    adjacency = np.loadtxt(folder / "la_week_adjacency.csv", delimiter=",")
    return Panel.from_array(speeds, graph=Graph.from_scipy(adjacency))
