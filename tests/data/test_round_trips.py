"""Panels come back from files and from PyG as they were, to the last digit."""

import tempfile
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tdegnn import InputError
from tdegnn.data.graphs.edges import read_graph, write_edges
from tdegnn.data.panel import Panel
from tdegnn.data.tables.series import panel_to_frame, read_panel, write_series
from tests.data.panels import panel_parts

THOROUGH = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def columns(panel, layout):
    """The arguments that a reader needs because a table cannot hold them."""
    known = {"time": "time", "time_zone": panel.time_zone}
    return (
        known
        if layout == "wide"
        else known | {"node": "node", "value": panel.channels[0], "exogenous": panel.channels[1:]}
    )


@pytest.mark.slow
@THOROUGH
@given(parts=panel_parts(), ending=st.sampled_from([".csv", ".parquet"]))
def test_a_panel_comes_back_from_a_long_table_and_a_list_of_edges(parts, ending):
    panel = Panel.from_array(**parts)
    with tempfile.TemporaryDirectory() as folder:
        series, edges = Path(folder, "series" + ending), Path(folder, "edges.csv")
        write_series(panel, series)
        write_edges(panel.graph, panel.nodes, edges)
        back = read_panel(series, edges, direction=panel.graph.direction, **columns(panel, "long"))
    assert back.equals(panel)


@pytest.mark.slow
@THOROUGH
@given(parts=panel_parts(max_channels=1, with_graph=False), ending=st.sampled_from([".csv", ".parquet"]))
def test_a_panel_comes_back_from_a_wide_table(parts, ending):
    panel = Panel.from_array(**parts)
    with tempfile.TemporaryDirectory() as folder:
        series = Path(folder, "series" + ending)
        write_series(panel, series, "wide")
        back = read_panel(series, **columns(panel, "wide"))
    assert back.equals(panel)


@pytest.mark.slow
@THOROUGH
@given(parts=panel_parts(), layout=st.sampled_from(["long", "wide"]), is_polars=st.booleans())
def test_a_panel_comes_back_from_a_frame(parts, layout, is_polars):
    panel = Panel.from_array(**parts)
    if layout == "wide":
        panel = Panel.from_array(panel.values[..., 0], times=panel.times, nodes=panel.nodes)
    frame = panel_to_frame(panel, layout)
    back = read_panel(polars.from_pandas(frame) if is_polars else frame, **columns(panel, layout))
    assert back.with_graph(panel.graph).equals(panel)


@pytest.mark.slow
@THOROUGH
@given(parts=panel_parts())
def test_a_panel_comes_back_from_pyg(parts):
    panel = Panel.from_array(**parts)
    assert Panel.from_pyg(panel.to_pyg()).equals(panel)


def test_what_differs_is_seen():
    panel = Panel.from_array([[1.0, 2.0], [3.0, 4.0]])
    others = [
        Panel.from_array([[1.0, 2.0], [3.0, 5.0]]),
        Panel.from_array([[1.0, 2.0], [3.0, np.nan]]),
        Panel.from_array([[1.0, 2.0], [3.0, 4.0]], times=[1, 2]),
        Panel.from_array([[1.0, 2.0], [3.0, 4.0]], nodes=["a", "b"]),
        Panel.from_array([[1.0, 2.0], [3.0, 4.0]], channels=["cases"]),
        panel.with_graph(read_graph(np.ones((2, 2)), panel.nodes)[0]),
    ]
    assert panel.equals(panel)
    assert not any(panel.equals(other) for other in others)


def test_what_a_table_cannot_hold_is_refused(tmp_path):
    panel = Panel.from_array(np.zeros((3, 2, 2)))
    with pytest.raises(InputError, match="one channel for a wide table, got 2"):
        write_series(panel, tmp_path / "a.csv", "wide")
    with pytest.raises(InputError, match="ends in .csv or .parquet, got a.txt"):
        write_series(panel, tmp_path / "a.txt")
    with pytest.raises(InputError, match="no channel called 'time'"):
        write_series(Panel.from_array(np.zeros((3, 2)), channels=["time"]), tmp_path / "a.csv")
    with pytest.raises(InputError, match="no node called 'time'"):
        write_series(Panel.from_array(np.zeros((3, 1)), nodes=["time"]), tmp_path / "a.csv", "wide")
