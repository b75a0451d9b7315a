"""Files of PyTorch Geometric Temporal: Chickenpox, PedalMe and Wikipedia Math, as panels.

Chickenpox was published in z-scores over the whole series, including the test steps, and Wikipedia Math is usually
converted to them. As a unit of reported errors this is harmless; scalers for training are fitted elsewhere, to the
training steps only. The unit of PedalMe is not stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from tdegnn.data.array_files import read_arrays
from tdegnn.data.panel import Panel
from tdegnn.files import from_json, read_whole
from tdegnn.graph import Graph

FIRST_DAY_OF_WIKIMATH = "2019-03-16"
CHICKENPOX_UNIT = (
    "Cases were published in z-scores per county over the whole series: use them as a unit, not as a scaler."
)
PEDALME_UNIT = (
    "Deliveries were published in a unit that is not stated: means near 0, standard deviations of 0.5 to 1.1."
)
WIKIMATH_UNIT = "Visits are in z-scores per page over the whole series: use them as a unit, not as a scaler."
RECONSTRUCTED = (
    "Reconstructed from published derived data, since the original file is not available: visits are known up to a "
    "constant per page, 3 of 1,068 pages to 5e-4 in z-scores and the others exactly; the links have no direction."
)


def read(name: str, paths: Mapping[str, Path]) -> Panel:  # noqa: ARG001 (all readers take the name)
    """Read the one file of a benchmark, whose name tells what it holds."""
    readers = {
        "chickenpox.json": read_chickenpox,
        "pedalme_london.json": read_pedalme,
        "wikivital_mathematics.json": read_wikimath,
        "wikimath_reconstructed.npz": read_reconstructed_wikimath,
    }
    ((file_name, path),) = paths.items()
    return readers[file_name](path)


def read_chickenpox(path: Path) -> Panel:
    """Read Chickenpox: counties, edges between neighbors, no weights. Weeks are numbered: the file has no dates."""
    document = _read_json(path)
    names = _names(document, len(document["node_ids"]))
    graph = Graph(np.array(document["edges"]).T, len(names))
    return _panel("chickenpox", _weeks(document["FX"]), names, graph, CHICKENPOX_UNIT)


def read_pedalme(path: Path) -> Panel:
    """Read PedalMe: areas of London, all linked, weighted by proximity. Weeks are numbered: the file has no dates."""
    document = _read_json(path)
    names = _names(document, len(document["X"][0]))
    graph = Graph(np.array(document["edges"]).T, len(names), document["weights"])
    return _panel("pedalme", _weeks(document["X"]), names, graph, PEDALME_UNIT)


def read_wikimath(path: Path) -> Panel:
    """Read Wikipedia Math as it was published: one entry per day with the visits of all pages."""
    document = _read_json(path)
    visits = np.array([document[str(day)]["y"] for day in range(document["time_periods"])], dtype=np.float64)
    names = _names(document, visits.shape[1])
    graph = Graph(np.array(document["edges"]).T, len(names), document["weights"])
    return _panel("wikimath", _days(visits), names, graph, WIKIMATH_UNIT)


def read_reconstructed_wikimath(path: Path) -> Panel:
    """Read the reconstruction of Wikipedia Math: visits up to a constant per page, which z-scores remove."""
    shifted, edges, weights = read_arrays(path, "series", ("y_shifted", "edges", "weights"))
    visits = shifted.astype(np.float64)
    graph = Graph(edges.T, visits.shape[1], weights)
    names = _names({}, visits.shape[1])
    return _panel("wikimath (reconstructed)", _days(visits), names, graph, RECONSTRUCTED, WIKIMATH_UNIT)


def _read_json(path: Path) -> dict[str, Any]:
    return from_json(read_whole(path), path.name)


def _names(document: dict[str, Any], num_nodes: int) -> tuple[str, ...]:
    """Return the names of the nodes in the order of their numbers, or the numbers if the file has no names."""
    index: dict[str, int] = document.get("node_ids", {})
    return tuple(sorted(index, key=lambda name: index[name])) or tuple(map(str, range(num_nodes)))


def _weeks(series: list[list[float]]) -> pd.DataFrame:
    return pd.DataFrame(np.array(series, dtype=np.float64))


def _days(visits: Float[np.ndarray, "time nodes"]) -> pd.DataFrame:
    """Return visits by day in z-scores, with the population's standard deviation. Constant visits become zeros."""
    spread = visits.std(axis=0)
    scores = (visits - visits.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return pd.DataFrame(scores, pd.date_range(FIRST_DAY_OF_WIKIMATH, periods=len(visits), freq="D"))


def _panel(name: str, series: pd.DataFrame, nodes: tuple[str, ...], graph: Graph, *notes: str) -> Panel:
    values = series.to_numpy()[:, :, None]
    return Panel(values, series.index, nodes, graph=graph, name=name, notes=notes)
