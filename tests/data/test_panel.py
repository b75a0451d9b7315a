from dataclasses import replace
from types import SimpleNamespace

import networkx
import numpy as np
import pandas as pd
import polars
import pytest
import torch
from torch_geometric.data import Data

from tdegnn import Graph, InputError
from tdegnn.data.panel import Panel

HOURS = pd.date_range("2024-01-01", periods=6, freq="h")
VALUES = np.arange(12.0).reshape(6, 2)


def windows_of(series, lags, horizon=1):
    """A signal as PyTorch Geometric Temporal has it, with lagged windows for features."""
    count = len(series) - lags - horizon + 1

    return SimpleNamespace(
        edge_index=np.array([[0, 1, 1], [1, 0, 1]]),
        edge_weight=np.array([1.0, 2.0, 5.0]),
        features=[series[start : start + lags].T for start in range(count)],
        targets=[series[start + lags : start + lags + horizon].T.squeeze() for start in range(count)],
    )


def test_arrays_tensors_and_lists_make_panels():
    for values in (VALUES, torch.from_numpy(VALUES), VALUES.tolist(), VALUES.astype(int), VALUES[..., None]):
        panel = Panel.from_array(values)
        assert (panel.num_steps, panel.num_nodes, panel.num_channels) == (6, 2, 1)
        np.testing.assert_array_equal(panel.values[..., 0], VALUES)
    assert panel.nodes == ("0", "1")


def test_masked_entries_were_not_observed():
    masked = np.ma.masked_array(VALUES, mask=VALUES > 8)
    assert Panel.from_array(masked).observed.sum() == 9
    assert Panel.from_array(torch.ones(3, 2, dtype=torch.bfloat16)).values.dtype == np.float64


def test_two_wide_tables_join():
    panel = Panel.from_array(VALUES, times=HOURS)
    rain = Panel.from_array(2 * VALUES, times=HOURS, name="rain")
    assert panel.with_exogenous(rain).channels == ("value", "rain")


def test_gaps_become_steps_without_observation():
    panel = Panel.from_array(VALUES[[0, 1, 2, 4, 5]], times=HOURS[[0, 1, 2, 4, 5]])
    assert panel.times.equals(HOURS.as_unit("us"))
    assert panel.observed[:, 0, 0].tolist() == [True, True, True, False, True, True]


def test_a_slice_is_a_view_and_knows_its_times():
    panel = Panel.from_array(VALUES, times=HOURS)
    part = panel[2:4]
    assert part.values.base is not None
    assert np.shares_memory(part.values, panel.values)
    assert part.times.equals(HOURS[2:4].as_unit("us"))


def test_a_short_slice_keeps_the_step():
    """Two of its dates alone, four weeks apart, would look like a month."""
    panel = Panel.from_array(np.zeros((4, 1)), times=pd.date_range("2023-02-01", periods=4, freq="28D"))
    assert str(panel[:2].future_times(1)[0]) == "2023-03-29 00:00:00"


def test_calendar_channels_stand_beside_the_values():
    panel = Panel.from_array(VALUES, times=HOURS).with_calendar("hour", "weekday")
    assert panel.channels == ("value", "hour sine", "hour cosine", "weekday sine", "weekday cosine")
    assert panel.num_targets == 1
    np.testing.assert_allclose(panel.values[:, 1, 1], np.sin(2 * np.pi * np.arange(6) / 24))
    assert (panel.values[..., 3] == 0).all()  # a Monday


@pytest.mark.parametrize(
    ("step", "periods", "expected"),
    [("h", 48, ["hour"]), ("h", 300, ["hour", "weekday"]), ("D", 400, ["weekday", "week_of_year"]),
     ("7D", 60, ["week_of_year"]), ("MS", 30, ["week_of_year"])],
)  # fmt: skip
def test_calendar_features_are_those_the_steps_can_tell(step, periods, expected):
    panel = Panel.from_array(np.zeros((periods, 1)), times=pd.date_range("2024-01-01", periods=periods, freq=step))
    assert [name.removesuffix(" sine") for name in panel.with_calendar().channels[1::2]] == expected


def test_the_hour_is_that_of_the_clocks():
    times = pd.date_range("2024-03-31 00:00", periods=4, freq="h", tz="Europe/Berlin")
    sines = Panel.from_array(np.zeros((4, 1)), times=times).with_calendar("hour").values[:, 0, 1]
    np.testing.assert_allclose(sines, np.sin(2 * np.pi * np.array([0, 1, 3, 4]) / 24), atol=1e-12)


def test_exogenous_series_join_by_name_and_time():
    panel = Panel.from_array(VALUES[:3], times=HOURS[:3], nodes=["A", "B"])
    other = Panel.from_array(10 * VALUES, times=HOURS, nodes=["B", "A"], channels=["rain"])
    joined = panel.with_exogenous(other)
    assert (joined.channels, joined.num_targets) == (("value", "rain"), 1)
    np.testing.assert_array_equal(joined.values[..., 1], 10 * VALUES[:3, ::-1])


def test_shared_exogenous_series_are_everywhere():
    panel = Panel.from_array(VALUES, times=HOURS)
    joined = panel.with_shared_exogenous(Panel.from_array(VALUES, times=HOURS, nodes=["price", "wind"]))
    assert joined.channels == ("value", "price", "wind")
    np.testing.assert_array_equal(joined.values[:, 0, 1:], VALUES)
    np.testing.assert_array_equal(joined.values[:, 1, 1:], VALUES)


@pytest.mark.parametrize(("lags", "horizon"), [(1, 1), (4, 1), (3, 2)])
def test_windows_of_pyg_temporal_become_the_series_again(lags, horizon):
    series = np.random.default_rng(0).normal(size=(12, 2))
    panel = Panel.from_pyg_temporal(windows_of(series, lags, horizon))
    np.testing.assert_array_equal(panel.values[..., 0], series)
    assert panel.graph.equals(Graph([[0, 1], [1, 0]], 2, [1.0, 2.0]))


def test_other_features_of_pyg_temporal_become_channels():
    features = list(np.random.default_rng(0).normal(size=(5, 2, 3)))
    edges = np.array([[0], [1]])
    signal = SimpleNamespace(edge_index=edges, edge_weight=None, features=features, targets=list(VALUES[:5]))
    panel = Panel.from_pyg_temporal(signal)
    assert panel.num_channels == 4
    np.testing.assert_array_equal(panel.values[..., 0], VALUES[:5])


def test_repr_says_what_it_is():
    panel = Panel.from_array(VALUES, times=HOURS, name="load")
    assert repr(panel) == (
        "Panel('load', 6 steps of 1 hour from 2024-01-01 to 2024-01-01 05:00:00, 2 nodes, channels ['value'], no graph)"
    )


HOURLY = Panel.from_array(VALUES, times=HOURS)
ONE_DATE = Panel.from_array(VALUES[:1], times=HOURS[:1])


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Panel.from_array([1.0, 2.0]), "an array of numbers \\(time, nodes\\)"),
        (lambda: Panel.from_array([["a"]]), "an array of numbers"),
        (lambda: Panel.from_array(VALUES, times=[1, 2]), "6 times, one per row of the values, got 2"),
        (lambda: Panel.from_array(VALUES, nodes=["A"]), "Expected 2 nodes as in the values, got 1"),
        (lambda: Panel.from_array(VALUES, nodes=["A", "A"]), "nodes to have different names, got 'A' twice"),
        (lambda: Panel.from_array(VALUES, nodes=["A", " B"]), "without spaces around them, got ' B'"),
        (lambda: Panel.from_array(VALUES, channels=["a", "b"]), "Expected 1 channels as in the values, got 2"),
        (lambda: Panel.from_array(VALUES, num_targets=2), "at most 1 targets, got 2"),
        (lambda: Panel.from_array(np.full((2, 2), -np.inf)), "finite values, got -inf for node '0' at 0"),
        (lambda: Panel.from_array(VALUES * np.nan), "observed values in channel 'value', got none"),
        (lambda: Panel.from_array(VALUES[:0]), "at least one time, got none"),
        (lambda: Panel.from_array(VALUES, graph=Graph([[0], [1]], 3)), "a graph of 2 nodes, got one of 3"),
        (lambda: Panel.from_array(VALUES).with_calendar(), "dates for calendar features, got times that are numbers"),
        (lambda: HOURLY.with_calendar("moon"), "among hour, weekday, week_of_year, got 'moon'"),
        (lambda: HOURLY.with_exogenous(Panel.from_array(VALUES)), "times of one kind .* got int64 for the exogenous"),
        (lambda: Panel.from_array(VALUES * 1j), "an array of numbers"),
        (lambda: Panel.from_array([[1.0, 2.0], [3.0]]), "a rectangular array of numbers"),
        (lambda: Panel.from_array(pd.DataFrame(VALUES)), "a pandas frame, whose times and names would be lost"),
        (lambda: Panel.from_array(VALUES, graph="A-B"), "a file at A-B, got none"),
        (lambda: Panel.from_array(VALUES, graph=3), "a matrix, a networkx graph, PyG data or a Graph, got int. Make a"),
        (lambda: HOURLY.with_exogenous(HOURLY[:3]), "a value at 2024-01-01 03:00:00 in the exogenous series"),
        (lambda: HOURLY.with_exogenous(Panel.from_array(VALUES, nodes=["0", "x"])), "node '1' in the exogenous series"),
        (lambda: HOURLY.with_shared_exogenous(HOURLY.with_calendar("hour")), "shared series of one channel, got 3"),
        (lambda: HOURLY.with_exogenous(HOURLY), "channels to have different names, got 'value' twice"),
        (lambda: HOURLY[3], "a slice of steps such as panel\\[:100\\], got panel\\[3\\]"),
        (lambda: HOURLY[::2], "a slice of steps"),
        (lambda: HOURLY.future_times(0), "horizon to be at least 1, got 0"),
        (lambda: ONE_DATE.future_times(1), "at least two times to continue them, got one"),
        (lambda: Panel.from_pyg(Data()), "x of shape \\(nodes, time\\[, channels\\]\\), got none"),
        (lambda: Panel.from_pyg_temporal(Data()), "a signal on one graph with edge_index"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_an_array_may_come_with_a_networkx_graph():
    links = networkx.Graph([("B", "A"), ("A", "A")])
    panel = Panel.from_array(VALUES, nodes=["A", "B"], graph=links)
    assert panel.graph.equals(Graph([[0, 1], [1, 0]], 2))
    assert panel.notes == ("Edges from a node to itself are left out: 1 of 2 in the networkx graph.",)
    assert Panel.from_array(VALUES).with_graph(networkx.path_graph(2)).graph.num_edges == 2
    with pytest.raises(InputError, match="such as 'A'., got 'Rome' in the networkx graph"):
        panel.with_graph(networkx.Graph([("A", "Rome")]))


def test_the_graph_of_another_library_is_called_by_its_name(as_a_user):
    message = (
        "Expected a tdegnn Graph, got a networkx Graph. Pass it to panel.with_graph, which reads networkx and other "
        "graphs, or convert it with read_graph."
    )
    with pytest.raises(InputError) as error:
        replace(HOURLY, graph=networkx.path_graph(2))
    assert str(error.value) == message


def test_exogenous_series_may_be_frames():
    weather = pd.DataFrame({"time": HOURS, "rain": np.arange(6.0), "sun": np.arange(6.0)})
    assert HOURLY.with_shared_exogenous(weather).channels == ("value", "rain", "sun")
    prices = polars.DataFrame({"node": ["1", "0"] * 6, "time": HOURS.repeat(2), "price": np.arange(12.0)})
    priced = HOURLY.with_exogenous(prices)
    assert priced.channels == ("value", "price")
    assert priced.values[0, :, 1].tolist() == [1.0, 0.0]
