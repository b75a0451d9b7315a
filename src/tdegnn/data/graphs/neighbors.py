"""A graph for users who have none: neighbors in space, or nodes whose series move together.

Both link each node to its nearest nodes, with weights that fall with distance. Correlations are those of the training
steps: a graph made from the whole series has seen the test steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from tdegnn.data.panel import as_panel
from tdegnn.data.tables.csv_files import CsvFormat, Kind
from tdegnn.data.tables.panel_like import PanelLike
from tdegnn.data.tables.table import NODE_NAMES, PLAIN_CSV, find_named, read_table
from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph

Metric = Literal["euclidean", "haversine"]
LATITUDE_NAMES, LONGITUDE_NAMES = ("latitude", "lat"), ("longitude", "lon", "lng", "long")
# Series with fewer common observations are not compared.
FEWEST_SHARED_STEPS = 8


def neighbor_graph(coordinates: ArrayLike, num_neighbors: int = 5, metric: Metric = "euclidean") -> Graph:
    """Link each node to its nearest nodes in space.

    The weight of an edge of length d is exp(-(d / s)^2), where s is the median length. `without_weights()` drops them.

    Args:
        coordinates: One row per node: x, y, ... for `euclidean`; latitude and longitude in degrees for `haversine`.
        num_neighbors: Number of nodes to which each node is linked.
        metric: How to measure distance: `euclidean` in a plane, `haversine` on the globe.
    """
    from sklearn.neighbors import NearestNeighbors

    points = np.asarray(coordinates, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] < 1:
        raise InputError(f"Expected coordinates of shape (nodes, axes), got {points.shape}.")
    if not np.isfinite(points).all():
        node = int(np.argmax(~np.isfinite(points).all(axis=1)))
        raise InputError(f"Expected finite coordinates, got {points[node].tolist()} for node {node}.")
    if metric not in get_args(Metric):
        raise InputError(f"Expected the metric 'euclidean' or 'haversine', got {metric!r}.")
    if metric == "haversine":
        points = _as_radians(points)
    _check_neighbors(num_neighbors, len(points))
    search = NearestNeighbors(n_neighbors=num_neighbors, metric=metric).fit(points)
    # Called without points, the search does not return the node itself.
    distances, neighbors = search.kneighbors()
    typical = np.median(distances)
    weights = np.exp(-((distances / typical) ** 2)) if typical > 0 else np.ones_like(distances)
    return _linked(neighbors, weights)


def read_coordinates(
    source: Any, nodes: Sequence[str], csv_format: CsvFormat = PLAIN_CSV
) -> tuple[Float[np.ndarray, "nodes axes"], Metric]:
    """Read the coordinates of nodes, from a table with a column of nodes and one column per axis.

    Columns called latitude and longitude (or lat and lon) are degrees on the globe, other numbers lie in a plane.

    Args:
        source: A CSV or Parquet file, or a frame. The first column holds the nodes, unless another is called node.
        nodes: Names of the nodes, in the wanted order.
        csv_format: Separator, decimal sign and encoding of a CSV file.
    """
    table = read_table(source, lambda start: _coordinate_kinds(start.names), csv_format)
    node_column, axes, metric = _find_axes(table.names)
    names = [str(name) for name in table.texts(node_column).to_pylist()]
    rows = {name: row for row, name in enumerate(names)}
    if len(rows) < len(names):
        twice = next(row for row, name in enumerate(names) if rows[name] != row)
        raise InputError(f"Expected each node once, got {names[twice]!r} again in {table.place(rows[names[twice]])}.")
    missing = [node for node in nodes if node not in rows]
    if missing:
        raise InputError(f"Expected coordinates of each node in {table.source}, got none for {missing[0]!r}.")
    wanted = [rows[node] for node in nodes]
    points = np.stack([table.numbers(position)[wanted] for position in axes], axis=1)
    is_missing = np.isnan(points).any(axis=1)
    if is_missing.any():
        place = table.place(wanted[int(np.argmax(is_missing))])
        raise InputError(f"Expected a number for each coordinate, got an empty cell in {place}. Fill it in.")
    return points, metric


def correlation_graph(panel: PanelLike, num_training_steps: int, num_neighbors: int = 5) -> Graph:
    """Link each node to those whose first channel correlates most with its own, weighted by the correlation.

    Args:
        panel: The series, as a panel or a frame.
        num_training_steps: Number of training steps, from the first. Later steps are not used.
        num_neighbors: Maximum number of nodes to which each node is linked. Only positive correlations make edges.
    """
    panel = as_panel(panel)
    check_count(num_training_steps=num_training_steps, minimum=FEWEST_SHARED_STEPS)
    if num_training_steps > panel.num_steps:
        raise InputError(
            f"Expected at most {panel.num_steps} training steps, the length of the series, got {num_training_steps}."
        )
    _check_neighbors(num_neighbors, panel.num_nodes)
    correlation = _masked_correlation(panel.values[:num_training_steps, :, 0])
    np.fill_diagonal(correlation, 0.0)
    neighbors = np.argsort(-correlation, axis=1, kind="stable")[:, :num_neighbors]
    return _linked(neighbors, np.take_along_axis(correlation, neighbors, axis=1).clip(min=0.0))


def _find_axes(names: Sequence[str]) -> tuple[int, list[int], Metric]:
    """Return the column of nodes, the columns of coordinates, and how to measure distance."""
    node = find_named(names, (*NODE_NAMES, "name"))
    node = 0 if node is None else node
    latitude, longitude = find_named(names, LATITUDE_NAMES), find_named(names, LONGITUDE_NAMES)
    if latitude is not None and longitude is not None:
        return node, [latitude, longitude], "haversine"
    if latitude is not None or longitude is not None:
        raise InputError(f"Expected latitude and longitude, got only one of them: {', '.join(names)}.")
    plane = [position for position in (find_named(names, (axis,)) for axis in "xyz") if position is not None]
    others = plane or [position for position in range(len(names)) if position != node]
    if not 1 <= len(others) <= 3:
        raise InputError(
            f"Expected columns latitude and longitude, or x and y, next to the nodes, got {', '.join(names)}."
        )
    return node, others, "euclidean"


def _coordinate_kinds(names: Sequence[str]) -> list[Kind]:
    axes = _find_axes(names)[1]
    return ["number" if position in axes else "text" for position in range(len(names))]


def _masked_correlation(values: Float[np.ndarray, "time nodes"]) -> Float[np.ndarray, "nodes nodes"]:
    """Return the correlation of each pair over the steps at which both were observed; 0 if it is undefined."""
    observed = (~np.isnan(values)).astype(np.float64)
    count_alone = observed.sum(axis=0).clip(min=1)
    means = np.where(observed > 0, values, 0.0).sum(axis=0) / count_alone
    # Center and scale each series first, so that sums of squares do not lose digits.
    centered = np.where(observed > 0, values - means, 0.0)
    spread = np.sqrt((centered**2).sum(axis=0) / count_alone)
    is_constant = spread <= 1e-12 * np.abs(means)
    centered /= np.where(is_constant, 1.0, spread)
    count = observed.T @ observed
    sums = centered.T @ observed
    squares = (centered**2).T @ observed
    products = centered.T @ centered
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = products - sums * sums.T / count
        variance = squares - sums**2 / count
        correlation = covariance / np.sqrt(variance * variance.T)
    is_compared: Bool[np.ndarray, "nodes nodes"] = (count >= FEWEST_SHARED_STEPS) & (variance > 1e-12 * count)
    is_compared &= is_compared.T & ~(is_constant | is_constant[:, None])
    return np.asarray(np.where(np.isfinite(correlation) & is_compared, correlation, 0.0))


def _linked(neighbors: Int[np.ndarray, "nodes neighbors"], weights: Float[np.ndarray, "nodes neighbors"]) -> Graph:
    num_nodes, num_neighbors = neighbors.shape
    sources = np.repeat(np.arange(num_nodes), num_neighbors)
    return Graph(np.stack([sources, neighbors.ravel()]), num_nodes, weights.ravel())


def _as_radians(points: Float[np.ndarray, "nodes axes"]) -> Float[np.ndarray, "nodes axes"]:
    if points.shape[1] != 2:
        raise InputError(f"Expected latitude and longitude, got {points.shape[1]} columns.")
    if np.abs(points[:, 0]).max() > 90:
        node = int(np.argmax(np.abs(points[:, 0]) > 90))
        raise InputError(f"Expected latitudes from -90 to 90, got {points[node, 0]} for node {node}. Swap the columns?")
    if points[:, 1].min() < -180 or points[:, 1].max() > 360:
        raise InputError(f"Expected longitudes from -180 to 360, got {points[:, 1].min()} to {points[:, 1].max()}.")
    return np.asarray(np.radians(points))


def _check_neighbors(num_neighbors: int, num_nodes: int) -> None:
    check_count(num_neighbors=num_neighbors)
    if num_nodes < 2:
        raise InputError("Expected at least two nodes to link neighbors, got one.")
    if num_neighbors >= num_nodes:
        raise InputError(f"Expected fewer neighbors than the {num_nodes} nodes, got {num_neighbors}.")
