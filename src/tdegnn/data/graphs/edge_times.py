"""Read graphs that change over time: a list of graphs by step, or a table of edges with a column of times.

Edges that are listed at a time are all that hold from that step on, until the next time at which edges are listed. So
the first listing must not come after the first step, and a time must be one of the steps of the series.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from tdegnn.data.graphs.edges import (
    EdgeList,
    notes_on_edges,
    notes_on_graph,
    read_edge_list,
    read_graph,
)
from tdegnn.data.graphs.graph_steps import GraphSteps
from tdegnn.data.panel import Panel
from tdegnn.data.tables.series import TimeColumn
from tdegnn.data.times.times import show_time
from tdegnn.errors import InputError
from tdegnn.graph import Direction, Graph

_OR = ", or leave the column out if edges do not change."


def read_graph_list(
    graphs: Sequence[Any], nodes: Sequence[str], positions: Int[np.ndarray, " given"], num_steps: int
) -> tuple[GraphSteps, tuple[str, ...]]:
    """Make the graph of each step from a list. Return them with notes for the user.

    Args:
        graphs: One per step that is given: anything that `read_graph` takes, or a list of `(source, target)` or
            `(source, target, weight)`.
        nodes: Names of the nodes.
        positions: The step of each graph.
        num_steps: Number of steps. One that is not given has the graph of the step before it.
    """
    if len(graphs) != len(positions):
        raise InputError(f"Expected one graph per step, {len(positions)} in all, got {len(graphs)}.")
    made: dict[int, Graph] = {}
    for place, given in enumerate(graphs):
        if id(given) not in made:
            try:
                made[id(given)], _ = read_graph(_as_edges(given), nodes)
            except InputError as error:
                raise InputError(f"In the graph of step {place}: ", error.message) from error
    places, given_steps = np.zeros(num_steps, dtype=np.int64), np.zeros(num_steps, dtype=np.int64)
    places[positions], given_steps[positions] = np.arange(len(graphs)), positions
    latest = np.maximum.accumulate(given_steps)
    steps = GraphSteps.of([made[id(graphs[place])] for place in places[latest]])
    return steps, _notes_on_steps(steps, nodes)


def _as_edges(given: Any) -> Any:
    """Return a list of edges as a frame, and anything else as it is."""
    if not isinstance(given, list | tuple):
        return given
    widths = {len(edge) for edge in given if isinstance(edge, list | tuple)}
    if not all(isinstance(edge, list | tuple) for edge in given) or not widths <= {2, 3} or len(widths) > 1:
        raise InputError("Expected edges (source, target), or all with a weight, got something else.")
    names = ["source", "target", "weight"][: max(widths, default=2)]
    frame = pd.DataFrame([tuple(edge) for edge in given], columns=names)
    return frame.astype(dict.fromkeys(names[:2], str))


def read_edge_times(column: TimeColumn, panel: Panel, direction: Direction) -> tuple[GraphSteps, tuple[str, ...]]:
    """Make the graph of each step from a table of edges with times. Return them with notes for the user.

    Args:
        column: The column of times of the table.
        panel: The series.
        direction: Whose states a node receives.
    """
    table = column.table
    listed = read_edge_list(table, panel.nodes, column.column)
    if not len(listed.ends[0]):
        raise InputError(f"Expected rows in {table.source}, got only a header.")
    spellings, first_rows = table.codes(column.column)
    # Two spellings of one time are one time.
    codes, distinct = pd.factorize(column.read(first_rows))
    firsts = first_rows[np.unique(codes, return_index=True)[1]]
    steps = _steps_of(distinct, panel.times, column, firsts)
    of_row = codes[spellings]
    is_used = steps < panel.num_steps
    rows = np.split(np.argsort(of_row, kind="stable"), np.cumsum(np.bincount(of_row, minlength=len(distinct)))[:-1])
    graphs = {
        code: _graph_of(listed, rows[code], panel.num_nodes, direction) for code in np.flatnonzero(is_used).tolist()
    }
    # The listing of each step: the last one that does not come after it.
    order = np.array(sorted(graphs, key=lambda code: steps[code]))
    latest = np.searchsorted(steps[order], np.arange(panel.num_steps), side="right") - 1
    made = GraphSteps.of([graphs[order[place]] for place in latest])
    notes = [f"Edges change at {made.num_changes} of {panel.num_steps} steps, by the column {column.name!r}."]
    if not is_used.all():
        first = show_time(distinct[~is_used].min())
        notes.append(f"Edges listed after the last step are left out, from {first} on.")
    # An edge at another time is another edge.
    apart = listed.ends + of_row * panel.num_nodes
    repeated = notes_on_edges(apart, panel.num_nodes * len(distinct), table.source, listed.weights is not None)
    return made, (*listed.notes, *notes, *repeated, *_notes_on_steps(made, panel.nodes))


def _steps_of(
    listed: pd.Index, times: pd.Index, column: TimeColumn, rows: Int[np.ndarray, " listed"]
) -> Int[np.ndarray, " listed"]:
    """Return the step from which each listing holds: -1 or less before the first step, or the number of steps after."""
    are_dates = [isinstance(each, pd.DatetimeIndex) for each in (listed, times)]
    zones = [getattr(each, "tz", None) is None for each in (listed, times)]
    if are_dates[0] != are_dates[1] or zones[0] != zones[1]:
        raise InputError(
            f"Expected times of edges like those of the series, such as {show_time(times[0])}, got "
            f"{show_time(listed[0])} in {column.place(rows)(0)}. Write them in the same way{_OR}"
        )
    steps = np.asarray(times.get_indexer(listed))
    is_before, is_after = np.asarray(listed < times[0]), np.asarray(listed > times[-1])
    is_unknown = (steps < 0) & ~is_before & ~is_after
    if is_unknown.any():
        place = int(np.argmax(is_unknown))
        raise InputError(
            f"Expected times of edges among those of the series, got {show_time(listed[place])} in "
            f"{column.place(rows)(place)}. Write the time of the step from which the edges hold{_OR}"
        )
    # Of the listings before the first step, the last one holds there.
    ranks = np.argsort(np.argsort(listed))
    steps = np.where(is_before, ranks - int(is_before.sum()), np.where(is_after, len(times), steps))
    if steps.min() > 0:
        raise InputError(
            f"Expected edges from the first step of the series on, {show_time(times[0])}, got none before "
            f"{show_time(listed.min())}. List those that hold at the first step{_OR}"
        )
    return steps


def _graph_of(listed: EdgeList, rows: Int[np.ndarray, " rows"], num_nodes: int, direction: Direction) -> Graph:
    weights = None if listed.weights is None else listed.weights[rows]
    return Graph(listed.ends[:, rows], num_nodes, weights, direction)


def _notes_on_steps(steps: GraphSteps, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return a note on nodes that no edge touches at any step."""
    ends = np.concatenate([graph.edge_index.numpy() for graph in steps.graphs], axis=1)
    return notes_on_graph(Graph(ends, len(nodes)), nodes)
