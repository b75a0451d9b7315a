"""A graph for those who have none: neighbors in space, or nodes whose series move together.

Both link each node to its nearest, with weights that fall with distance. Correlation must be that of the training part:
a graph made from the whole series has seen the test part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from tdegnn.data.csv_files import CsvFormat, Kind
from tdegnn.data.panel import Panel
from tdegnn.data.tables import PLAIN_CSV, find_named, read_table
from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph

Metric = Literal["euclidean", "haversine"]
NODE_NAMES = ("node", "id", "name")
LATITUDE_NAMES, LONGITUDE_NAMES = ("latitude", "lat"), ("longitude", "lon", "lng", "long")
# Two series that share fewer observations are not compared.
FEWEST_SHARED_STEPS = 8


def neighbor_graph(coordinates: ArrayLike, num_neighbors: int = 5, metric: Metric = "euclidean") -> Graph:
    """Link each node to its nearest in space.

    The weight of an edge of length d is exp(-(d / s)^2), with s the median length. `without_weights()` drops them.

    Args:
        coordinates: One row a node: x, y, ... for `euclidean`; latitude and longitude in degrees for `haversine`.
        num_neighbors: How many nodes each is linked to.
        metric: How to measure distance: in a plane, or on the globe.
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
    # Without points of its own, the search does not return the node itself.
    distances, neighbors = search.kneighbors()
    typical = np.median(distances)
    weights = np.exp(-((distances / typical) ** 2)) if typical > 0 else np.ones_like(distances)
    return _linked(neighbors, weights)


def read_coordinates(
    source: Any, nodes: Sequence[str], csv_format: CsvFormat = PLAIN_CSV
) -> tuple[Float[np.ndarray, "nodes axes"], Metric]:
    """Read where nodes are, from a table with a column of nodes and one for each axis.

    Columns called latitude and longitude (or lat and lon) are degrees on the globe, any other numbers lie in a plane.

    Args:
        source: A CSV or Parquet file, or a frame. The first column holds the nodes, unless another is called node.
        nodes: Names of the nodes, in the order wanted.
        csv_format: Separator, decimal sign and encoding of a CSV file.
    """

    def choose_kinds(names: tuple[str, ...]) -> list[Kind]:
        return ["text" if position == _node_column(names) else "number" for position in range(len(names))]

    table = read_table(source, choose_kinds, csv_format)
    node_column = _node_column(table.names)
    axes = [position for position in range(len(table.names)) if position != node_column]
    latitude, longitude = (find_named(table.names, names) for names in (LATITUDE_NAMES, LONGITUDE_NAMES))
    on_globe = latitude is not None and longitude is not None
    if latitude is not None and longitude is not None:
        axes = [latitude, longitude]
    rows = {name: row for row, name in enumerate(table.texts(node_column).to_pylist())}
    missing = [node for node in nodes if node not in rows]
    if missing:
        raise InputError(f"Expected coordinates of each node in {table.source}, got none for {missing[0]!r}.")
    if not axes:
        raise InputError(f"Expected columns of coordinates in {table.source}, got {table.names[node_column]!r} only.")
    wanted = [rows[node] for node in nodes]
    points = np.stack([table.numbers(position)[wanted] for position in axes], axis=1)
    is_missing = np.isnan(points).any(axis=1)
    if is_missing.any():
        place = table.place(wanted[int(np.argmax(is_missing))])
        raise InputError(f"Expected a number for each coordinate, got an empty cell in {place}. Fill it in.")
    return points, "haversine" if on_globe else "euclidean"


def correlation_graph(panel: Panel, num_training_steps: int, num_neighbors: int = 5) -> Graph:
    """Link each node to those whose first channel correlates most with its own, weighted by the correlation.

    Args:
        panel: The series.
        num_training_steps: How many steps, from the first, are the training part. Later ones are not looked at.
        num_neighbors: How many nodes each is linked to at most; only positive correlations make edges.
    """
    check_count(num_training_steps=num_training_steps, minimum=FEWEST_SHARED_STEPS)
    if num_training_steps > panel.num_steps:
        raise InputError(f"Expected at most {panel.num_steps} training steps, all there are, got {num_training_steps}.")
    _check_neighbors(num_neighbors, panel.num_nodes)
    correlation = _masked_correlation(panel.values[:num_training_steps, :, 0])
    np.fill_diagonal(correlation, 0.0)
    neighbors = np.argsort(-correlation, axis=1, kind="stable")[:, :num_neighbors]
    return _linked(neighbors, np.take_along_axis(correlation, neighbors, axis=1).clip(min=0.0))


def _node_column(names: Sequence[str]) -> int:
    return find_named(names, NODE_NAMES) or 0


def _masked_correlation(values: Float[np.ndarray, "time nodes"]) -> Float[np.ndarray, "nodes nodes"]:
    """Correlation of each pair over the steps at which both were observed; 0 where it is undefined."""
    observed = (~np.isnan(values)).astype(np.float64)
    # Centered first, so that sums of squares keep their digits.
    centered = np.where(observed > 0, values - np.nanmean(np.where(observed > 0, values, np.nan)), 0.0)
    count = observed.T @ observed
    sums = centered.T @ observed
    squares = (centered**2).T @ observed
    products = centered.T @ centered
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = products - sums * sums.T / count
        variance = squares - sums**2 / count
        correlation = covariance / np.sqrt(variance * variance.T)
    is_defined: Bool[np.ndarray, "nodes nodes"] = (
        np.isfinite(correlation) & (count >= FEWEST_SHARED_STEPS) & (variance > 1e-12 * squares)
    )
    return np.asarray(np.where(is_defined, correlation, 0.0))


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
    return np.asarray(np.radians(points))


def _check_neighbors(num_neighbors: int, num_nodes: int) -> None:
    check_count(num_neighbors=num_neighbors)
    if num_nodes < 2:
        raise InputError("Expected at least two nodes to link neighbors, got one.")
    if num_neighbors >= num_nodes:
        raise InputError(f"Expected fewer neighbors than the {num_nodes} nodes, got {num_neighbors}.")
