"""Read a trained forecaster from its run folder: arrays are checked, then networks are made and get their weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from torch import Tensor

from tdegnn.data.graphs.graph_steps import GraphSteps
from tdegnn.data.panel import Panel
from tdegnn.data.scalers import Scaler
from tdegnn.data.tables.node_features import NodeFeatures
from tdegnn.data.times.seasons import Season
from tdegnn.errors import InputError
from tdegnn.files import RESTORE
from tdegnn.forecasting.fitted import HAS_INTERVALS, KEPT, OF_INTERVALS, Ensemble, FittedForecaster, graph_of
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.intervals import Intervals, read_intervals, stored_as
from tdegnn.forecasting.kept_forecasts import OF_HELD_OUT, KeptForecasts
from tdegnn.forecasting.schema import read_summary
from tdegnn.forecasting.settings import ForecasterSettings
from tdegnn.graph import Graph
from tdegnn.runs.run_folder import CONFIG, WEIGHTS, RunFolder
from tdegnn.runs.schema import refusal
from tdegnn.training.devices import choose_placement, place
from tdegnn.training.network_choice import ChosenNetwork
from tdegnn.training.order_choice import ChosenOrder
from tdegnn.training.stored_weights import check_coefficients, check_members, making_what_is_stored, take_weights

# The form of earlier versions: intervals had no prefix.
OLD_WIDTHS = "widths"
# Lengths of a step in days, of the dates that pandas can represent.
SHORTEST_STEP, LONGEST_STEP = 1e-13, 1e5


class _Expected(NamedTuple):
    """What an array must be."""

    kind: str
    shape: tuple[int, ...]
    lowest: float = -np.inf
    highest: float = np.inf
    may_be_missing: bool = False

    def fits(self, array: np.ndarray) -> bool:
        if array.dtype.kind != self.kind or array.shape != self.shape:
            return False
        numbers = array[~np.isnan(array)] if self.may_be_missing else array
        is_within = np.isfinite(numbers) & (numbers >= self.lowest) & (numbers <= self.highest)
        return bool(is_within.all())


def read_forecaster(folder: RunFolder, config: dict[str, Any], settings: ForecasterSettings) -> FittedForecaster:
    """Return the result of the training in a finished folder.

    Args:
        folder: The folder.
        config: Its configuration, checked.
        settings: Its settings, without those of a network that was chosen.
    """
    record = settings.to_record()
    settings = settings.with_network(ChosenNetwork.kept_in(config))
    stored, coefficients = folder.read_weights(), folder.read_coefficients()["coefficients"]
    check_members({name: tensor for name, tensor in stored.items() if name.startswith(KEPT)}, 1, folder.path)
    arrays = [name for name in stored if name.startswith(KEPT)]
    kept = {name.removeprefix(KEPT): _as_array(stored.pop(name)[0], name, folder.path) for name in arrays}
    check_members(stored, settings.num_members, folder.path)
    _check_arrays(config, settings, kept, folder.path)
    graphs = _read_graphs(config["data"], kept, keep_self_loops=folder.format > 1)
    maker, tail = _read_maker(config, kept), _read_tail(config["data"], kept, graphs, folder.path)
    graph = graph_of(tail)
    if isinstance(tail.times, pd.DatetimeIndex) and not SHORTEST_STEP <= maker.step_length <= LONGEST_STEP:
        raise refusal(folder.path / CONFIG, "frames.step_length", "days between two dates", maker.step_length)
    names = tuple(config["data"]["node_features"])
    features = NodeFeatures(kept["node_features"], names) if names else None
    sizes = maker.sizes(graph.num_nodes)
    with making_what_is_stored(stored, folder.path):
        order_choice = ChosenOrder.kept_in(config) or settings.choose_order(tail, maker.window)
        num_layers = 1 if settings.states == "physical" else settings.num_layers
        check_coefficients(coefficients, num_layers, order_choice.order, folder.path)
        network_config = settings.network_config(order_choice.order, sizes)
        networks = tuple(network_config.build(sizes, settings.seed + member) for member in range(settings.num_members))
    for member, network in enumerate(networks):
        place(network, choose_placement("cpu", settings.precision))
        take_weights(network, stored, member, folder.path, network_config.part_records())
    return FittedForecaster(
        Ensemble(networks, maker, graph, features),
        tail,
        _read_kept_intervals(settings, kept),
        coefficients,
        order_choice,
        {**config, "settings": record},
        folder.read_history(),
        read_summary(folder),
        _read_held_out(kept, tail, folder.path),
    )


def _as_array(tensor: Tensor, name: str, path: Path) -> np.ndarray:
    try:
        return np.asarray(tensor.numpy())
    except TypeError as error:  # NumPy has no bfloat16, for example
        raise InputError(
            f"Expected {name!r} in {WEIGHTS} of {path} in a type of NumPy, got {tensor.dtype}. {RESTORE}"
        ) from error


def _check_arrays(
    config: Mapping[str, Any], settings: ForecasterSettings, kept: Mapping[str, np.ndarray], path: Path
) -> None:
    """Raise an `InputError` for an array that is missing, unknown, or not as the configuration says."""
    data, frames = config["data"], config["frames"]
    num_nodes, num_edges, num_features = len(data["nodes"]), data["edges"], len(data["node_features"])
    num_graphs = 1
    if data.get("graphs") is not None and "edge_counts" in kept:
        # The graphs of the last steps, which are fewer than those of all steps.
        counts = np.atleast_1d(kept["edge_counts"])
        num_graphs, num_edges = len(counts), int(counts.sum()) if counts.dtype.kind == "i" else num_edges
    num_rows = len(kept["center"]) if "center" in kept and len(np.shape(kept["center"])) == 2 else num_nodes
    scales = (1 if num_rows == 1 else num_nodes, len(data["channels"]) + num_features)
    expected = {
        "center": _Expected("f", scales),
        "scale": _Expected("f", scales, lowest=np.nextafter(0, 1)),
        "tail": _Expected("f", (len(data["times"]), num_nodes, len(data["channels"])), may_be_missing=True),
        "edges": _Expected("i", (2, num_edges), lowest=0, highest=num_nodes - 1),
        "edge_weights": _Expected("f", (num_edges,), lowest=0),
    }
    if data.get("graphs") is not None:
        expected |= {
            "edge_counts": _Expected("i", np.shape(kept.get("edge_counts", ()))[:1] or (1,), lowest=0),
            "graph_numbers": _Expected("i", (len(data["times"]),), lowest=0, highest=max(num_graphs - 1, 0)),
        }
    held_out = _part(kept, OF_HELD_OUT)
    if held_out:
        expected |= {f"{OF_HELD_OUT}{name}": wanted for name, wanted in _expected_held_out(held_out, config).items()}
    if num_features:
        expected["node_features"] = _Expected("f", (num_nodes, num_features))
    given = [name for name in kept if name.startswith(OF_INTERVALS) or name == OLD_WIDTHS]
    if HAS_INTERVALS in kept:
        expected[HAS_INTERVALS] = _Expected("b", (), lowest=1)
    sizes = (frames["horizon"], num_nodes, data["num_targets"])
    of_method = stored_as(settings.intervals, {name.removeprefix(OF_INTERVALS): kept[name] for name in given}, sizes)
    if of_method is not None and (given or HAS_INTERVALS in kept):
        prefix = "" if OLD_WIDTHS in kept else OF_INTERVALS
        expected |= {f"{prefix}{name}": _Expected(*stored) for name, stored in of_method.items()}
    others = [name for name in kept if name not in expected and (of_method is not None or name not in given)]
    missing = [name for name in expected if name not in kept]
    if others or missing:
        what = f"{missing[0]!r}" if missing else f"no {others[0]!r}"
        raise InputError(f"Expected {what} in {WEIGHTS} of {path}, got {'none' if missing else 'one'}. {RESTORE}")
    for name, wanted in expected.items():
        if not wanted.fits(kept[name]):
            raise InputError(
                f"Expected {name!r} in {WEIGHTS} of {path} to be as {CONFIG} says, of shape {wanted.shape}, got "
                f"{kept[name].dtype} of shape {kept[name].shape}, or with values that cannot be. {RESTORE}"
            )


def _part(kept: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names have a prefix, without it."""
    return {name.removeprefix(prefix): each for name, each in kept.items() if name.startswith(prefix)}


def _expected_held_out(arrays: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> dict[str, _Expected]:
    """Return what the forecasts of held-out steps must be. Their number is that of the steps and windows."""
    data, horizon = config["data"], config["frames"]["horizon"]
    num_steps, num_windows = (np.size(arrays.get(name, ())) for name in ("times", "first_steps"))
    series = (len(data["nodes"]), data["num_targets"])
    windows = (num_windows, horizon, *series)
    may_be_missing = _Expected("f", windows, may_be_missing=True)
    return {
        "times": _Expected("f" if "times" in arrays and arrays["times"].dtype.kind == "f" else "i", (num_steps,)),
        "observed": _Expected("f", (num_steps, *series), may_be_missing=True),
        "first_steps": _Expected("i", (num_windows,), lowest=0, highest=num_steps - horizon),
        "forecasts": may_be_missing,
        "low": may_be_missing,
        "high": may_be_missing,
    }


def _read_maker(config: Mapping[str, Any], kept: Mapping[str, np.ndarray]) -> FrameMaker:
    data, frames = config["data"], config["frames"]
    return FrameMaker(
        frames["window"],
        frames["horizon"],
        (*data["channels"], *data["node_features"]),
        data["num_targets"],
        tuple(config["settings"]["known"]),
        Scaler(kept["center"], kept["scale"]),
        tuple(Season(period, int(num_waves)) for period, num_waves in frames["seasons"]),
        frames["step_length"],
        frames["has_mask"],
    )


def _read_graphs(
    data: Mapping[str, Any], kept: Mapping[str, np.ndarray], *, keep_self_loops: bool
) -> Graph | GraphSteps:
    """Return the graph, or the graphs of the last steps if edges change."""

    def read(edges: slice) -> Graph:
        # Format 1 did not keep whether a graph is weighted: such graphs are read as weighted and without self-loops.
        weights = kept["edge_weights"][edges] if data["is_weighted"] else None
        ends, direction = kept["edges"][:, edges], data["direction"]
        return Graph(ends, len(data["nodes"]), weights, direction, keep_self_loops=keep_self_loops)

    if data.get("graphs") is None:
        return read(slice(None))
    ends = np.cumsum(kept["edge_counts"]).tolist()
    graphs = tuple(read(slice(*edges)) for edges in zip([0, *ends[:-1]], ends, strict=True))
    return GraphSteps(graphs, kept["graph_numbers"])


def _read_tail(
    data: Mapping[str, Any], kept: Mapping[str, np.ndarray], graphs: Graph | GraphSteps, path: Path
) -> Panel:
    # Not `from_array`: a channel may have no observed value at the end.
    return Panel(
        kept["tail"],
        _read_times(data, path),
        tuple(data["nodes"]),
        tuple(data["channels"]),
        data["num_targets"],
        graphs if isinstance(graphs, Graph) else None,
        data["name"],
        graph_steps=None if isinstance(graphs, Graph) else graphs,
    )


def _read_held_out(kept: Mapping[str, np.ndarray], tail: Panel, path: Path) -> KeptForecasts | None:
    """Return the forecasts of held-out steps. None in folders of earlier versions."""
    arrays = _part(kept, OF_HELD_OUT)
    try:
        return KeptForecasts.from_arrays(arrays, tail) if arrays else None
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:  # the last of years beyond 9999
        raise InputError(
            f"Expected times of the series as {OF_HELD_OUT + 'times'!r} in {WEIGHTS} of {path}, got others. {RESTORE}"
        ) from error


def _read_kept_intervals(settings: ForecasterSettings, kept: Mapping[str, np.ndarray]) -> Intervals | None:
    arrays = _part(kept, OF_INTERVALS)
    if OLD_WIDTHS in kept:
        arrays[OLD_WIDTHS] = kept[OLD_WIDTHS]
    has_intervals = HAS_INTERVALS in kept or bool(arrays)  # earlier versions kept the arrays only
    return read_intervals(settings.intervals, arrays, settings.coverage) if has_intervals else None


def _read_times(data: Mapping[str, Any], path: Path) -> pd.Index:
    """Return the times of the end of the series."""
    texts, zone = data["times"], data["time_zone"]
    try:
        times = pd.Index([int(text) if text.lstrip("-").isdecimal() else float(text) for text in texts])
    except ValueError:
        try:
            # ISO 8601: whole seconds are written without decimals, even among others.
            times = pd.DatetimeIndex(pd.to_datetime(texts, format="ISO8601", utc=zone is not None))
        except (ValueError, OverflowError) as error:
            raise refusal(path / CONFIG, "data.times", "dates or numbers", texts) from error
        if zone is not None:
            try:
                times = times.tz_convert(zone)
            except (ValueError, LookupError, OSError) as error:
                raise refusal(path / CONFIG, "data.time_zone", "a time zone", zone) from error
    if len(times) > 1 and not (times.is_monotonic_increasing and times.is_unique and not times.hasnans):
        raise refusal(path / CONFIG, "data.times", "times that increase", texts)
    return times
