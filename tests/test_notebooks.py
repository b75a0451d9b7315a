"""What notebooks show of panels, forecasts, reports of c and estimators: short, and safe whatever names are in it."""

import numpy as np
import pytest

from tdegnn import Forecaster, NodeClassifier, NodeRegressor, Panel, Part, explain
from tdegnn.forecasting.forecast import Forecast

HOSTILE = "<script>alert(1)</script>"


def make_panel(num_nodes=3):
    values = np.arange(20.0 * num_nodes).reshape(20, num_nodes)
    values[-1, 0] = np.nan
    names = [HOSTILE, *(f"n{number}" for number in range(1, num_nodes))]
    return Panel.from_array(values, nodes=names, channels=["<i>c</i>"])


def make_forecast(num_nodes=3, has_intervals=True):
    panel = make_panel(num_nodes)
    values = panel.values[:2]
    ends = (values - 1, values + 1) if has_intervals else (values * np.nan, values * np.nan)
    return Forecast(values, *ends, panel.future_times(2), panel.nodes, panel.channels, 0.9, ("a <note>",))


@pytest.mark.parametrize("shown", [make_panel(), make_forecast(), explain([1.4, 0.2, -0.6])])
def test_html_is_short_and_escaped(shown):
    html = shown._repr_html_()
    assert "<script" not in html
    assert "<i>" not in html
    assert len(html) < 5000


def test_a_panel_shows_its_newest_values():
    html = make_panel()._repr_html_()
    assert "20 steps" in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<td>59</td>" in html
    assert "<td></td>" in html  # not observed
    assert "and 4 more nodes" in make_panel(12)._repr_html_()


def test_a_forecast_shows_its_intervals():
    assert "0 (-1 to 1)" in make_forecast()._repr_html_()
    assert "a &lt;note&gt;" in make_forecast()._repr_html_()
    assert "<td>0</td>" in make_forecast(has_intervals=False)._repr_html_()
    assert "6 more nodes" in make_forecast(12)._repr_html_()


def test_a_report_of_c_shows_its_verdict_and_roots():
    html = explain([0.5, 1.2, -0.7])._repr_html_()
    assert "Unstable (largest root modulus" in html
    assert html.count("<circle") == 1 + 3
    assert "#d55e00" in html
    assert 'role="img"' in html


@pytest.mark.parametrize(
    "estimator", [Forecaster(operator=Part("walks")), NodeClassifier(), NodeRegressor(coefficients="stable")]
)
def test_estimators_are_shown_as_in_scikit_learn(estimator):
    html = estimator._repr_html_()
    assert type(estimator).__name__ in html
    assert "sk-" in html
