"""Landmarks against the exact kernel ridge. `tests/rivals` tests the exact one against its equation."""

import numpy as np
import pytest
import torch

from tdegnn import Graph
from tdegnn.kernel_ridge import Limit, out_of_fold_scores, ridge_scores
from tdegnn.node_views import KernelSetting, NodeViews
from tests.core.checkers import weighted_graph
from tests.rivals.test_kernel_ridge import FEATURES, dense_kernel

SETTINGS = [
    KernelSetting(views, sharpness, ridge)
    for views in (("links", "features"), ("hop-1",))
    for sharpness in (2.0, 6.0)
    for ridge in (0.1, 1.0)
]
TRAINING = np.array([0, 1, 3, 5, 6])
TARGETS = torch.as_tensor(np.eye(3)[[0, 1, 2, 0, 1]])
EXACT, ALL_LANDMARKS, SOME_LANDMARKS = Limit(99, 1), Limit(0, 99), Limit(0, 3)


def small_views():
    return NodeViews(FEATURES, weighted_graph("out"), SETTINGS, dtype=torch.float64)


def large_views(num_nodes=300):
    rng = np.random.default_rng(0)
    graph = Graph(rng.integers(0, num_nodes, size=(2, 900)), num_nodes)
    return NodeViews(rng.normal(size=(num_nodes, 8)), graph, SETTINGS, dtype=torch.float64)


def both_scores(views, limit, targets=TARGETS, training=TRAINING, **given):
    """Scores by name and setting: with a ridge for all, and out of fold."""
    found = {("all", setting): scores for setting, scores in ridge_scores(views, training, targets, SETTINGS, limit)}
    for setting, scores in out_of_fold_scores(views, training, targets, SETTINGS, limit, 2, **given):
        found["folds", setting] = scores
    return found


@pytest.mark.parametrize("with_others", [False, True])
def test_with_all_training_nodes_as_landmarks_it_is_the_exact_solution(with_others):
    views = small_views()
    exact, by_landmarks = (both_scores(views, limit, with_others=with_others) for limit in (EXACT, ALL_LANDMARKS))
    assert [*exact] == [*by_landmarks] == [(name, setting) for name in ("all", "folds") for setting in SETTINGS]
    for key, scores in exact.items():
        torch.testing.assert_close(by_landmarks[key], scores, atol=1e-6, rtol=0)


def test_landmarks_are_the_equation():
    graph, landmarks = weighted_graph("out"), SOME_LANDMARKS.landmarks(TRAINING)
    assert len(landmarks) == 3
    assert {*landmarks} < {*TRAINING}
    found = both_scores(small_views(), SOME_LANDMARKS, with_others=True)
    targets = TARGETS.numpy()
    for setting in SETTINGS:
        kernel = dense_kernel(FEATURES, graph, setting)

        def scores_from(seen, kernel=kernel, setting=setting):
            nodes = TRAINING[seen]
            used = np.intersect1d(landmarks, nodes)
            approximate = kernel[:, used] @ np.linalg.inv(kernel[np.ix_(used, used)]) @ kernel[used][:, nodes]
            penalty = setting.ridge * np.diagonal(kernel)[nodes].mean()
            mean = targets[seen].mean(axis=0)
            inverse = np.linalg.inv(approximate[nodes] + penalty * np.eye(len(nodes)))
            return approximate @ inverse @ (targets[seen] - mean) + mean

        expected = scores_from(np.arange(5))
        np.testing.assert_allclose(found["all", setting].numpy(), expected, atol=1e-6)
        for fold in range(2):
            held_out = np.arange(5)[fold::2]
            others = scores_from(np.setdiff1d(np.arange(5), held_out))
            expected[TRAINING[held_out]] = others[TRAINING[held_out]]
        np.testing.assert_allclose(found["folds", setting].numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("limit", [EXACT, SOME_LANDMARKS])
def test_out_of_fold_scores_do_not_depend_on_the_targets_that_are_held_out(limit):
    other = TARGETS.clone()
    other[::2] = other[::2].roll(1, dims=1) * 7  # the first of two folds
    before, after = (both_scores(small_views(), limit, targets) for targets in (TARGETS, other))
    for (name, setting), scores in before.items():
        if name == "folds":
            torch.testing.assert_close(after[name, setting][::2], scores[::2], atol=1e-9, rtol=0)
        assert not torch.allclose(after[name, setting], scores)


def test_beyond_the_limit_no_kernel_with_all_training_nodes_is_made(monkeypatch):
    views, training = large_views(), np.arange(0, 300, 2)
    targets = torch.as_tensor(np.eye(3)[training % 3])
    shapes = []
    cosines = NodeViews.cosines

    def watched(self, names, rows, columns):
        shapes.append((len(rows), len(columns)))
        return cosines(self, names, rows, columns)

    expected = both_scores(views, Limit(100, 20), targets, training, with_others=True)
    monkeypatch.setattr("tdegnn.kernel_ridge.ROWS_AT_ONCE", 16)
    monkeypatch.setattr(NodeViews, "cosines", watched)
    found = both_scores(views, Limit(100, 20), targets, training, with_others=True)
    assert max(rows for rows, _ in shapes) == max(columns for _, columns in shapes) == 20
    for key, scores in expected.items():
        torch.testing.assert_close(found[key], scores, atol=1e-9, rtol=0)
    shapes.clear()
    both_scores(views, Limit(150, 20), targets, training)
    # Up to the limit, the kernel among training nodes is; with other nodes, blocks of rows are.
    assert {rows for rows, columns in shapes if columns == 150} == {150, 16, 300 % 16}


def test_landmarks_are_always_the_same():
    found, again = (both_scores(large_views(), Limit(2, 3)) for _ in range(2))
    assert all(torch.equal(scores, again[key]) for key, scores in found.items())


def test_landmarks_come_close_to_the_exact_solution_in_float32():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, size=600)
    features = np.eye(3)[labels] + 0.5 * rng.normal(size=(600, 3))
    setting = KernelSetting(("features",), 1.0, 0.1)
    views = NodeViews(features, Graph(np.empty((2, 0), int), 600), [setting])
    training = np.arange(0, 600, 2)
    targets = torch.as_tensor(np.eye(3)[labels[training]])
    exact, by_landmarks = (
        next(ridge_scores(views, training, targets, [setting], limit))[1] for limit in (Limit(300, 1), Limit(299, 60))
    )
    torch.testing.assert_close(by_landmarks, exact, atol=0.05, rtol=0)
    assert by_landmarks.dtype == torch.float64
