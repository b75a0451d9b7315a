"""Turn a panel into the inputs of a network (scaled channels, seasons, windows), and forecasts back into its units.

A `FrameMaker` is fitted to the training steps and stored with a trained network, so that new data are treated like the
old ones. Windows are views. A batch is a copy, in which gaps are filled from the same window only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tdegnn.data.graphs.graph_steps import GraphSteps
from tdegnn.data.panel import Panel
from tdegnn.data.scalers import Per, Scaler
from tdegnn.data.tables.node_features import NodeFeatures
from tdegnn.data.times.seasons import Season, season_waves, step_length, step_numbers
from tdegnn.data.times.times import future_times, show_time
from tdegnn.data.windows import SlidingWindows, fill_last, has_gaps, sliding_windows
from tdegnn.errors import LARGEST_SCALED, Argument, InputError, TrainingError, find_too_large
from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames, SeriesSizes

# Maximum number of values that are scaled at once: 8 MB.
NUMBERS_AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class WindowSet:
    """Windows of a series: the inputs of a network, the known future, and the targets.

    Attributes:
        inputs: Scaled frames, oldest first. NaN if not observed.
        future: Channels known ahead, in the steps to forecast.
        targets: Scaled targets. NaN if not observed, or not known yet.
        first_target_steps: The step of the series that is the first target of each window.
        waves: The last channels of the frames of a batch: seasons, which are the same for all nodes and so are kept for
            one. None if there are no seasons.
        graphs: The graph of each window, that of its last observed step, if edges change. None if they do not.
    """

    inputs: Float[Tensor, "windows window nodes channels"]
    future: Float[Tensor, "windows horizon nodes known"]
    targets: Float[Tensor, "windows horizon nodes targets"]
    first_target_steps: range
    waves: Frames | None = None
    graphs: GraphSteps | None = None

    def __len__(self) -> int:
        return len(self.first_target_steps)

    def batch(
        self, numbers: Int[Tensor, " batch"] | slice = slice(None)
    ) -> tuple[Frames, Float[Tensor, "batch horizon nodes targets"]]:
        """Return some of the windows, with gaps filled, and their targets."""
        frames = Frames(self.inputs[numbers], self.future[numbers])
        if self._may_have_gaps:
            frames = Frames(*(fill_last(part) for part in frames))
        if self.waves is not None:
            parts = zip(frames, self.waves, strict=True)
            frames = Frames(*(torch.cat([part, _to_nodes(waves[numbers], part)], dim=-1) for part, waves in parts))
        return frames, self.targets[numbers]

    @cached_property
    def _may_have_gaps(self) -> bool:
        """Whether anything may be missing. Computed once, because asking a CUDA device means waiting for it."""
        return has_gaps(self.inputs) or has_gaps(self.future)

    def predicting(self, steps: range) -> WindowSet:
        """Return the windows whose targets all lie in `steps`."""
        views = SlidingWindows(self.inputs, self.targets, self.first_target_steps).predicting(steps)
        first = (views.first_target_steps.start - self.first_target_steps.start) // self.first_target_steps.step
        return self.some(slice(first, first + len(views)))

    def starting_at(self, first_target_steps: range) -> WindowSet:
        """Return the windows that forecast from these steps on. They must be among those there are."""
        first = first_target_steps.start - self.first_target_steps.start
        chosen = range(first, first + len(first_target_steps) * first_target_steps.step, first_target_steps.step)
        if not first_target_steps or chosen[0] < 0 or chosen[-1] >= len(self):
            raise InputError(f"Expected first target steps within {self.first_target_steps}, got {first_target_steps}.")
        return self.some(slice(chosen[0], chosen[-1] + 1, chosen.step))

    def every(self, stride: int) -> WindowSet:
        """Return every `stride`-th window, the last one among them."""
        return self.some(slice((len(self) - 1) % stride, None, stride)) if stride > 1 else self

    def at_nodes(self, nodes: slice) -> WindowSet:
        """Return the windows of some nodes."""
        inputs, future, targets = (part[:, :, nodes] for part in (self.inputs, self.future, self.targets))
        return replace(self, inputs=inputs, future=future, targets=targets, graphs=None)

    def blocks(self, num_values: int) -> Iterator[slice]:
        """Yield slices of all windows in turn. Each has one graph, and frames of at most about `num_values` values.

        Args:
            num_values: Maximum number of values, counting inputs, what is known ahead, and targets.
        """
        waves = () if self.waves is None else self.waves
        num_nodes = self.inputs.shape[2]
        in_a_window = sum(part[:1].numel() for part in (self.inputs, self.future, self.targets))
        in_a_window += num_nodes * sum(part[:1].numel() for part in waves)
        size = max(1, num_values // in_a_window)
        if self.graphs is None:
            for first in range(0, len(self), size):
                yield slice(first, first + size)
            return
        for run in self.graphs.runs():
            for first in run[::size]:
                yield slice(first, min(first + size, run.stop))

    def graph_at(self, block: slice, usual: Graph) -> Graph:
        """Return the graph of the windows of a block. `usual` is that of all windows if edges do not change."""
        return usual if self.graphs is None else self.graphs[block].newest

    def some(self, chosen: slice) -> WindowSet:
        """Return some of the windows, as views."""
        return WindowSet(
            self.inputs[chosen],
            self.future[chosen],
            self.targets[chosen],
            self.first_target_steps[chosen],
            None if self.waves is None else Frames(*(part[chosen] for part in self.waves)),
            None if self.graphs is None else self.graphs[chosen],
        )


def _to_nodes(waves: Float[Tensor, "batch time 1 waves"], part: Float[Tensor, "batch time nodes channels"]) -> Tensor:
    return waves.expand(-1, -1, part.shape[2], -1)


@dataclass(frozen=True, eq=False)
class FrameMaker:
    """Makes frames from panels of one kind. Made by `FrameMaker.fit`.

    Attributes:
        window: Number of frames a network sees.
        horizon: Number of frames it forecasts.
        channels: Names of the channels of a panel, targets first, and of the node features.
        num_targets: Number of channels that are forecast.
        known: Names of the channels that are known ahead.
        scaler: Center and scale of every channel.
        seasons: Seasons of the calendar.
        step_length: Length of a step, by which seasons are counted.
        has_mask: Whether there is one more channel per target, which is 1 where it was observed.
    """

    window: int
    horizon: int
    channels: tuple[str, ...]
    num_targets: int
    known: tuple[str, ...]
    scaler: Scaler
    seasons: tuple[Season, ...]
    step_length: float
    has_mask: bool

    @classmethod
    def fit(
        cls,
        training: Panel,
        window: int,
        horizon: int = 1,
        *,
        seasons: Sequence[Season] = (),
        known: Sequence[str] = (),
        per: Per = "node",
    ) -> FrameMaker:
        """Learn scales from the training steps of a panel.

        Args:
            training: The training steps, and nothing after them.
            window: Number of frames a network sees.
            horizon: Number of frames it forecasts.
            seasons: Waves to add to every frame, past and future.
            known: Names of channels that are not targets and whose future values will be given.
            per: `"node"`: each node has its own scale. `"all"`: all nodes share one, as an equation on a graph needs.
        """
        helping = training.channels[training.num_targets :]
        unknown = [name for name in known if name not in helping]
        if unknown:
            among = ", ".join(helping) or "channels that are not forecast (there are none)"
            raise InputError(
                f"Expected channels known ahead among {among}, got {unknown[0]!r}. A target is forecast, not known."
            )
        return cls(
            window,
            horizon,
            training.channels,
            training.num_targets,
            tuple(known),
            Scaler.standard(training.values, per),
            tuple(seasons),
            step_length(training.times),
            has_mask=bool(np.isnan(training.values[..., : training.num_targets]).any()),
        )

    def with_node_features(self, features: NodeFeatures) -> FrameMaker:
        """Return a maker that also puts node features into every frame, scaled by their spread over the nodes."""
        over_nodes = Scaler.standard(features.values[None], per="all")
        center, scale = (
            np.concatenate([own, np.broadcast_to(added, (len(own), len(features.names)))], axis=1)
            for own, added in ((self.scaler.center, over_nodes.center), (self.scaler.scale, over_nodes.scale))
        )
        return replace(self, channels=(*self.channels, *features.names), scaler=Scaler(center, scale))

    @property
    def num_waves(self) -> int:
        """Number of channels of the seasons."""
        return sum(2 * season.num_waves for season in self.seasons)

    def sizes(self, num_nodes: int) -> SeriesSizes:
        """Return the sizes of the task for a network."""
        num_masks = self.num_targets if self.has_mask else 0
        return SeriesSizes(
            self.window,
            self.horizon,
            num_nodes,
            num_channels=len(self.channels) + num_masks + self.num_waves,
            num_known=len(self.known) + self.num_waves,
            num_targets=self.num_targets,
            num_waves=self.num_waves,
            period=min((round(season.period) for season in self.seasons), default=0),
        )

    def windows(
        self,
        panel: Panel,
        *,
        node_features: NodeFeatures | None = None,
        future: Panel | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> WindowSet:
        """Return all windows of a panel. The last ones forecast the steps after it.

        Args:
            panel: Series with the channels of the training.
            node_features: The node features of the training, if it had any.
            future: The known channels in the `horizon` steps after the panel, if there are such channels.
            device: Device of the windows.
            dtype: Type of their numbers.
        """
        names = panel.channels if node_features is None else (*panel.channels, *node_features.names)
        if names != self.channels or panel.num_targets != self.num_targets:
            raise InputError(
                f"Expected the channels of the training, {', '.join(self.channels)}, got {', '.join(names)}."
            )
        series = self._scaled(panel, node_features, future, dtype).to(device)
        seen = sliding_windows(series, self.window, self.horizon)
        places = [self.channels.index(name) for name in self.known]
        ahead = sliding_windows(series[..., places], self.window, self.horizon).targets
        targets = seen.targets[..., : self.num_targets]
        waves = self._waves(panel.times, dtype, device)
        graphs = None if panel.graph_steps is None else panel.graph_steps[np.asarray(seen.first_target_steps) - 1]
        return WindowSet(seen.inputs, ahead, targets, seen.first_target_steps, waves, graphs)

    def _scaled(
        self, panel: Panel, node_features: NodeFeatures | None, future: Panel | None, dtype: torch.dtype
    ) -> Float[Tensor, "time nodes channels"]:
        """Return the scaled channels and the mask, with the known values of the horizon at the end, block by block."""
        num_channels, num_masks = len(self.channels), self.num_targets if self.has_mask else 0
        num_steps, num_nodes = panel.num_steps + self.horizon, panel.num_nodes
        series = torch.empty(num_steps, num_nodes, num_channels + num_masks, dtype=dtype)
        size = max(1, NUMBERS_AT_ONCE // (num_nodes * num_channels))
        blocks = [range(first, min(first + size, panel.num_steps)) for first in range(0, panel.num_steps, size)]
        for steps in (*blocks, range(panel.num_steps, num_steps)):
            values = np.full((len(steps), num_nodes, num_channels), np.nan)
            if steps.start < panel.num_steps:
                values[..., : panel.num_channels] = panel.values[steps.start : steps.stop]
                if node_features is not None:
                    values[..., panel.num_channels :] = node_features.values
            elif self.known:
                values[..., [self.channels.index(name) for name in self.known]] = self._known_ahead(panel, future)
            scaled = self.scaler.transform(values)
            self._check_scaled(scaled, values, panel, steps.start)
            block = series[steps.start : steps.stop]
            block[..., :num_channels] = torch.from_numpy(scaled)
            block[..., num_channels:] = torch.from_numpy(~np.isnan(scaled[..., :num_masks]))
        return series

    def _waves(self, times: pd.Index, dtype: torch.dtype, device: torch.device | None) -> Frames | None:
        """Return the seasons of every window, for one node."""
        if not self.seasons:
            return None
        numbers = step_numbers(times.append(future_times(times, self.horizon)), self.step_length)
        waves = np.concatenate([season_waves(numbers, *season) for season in self.seasons], axis=1)
        seen = sliding_windows(torch.as_tensor(waves[:, None], dtype=dtype, device=device), self.window, self.horizon)
        return Frames(seen.inputs, seen.targets)

    def _known_ahead(self, panel: Panel, future: Panel | None) -> Float[np.ndarray, "horizon nodes known"]:
        if future is None:
            return np.full((self.horizon, panel.num_nodes, len(self.known)), np.nan)
        times = panel.future_times(self.horizon)
        rows = future.times.get_indexer(times)
        missing = [name for name in self.known if name not in future.channels]
        if missing or (rows < 0).any() or future.nodes != panel.nodes:
            what = f"channel {missing[0]!r}" if missing else f"{self.horizon} steps from {times[0]} on, of all nodes"
            raise InputError(
                f"Expected future values of {what}, got none. Give them, or leave ",
                Argument("known"),
                " out in training.",
            )
        return np.asarray(future.values[rows][..., [future.channels.index(name) for name in self.known]])

    def to_units(
        self, forecast: Float[np.ndarray, "*batch nodes targets"]
    ) -> Float[np.ndarray, "*batch nodes targets"]:
        """Return forecasts in the units of the panel.

        Raises:
            TrainingError: The forecasts have diverged.
        """
        if find_too_large(forecast, LARGEST_SCALED) is not None:
            raise TrainingError(
                f"Expected forecasts within {LARGEST_SCALED:g} standard deviations of the series, got larger ones: "
                "they diverge. Forecast fewer steps, or train with a lower learning rate or step size."
            )
        return self._target_scaler.invert(forecast)

    @property
    def _target_scaler(self) -> Scaler:
        return Scaler(self.scaler.center[:, : self.num_targets], self.scaler.scale[:, : self.num_targets])

    @property
    def target_scales(self) -> Float[np.ndarray, "nodes targets"]:
        """A scaled value of one, in the units of the panel."""
        return self._target_scaler.scale

    def _check_scaled(
        self,
        scaled: Float[np.ndarray, "time nodes channels"],
        values: Float[np.ndarray, "time nodes channels"],
        panel: Panel,
        first: int,
    ) -> None:
        """Raise an `InputError` for a value so far from those of the training that a network overflows.

        Args:
            scaled: Scaled values of some steps.
            values: The same values in the units of the panel.
            panel: The series.
            first: Number of the first of these steps.
        """
        place = find_too_large(scaled, LARGEST_SCALED)
        if place is not None:
            step, node, channel = place
            time = panel.times.append(panel.future_times(self.horizon))[first + step]
            raise InputError(
                f"Expected values within {LARGEST_SCALED:g} standard deviations of those of the training, got "
                f"{values[place]:g} of {self.channels[channel]!r} for node {panel.nodes[node]!r} at "
                f"{show_time(time)}. Correct it, or train on series with such values."
            )
