"""A `Panel`: series on the nodes of a graph, (time, nodes, channels), with names and times.

Only NaN means not observed: zero is a value like any other. Times are equally spaced in seconds,
calendar days or months (see `times.py`); steps that a table skips are there without observations. The first
`num_targets` channels are forecast, the others only help.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Shaped
from numpy.typing import ArrayLike

from tdegnn.data.times.calendar import calendar_channels
from tdegnn.data.times.time_texts import as_times
from tdegnn.data.times.times import check_regular, describe_step, future_times, regularize, show_time
from tdegnn.errors import LARGEST_VALUE, InputError, check_count, find_too_large, list_nodes, name_kind
from tdegnn.files import check_memory

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

    from tdegnn.data.graphs.graph_steps import GraphSteps
    from tdegnn.data.tables.panel_like import PanelLike
    from tdegnn.graph import Graph

# The counterpart of `LARGEST_VALUE`: squares of smaller differences may be zero in float64.
SMALLEST_SPREAD = 1e-100
# Half a character, which no file can hold.
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, eq=False, repr=False)
class Panel:
    """Series on the nodes of a graph. Made by `read_panel`, `Panel.from_array`, `Panel.from_pyg`, `load_panel`.

    Attributes:
        values: Observed values in float64, with NaN for missing ones.
        times: Equally spaced dates (with or without a time zone) or numbers.
        nodes: Names of the nodes.
        channels: Names of the channels.
        num_targets: Number of channels, from the first, that are forecast.
        graph: The graph of the nodes, in the order of `nodes`. None if it is not known. If edges change, the graph of
            the last step.
        name: Name of the data in tables and plots.
        notes: Remarks on the data for the user, one line each.
        graph_steps: The graph of each step, if edges change. Then `graph` follows from it.

    Example:
        >>> panel = Panel.from_array([[1.0, 2.0], [3.0, float("nan")]], nodes=["Paris", "Rome"])
        >>> panel.observed[..., 0].tolist()
        [[True, True], [True, False]]
    """

    values: Float[np.ndarray, "time nodes channels"]
    times: pd.Index
    nodes: tuple[str, ...]
    channels: tuple[str, ...] = ("value",)
    num_targets: int = 1
    graph: Graph | None = None
    name: str = ""
    notes: tuple[str, ...] = field(default=())
    graph_steps: GraphSteps | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or self.values.dtype != np.float64:
            came = f"{self.values.dtype} of shape {self.values.shape}"
            raise InputError(f"Expected values (time, nodes, channels) in float64, got {came}.")
        for axis, name, count in zip((0, 1, 2), ("times", "nodes", "channels"), self._counts, strict=True):
            if count != self.values.shape[axis]:
                raise InputError(f"Expected {self.values.shape[axis]} {name} as in the values, got {count}.")
        if min(self.values.shape) == 0:
            raise InputError(f"Expected at least one step, node and channel, got values of shape {self.values.shape}.")
        _check_names(nodes=self.nodes, channels=self.channels)
        check_count(num_targets=self.num_targets)
        if self.num_targets > len(self.channels):
            raise InputError(f"Expected at most {len(self.channels)} targets, got {self.num_targets}.")
        if self.graph_steps is not None:
            if len(self.graph_steps) != self.num_steps:
                raise InputError(f"Expected graphs of {self.num_steps} steps, got {len(self.graph_steps)}.")
            object.__setattr__(self, "graph", self.graph_steps.newest)
        if self.graph is not None:
            _check_graph(self.graph, len(self.nodes))
        self._check_values()
        object.__setattr__(self, "times", check_regular(self.times))

    @classmethod
    def from_array(
        cls,
        values: ArrayLike | Tensor,
        *,
        times: Sequence[Any] | Shaped[np.ndarray, " time"] | pd.Index | None = None,
        nodes: Sequence[str] | None = None,
        channels: Sequence[str] | None = None,
        num_targets: int = 1,
        graph: Any = None,
        name: str = "",
    ) -> Panel:
        """Make a panel from an array (time, nodes) or (time, nodes, channels), with NaN for what was not observed.

        Args:
            values: The numbers.
            times: One per entry of the first axis, in any order, with or without gaps. Default: 0, 1, 2, ...
            nodes: Names of the nodes. Default: "0", "1", ...
            channels: Names of the channels. Default: "value", or "channel 0", "channel 1", ...
            num_targets: Number of channels, from the first, that are forecast.
            graph: The graph of the nodes: a `Graph`, or anything else that `read_graph` takes, such as a networkx graph
                whose nodes have these names. If edges change, a list of such graphs, one per entry of the first axis;
                a step that is not there has the graph of the step before it.
            name: Name of the data.
        """
        array = _as_series(values)
        num_steps, num_nodes, num_channels = array.shape
        given = pd.RangeIndex(num_steps) if times is None else as_times(times)
        if len(given) != num_steps:
            raise InputError(f"Expected {num_steps} times, one per row of the values, got {len(given)}.")
        regular = regularize(given)
        names = tuple(str(node) for node in (range(num_nodes) if nodes is None else nodes))
        if channels is None:
            channels = ("value",) if num_channels == 1 else [f"channel {number}" for number in range(num_channels)]
        if len(regular.times) > num_steps:
            check_memory(len(regular.times) * num_nodes * num_channels * 8, f"series of {len(regular.times)} steps")
        placed = np.full((len(regular.times), num_nodes, num_channels), np.nan)
        placed[regular.positions] = array
        panel = cls(placed, regular.times, names, tuple(channels), num_targets, name=name)
        panel = panel.looked_at(regular.notes)
        if not isinstance(graph, list | tuple):
            return panel.with_graph(graph)
        from tdegnn.data.graphs.edge_times import read_graph_list

        steps, notes = read_graph_list(graph, names, regular.positions, len(regular.times))
        return panel.with_graph_steps(steps, notes)

    @classmethod
    def from_pyg(cls, data: Data) -> Panel:
        """Make a panel from PyG data: the result of `to_pyg`, or any `x` of shape (nodes, time[, channels])."""
        from tdegnn.data.panel_pyg import panel_from_pyg

        return panel_from_pyg(data)

    @classmethod
    def from_pyg_temporal(cls, signal: Any) -> Panel:
        """Make a panel from a `StaticGraphTemporalSignal` of PyTorch Geometric Temporal.

        If the features are windows of the targets, they are joined to the series from which they were cut. Other
        features become channels beside the target.
        """
        from tdegnn.data.panel_pyg import panel_from_signal

        return panel_from_signal(signal)

    def to_pyg(self) -> Data:
        """Return PyG data with `x` of shape (nodes, time, channels), the graph, and all names and times."""
        from tdegnn.data.panel_pyg import panel_to_pyg

        return panel_to_pyg(self)

    @property
    def num_steps(self) -> int:
        """Number of steps, including those without observations."""
        return int(self.values.shape[0])

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.values.shape[1])

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        return int(self.values.shape[2])

    @cached_property
    def observed(self) -> Bool[np.ndarray, "time nodes channels"]:
        """Whether each value was observed."""
        return np.asarray(~np.isnan(self.values))

    @property
    def time_zone(self) -> str | None:
        """Name of the time zone. None if times have none."""
        zone = getattr(self.times, "tz", None)
        return None if zone is None else str(zone)

    def __getitem__(self, steps: slice) -> Panel:
        """Return the panel of some consecutive steps, a view."""
        if not isinstance(steps, slice) or steps.step not in (None, 1):
            raise InputError(f"Expected a slice of steps such as panel[:100], got panel[{steps}].")
        graphs = None if self.graph_steps is None else self.graph_steps[steps]
        return replace(self, values=self.values[steps], times=self.times[steps], notes=(), graph_steps=graphs)

    def with_graph(self, graph: Any, notes: Sequence[str] = ()) -> Panel:
        """Return the same series on another graph, with notes on it.

        Args:
            graph: A `Graph`, or anything else that `read_graph` takes. None for no graph. A list of these, one per
                step, if edges change.
            notes: Remarks on the graph, in addition to those of `read_graph`.
        """
        found: tuple[str, ...] = ()
        if isinstance(graph, list | tuple):
            from tdegnn.data.graphs.edge_times import read_graph_list

            steps, found = read_graph_list(graph, self.nodes, np.arange(self.num_steps), self.num_steps)
            return self.with_graph_steps(steps, (*found, *notes))
        if graph is not None and not _is_graph(graph):
            from tdegnn.data.graphs.edges import read_graph

            graph, found = read_graph(graph, self.nodes)
        return replace(self, graph=graph, notes=(*self.notes, *found, *notes), graph_steps=None)

    def with_graph_steps(self, graph_steps: GraphSteps, notes: Sequence[str] = ()) -> Panel:
        """Return the same series on graphs that change, with notes on them."""
        return replace(self, notes=(*self.notes, *notes), graph_steps=graph_steps)

    @property
    def has_edges(self) -> bool:
        """Whether there is an edge, at any step."""
        if self.graph_steps is not None:
            return self.graph_steps.has_edges
        return self.graph is not None and self.graph.num_edges > 0

    def looked_at(self, notes: Sequence[str] = ()) -> Panel:
        """Return the same panel with `notes` and notes on its values. Refuse a channel without observations."""
        is_seen = self.observed.any(axis=(0, 1))
        if not is_seen.all():
            channel = self.channels[int(np.argmin(is_seen))]
            of_panel = f" of {self.name}" if self.name else ""
            raise InputError(f"Expected observed values in channel {channel!r}{of_panel}, got none: all are missing.")
        return replace(self, notes=(*notes, *_notes_on_values(self.values, self.nodes)))

    def with_calendar(self, *features: str) -> Panel:
        """Add calendar features as channels, each as a sine and a cosine.

        Args:
            features: `hour`, `weekday` or `week_of_year`. Default: those that the step of the series can tell apart.
        """
        calendar = calendar_channels(self.times, features)
        everywhere = np.broadcast_to(calendar.values[:, None], (self.num_steps, self.num_nodes, len(calendar.names)))
        return self._with_channels(everywhere, calendar.names)

    def with_exogenous(self, other: PanelLike) -> Panel:
        """Add the channels of another panel or frame, which has all nodes and times of this one."""
        other = as_panel(other)
        places = {node: place for place, node in enumerate(other.nodes)}
        missing = [node for node in self.nodes if node not in places]
        if missing:
            raise InputError(f"Expected the node {missing[0]!r} in the exogenous series, got none. Add it.")
        rows = _rows_of(other.times, self.times)
        names = other.channels
        if len(names) == 1 and names[0] in self.channels and other.name:
            names = (other.name,)  # the channel of every wide table is called `value`
        return self._with_channels(other.values[rows][:, [places[node] for node in self.nodes]], names)

    def with_shared_exogenous(self, other: PanelLike) -> Panel:
        """Add series that all nodes share (a temperature, a price): each node of a panel or frame becomes a channel."""
        other = as_panel(other)
        if other.num_channels != 1:
            raise InputError(f"Expected shared series of one channel, got {other.num_channels}: {other.channels}.")
        shared = other.values[_rows_of(other.times, self.times), :, 0][:, None]
        everywhere = np.broadcast_to(shared, (self.num_steps, self.num_nodes, other.num_nodes))
        return self._with_channels(everywhere, other.nodes)

    def future_times(self, horizon: int) -> pd.Index:
        """Return the `horizon` times after the last one."""
        check_count(horizon=horizon)
        return future_times(self.times, horizon)

    def equals(self, other: Panel) -> bool:
        """Return whether two panels have the same values, times, nodes, channels and graph."""
        if self.graph_steps is not None and other.graph_steps is not None:
            is_same_graph = self.graph_steps.equals(other.graph_steps)
        elif self.graph_steps is not None or other.graph_steps is not None:
            is_same_graph = False
        elif self.graph is None or other.graph is None:
            is_same_graph = self.graph is other.graph
        else:
            is_same_graph = self.graph.equals(other.graph)
        return (
            is_same_graph
            and (self.nodes, self.channels, self.num_targets) == (other.nodes, other.channels, other.num_targets)
            and np.array_equal(self.values, other.values, equal_nan=True)
            and self.times.equals(other.times)
            and (self.time_zone, describe_step(self.times)) == (other.time_zone, describe_step(other.times))
        )

    def _repr_html_(self) -> str:
        from tdegnn.data.notebook import show_panel

        return show_panel(self)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        graph = "no graph" if self.graph is None else repr(self.graph)
        if self.graph_steps is not None:
            graph = f"edges that change {self.graph_steps.num_changes} times, at the end {graph}"
        return (
            f"Panel({name}{self.num_steps} steps of {describe_step(self.times)} from {show_time(self.times[0])} to "
            f"{show_time(self.times[-1])}, {self.num_nodes} nodes, channels {list(self.channels)}, {graph})"
        )

    @property
    def _counts(self) -> tuple[int, int, int]:
        return len(self.times), len(self.nodes), len(self.channels)

    def _check_values(self) -> None:
        place = find_too_large(self.values)
        if place is None:
            return
        if np.isinf(self.values[place]):
            raise InputError(f"Expected finite values, got {self._describe(place)}. Use NaN for what was not observed.")
        raise InputError(
            f"Expected values of at most {LARGEST_VALUE:g} in size, got {self._describe(place)}. Correct it, or give "
            "the series in a larger unit."
        )

    def _describe(self, place: tuple[int, ...]) -> str:
        """Return a value with its node, time and, if there are several, channel, for messages."""
        step, node, channel = place
        of_channel = f" in channel {self.channels[channel]!r}" if self.num_channels > 1 else ""
        return f"{self.values[place]:g} for node {self.nodes[node]!r} at {show_time(self.times[step])}{of_channel}"

    def _with_channels(self, values: Float[np.ndarray, "time nodes channels"], names: Sequence[str]) -> Panel:
        joined = np.concatenate([self.values, values], axis=-1)
        return replace(self, values=joined, channels=(*self.channels, *names))


def as_panel(series: PanelLike) -> Panel:
    """Return a panel as it is, and a pandas or polars frame as `read_panel` reads it."""
    if isinstance(series, Panel):
        return series
    # Only now: it imports this file.
    from tdegnn.data.tables.panel_like import read_frame

    return read_frame(series)


def _as_series(values: ArrayLike | Tensor) -> Float[np.ndarray, "time nodes channels"]:
    """Return a new array (time, nodes, channels) in float64, with NaN for masked entries."""
    if isinstance(values, pd.DataFrame | pd.Series):
        raise InputError("Expected an array, got a pandas frame, whose times and names would be lost. Use read_panel.")
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()  # a tensor; to double, as NumPy has no bfloat16
    try:
        array = np.ma.asarray(values) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    except ValueError as error:
        raise InputError("Expected a rectangular array of numbers, got rows of different lengths.") from error
    is_real = array.dtype == bool or (np.issubdtype(array.dtype, np.number) and not np.iscomplexobj(array))
    if array.ndim not in (2, 3) or not is_real:
        raise InputError(
            f"Expected an array of numbers (time, nodes) or (time, nodes, channels), got {array.dtype} of shape "
            f"{array.shape}."
        )
    filled = np.ma.filled(array.astype(np.float64), np.nan)
    return np.array(filled[..., None] if filled.ndim == 2 else filled)


def _notes_on_values(values: Float[np.ndarray, "time nodes channels"], nodes: Sequence[str]) -> list[str]:
    """Return notes on missing values, nodes without values and nodes with constant ones."""
    names, observed = np.array(nodes, dtype=object), ~np.isnan(values)
    is_empty = ~observed.any(axis=(0, 2))
    notes = []
    if not observed.all():
        num_missing = int(np.count_nonzero(~observed))
        share = f"{num_missing / observed.size:.1%}"
        # A few of many values would be rounded to 0.0%.
        amount = share if share != "0.0%" else f"{num_missing} of {observed.size:,}"
        notes.append(f"{amount} of the values are missing.")
    if is_empty.any():
        notes.append(f"Nothing was ever observed at {list_nodes(names[is_empty].tolist(), len(nodes))}.")
    # The first channel is a target. A node that was observed once is not called constant.
    first = values[..., 0]
    lowest = np.min(first, axis=0, initial=np.inf, where=observed[..., 0])
    highest = np.max(first, axis=0, initial=-np.inf, where=observed[..., 0])
    is_constant = (lowest == highest) & (observed[..., 0].sum(axis=0) > 1)
    if is_constant.any():
        notes.append(f"The value never changes at {list_nodes(names[is_constant].tolist(), len(nodes))}.")
    is_tiny = (lowest < highest) & (highest - lowest < SMALLEST_SPREAD)
    if is_tiny.any():
        where = list_nodes(names[is_tiny].tolist(), len(nodes))
        notes.append(f"Differences below {SMALLEST_SPREAD:g} may count as none, at {where}. Use a smaller unit.")
    if len(nodes) == 1:
        notes.append("There is only one node: a graph does not help here.")
    return notes


def _is_graph(graph: object) -> TypeGuard[Graph]:
    from tdegnn.graph import Graph

    return isinstance(graph, Graph)


def _check_graph(graph: object, num_nodes: int) -> None:
    if not _is_graph(graph):
        raise InputError(
            f"Expected a tdegnn Graph, got a {name_kind(graph)}. Pass it to panel.with_graph, which reads networkx and "
            "other graphs, or convert it with read_graph."
        )
    if graph.num_nodes != num_nodes:
        raise InputError(f"Expected a graph of {num_nodes} nodes, got one of {graph.num_nodes}.")


def _check_names(**names_by_axis: tuple[str, ...]) -> None:
    for axis, names in names_by_axis.items():
        seen: set[str] = set()
        for name in names:
            if not isinstance(name, str) or not name or name != name.strip():
                raise InputError(
                    f"Expected names of {axis} that are not empty and without spaces around them, got {name!r}."
                )
            # NumPy and files would change them.
            if "\0" in name or SURROGATE.search(name):
                raise InputError(f"Expected names of {axis} that are text, got {name!r}. Rename it.")
            if name in seen:
                raise InputError(f"Expected {axis} to have different names, got {name!r} twice.")
            seen.add(name)


def _rows_of(available: pd.Index, wanted: pd.Index) -> np.ndarray:
    """Return the positions of the wanted times among those available."""
    kinds = [(isinstance(times, pd.DatetimeIndex), getattr(times, "tz", None) is None) for times in (available, wanted)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"Expected times of one kind (dates with a time zone, without one, or numbers), got {available.dtype} for "
            f"the exogenous series and {wanted.dtype} here."
        )
    rows = available.get_indexer(wanted)
    if (rows < 0).any():
        first = wanted[int(np.argmax(rows < 0))]
        raise InputError(f"Expected a value at {show_time(first)} in the exogenous series, got none. Add it.")
    return np.asarray(rows)
