"""`order="auto"` in the estimators: series say their order, nodes have theirs chosen by validation."""

import json

import numpy as np
import pytest

from tdegnn import (
    Forecaster,
    Graph,
    InputError,
    NodeClassifier,
    NodeRegressor,
    Panel,
    find_order,
    simulate_wave,
    write_edges,
)
from tdegnn.forecasting.held_out import split_for_forecast
from tdegnn.training.order_choice import order_by_score
from tests.cli.test_commands import run
from tests.node_datasets import make_dataset

QUICK = dict(horizon=1, num_members=1, num_steps=20, validate_every=10, hidden_channels=8)
NODES = dict(hidden_channels=8, num_steps=12)


@pytest.fixture(scope="module")
def wave():
    data = simulate_wave(num_steps=300, num_trajectories=1)
    return Panel.from_array(data.states[0, :, :, 0].numpy(), graph=data.graph), data.step_size


def noise(num_steps=120, num_nodes=5):
    values = np.random.default_rng(0).standard_normal((num_steps, num_nodes))
    return Panel.from_array(values, graph=Graph([[0, 1, 2, 3], [1, 2, 3, 4]], num_nodes))


@pytest.mark.slow
def test_a_wave_is_given_two_frames_and_says_second_order(wave, tmp_path):
    panel, step_size = wave
    model = Forecaster.physical("auto", horizon=1, step_size=step_size, num_steps=600, hidden_channels=16).fit(panel)
    assert (model.order_, model.coefficients_.shape) == (2, (1, 2))
    assert model.explain().root_multiplicity == 2
    # Of what is held out nothing is seen.
    found = find_order(panel[: split_for_forecast(panel.num_steps, model.maker_.window, 1).training.stop])
    assert model.order_choice_.details == json.loads(found.to_json())
    model.save(tmp_path / "run")
    again = Forecaster.load(tmp_path / "run")
    assert (again.order, again.order_choice_) == ("auto", model.order_choice_)
    np.testing.assert_array_equal(again.predict().values, model.predict().values)


@pytest.mark.slow
def test_latent_states_take_the_order_of_the_series_too(wave):
    model = Forecaster(order="auto", window=6, **QUICK).fit(wave[0])
    assert (model.order_, model.coefficients_.shape[1], model.summary_["order"]) == (2, 2, 2)
    assert any(note.startswith("Order 2 was found: Second order") for note in model.notes_)


@pytest.mark.slow
@pytest.mark.parametrize(("window", "order"), [(6, 4), (3, 3)])
def test_series_that_cannot_tell_get_the_usual_order_and_a_note(window, order):
    model = Forecaster(order="auto", window=window, **QUICK).fit(noise())
    assert model.order_ == order
    assert any("cannot tell their order" in note and f"the usual length, {order}" in note for note in model.notes_)


@pytest.mark.slow
def test_series_that_are_too_short_to_say_get_the_usual_order_and_a_note():
    model = Forecaster(order="auto", window=5, **QUICK).fit(noise(num_steps=34))
    assert model.order_ == 4
    start = "The order could not be searched for, so 4 was taken. Expected"
    assert any(note.startswith(start) for note in model.notes_)


@pytest.mark.slow
def test_euler_has_order_one_whatever_is_asked():
    assert Forecaster(system="DE-GNN", order="auto", window=4, **QUICK).fit(noise()).order_ == 1
    model = NodeClassifier(system="DE-GNN", order="auto", **NODES).fit(make_dataset())
    assert (model.order_, model.order_choice_.details) == (1, {})


@pytest.mark.slow
def test_a_given_order_is_taken_as_it_is():
    model = Forecaster(order=3, window=4, **QUICK).fit(noise())
    assert (model.order_, model.order_choice_.reason) == (3, "")
    assert "chosen_order" not in model.fitted_.config


@pytest.mark.slow
def test_nodes_get_the_order_that_validation_prefers(tmp_path):
    dataset = make_dataset()
    model = NodeClassifier(order="auto", **NODES).fit(dataset, run=tmp_path / "run")
    alone = {
        order: NodeClassifier(order=order, **NODES).fit(dataset).summary_["validation_score"] for order in range(1, 5)
    }
    assert model.order_choice_.details == {"scores": {str(order): score for order, score in alone.items()}}
    assert model.order_ == max(alone, key=lambda order: (alone[order], -order))
    assert model.summary_["validation_score"] == alone[model.order_]
    assert model.coefficients_.shape[1] == model.order_
    again = NodeClassifier.load(tmp_path / "run")
    assert again.order_choice_ == model.order_choice_
    np.testing.assert_array_equal(again.predict(dataset), model.predict())


@pytest.mark.slow
def test_a_training_that_goes_on_does_not_choose_again(tmp_path, monkeypatch):
    dataset, path = make_dataset(), tmp_path / "run"
    looks = []

    def stop(look):
        looks.append(look)
        if len(looks) > 4 * 4 + 2:  # in the training after the four that choose
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NodeClassifier(order="auto", **NODES).fit(dataset, run=path, on_look=stop)
    whole = NodeClassifier(order="auto", **NODES).fit(dataset)
    monkeypatch.setattr("tdegnn.nodes.estimator.order_by_score", None)
    resumed = NodeClassifier(order="auto", **NODES).fit(dataset, run=path, resume=True)
    assert resumed.order_choice_ == whole.order_choice_
    np.testing.assert_array_equal(resumed.predict_proba(), whole.predict_proba())


@pytest.mark.slow
def test_a_forecaster_that_goes_on_does_not_look_again(tmp_path, wave, monkeypatch):
    """Another machine may find the same order by slightly other numbers: they must not keep it from going on."""

    def stop(look):
        raise KeyboardInterrupt

    settings = dict(order="auto", window=6, **QUICK)
    with pytest.raises(KeyboardInterrupt):
        Forecaster(**settings).fit(wave[0], run=tmp_path / "run", on_look=stop)
    monkeypatch.setattr("tdegnn.forecasting.settings.order_of_series", None)
    assert Forecaster(**settings).fit(wave[0], run=tmp_path / "run", resume=True).order_ == 2


@pytest.mark.slow
def test_regression_chooses_too():
    dataset = make_dataset()
    target = np.asarray(dataset.features.sum(axis=1)).ravel()
    model = NodeRegressor(order="auto", **NODES).fit(dataset.features, target, graph=dataset.graph)
    assert model.order_ in range(1, 5)


def test_the_smallest_of_equals_is_taken_and_never_what_is_no_number():
    assert order_by_score({1: 0.5, 2: 0.7, 3: 0.7, 4: 0.6}.__getitem__).order == 2
    equal = order_by_score({1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0}.__getitem__)
    assert (equal.order, "the same score on validation, 1: the smallest" in equal.reason) == (1, True)
    chosen = order_by_score({1: float("nan"), 2: 0.1, 3: float("nan"), 4: 0.1}.__getitem__)
    assert (chosen.order, chosen.details["scores"]["1"]) == (2, None)


@pytest.mark.parametrize(
    "fit",
    [
        lambda: Forecaster(order="all", **QUICK).fit(noise()),
        lambda: NodeClassifier(order="all").fit(make_dataset()),
    ],
)
def test_other_words_are_refused(fit):
    with pytest.raises(InputError, match="whole number of at least 1 or \"auto\", got 'all'"):
        fit()


@pytest.mark.slow
def test_the_commands_take_auto(capsys, tmp_path, wave, monkeypatch):
    panel, _ = wave
    table = "step," + ",".join(panel.nodes) + "\n"
    table += "".join(f"{step},{','.join(map(str, row))}\n" for step, row in enumerate(panel.values[:, :, 0]))
    (tmp_path / "wave.csv").write_text(table)
    write_edges(panel.graph, panel.nodes, tmp_path / "edges.csv")
    arguments = (
        "--edges",
        str(tmp_path / "edges.csv"),
        "--order",
        "auto",
        "--steps",
        "20",
        "--members",
        "1",
        "--horizon",
        "1",
        "--window",
        "4",
    )
    code, out, err = run(
        capsys, "fit", str(tmp_path / "wave.csv"), *arguments, "--out", str(tmp_path / "run"), "--json"
    )
    assert (code, err) == (0, "")
    assert json.loads(out)["order"] == 2
    from tdegnn.data.benchmarks import load

    monkeypatch.setattr(load, "load_nodes", lambda name: make_dataset())
    nodes = ("classify", "cora", "--order", "auto", "--steps", "6", "--hidden-channels", "4")
    code, out, err = run(capsys, *nodes, "--out", str(tmp_path / "nodes"))
    assert (code, err) == (0, "")
    assert "was chosen by its score on validation (order 1: " in out or "All orders tried have the same" in out
    for command in ("fit", "classify"):
        code, _, err = run(capsys, command, "cora", "--order", "few")
        assert (code, err.count("\n")) == (2, 1)
        assert "Expected a whole number of at least 1, or auto, got 'few'." in err
