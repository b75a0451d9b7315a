"""Measure training for forecasting: an incremental epoch of Chickenpox against a plain transcription, and ten seeds.

As in the paper, training takes one window per step, in the order of time: 465 steps at L = 8, k = 64, o = 4, attention.
The plain transcription is the paper's Algorithm 2 as a reader would implement it: the Laplacian built from the edges in
every layer, an o x o attention map per node, `nn.Dropout`, Adam. Both run on a CUDA device if there is one; the goals
are meant for it. On a CPU, a recorded step takes 700 operations of a few microseconds each. Only a third of that time
is computing, and ten seeds compute ten times as much. If the dataset is not on this machine, a random one of its size
replaces it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from tdegnn import Graph, Panel, load_panel
from tdegnn.data.benchmarks.catalogue import find_benchmark
from tdegnn.data.benchmarks.fetch import locate
from tdegnn.data.times.seasons import Season
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.training.devices import choose_placement

CHANNELS, LAYERS, WINDOW, STEP_SIZE, DROPOUT, LEARNING_RATE = 64, 8, 4, 0.5, 0.3, 1e-3
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
STEPS = 60  # of 465: the other steps of an epoch take just as long


class PlainForecaster(nn.Module):
    """The paper's Algorithm 2, as a reader would implement it."""

    def __init__(self, num_channels: int, num_known: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(num_channels, CHANNELS)
        self.past_embedding = nn.Linear(WINDOW * num_channels, CHANNELS)
        self.time_embedding = nn.Linear(num_known, CHANNELS)
        self.query, self.key = nn.Linear(CHANNELS, CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.state_maps = nn.ModuleList(nn.Linear(CHANNELS, CHANNELS, bias=False) for _ in range(LAYERS))
        self.past_maps = nn.ModuleList(nn.Linear(CHANNELS, CHANNELS) for _ in range(LAYERS))
        self.updates = nn.ModuleList(nn.Linear(3 * CHANNELS, CHANNELS) for _ in range(LAYERS))
        self.readout = nn.Linear(CHANNELS, 1)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, window: Tensor, future: Tensor, edges: Tensor) -> Tensor:
        """Return the next frame from frames of shape (window, nodes, channels)."""
        history = [torch.relu(self.embedding(frame)) for frame in reversed(window)]
        past = torch.relu(self.past_embedding(torch.cat(list(window), dim=-1)))
        moment = self.time_embedding(future)
        for state_map, past_map, update in zip(self.state_maps, self.past_maps, self.updates, strict=True):
            history[0] = self.dropout(history[0])
            stacked = torch.stack(history, dim=1)
            attention = self.query(stacked) @ self.key(stacked).mT / CHANNELS**0.5
            row = attention.mean(dim=0)[0]
            c = row / row.sum()
            diffused = history[0] - STEP_SIZE * laplacian(history[0], edges)
            rate = torch.relu(state_map(diffused) + past_map(past))
            newest = torch.einsum("p,npk->nk", c, stacked) + STEP_SIZE * rate
            past = torch.relu(update(torch.cat([past, newest, moment], dim=-1)))
            history = [newest, *history[:-1]]
        forecast: Tensor = self.readout(self.dropout(history[0]))
        return forecast


def laplacian(state: Tensor, edges: Tensor) -> Tensor:
    """Return `L F` with a dense L built from the edges: degrees, normalization, product."""
    num_nodes = len(state)
    adjacency = state.new_zeros(num_nodes, num_nodes)
    adjacency[edges[0], edges[1]] = 1.0
    degrees = adjacency.sum(dim=1)
    scale = degrees.clamp(min=1).rsqrt()
    normalized = scale[:, None] * adjacency * scale[None, :]
    return (torch.eye(num_nodes, device=state.device) - normalized) @ state


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    panel = _load()
    maker = FrameMaker.fit(panel[:417], WINDOW, seasons=[Season(52.1775)])
    windows = maker.windows(panel, device=DEVICE).predicting(range(WINDOW, 469))
    seconds = {name: _time(start(panel, maker, windows)) for name, start in CONTESTANTS.items()}
    for name, taken in seconds.items():
        yield f"incremental epoch of Chickenpox, {name}", taken / STEPS * 465, "s"
    yield "incremental epoch of Chickenpox, ours / plain", seconds["ours"] / seconds["plain"], "x", 0.1
    yield "incremental epoch of Chickenpox, ten seeds / one", seconds["ten seeds"] / seconds["ours"], "x", 3.0


def _ours(num_seeds: int) -> Callable[[Panel, FrameMaker, WindowSet], Callable[[], object]]:
    config = SeriesConfig(
        "TDE-GNN_A", CHANNELS, LAYERS, WINDOW, STEP_SIZE, DROPOUT, skip="none", coefficients="attention", batch_size=1
    )

    def start(panel: Panel, maker: FrameMaker, windows: WindowSet) -> Callable[[], object]:
        networks = [config.build(maker.sizes(panel.num_nodes), seed) for seed in range(num_seeds)]
        assert panel.graph is not None
        descents = [config.descent] * num_seeds
        training = SeriesTraining(
            networks,
            descents,
            panel.graph,
            windows,
            windows,
            batch_size=1,
            is_shuffled=False,
            placement=choose_placement(DEVICE.type),
        )
        return training.step

    return start


def _plain(panel: Panel, maker: FrameMaker, windows: WindowSet) -> Callable[[], object]:
    torch.manual_seed(0)
    sizes = maker.sizes(panel.num_nodes)
    network = PlainForecaster(sizes.num_channels, sizes.num_known).to(DEVICE)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    assert panel.graph is not None
    edges = torch.tensor(np.stack(panel.graph.received.nonzero()), device=DEVICE)
    numbers = iter(range(10**9))

    def step() -> None:
        (window, future), targets = windows.batch(slice(number := next(numbers) % len(windows), number + 1))
        optimizer.zero_grad()
        forecast = network(window[0], future[0, 0], edges)
        (forecast - targets[0, 0]).square().mean().backward()
        optimizer.step()

    return step


CONTESTANTS = {"plain": _plain, "ours": _ours(1), "ten seeds": _ours(10)}


def _time(step: Callable[[], object]) -> float:
    for _ in range(5):
        step()
    taken = []
    for _ in range(3):
        _wait()
        started = time.perf_counter()
        for _ in range(STEPS):
            step()
        _wait()
        taken.append(time.perf_counter() - started)
    return min(taken)


def _wait() -> None:
    """Wait until the device has finished its work."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def _load() -> Panel:
    """Load the dataset if its files are on this machine, else make a random one of its size."""
    if all(locate(file) for file in find_benchmark("chickenpox", "series").files):
        return load_panel("chickenpox")
    draw = np.random.default_rng(0)
    graph = Graph(draw.integers(0, 20, (2, 51)), 20)
    return Panel.from_array(draw.standard_normal((521, 20)), graph=graph)
