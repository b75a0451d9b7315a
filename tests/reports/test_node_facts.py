"""Facts about classes, against the same numbers computed by hand."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from tdegnn import Graph
from tdegnn.reports.node_facts import ClassFacts, class_facts, judged_nodes

# A path of six nodes, of classes 0 0 1 1 0 and one that is not known.
GRAPH = Graph([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]], 6, direction="both")
TRUTH = np.array([0, 0, 1, 1, 0, -1])
SURE = np.array([0.95, 0.65, 0.95, 0.75, 0.65, 0.5])
PREDICTED = np.array([0, 1, 1, 1, 1, 0])


def make_facts(judged=(True, True, True, True, True, False)):
    probabilities = np.where(np.eye(2)[PREDICTED] > 0, SURE[:, None], 1 - SURE[:, None])
    embedding = np.random.default_rng(0).normal(size=(6, 4))
    return ClassFacts(("a", "b"), TRUTH, probabilities, np.array(judged), "test", GRAPH, embedding)


def test_confusion_counts_judged_nodes():
    np.testing.assert_array_equal(make_facts().confusion, confusion_matrix(TRUTH[:5], PREDICTED[:5]))


def test_accuracy_by_degree():
    groups = {group.name: (group.count, group.share) for group in make_facts().by_degree()}
    assert groups == {"1": (1, 1.0), "2": (4, 0.5)}


def test_accuracy_by_homophily_counts_known_neighbors():
    groups = {group.name: (group.count, group.share) for group in make_facts().by_homophily()}
    # Shares of the same class: 1, 1/2, 1/2, 1/2, and 0 for the last one, whose other neighbor is not known.
    assert groups == {"80 to 100 %": (1, 1.0), "40 to 60 %": (3, pytest.approx(2 / 3)), "0 to 20 %": (1, 0.0)}


def test_calibration_compares_how_sure_with_how_right():
    bins = make_facts().calibration()
    np.testing.assert_allclose(bins, [(0.65, 0.0, 2), (0.75, 1.0, 1), (0.95, 1.0, 2)])
    assert make_facts().calibration_error == pytest.approx((2 * 0.65 + 0.25 + 2 * 0.05) / 5)


def test_two_dimensions_hold_most_of_the_variance():
    facts = make_facts()
    places, share = facts.in_two_dimensions()
    centered = facts.embedding - facts.embedding.mean(axis=0)
    assert share == pytest.approx(places.var(axis=0).sum() / centered.var(axis=0).sum())
    assert places.shape == (6, 2)


@pytest.mark.slow
def test_facts_of_a_classifier_are_those_of_its_score(classifier):
    facts = class_facts(classifier.fitted_)
    assert facts.judged_name == "test"
    assert facts.is_right[facts.judged].mean() == pytest.approx(classifier.summary_["test_score"])
    np.testing.assert_allclose(facts.probabilities, classifier.predict_proba())


@pytest.mark.slow
def test_without_test_nodes_validation_nodes_are_judged(regressor):
    question = regressor.fitted_.question
    training, validation, _ = question.subsets
    from dataclasses import replace

    none = replace(regressor.fitted_, question=question._replace(subsets=(training, validation, training & False)))
    assert judged_nodes(none)[1] == "validation"
    assert judged_nodes(regressor.fitted_)[1] == "test"
