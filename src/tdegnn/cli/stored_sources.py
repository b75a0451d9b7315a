"""Where the data of a training came from, as `tdegnn fit` and `tdegnn classify` store it in the settings of a run."""

from __future__ import annotations

from tdegnn.graph import Direction
from tdegnn.runs.schema import Size, Stored, StoredWithOthers, Whole


class StoredTables(Stored):
    """The options of `tdegnn fit` about tables. Those that were not given are left out."""

    series: str
    edges: str | None = None
    edge_time: str | None = None
    coordinates: str | None = None
    neighbors: Size | None = None
    node: str | None = None
    time: str | None = None
    value: list[str] | None = None
    exogenous: list[str] | None = None
    time_zone: str | None = None
    time_format: str | None = None
    direction: str | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None


class _StoredSeries(StoredWithOthers):
    tables: StoredTables | None = None
    benchmark: str | None = None


class SeriesSource(Stored):
    """The entry `data` of a forecaster, as far as it says where the series came from."""

    data: _StoredSeries


class StoredNodes(StoredWithOthers):
    """Where the nodes of a classifier came from: a benchmark, or files."""

    direction: Direction
    benchmark: str | None = None
    features_file: str | None = None
    edges_file: str | None = None
    # Missing in folders of earlier versions.
    labels_file: str | None = None
    split: Whole = 0
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None


class NodesSource(Stored):
    """The entry `data` of a classifier, as far as it says where the nodes came from."""

    data: StoredNodes
