"""Panels to and from PyG: `Data` with everything that a panel holds, and signals of PyTorch Geometric Temporal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch_geometric.data import Data

from tdegnn.data.panel import Panel
from tdegnn.errors import InputError
from tdegnn.graph import Graph


def panel_to_pyg(panel: Panel) -> Data:
    """Return PyG data with `x` of shape (nodes, time, channels), and NaN for what was not observed."""
    is_date = isinstance(panel.times, pd.DatetimeIndex)
    data = Data(
        x=torch.as_tensor(panel.values).transpose(0, 1).contiguous(),
        observed=torch.as_tensor(panel.observed).transpose(0, 1).contiguous(),
        # Dates as microseconds since 1970, in UTC if there is a time zone.
        times=torch.as_tensor(np.array(panel.times.asi8 if is_date else panel.times)),
        times_are_dates=is_date,
        time_zone=panel.time_zone,
        node_names=list(panel.nodes),
        channel_names=list(panel.channels),
        num_targets=panel.num_targets,
        name=panel.name,
    )
    if panel.graph_steps is not None:
        raise InputError(
            "Expected series on one graph for PyG data, got edges that change. Choose one with panel.with_graph."
        )
    if panel.graph is not None:
        data.edge_index = panel.graph.edge_index
        data.direction = panel.graph.direction
        if panel.graph.is_weighted:
            data.edge_weight = panel.graph.edge_weight
    return data


def panel_from_pyg(data: Data) -> Panel:
    """Make a panel from the result of `panel_to_pyg`, or from any `x` of shape (nodes, time[, channels])."""
    x = getattr(data, "x", None)
    if x is None or x.dim() not in (2, 3):
        came = "none" if x is None else f"shape {tuple(x.shape)}"
        raise InputError(f"Expected PyG data with x of shape (nodes, time[, channels]), got {came}.")
    times = None
    if "times" in data:
        times = data.times.numpy() if isinstance(data.times, Tensor) else data.times
        if "times_are_dates" in data:
            times = _as_written(times, is_date=data.times_are_dates, time_zone=data.get("time_zone"))
    graph = None
    if data.edge_index is not None:
        # Data of `panel_to_pyg` have a direction, and only the self-loops that were wanted.
        direction = data.get("direction")
        graph = Graph.from_pyg(data, direction or "both", keep_self_loops=direction is not None)
    return Panel.from_array(
        x.transpose(0, 1),
        times=times,
        nodes=data.get("node_names"),
        channels=data.get("channel_names"),
        num_targets=data.get("num_targets") or 1,
        graph=graph,
        name=data.get("name") or "",
    )


def panel_from_signal(signal: Any) -> Panel:
    """Make a panel from a signal on a static graph: `edge_index`, `edge_weight`, `features`, `targets`."""
    for name in ("edge_index", "features", "targets"):
        if getattr(signal, name, None) is None:
            raise InputError(
                f"Expected a signal on one graph with {name}, got {type(signal).__name__} without it. "
                "Graphs that change in time are not supported."
            )
    features = _stack(signal.features, "features")
    targets = _stack(signal.targets, "targets")
    if features.shape[:2] != targets.shape[:2]:
        raise InputError(
            f"Expected features and targets of the same steps and nodes, got {features.shape} and {targets.shape}."
        )
    graph = Graph(np.asarray(signal.edge_index), features.shape[1], getattr(signal, "edge_weight", None))
    return Panel.from_array(_join_windows(features, targets), graph=graph)


def _join_windows(
    features: Float[np.ndarray, "steps nodes *lags"], targets: Float[np.ndarray, "steps nodes *horizon"]
) -> Float[np.ndarray, "time nodes channels"]:
    """Return the series from which windows were cut. If features are not windows, target and features as channels.

    Windows are features (steps, nodes[, channels], lags), oldest first, each one step after the one before. Targets
    (steps, nodes[, horizon]) continue the first channel.
    """
    windows = features[:, :, None] if features.ndim == 3 else features
    ahead = targets[..., None] if targets.ndim == 2 else targets
    num_steps, num_nodes, num_channels, num_lags = windows.shape
    horizon = ahead.shape[-1]
    first_window = np.moveaxis(windows[0], -1, 0)
    series = np.concatenate([first_window, windows[1:, ..., -1]])
    whole = np.full((num_steps + num_lags + horizon - 1, num_nodes, num_channels), np.nan)
    whole[: len(series)] = series
    whole[len(series) :, :, 0] = ahead[-1].T
    lagged = np.lib.stride_tricks.sliding_window_view(whole, num_lags, axis=0)[:num_steps]
    continued = np.lib.stride_tricks.sliding_window_view(whole[num_lags:, :, 0], horizon, axis=0)
    if np.array_equal(lagged, windows, equal_nan=True) and np.array_equal(continued, ahead, equal_nan=True):
        return whole
    if features.ndim == 3 and targets.ndim == 2:
        return np.concatenate([targets[..., None], features], axis=-1)
    raise InputError(
        f"Expected features that are windows of one series, or one target per step with plain features, got features "
        f"{features.shape[1:]} and targets {targets.shape[1:]} per step. Make a Panel from the series itself."
    )


def _stack(snapshots: Sequence[Any], name: str) -> Float[np.ndarray, "steps nodes *more"]:
    arrays = [np.asarray(snapshot, dtype=np.float64) for snapshot in snapshots]
    if not arrays or any(array.shape != arrays[0].shape for array in arrays):
        raise InputError(f"Expected {name} of one shape at all steps, got {len({a.shape for a in arrays})} shapes.")
    if arrays[0].ndim not in ((2, 3) if name == "features" else (1, 2)):
        raise InputError(f"Expected {name} with nodes as their first axis, got shape {arrays[0].shape} per step.")
    return np.stack(arrays)


def _as_written(times: np.ndarray, *, is_date: bool, time_zone: str | None) -> pd.Index:
    """Return times as in the panel of `panel_to_pyg`: a number that looks like a date, 20240101, stays a number."""
    if is_date:
        dates = pd.DatetimeIndex(times.astype("datetime64[us]"))
        return dates if time_zone is None else dates.tz_localize("UTC").tz_convert(time_zone)
    step = int(times[1] - times[0]) if len(times) > 1 and np.issubdtype(times.dtype, np.integer) else 1
    # Times that do not increase are left to `Panel.from_array`, which refuses them.
    if np.issubdtype(times.dtype, np.integer) and (np.diff(times) == step).all() and step > 0:
        return pd.RangeIndex(int(times[0]), int(times[-1]) + step, step)
    return pd.Index(times)
