import numpy as np
import pandas as pd
import pytest

from tdegnn.data.panel import Panel
from tdegnn.forecasting.forecast import Forecast
from tdegnn.forecasting.plots import plot_forecast

SEEN, HORIZON, TRAINED = 50, 6, 4
TIMES = pd.date_range("2026-01-01", periods=SEEN + HORIZON, freq="D")
VALUES = np.sin(np.arange(SEEN + HORIZON) / 4)[:, None, None]


def draw(num_intervals):
    panel = Panel.from_array(VALUES[:SEEN], times=TIMES[:SEEN], nodes=["ant"], channels=["cases"])
    low, high = VALUES[SEEN:] - 0.5, VALUES[SEEN:] + 0.5
    low, high = (np.where(np.arange(HORIZON)[:, None, None] < num_intervals, each, np.nan) for each in (low, high))
    figure = plot_forecast(panel, Forecast(VALUES[SEEN:], low, high, TIMES[SEEN:], ("ant",), ("cases",), 0.9))
    return figure.axes[0], [text.get_text() for text in figure.legends[0].get_texts()]


def test_each_step_has_a_bar_of_its_own_and_the_last_observation_has_none():
    panel, legend = draw(HORIZON)
    (bars,) = panel.collections
    segments = np.array(bars.get_segments())
    assert len(segments) == HORIZON
    np.testing.assert_allclose(segments[:, :, 1], VALUES[SEEN:, 0] + [[-0.5, 0.5]])
    assert bars.get_capstyle() == "butt"  # a bar ends where its interval ends
    # The first bar stands at the first forecast, one day after the last observation.
    last_seen = panel.lines[0].get_xdata(orig=False)[-1]
    np.testing.assert_allclose(segments[:, 0, 0], last_seen + 1 + np.arange(HORIZON))
    assert legend == ["observed", "forecast", "90% interval of each step"]


def test_a_forecast_that_outlasts_its_intervals_goes_on_as_a_dotted_line():
    panel, legend = draw(TRAINED)
    _, with_interval, without = panel.lines
    assert (len(with_interval.get_ydata()), len(without.get_ydata())) == (TRAINED + 1, HORIZON - TRAINED + 1)
    assert (with_interval.get_linestyle(), without.get_linestyle()) == ("-", ":")
    assert with_interval.get_ydata()[-1] == without.get_ydata()[0]
    assert len(panel.collections[0].get_segments()) == TRAINED
    assert legend[2] == "forecast without interval"


@pytest.mark.parametrize("num_intervals", [0, HORIZON])
def test_a_forecast_with_all_or_no_intervals_is_one_line(num_intervals):
    panel, _ = draw(num_intervals)
    assert len(panel.lines) == 2
    assert bool(panel.collections) is bool(num_intervals)
