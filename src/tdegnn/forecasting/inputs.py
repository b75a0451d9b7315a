"""Check the series that a trained forecaster gets: newer series to continue from, and channels known ahead.

Frames are read with the columns of the training, and their nodes are put into its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.data.tables.panel_like import PanelLike, read_frame
from tdegnn.data.times.times import describe_step, show_time
from tdegnn.errors import LARGEST_VALUE, Argument, InputError, TrainingError

# The channel of a table without names of channels.
UNNAMED = ("value",)


def read_like(series: PanelLike, training: Panel, channels: Sequence[str] | None = None) -> Panel:
    """Return a panel as it is, and a frame as a panel with the channels and nodes of the training.

    Args:
        series: A panel or a frame.
        training: The series of the training, or their end.
        channels: Names of the channels that a frame should have. Default: those of the training.
    """
    if isinstance(series, Panel):
        return series
    targets, others = training.channels[: training.num_targets], training.channels[training.num_targets :]
    if channels is not None:
        targets, others = tuple(channels), ()
    # A wide frame has nodes for columns, and no channels.
    is_long = targets != UNNAMED and {*targets, *others} <= {str(name) for name in getattr(series, "columns", ())}
    return arrange_nodes(read_frame(series, *((targets, others) if is_long else ())), training.nodes)


def arrange_nodes(panel: Panel, nodes: Sequence[str]) -> Panel:
    """Return the panel with the nodes of the training, in their order."""
    places = {name: place for place, name in enumerate(panel.nodes)}
    missing = [name for name in nodes if name not in places]
    source = panel.name or "the series"
    if missing:
        raise InputError(
            f"Expected the {len(nodes)} nodes of the training in {source}, got none called {missing[0]!r}. "
            "Add it, with empty cells for what was not observed."
        )
    others = [name for name in panel.nodes if name not in set(nodes)]
    notes = panel.notes
    if others:
        notes += (f"{source} has nodes that were not in the training, {others[0]!r} first; they are left out.",)
    values = panel.values[:, [places[name] for name in nodes]]
    return replace(panel, values=values, nodes=tuple(nodes), notes=notes)


def check_goes_on(series: PanelLike, training: Panel, window: int, horizon: int) -> Panel:
    """Return old and new series to learn from, counted in the steps of the training.

    Refuse series of other nodes, series that end before those of the training, and new steps alone if they are too
    few.

    Args:
        series: The series up to now.
        training: The series of the training, or their end.
        window: Number of steps a forecast sees.
        horizon: Number of steps it forecasts.
    """
    panel = _of_same_nodes(series, training)
    if panel.num_steps < window + horizon:
        raise InputError(
            f"Expected old and new steps together, at least {window + horizon} (a window of {window} and a horizon of "
            f"{horizon}), got {panel.num_steps}, from {show_time(panel.times[0])} to {show_time(panel.times[-1])}. Old "
            "rows are needed too: put them before the new ones."
        )
    panel = _on_graphs_of(in_steps_of(panel, training), training)
    came, trained = panel.times[-1], training.times[-1]
    if came < trained:
        raise InputError(
            f"Expected series that go as far as those of the training, to {show_time(trained)}, got an end at "
            f"{show_time(came)}. Give old and new steps together."
        )
    return panel


def notes_of_update(panel: Panel, training: Panel) -> list[str]:
    """Return a note if a forecaster learns from new steps alone."""
    if panel.times[0] <= training.times[-1]:
        return []
    return [
        f"The update saw only new steps, from {show_time(panel.times[0])} on: what old ones taught may be forgotten. "
        "Give old and new steps together."
    ]


def check_seen(series: PanelLike, training: Panel, window: int) -> Panel:
    """Return newer series, counted in the steps of the training. Refuse those of other nodes, and too short ones.

    Args:
        series: The series up to now.
        training: The series of the training, or their end.
        window: Number of steps a forecast sees.
    """
    panel = _of_same_nodes(series, training)
    if panel.num_steps < window:
        raise InputError(f"Expected at least {window} steps, the window of the training, got {panel.num_steps}.")
    panel = in_steps_of(panel, training)
    if training.graph_steps is not None and panel.graph is None:
        # The last graph of the training still holds. Steps before its end are seen, but nothing is forecast from them.
        rows = np.maximum(training.times.searchsorted(panel.times, side="right") - 1, 0)
        return panel.with_graph_steps(training.graph_steps[rows])
    return _on_graphs_of(panel, training)


def _on_graphs_of(panel: Panel, training: Panel) -> Panel:
    """Return the panel. Refuse one whose edges change if those of the training did not, and the other way round."""
    if training.graph_steps is None and panel.graph_steps is not None:
        raise InputError("Expected series on one graph, as in the training, got edges that change. Train with them.")
    if training.graph_steps is not None and panel.graph_steps is None:
        came = "none" if panel.graph is None else "one graph for all steps"
        raise InputError(f"Expected edges with times, as in the training, got {came}. Give them too.")
    return panel


def _of_same_nodes(series: PanelLike, training: Panel) -> Panel:
    panel = read_like(series, training)
    if panel.nodes != training.nodes:
        missing = [node for node in training.nodes if node not in panel.nodes]
        named = f"{missing[0]!r} is missing" if missing else "their order differs, or there are others"
        raise InputError(f"Expected the {len(training.nodes)} nodes of the training; {named}.")
    return panel


def in_steps_of(panel: Panel, training: Panel) -> Panel:
    """Return the panel, its times counted in the steps of the training. Refuse a panel with other steps.

    A few times may fit several steps: five days in a row fit days and business days. Then the training decides.
    """
    wanted, came = describe_step(training.times), describe_step(panel.times)
    are_dates = [isinstance(times, pd.DatetimeIndex) for times in (panel.times, training.times)]
    if wanted == came or (panel.num_steps == 1 and not any(are_dates)):
        return panel
    if all(are_dates):
        times = panel.times.copy()
        try:
            # Set, not passed: pandas 2 keeps the step that it has found itself.
            times.freq = training.times.freq
            return replace(panel, times=times)
        except ValueError:
            pass  # pandas raises this for a step that does not fit
    raise InputError(f"Expected steps of {wanted}, as in the training, got {came}. Bring the series to these steps.")


def cover_blocks(future: Panel, known: Sequence[str], asked: pd.Index, whole: pd.Index) -> Panel:
    """Return the channels known ahead in whole blocks of steps. Only the steps to forecast must be given.

    A network forecasts a block at once, and sees the future of all of it. Missing values are NaN, and filled later.

    Args:
        future: The channels known ahead.
        known: Names of the channels it must have.
        asked: The steps to forecast.
        whole: All steps of the blocks.
    """
    missing = [name for name in known if name not in future.channels]
    if missing:
        raise InputError(
            f"Expected future values of {missing[0]!r}, got none. Give them, or train without ", Argument("known"), "."
        )
    rows = future.times.get_indexer(whole)
    is_given = rows >= 0
    if not is_given[: len(asked)].all():
        first = show_time(asked[int(np.argmin(is_given))])
        raise InputError(
            f"Expected future values of {len(asked)} steps from {show_time(asked[0])} on, got none at {first}. Give "
            "them, or forecast fewer steps."
        )
    values = np.full((len(whole), future.num_nodes, future.num_channels), np.nan)
    values[is_given] = future.values[rows[is_given]]
    return replace(future, values=values, times=whole, graph=None, graph_steps=None)


def extend_panel(panel: Panel, forecast: Float[np.ndarray, "steps nodes targets"], future: Panel | None) -> Panel:
    """Return the panel with forecasts as if they had been observed, and with the channels known in these steps.

    Raises:
        TrainingError: A forecast is not a number, or too large for a panel.
    """
    times = panel.future_times(len(forecast))
    is_wrong = ~(np.abs(forecast) <= LARGEST_VALUE)
    if is_wrong.any():
        step, node, channel = np.argwhere(is_wrong)[0]
        raise TrainingError(
            f"Expected numbers of at most {LARGEST_VALUE:g} as forecasts, got {forecast[step, node, channel]:g} for "
            f"node {panel.nodes[node]!r}, forecast for {show_time(times[step])}. Forecast fewer steps, or train with a "
            "lower learning rate or step size."
        )
    after = np.full((len(forecast), panel.num_nodes, panel.num_channels), np.nan)
    after[..., : panel.num_targets] = forecast
    if future is not None:
        rows = future.times.get_indexer(times)
        # Not the targets, though a future may hold what was observed later: they are forecast.
        for channel, name in list(enumerate(panel.channels))[panel.num_targets :]:
            if name in future.channels and (rows >= 0).all():
                after[..., channel] = future.values[rows][..., future.channels.index(name)]
    values = np.concatenate([panel.values, after])
    graphs = None if panel.graph_steps is None else panel.graph_steps.longer(len(times))
    return replace(panel, values=values, times=_join_times(panel.times, times), notes=(), graph_steps=graphs)


def _join_times(before: pd.Index, after: pd.Index) -> pd.Index:
    """Return times and the times that follow them, with the step of the first ones."""
    step = getattr(before, "freq", None)
    if step is None:
        return before.union(after)
    # In pandas 2, a union of dates with a step loses some of them, unless they are in nanoseconds.
    joined = before.append(after)
    joined.freq = step
    return joined
