"""What scikit-learn expects of an estimator: its own checks, searches, pipelines, copies and files."""

import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tdegnn import Forecaster, Graph, InputError, NodeClassifier, NodeRegressor, NotFittedError, Panel, Transductive
from tests.nodes.without_edges import LoneClassifier, LoneRegressor

QUICK = {"num_steps": 30, "network": None, "num_layers": 1, "baselines": False, "validate_every": 10}
# A row must be predicted alike among others, to 1e-7: more digits than numbers of 32 bits have.
CHECKED = QUICK | {"precision": "64-true"}
FEWER_STEPS = {"num_steps": 12, "embedding_learning_rate": 0.05, "hidden_channels": 16}
OWN_WORDS = "raises the error that is expected, in this library's words"
NOT_APPLICABLE = {
    "check_n_features_in_after_fitting": OWN_WORDS,
    "check_complex_data": OWN_WORDS,
    "check_estimators_empty_data_messages": OWN_WORDS,
    "check_requires_y_none": OWN_WORDS,
    "check_dtype_object": "raises an InputError, which is a ValueError, where a TypeError is expected",
}
OF_CLASSES = {
    "check_classifiers_classes": "uses the label -1, which means unknown",
    "check_supervised_y_2d": "a column of labels is taken without a warning",
}
OF_NUMBERS = {"check_fit2d_1sample": OWN_WORDS}


def expected_failures(estimator):
    return NOT_APPLICABLE | (OF_CLASSES if isinstance(estimator, NodeClassifier) else OF_NUMBERS)


@pytest.mark.slow
@parametrize_with_checks(
    [LoneClassifier(**CHECKED | FEWER_STEPS), LoneRegressor(**CHECKED)],
    expected_failed_checks=expected_failures,
)
def test_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)


NODES = 60


@pytest.fixture(scope="module")
def nodes():
    """Two groups of nodes: edges within them, and features that say little."""
    generator = np.random.default_rng(0)
    labels = np.repeat(["left", "right"], NODES // 2)
    is_edge = (generator.random((NODES, NODES)) < 0.2) & (labels[:, None] == labels)
    graph = Graph(np.stack(np.nonzero(np.triu(is_edge, 1))), NODES, direction="both")
    features = generator.standard_normal((NODES, 4)) + 0.3 * (labels == "left")[:, None]
    return features, labels, graph


def test_a_search_over_folds_of_nodes_finds_that_edges_help(nodes):
    features, labels, graph = nodes
    model = Transductive(NodeClassifier(**QUICK), features, graph)
    grid = {"estimator__operator": ["alone", "near-identity"], "estimator__num_steps": [30]}
    search = GridSearchCV(model, grid, cv=3).fit(np.arange(NODES), labels)
    alone, diffusion = search.cv_results_["mean_test_score"]
    assert search.best_params_["estimator__operator"] == "near-identity"
    assert diffusion > alone + 0.1
    assert search.score(np.arange(NODES), labels) >= 0.8
    assert search.predict_proba([3, 40]).shape == (2, 2)


class Recorder(DummyClassifier):
    """Remembers the labels that reach it."""

    def fit(self, X, y, *, graph):
        self.seen_, self.graph_ = y.copy(), graph
        is_known = [label is not None for label in y]
        return super().fit(X[is_known], y[is_known].astype(str))

    def predict(self, X, *, graph):
        assert graph is self.graph_
        return super().predict(X)


def test_no_label_of_another_fold_reaches_a_fit(nodes):
    features, labels, graph = nodes
    sklearn.set_config(enable_metadata_routing=True)
    try:
        recorder = Recorder().set_fit_request(graph=True).set_predict_request(graph=True)
    finally:
        sklearn.set_config(enable_metadata_routing=False)
    model = Transductive(recorder, features, graph)
    numbers = np.arange(NODES)
    for training, rest in StratifiedKFold(4).split(numbers, labels):
        seen = clone(model).fit(numbers[training], labels[training]).estimator_.seen_
        assert seen.shape == (NODES,)
        assert seen[training].tolist() == labels[training].tolist()
        assert set(seen[rest]) == {None}


def test_predictions_out_of_fold_depend_on_no_label_of_their_fold(nodes):
    features, labels, graph = nodes
    model = Transductive(NodeClassifier(**QUICK), features, graph)
    folds = [(np.arange(20, NODES), np.arange(20))]
    changed = labels.copy()
    changed[:20] = "right"
    scores = [
        cross_val_score(model, np.arange(NODES), each, cv=folds, scoring="accuracy")[0] for each in (labels, changed)
    ]
    assert scores[0] == pytest.approx(1 - scores[1])


def test_a_pipeline_is_passed_the_graph(nodes):
    features, labels, graph = nodes
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), NodeClassifier(**QUICK))
        pipeline.fit(1000 * features, labels, graph=graph)
        assert pipeline.score(1000 * features, labels, graph=graph) >= 0.9
        assert pipeline.predict_proba(1000 * features, graph=graph).shape == (NODES, 2)
        numbers = make_pipeline(StandardScaler(), NodeRegressor(**QUICK)).fit(features, features[:, 0], graph=graph)
        assert numbers.predict(features, graph=graph).shape == (NODES,)
        with pytest.raises(UnsetMetadataPassedError, match="train"):
            pipeline.fit(features, labels, graph=graph, train=range(30))


def test_a_pipeline_can_be_searched(nodes):
    features, labels, graph = nodes
    pipeline = make_pipeline(StandardScaler(), PCA(), NodeClassifier(**QUICK))
    grid = {"estimator__pca__n_components": [1, 4], "estimator__nodeclassifier__order": [1, 2]}
    search = GridSearchCV(Transductive(pipeline, pd.DataFrame(features), graph), grid, cv=2)
    search.fit(np.arange(NODES)[:, None], labels)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_score_ >= 0.85


def test_numbers_are_searched_too(nodes):
    features, labels, graph = nodes
    targets = (labels == "left") + 0.1 * features[:, 0]
    model = Transductive(NodeRegressor(**QUICK), features, graph)
    assert cross_val_predict(model, np.arange(NODES), targets, cv=3).shape == (NODES,)
    assert cross_val_score(model, np.arange(NODES), targets, cv=3).shape == (3,)
    two = model.fit(np.arange(40), np.stack([targets, -targets], axis=1)[:40])
    assert two.predict([0, 59]).shape == (2, 2)


def test_copies_share_the_data_and_nothing_learned(nodes):
    features, labels, graph = nodes
    model = Transductive(NodeClassifier(**QUICK), features, graph).fit(np.arange(NODES), labels)
    copied = clone(model)
    assert copied.features is features
    assert copied.graph is graph
    assert copied.estimator is not model.estimator
    with pytest.raises(NotFittedError, match="Transductive"):
        copied.predict([0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda x, y: (x, y), "numbers of nodes, from 0 to 59, got float64"),
        (lambda x, y: ([0, 60], ["a", "b"]), "numbers of nodes, from 0 to 59, got int64"),
        (lambda x, y: ([0, 0], ["a", "b"]), "Expected each node once"),
        (lambda x, y: ([0, 1], ["a"]), r"one label for each of 2 nodes, got shape \(1,\)"),
    ],
)
def test_wrong_samples_are_named(nodes, arguments, message):
    features, labels, graph = nodes
    with pytest.raises(InputError, match=message):
        Transductive(NodeClassifier(), features, graph).fit(*arguments(features, labels))


def test_wrong_features_are_named(nodes):
    with pytest.raises(InputError, match=r"shape \(nodes, features\), got \(60,\)"):
        Transductive(NodeClassifier(), np.zeros(60), nodes[2]).fit([0], ["a"])


def test_rows_that_were_cut_from_a_graph_are_refused_with_a_way_out(nodes):
    features, labels, graph = nodes
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(NodeClassifier(**QUICK), {"order": [1]}, cv=2, error_score="raise")
        with pytest.raises(InputError, match="got 60. For folds of nodes, use tdegnn.Transductive"):
            search.fit(features, labels, graph=graph)


def test_complex_features_are_refused(nodes):
    features, labels, graph = nodes
    with pytest.raises(InputError, match="Expected features of real numbers, got complex ones"):
        NodeClassifier(**QUICK).fit(features + 1j, labels, graph=graph)


@pytest.fixture(scope="module")
def fitted(nodes):
    features, labels, graph = nodes
    series = Panel.from_array(np.sin(np.arange(80)[:, None] / 5 + np.arange(3)))
    forecaster = Forecaster(horizon=2, window=6, num_steps=20, network=None).fit(series)
    return {
        "classifier": (NodeClassifier(**QUICK).fit(features, labels, graph=graph), lambda model: model.predict_proba()),
        "regressor": (NodeRegressor(**QUICK).fit(features, features[:, 0], graph=graph), lambda model: model.predict()),
        "forecaster": (forecaster, lambda model: model.predict().to_frame()[["forecast", "low", "high"]].to_numpy()),
        "transductive": (
            Transductive(NodeClassifier(**QUICK), features, graph).fit(np.arange(NODES), labels),
            lambda model: model.predict_proba(np.arange(NODES)),
        ),
    }


NAMES = ["classifier", "regressor", "forecaster", "transductive"]


@pytest.mark.parametrize("name", NAMES)
def test_a_fitted_estimator_comes_back_from_a_pickle(fitted, name):
    model, predict = fitted[name]
    np.testing.assert_array_equal(predict(pickle.loads(pickle.dumps(model))), predict(model))


@pytest.mark.parametrize("name", NAMES)
def test_a_fitted_estimator_comes_back_from_a_file_of_joblib(fitted, name, tmp_path):
    model, predict = fitted[name]
    joblib.dump(model, tmp_path / "model.joblib")
    np.testing.assert_array_equal(predict(joblib.load(tmp_path / "model.joblib")), predict(model))


@pytest.mark.slow
def test_a_pickle_is_read_by_another_process(fitted, tmp_path):
    model, predict = fitted["classifier"]
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).predict_proba()[0, 0])"
    printed = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "model.pickle"], check=True, capture_output=True, text=True
    ).stdout
    assert float(printed) == pytest.approx(float(predict(model)[0, 0]), abs=1e-6)


@pytest.mark.parametrize("name", NAMES[:3])
def test_a_copy_has_the_settings_and_is_not_fitted(fitted, name):
    model, predict = fitted[name]
    copied = clone(model)
    assert copied.get_params(deep=False) == model.get_params(deep=False)
    assert pickle.loads(pickle.dumps(copied)).get_params(deep=False) == model.get_params(deep=False)
    with pytest.raises(NotFittedError):
        predict(copied)


@pytest.mark.parametrize("kind", [NodeClassifier, NodeRegressor, Forecaster])
def test_settings_can_be_changed_by_name(kind):
    model: BaseEstimator = kind().set_params(order=3, hidden_channels=8)
    assert (model.order, model.get_params()["hidden_channels"]) == (3, 8)
    with pytest.raises(ValueError, match="Invalid parameter 'layers'"):
        model.set_params(layers=3)
