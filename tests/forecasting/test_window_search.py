"""Errors of windows are those of `RidgeForecast`, and large panels are measured on a part of them."""

import numpy as np
import pytest

from tdegnn import Graph, Panel
from tdegnn.data.times.seasons import Season
from tdegnn.forecasting import held_out, window_search
from tdegnn.forecasting.baselines.naive import SeriesInputs
from tdegnn.forecasting.baselines.ridge import KnownChannels, NeighborLags, OwnLags, RidgeForecast
from tdegnn.forecasting.held_out import choose_window, split_for_forecast
from tdegnn.forecasting.window_search import Stages, measure_windows
from tdegnn.metrics import mean_squared_error

STEPS, NODES, LENGTHS = 130, 5, (2, 7, 12)
GRAPH = Graph([[0, 1, 2, 3, 0], [1, 2, 3, 4, 4]], NODES, [1.0, 2.0, 0.5, 1.0, 3.0])
SEASONS = (Season(12.0, 2),)


def make_values(num_targets=1, missing=0.0):
    draw = np.random.default_rng(0)
    values = draw.normal(size=(STEPS, NODES, num_targets))
    for step in range(7, STEPS):
        values[step] += 0.6 * values[step - 1] - 0.3 * values[step - 7]
    values[1:][draw.random(values[1:].shape) < missing] = np.nan
    return values


def make_stages(horizon):
    split = split_for_forecast(STEPS, max(LENGTHS), horizon)
    judged = range(split.validation.start, split.validation.stop - horizon + 1)
    inner = {length: split_for_forecast(split.training.stop, length, horizon) for length in LENGTHS}
    return {length: Stages(each.training, each.validation, judged) for length, each in inner.items()}


@pytest.mark.parametrize(
    ("horizon", "num_targets", "missing", "graph", "seasons"),
    [(1, 1, 0.0, None, ()), (3, 1, 0.0, GRAPH, SEASONS), (3, 2, 0.2, GRAPH, SEASONS), (4, 1, 0.6, GRAPH, ())],
)
def test_errors_are_those_of_a_ridge_forecast(horizon, num_targets, missing, graph, seasons, monkeypatch):
    monkeypatch.setattr(window_search, "NUMBERS_AT_ONCE", 1000)  # several blocks
    values, stages = make_values(num_targets, missing), make_stages(horizon)
    series = SeriesInputs.with_seasons(values, seasons, graph)
    waves = np.zeros((STEPS, 0)) if series.known is None else series.known[:, 0]
    measured = measure_windows(values, waves, graph, stages, horizon)
    for length, (training, validation, judged) in stages.items():
        lags = [OwnLags(length), *([] if graph is None else [NeighborLags(length)])]
        method = RidgeForecast((*lags, *([KnownChannels()] if seasons else [])), per="all")
        forecasts = method.fit(series, training, validation, horizon).predict(series, judged)
        observed = np.stack([values[first : first + horizon] for first in judged])
        assert measured[length] == pytest.approx(float(mean_squared_error(forecasts, observed)), rel=1e-9)


def test_a_part_of_a_large_panel_is_measured_and_the_same_part_for_all_lengths(monkeypatch):
    values, stages = np.tile(make_values(), (1, 8, 1)), make_stages(1)
    waves = np.zeros((STEPS, 0))
    whole = measure_windows(values, waves, None, stages, 1)
    rows = []
    add = window_search._AheadProducts.add
    monkeypatch.setattr(
        window_search._AheadProducts, "add", lambda *given: (rows.append(given[1].shape[:2]), add(*given))[1]
    )
    monkeypatch.setattr(window_search, "FEWEST_NODES", 10)
    monkeypatch.setattr(window_search, "LARGEST_WORK", 13 * (13 + window_search.COST_OF_A_ROW) * 10 * STEPS // 2)
    part = measure_windows(values, waves, None, stages, 1)
    assert {nodes for nodes, _ in rows} == {10}
    assert sum(origins for _, origins in rows) < 0.6 * STEPS * len(LENGTHS)
    for length in LENGTHS:
        assert part[length] == pytest.approx(whole[length], rel=0.5)


def test_windows_too_long_for_any_network_are_not_tried(monkeypatch):
    panel = Panel.from_array(make_values()[..., 0], graph=GRAPH)
    tried = []
    monkeypatch.setattr(
        held_out, "measure_windows", lambda *given: tried.extend(given[3]) or dict.fromkeys(given[3], 1.0)
    )
    choose_window(panel, 1, SEASONS, (1, 10))
    assert tried == [4, 8]
    tried.clear()
    choose_window(panel, 1, SEASONS, (6, 10))
    assert tried == [6, 8]
