"""Without a word about the network, one of the usual ones is chosen by validation, and kept with its settings."""

import json
from pathlib import Path

import numpy as np
import pytest

from tdegnn import Graph, InputError, NodeClassifier, NodeRegressor
from tdegnn.data.simulators.labeled_graphs import simulate_labels
from tdegnn.nodes import usual_networks
from tdegnn.nodes.fitted import NodeTrainer
from tdegnn.nodes.usual_networks import (
    NETWORK_SETTINGS,
    NUM_STARTS,
    USUAL_NETWORKS,
    Trial,
    can_have_folds,
    choose_by_trials,
    hold_out_in_turn,
    mean_trial,
    repeat_subsets,
    suitable_networks,
)
from tdegnn.runs.run_folder import CONFIG
from tdegnn.training.devices import single_thread
from tdegnn.training.network_choice import choose_network

NODES = 40
draw = np.random.default_rng(0)
CODES = np.arange(NODES) % 2
FEATURES = (CODES[:, None] + 0.5 * draw.standard_normal((NODES, 3))).astype(np.float32)
EDGES = draw.integers(0, NODES, (2, 120))
QUICK = dict(num_steps=6, device="cpu")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


def fit(kind=NodeClassifier, y=CODES, direction="out", **settings):
    return kind(**QUICK | settings).fit(FEATURES, y, graph=Graph(EDGES, NODES, direction=direction))


@pytest.mark.slow
def test_the_choice_is_explained_saved_and_loaded(tmp_path):
    model = fit()
    choice = model.network_choice_
    assert list(choice.scores) == [name for name in USUAL_NETWORKS if name != "many-nodes"]
    assert choice.num_starts == NUM_STARTS
    assert model.notes_[0] == choice.reason
    assert choice.reason.startswith(f"The network '{choice.name}' was chosen by its ")
    assert model.summary_["start"] in range(NUM_STARTS)
    assert (choice.settings["averaging"], model.fitted_.settings.averaging) == (0.99, 0.99)
    assert isinstance(model.history_[0]["score"], float)
    by_step = {line["step"]: line["score"] for line in model.history_}
    assert by_step[model.summary_["best_step"]] == max(by_step.values())
    model.save(tmp_path / "saved")
    loaded = NodeClassifier.load(tmp_path / "saved")
    assert (loaded.network_choice_, loaded.get_params()) == (choice, model.get_params())
    assert (loaded.summary_, loaded.history_) == (model.summary_, model.history_)
    np.testing.assert_array_equal(loaded.predict(FEATURES, graph=Graph(EDGES, NODES, direction="out")), model.predict())


@pytest.mark.slow
def test_larger_graphs_and_given_networks_have_one_start_and_their_last_weights(monkeypatch):
    monkeypatch.setattr("tdegnn.nodes.estimator.FEW_NODES", NODES)
    for settings in ({}, {"network": "diffusion"}):
        model = fit(**settings)
        assert (model.network_choice_.num_starts, model.fitted_.settings.averaging) == (1, 0.0)
        assert "averaging" not in model.network_choice_.settings


@pytest.mark.slow
def test_a_training_goes_on_with_the_network_that_was_chosen(tmp_path, monkeypatch):
    def stop(look):
        looks_left.pop()
        if not looks_left:
            raise KeyboardInterrupt

    graph = Graph(EDGES, NODES, direction="out")
    whole = NodeClassifier(**QUICK).fit(FEATURES, CODES, graph=graph, run=tmp_path / "whole")
    for num_looks, is_chosen in ((4, False), (6 * 2 + 2, True)):  # in the trials, two looks each, and after them
        looks_left = [*range(num_looks)]
        with pytest.raises(KeyboardInterrupt):
            NodeClassifier(**QUICK).fit(FEATURES, CODES, graph=graph, run=tmp_path / "parts", resume=True, on_look=stop)
        assert ("chosen_network" in json.loads((tmp_path / "parts" / CONFIG).read_text())) == is_chosen
    monkeypatch.setattr("tdegnn.nodes.estimator.choose_by_trials", None)  # it is not chosen again
    resumed = NodeClassifier(**QUICK).fit(FEATURES, CODES, graph=graph, run=tmp_path / "parts", resume=True)
    for model in (resumed, NodeClassifier.load(tmp_path / "parts"), NodeClassifier.load(tmp_path / "whole")):
        assert (model.summary_, model.history_) == (whole.summary_, whole.history_)
    config = json.loads((tmp_path / "parts" / CONFIG).read_text())
    assert config["chosen_network"]["name"] == whole.network_choice_.name
    assert config["settings"]["network"] == "auto"


@pytest.mark.slow
def test_a_network_may_be_named_and_keeps_what_else_is_given():
    deep = fit(network="deep", num_layers=3)
    assert (deep.network_choice_.name, deep.network_.num_layers, deep.summary_["start"]) == ("deep", 3, 0)
    assert type(deep.network_.operator).__name__ != type(fit(network="diffusion").network_.operator).__name__
    links = fit(network="links")
    with pytest.raises(InputError, match="which the network knows one by one, got 10. Train with network='diffusion'"):
        links.predict(FEATURES[:10], graph=np.zeros((2, 0), dtype=int))
    with pytest.raises(
        InputError,
        match="network to be one of auto, diffusion, links, directed, deep, many-nodes, alone, linear, got 'wide'",
    ):
        fit(network="wide")


@pytest.mark.slow
def test_settings_of_a_network_are_used_as_given():
    for settings in (dict(network=None), dict(hidden_channels=8), dict(operator="diffusion")):
        assert fit(**settings).network_choice_ is None
    assert fit(network="deep").network_choice_.settings["select_by"] == "loss"
    assert "select_by" not in fit(network="deep", select_by="accuracy").network_choice_.settings


def test_every_network_sets_settings_of_networks():
    settings = {name for network in USUAL_NETWORKS.values() for name in network} - {"select_by"}
    assert settings <= {*NETWORK_SETTINGS} <= {*NodeClassifier().get_params()}


def test_networks_are_tried_where_they_suit(monkeypatch):
    directed, undirected = (Graph(EDGES, NODES, direction=direction) for direction in ("out", "both"))
    names = ["diffusion", "links", "directed", "deep", "alone", "linear"]
    assert suitable_networks(directed, 20, has_classes=True) == names
    assert suitable_networks(undirected, 20, has_classes=True) == ["diffusion", "deep", "alone", "linear"]
    assert suitable_networks(directed, 20, has_classes=False) == ["diffusion", "directed", "deep", "alone", "linear"]
    many = suitable_networks(undirected, usual_networks.MANY_TRAINING, has_classes=True)
    assert many == ["diffusion", "deep", "many-nodes", "alone", "linear"]
    monkeypatch.setattr(usual_networks, "MOST_TRAINING", 10)
    assert suitable_networks(directed, 20, has_classes=True) == ["diffusion", "deep", "alone", "linear"]


def test_the_docs_say_how_many_networks_are_tried():
    graphs = [Graph(EDGES, NODES, direction=direction) for direction in ("out", "both")]
    subsets = (20, usual_networks.MANY_TRAINING, usual_networks.MOST_TRAINING, usual_networks.MOST_TRAINING + 1)
    counts = {
        len(suitable_networks(graph, num_training, has_classes=has_classes))
        for graph in graphs
        for num_training in subsets
        for has_classes in (True, False)
    }
    words = {4: "four", 5: "five", 6: "six", 7: "seven"}
    said = f"{words[min(counts)]} to {words[max(counts)]}"
    usual = words[len(suitable_networks(graphs[0], 20, has_classes=True))]
    docs = Path(__file__).parents[2] / "docs"
    assert (
        f"{said} of the table below ({usual} for classes on a directed graph)" in (docs / "classifier.md").read_text()
    )
    assert f"one of {said} is chosen by validation" in (docs / "deviations.md").read_text()


def test_the_first_of_the_best_is_chosen_and_no_number_is_never_best():
    scores = {"diffusion": float("nan"), "links": 0.5, "deep": 0.5}
    chosen = choose_network({name: {} for name in scores}, scores)
    assert (chosen.name, chosen.scores["diffusion"]) == ("links", None)


NAMES: dict = {name: {} for name in ("diffusion", "deep", "alone")}


def test_the_score_chooses_where_it_can_tell_and_the_loss_where_it_cannot():
    trials = {"diffusion": Trial(0.9, 0.8, 0.02), "deep": Trial(0.7, 0.3, 0.02), "alone": Trial(0.6, 0.9, 0.02)}
    chosen = choose_by_trials(NAMES, trials, 4)
    assert (chosen.name, chosen.num_starts, chosen.scores["deep"]) == ("diffusion", 4, 0.7)
    assert chosen.reason == (
        "The network 'diffusion' was chosen by its score on validation after a short training "
        "(diffusion: 0.9, deep: 0.7, alone: 0.6)."
    )
    near = trials | {"alone": Trial(0.89, 0.5, 0.02)}
    chosen = choose_by_trials(NAMES, near, 1)
    assert chosen.name == "alone"
    assert (
        "chosen by its loss on validation after a short training, since scores are within one standard" in chosen.reason
    )


def test_no_number_is_never_chosen():
    nothing = Trial(float("nan"), float("nan"), 0.0)
    chosen = choose_by_trials(NAMES, {"diffusion": nothing, "deep": Trial(0.5, 0.7, 0.1), "alone": nothing}, 1)
    assert (chosen.name, chosen.scores["alone"]) == ("deep", None)
    assert choose_by_trials(NAMES, dict.fromkeys(NAMES, nothing), 1).name == "diffusion"


NAN = float("nan")
# 24 training nodes (of which 4 are of the rare class), 6 for validation, 6 for test, and 4 without a label.
TRAINING, VALIDATION, TEST = (
    np.isin(np.arange(NODES), numbers) for numbers in (range(24), range(24, 30), range(30, 36))
)
RARE = np.where(np.arange(NODES) % 6 == 0, 1, 0)
SUBSETS = (TRAINING, VALIDATION, TEST)


def test_starts_of_a_trial_hold_out_other_nodes_and_are_trained_on_all_others_of_known_label():
    folds = hold_out_in_turn(SUBSETS, NUM_STARTS, 0, RARE)
    np.testing.assert_array_equal(folds.validation[0], VALIDATION)
    np.testing.assert_array_equal(folds.training[0], TRAINING)
    assert folds.validation.sum(axis=0).max() == 1  # disjoint
    assert folds.validation[1:].sum(axis=1).tolist() == [6, 6, 6]
    assert (folds.validation[1:] & (RARE == 1)).sum(axis=1).tolist() == [1, 1, 1]
    assert not (folds.training & folds.validation).any()
    np.testing.assert_array_equal(folds.training | folds.validation, np.tile(TRAINING | VALIDATION, (NUM_STARTS, 1)))
    np.testing.assert_array_equal(folds.test, np.tile(TEST, (NUM_STARTS, 1)))


def test_folds_are_drawn_from_the_seed_also_for_numbers():
    for strata in (RARE, None):
        first, again, other = (hold_out_in_turn(SUBSETS, NUM_STARTS, seed, strata).validation for seed in (0, 0, 1))
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()
        assert first[1:].sum(axis=1).tolist() == [6, 6, 6]
        assert not first[1:, ~TRAINING].any()


def test_starts_hold_out_other_nodes_only_if_validation_is_small_and_each_fold_has_a_node():
    assert can_have_folds(SUBSETS, NUM_STARTS)
    assert not can_have_folds(SUBSETS, 1)
    assert not can_have_folds((VALIDATION, TRAINING, TEST), NUM_STARTS)
    assert not can_have_folds((VALIDATION, TEST, TRAINING), NUM_STARTS)  # as many of both
    few, one = (np.isin(np.arange(NODES), numbers) for numbers in (range(3), [3]))
    assert not can_have_folds((few, one, TEST), NUM_STARTS)
    assert can_have_folds((few | one, VALIDATION & ~VALIDATION, TEST), NUM_STARTS)


def test_a_trial_on_folds_is_their_mean_with_its_standard_error():
    found = mean_trial([Trial(0.9, 0.2, 0.3), Trial(0.7, 0.6, 0.4), Trial(0.8, 0.4, 0.0), Trial(0.8, 0.4, 0.0)])
    assert found == pytest.approx((0.8, 0.4, 0.5 / 4))
    assert mean_trial([Trial(0.9, 0.2, 0.3)]) == (0.9, 0.2, 0.3)
    # ROC-AUC of a fold with one class: its loss counts, its score does not.
    assert mean_trial([Trial(0.9, 0.2, 0.3), Trial(NAN, 0.6, 0.0)]) == pytest.approx((0.9, 0.4, 0.3))
    nothing = mean_trial([Trial(NAN, 0.2, 0.0), Trial(NAN, 0.4, 0.0)])
    assert (np.isnan(nothing.score), nothing.loss, nothing.error) == (True, pytest.approx(0.3), 0.0)


def subsets_of_trainings(monkeypatch, **given):
    """Fit, and return the subsets of each training, in their order. The last one is that of the chosen network."""
    seen, start = [], NodeTrainer._start

    def spy(self, settings, subsets):
        seen.append(subsets)
        return start(self, settings, subsets)

    monkeypatch.setattr(NodeTrainer, "_start", spy)
    NodeClassifier(**QUICK).fit(FEATURES, CODES, graph=Graph(EDGES, NODES, direction="out"), **given)
    return seen


@pytest.mark.slow
def test_trials_hold_out_folds_and_the_chosen_network_has_the_subsets_of_the_user(monkeypatch):
    *trials, last = subsets_of_trainings(monkeypatch, train=TRAINING, validation=VALIDATION, test=TEST)
    assert len(trials) == 6
    for found in trials:
        np.testing.assert_array_equal(found.validation, hold_out_in_turn(SUBSETS, NUM_STARTS, 0, CODES).validation)
        assert not (found.training | found.validation)[:, TEST].any()
    np.testing.assert_array_equal(last.validation, np.tile(VALIDATION, (NUM_STARTS, 1)))
    np.testing.assert_array_equal(last.training, np.tile(TRAINING, (NUM_STARTS, 1)))


@pytest.mark.slow
def test_all_starts_hold_out_validation_if_it_is_as_large_as_training(monkeypatch):
    masks = VALIDATION, TRAINING, TEST
    for found in subsets_of_trainings(monkeypatch, train=VALIDATION, validation=TRAINING, test=TEST):
        expected = repeat_subsets(masks, NUM_STARTS)
        np.testing.assert_array_equal(found.validation, expected.validation)
        np.testing.assert_array_equal(found.training, expected.training)


@pytest.mark.slow
def test_labels_of_test_nodes_change_no_choice_and_the_choice_is_the_same_again():
    graph = Graph(EDGES, NODES, direction="out")
    others = np.where(TEST, 1 - CODES, CODES)
    choices = [
        NodeClassifier(**QUICK).fit(FEATURES, labels, graph=graph, test=TEST).network_choice_
        for labels in (CODES, CODES, others)
    ]
    assert choices[0] == choices[1] == choices[2]


@pytest.mark.slow
def test_a_trial_in_batches_has_folds_too():
    model = fit(batches="ranges", direction="both")
    assert all(0 <= score <= 1 for score in model.network_choice_.scores.values())


@pytest.mark.slow
def test_edges_that_say_nothing_are_left_out_and_a_note_says_so():
    drawn = simulate_labels(200, 3, 7, distance=1.0)
    model = NodeClassifier(num_steps=60, device="cpu").fit(drawn.features, drawn.labels, graph=drawn.graph)
    assert model.network_choice_.name in ("alone", "linear")
    assert model.notes_[1] == "Edges do not help on validation: they are left out."
    empty = np.zeros((2, 0), dtype=int)
    other = np.random.default_rng(0).permutation(200)
    np.testing.assert_array_equal(model.predict(), model.predict(drawn.features, graph=empty))
    assert model.score(drawn.features[other], drawn.labels[other], graph=empty) > 0.8


@pytest.mark.slow
def test_numbers_get_a_network_too():
    model = fit(NodeRegressor, FEATURES[:, 0])
    assert list(model.network_choice_.scores) == ["diffusion", "directed", "deep", "alone", "linear"]
