"""What a forecaster takes: frames in place of panels, and old steps together with new ones."""

import numpy as np
import pandas as pd
import polars
import pytest

from tdegnn import Forecaster, InputError, Panel, correlation_graph, panel_to_frame
from tdegnn.errors import Argument
from tdegnn.forecasting.held_out import CutShort, notes_of_errors
from tdegnn.training.devices import single_thread

SMALL = dict(
    window=3, horizon=2, order=2, hidden_channels=4, num_layers=1, num_members=1, num_steps=2, validate_every=2,
    device="cpu",
)  # fmt: skip
NAMES = ["ant", "bee", "cat"]
TIMES = pd.date_range("2021-03-01", periods=60, freq="D")
VALUES = 10 + np.random.default_rng(0).normal(size=(60, 3, 2)).cumsum(axis=0)
WIDE = pd.DataFrame(VALUES[..., 0], index=TIMES, columns=NAMES)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


@pytest.fixture(scope="module")
def model():
    """Trained on the first 50 steps of a wide frame."""
    return Forecaster(**SMALL).fit(WIDE[:50])


def long_frame(start=0, stop=60, channels=("cases", "rain")):
    panel = Panel.from_array(VALUES[start:stop], times=TIMES[start:stop], nodes=NAMES, channels=["cases", "rain"])
    return panel_to_frame(panel)[["node", "time", *channels]]


@pytest.mark.slow
def test_a_frame_is_taken_where_a_panel_is(model):
    panel = Panel.from_array(VALUES[:50, :, 0], times=TIMES[:50], nodes=NAMES)
    expected = Forecaster(**SMALL).fit(panel).predict().values
    np.testing.assert_array_equal(model.predict().values, expected)
    columns = polars.DataFrame({"time": TIMES[:50]} | {name: WIDE[name][:50].to_numpy() for name in reversed(NAMES)})
    np.testing.assert_array_equal(model.predict(panel=columns).values, expected)  # nodes go by their names
    assert model.backtest(WIDE, num_folds=1).num_origins == 1
    assert len(model.plot(panel=WIDE, nodes=["bee"]).axes) == 1
    assert correlation_graph(WIDE, 50, num_neighbors=1).num_nodes == 3


def test_frames_have_the_columns_of_the_training():
    known = Forecaster(**SMALL, known=["rain"]).fit(long_frame(0, 50))
    assert known.maker_.channels == ("cases", "rain")
    later = long_frame(0, 52).sample(frac=1.0, random_state=0)  # rows in any order
    forecast = known.predict(panel=later, future=long_frame(52, 54, channels=("rain",)))
    assert (forecast.nodes, forecast.channels) == (tuple(NAMES), ("cases",))
    with pytest.raises(InputError, match="the 3 nodes of the training in the series, got none called 'bee'. Add it"):
        known.predict(panel=later[later["node"] != "bee"])


def test_a_frame_that_needs_arguments_is_sent_to_read_panel():
    unnamed = long_frame().rename(columns={"time": "when", "cases": "x"})
    unnamed["when"] = unnamed["when"].astype(str)
    with pytest.raises(InputError, match=r"Name it with time=\. Do so in read_panel\(frame, \.\.\.\)\.$"):
        Forecaster().fit(unnamed)


def test_an_update_with_new_rows_only_says_that_old_rows_are_needed(model):
    message = (
        "Expected old and new steps together, at least 5 (a window of 3 and a horizon of 2), got 2, from 2021-04-20 to "
        "2021-04-21. Old rows are needed too: put them before the new ones."
    )
    for few in (WIDE[50:52], Panel.from_array(VALUES[50:52, :, 0], times=TIMES[50:52], nodes=NAMES)):
        with pytest.raises(InputError) as error:
            model.update(few)
        assert str(error.value) == message
    with pytest.raises(InputError, match="got 1, from 2021-04-20 to 2021-04-20. Old rows are needed too"):
        model.update(WIDE[50:51])


def test_an_update_with_many_new_rows_only_has_a_note(model, tmp_path):
    note = (
        "The update saw only new steps, from 2021-04-20 on: what old ones taught may be forgotten. Give old and new "
        "steps together."
    )
    model.save(tmp_path / "run")
    updated = Forecaster.load(tmp_path / "run").update(WIDE[:55], num_steps=1)
    assert note not in updated.notes_
    alone = Forecaster.load(tmp_path / "run").update(WIDE[50:], num_steps=1)
    assert alone.notes_ == [*model.notes_, note]


@pytest.mark.parametrize(
    ("num_held_out", "cut_short", "message"),
    [
        (9, None, "So few steps cannot tell which of them is better: a longer series can."),
        (45, None, "Forecast with the mean, or give it more to learn from: edges, other channels, a longer series."),
        (45, CutShort(30, Argument("num_steps")), "Its training was short (30 steps): raise num_steps=."),
        (45, CutShort(1, Argument("time_budget")), "Its training was short (1 step): raise time_budget=."),
    ],
)
def test_a_forecaster_that_is_no_better_says_what_is_true_of_it(num_held_out, cut_short, message):
    (note,) = notes_of_errors(2.0, {"the mean": 1.0, "the last value": 1.5}, num_held_out, cut_short)
    assert note == f"On the {num_held_out} held-out steps this forecaster is no better than the mean. {message}"
