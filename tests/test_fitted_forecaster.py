"""What a forecaster has learned is one value: a failure leaves it as it was, and a folder keeps all of it.

Only public names, so that the tests can be run against any version of the library.
"""

import copy
import json
import pickle

import numpy as np
import pytest
import torch

from tdegnn import Forecaster, Graph, InputError, Panel, TrainingError

SMALL = dict(
    window=3, order=2, hidden_channels=4, num_layers=1, learning_rate=0.03, num_members=2, num_steps=6,
    validate_every=2, horizon=1, device="cpu",
)  # fmt: skip
ATTRIBUTES = ("coefficients_", "summary_", "notes_", "history_", "order_choice_", "networks_", "best_step_", "order_")


def make_panel(num_steps=60, graph=None, seed=0):
    values = np.random.default_rng(seed).normal(size=(num_steps, 4)).cumsum(axis=0)
    return Panel.from_array(values, graph=graph or Graph([[0, 1, 2], [1, 2, 3]], 4))


PANEL, OTHER = make_panel(), make_panel(seed=1)


def learned(model):
    """All that may be seen of what a model has learned."""
    forecast = model.predict(3)
    numbers = [forecast.values, forecast.low, forecast.high, np.copy(model.coefficients_)]
    weights = [parameter.detach().clone() for network in model.networks_ for parameter in network.parameters()]
    shown = [repr(getattr(model, name)) for name in ATTRIBUTES]
    return numbers, weights, model.networks_, shown, str(model.explain())


def assert_unchanged(before, model):
    after = learned(model)
    for one, other in zip(before[0], after[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(torch.equal(one, other) for one, other in zip(before[1], after[1], strict=True))
    assert before[2] is after[2]
    assert before[3:] == after[3:]


def stop(*_):
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "arguments", "error"),
    [
        (dict(learning_rate=1e30), {}, TrainingError),
        (dict(window=5, dropout=1.0), {}, InputError),
        (dict(order=1, hidden_channels=8), dict(on_look=stop), KeyboardInterrupt),
        (dict(system="TDE-GNN_A", window=5), dict(on_progress=stop), KeyboardInterrupt),
    ],
)
def test_a_second_fit_that_fails_changes_nothing(settings, arguments, error):
    model = Forecaster(**SMALL).fit(PANEL)
    before = learned(model)
    model.set_params(**settings)
    with pytest.raises(error):
        model.fit(OTHER, **arguments)
    assert_unchanged(before, model)


@pytest.mark.slow
def test_a_second_fit_that_fails_does_not_change_what_is_saved(tmp_path):
    model = Forecaster(**SMALL).fit(PANEL)
    forecast = model.predict(3)
    model.set_params(learning_rate=1e30, order=1)
    with pytest.raises(TrainingError):
        model.fit(OTHER)
    model.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(3).values, forecast.values)
    assert (loaded.order, loaded.learning_rate) == (2, 0.03)


@pytest.mark.slow
def test_an_update_that_loses_its_weights_is_an_error_and_changes_nothing():
    model = Forecaster(**SMALL).fit(PANEL)
    before = learned(model)
    with pytest.raises(TrainingError, match="weights that are numbers .* got others. Lower the learning rate"):
        model.set_params(learning_rate=1e38).update(PANEL)
    assert_unchanged(before, model)


@pytest.mark.slow
def test_an_update_that_ends_well_is_another_value():
    model = Forecaster(**SMALL).fit(PANEL)
    before = model.predict().values
    model.update(make_panel(70), num_steps=3)
    assert not np.array_equal(model.predict().values, before)


GRAPHS = {
    "self-loops": Graph([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 0, 1]], 4, keep_self_loops=True),
    "weighted self-loops": Graph([[0, 1, 0], [1, 2, 0]], 4, [0.5, 2.0, 3.0], keep_self_loops=True),
    "no weights": Graph([[0, 1, 2], [1, 2, 3]], 4, direction="in"),
    "weights": Graph([[0, 1, 2], [1, 2, 3]], 4, [1.0, 2.0, 3.0], direction="out"),
    "no edges": Graph(np.zeros((2, 0), dtype=int), 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_kept_as_it_is(name, tmp_path):
    graph = GRAPHS[name]
    model = Forecaster(**SMALL).fit(make_panel(graph=graph), run=tmp_path / "run")
    model.save(tmp_path / "saved")
    for folder in ("run", "saved"):
        loaded = Forecaster.load(tmp_path / folder)
        assert loaded.graph_.equals(graph)
        assert loaded.graph_.is_weighted == graph.is_weighted
        np.testing.assert_array_equal(loaded.predict(3).values, model.predict(3).values)


def next_numbers(action):
    """What torch draws after an action, from a state that is always the same."""
    torch.manual_seed(7)
    action()
    return torch.rand(3).tolist()


@pytest.mark.slow
def test_neither_fit_nor_load_touches_the_numbers_that_torch_draws(tmp_path):
    expected = next_numbers(lambda: None)
    assert next_numbers(lambda: Forecaster(**SMALL).fit(PANEL, run=tmp_path / "run")) == expected
    assert next_numbers(lambda: Forecaster.load(tmp_path / "run")) == expected
    assert next_numbers(lambda: Forecaster.load(tmp_path / "run").update(PANEL, num_steps=1)) == expected
    drawn = []
    for _ in range(2):
        Forecaster.load(tmp_path / "run")
        drawn.append(torch.rand(3).tolist())
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("name", [*ATTRIBUTES, "intervals_", "maker_", "graph_", "node_features_"])
def test_before_fit_no_attribute_is_there_and_afterwards_none_can_be_set(name):
    model = Forecaster(**SMALL)
    assert not hasattr(model, name)
    with pytest.raises(InputError, match="a Forecaster that has been trained, got one that has not"):
        getattr(model, name)
    with pytest.raises(AttributeError):
        setattr(model, name, 1)


@pytest.mark.slow
def test_settings_that_change_after_fit_change_neither_forecasts_nor_the_folder(tmp_path):
    model = Forecaster(**SMALL).fit(PANEL)
    forecast = model.predict(3).values
    model.set_params(
        hidden_channels=7, known=("x",), states="physical", precision="64-true", horizon=5, window=9, order="auto",
        num_members=9, coverage=0.5, num_layers=9, skip="none", coefficients="attention", seed=3,
    )  # fmt: skip
    np.testing.assert_array_equal(model.predict(3).values, forecast)
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(Forecaster.load(tmp_path / "run").predict(3).values, forecast)


@pytest.mark.slow
@pytest.mark.parametrize("changed", [dict(precision="64-true"), dict(skip="none"), dict(num_layers=5, order="auto")])
def test_settings_that_change_after_fit_do_not_change_an_update(changed, tmp_path):
    one, other = (Forecaster(**SMALL).fit(PANEL) for _ in range(2))
    one.update(PANEL, num_steps=3)
    other.set_params(**changed).update(PANEL, num_steps=3)
    np.testing.assert_array_equal(other.predict(3).values, one.predict(3).values)
    other.save(tmp_path / "run")
    np.testing.assert_array_equal(Forecaster.load(tmp_path / "run").predict(3).values, one.predict(3).values)


@pytest.mark.slow
def test_what_is_handed_out_or_was_given_may_be_changed(tmp_path):
    panel, source = make_panel(), {"file": {"name": "a.csv"}}
    model = Forecaster(**SMALL).fit(panel, source=source)
    before = learned(model)
    panel.values[:] = 0.0
    source["file"]["name"] = "b.csv"
    model.history_.clear()
    model.summary_.clear()
    model.notes_.append("more")
    model.coefficients_[:] = 0.0
    assert_unchanged(before, model)
    model.save(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["data"]["file"] == {"name": "a.csv"}


@pytest.mark.slow
@pytest.mark.parametrize("lowest", [np.nan, "none"])
def test_a_lowest_value_that_is_changed_is_checked(lowest, tmp_path):
    model = Forecaster(**SMALL).fit(PANEL).set_params(lowest=lowest)
    with pytest.raises(InputError, match="Expected lowest to be"):
        model.predict()
    with pytest.raises(InputError, match="Expected lowest to be"):
        model.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_copies_and_pickles_of_a_fitted_forecaster_forecast_the_same():
    model = Forecaster(**SMALL).fit(PANEL)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        one, same = learned(model), learned(other)
        for here, there in zip(one[0] + one[1], same[0] + same[1], strict=True):
            np.testing.assert_array_equal(here, there)
        assert other.summary_ == model.summary_
        assert other.networks_[0] is not model.networks_[0]
