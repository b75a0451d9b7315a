import os

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import Ridge

from tdegnn import InputError, load_nodes
from tdegnn.rivals.nodes.link_ridge import fit_link_ridge
from tests.core.checkers import weighted_graph
from tests.rivals.checkers import small_graph

LABELS = np.arange(12) % 3
TRAINING, VALIDATION = LABELS < 2, np.arange(12) >= 9


def random_split(num_nodes=40):
    rng = np.random.default_rng(0)
    adjacency = scipy.sparse.random_array((num_nodes, num_nodes), density=0.2, random_state=rng)
    adjacency.data[:] = 1.0
    part = rng.integers(0, 3, num_nodes)
    return adjacency, rng.integers(0, 4, num_nodes), part == 0, part == 1


@pytest.mark.parametrize("strength", [0.01, 1.0, 30.0])
def test_it_is_the_ridge_of_scikit_learn(strength):
    adjacency, labels, training, validation = random_split()
    found = fit_link_ridge(adjacency, labels, training, validation, [strength])
    dense = adjacency.toarray()
    ridge = Ridge(strength, fit_intercept=False).fit(dense[training], np.eye(4)[labels[training]])
    expected = ridge.predict(dense).argmax(axis=1)
    np.testing.assert_array_equal(found.predicted, expected)
    assert found.validation_accuracy == np.mean(expected[validation] == labels[validation])
    assert found.chosen_lambda == strength


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_it_is_its_equation(direction):
    """In the primal: `W = (A_t^T A_t + lambda I)^-1 A_t^T Y`. A closed form has no gradient to compare."""
    graph, labels = weighted_graph(direction), np.arange(7) % 3
    training = np.arange(7) % 4 > 0
    found = fit_link_ridge(graph.received, labels, training, ~training, [0.3])
    rows = graph.received.toarray()
    fitted, targets = rows[training], np.eye(3)[labels[training]]
    weights = np.linalg.inv(fitted.T @ fitted + 0.3 * np.eye(7)) @ fitted.T @ targets
    np.testing.assert_allclose(found.scores, rows @ weights, atol=1e-9, rtol=1e-9)
    assert not rows[-1].any()  # the isolated node
    np.testing.assert_array_equal(found.predicted, found.scores.argmax(axis=1))


def test_relabelling_changes_nothing():
    graph, labels, training = weighted_graph("out"), np.arange(7) % 3, np.arange(7) % 4 > 0
    order = np.array([3, 0, 6, 5, 1, 4, 2])
    plain = fit_link_ridge(graph.received, labels, training, ~training, [0.3])
    rows = graph.received.tocsr()[order][:, order]
    moved = fit_link_ridge(rows, labels[order], training[order], ~training[order], [0.3])
    np.testing.assert_allclose(moved.scores, plain.scores[order], atol=1e-12)


def test_lambda_is_chosen_on_validation_and_of_equals_the_smallest():
    adjacency, labels, training, validation = random_split()
    lambdas = [100.0, 0.01, 1.0]
    each = [fit_link_ridge(adjacency, labels, training, validation, [strength]) for strength in sorted(lambdas)]
    best = max(each, key=lambda found: found.validation_accuracy)  # the first of the best
    found = fit_link_ridge(adjacency, labels, training, validation, lambdas)
    assert (found.chosen_lambda, found.validation_accuracy) == (best.chosen_lambda, best.validation_accuracy)
    np.testing.assert_array_equal(found.predicted, best.predicted)


def test_labels_outside_the_masks_are_not_looked_at():
    adjacency, labels, training, validation = random_split()
    hidden = np.where(training | validation, labels, -1)
    found, other = (fit_link_ridge(adjacency, given, training, validation) for given in (labels, hidden))
    np.testing.assert_array_equal(found.predicted, other.predicted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(adjacency=scipy.sparse.csr_array((3, 3))), "one row of the adjacency matrix per node, got 3 for 12"),
        (dict(training_mask=np.zeros(12, bool)), "training_mask to hold at least one node, got none"),
        (dict(labels=LABELS - 1), "labels from 0 on in training_mask, got -1"),
        (dict(lambdas=[]), r"positive lambdas, at least one, got \[\]"),
        (dict(lambdas=[1.0, 0.0]), r"positive lambdas, at least one, got \[1.0, 0.0\]"),
    ],
)
def test_wrong_input_is_refused(change, message):
    right = dict(adjacency=small_graph().received, labels=LABELS, training_mask=TRAINING, validation_mask=VALIDATION)
    with pytest.raises(InputError, match=message):
        fit_link_ridge(**(right | change))


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("TDEGNN_MIRROR"), reason="TDEGNN_MIRROR names no folder with the benchmark files"
)
def test_direction_decides_chameleon():
    dataset = load_nodes("chameleon")

    def mean_accuracy(direction):
        rows = dataset.with_direction(direction).graph.received
        masks = zip(dataset.training_masks, dataset.validation_masks, dataset.test_masks, strict=True)
        accuracies = [
            np.mean((fit_link_ridge(rows, dataset.labels, training, validation).predicted == dataset.labels)[test])
            for training, validation, test in masks
        ]
        return 100 * np.mean(accuracies)

    assert mean_accuracy("out") == pytest.approx(78.1, abs=0.3)
    assert 22 < mean_accuracy("in") < 24
