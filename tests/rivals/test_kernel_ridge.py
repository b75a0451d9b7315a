import numpy as np
import pytest
import scipy.sparse
import torch

from tdegnn import Graph, InputError
from tdegnn.files import set_memory_limit
from tdegnn.kernel_ridge import RIDGES, SHARPNESSES, TO_SOLVE, VIEW_SETS, Limit, candidates, other_ridges
from tdegnn.node_views import VIEWS, KernelSetting, NodeViews
from tdegnn.rivals.nodes.kernel_ridge import fit_kernel_ridge, judge_settings
from tests.core.checkers import NUM_NODES, weighted_graph

LABELS = np.array([0, 1, 2, 0, 1, 2, 0])
TRAINING = np.array([1, 1, 0, 1, 0, 1, 1], bool)
FEATURES = np.random.default_rng(0).normal(size=(NUM_NODES, 4)) * (np.arange(NUM_NODES) != 6)[:, None]
SETTING = KernelSetting(("links", "scaled-links", "features", "hop-2", "undirected-hop-1"), 3.0, 0.1)


def dense_kernel(features, graph, setting):
    """The kernel between all nodes, as its equation is written, from dense matrices."""
    received = graph.received.toarray()
    n = len(received)

    def convolution(matrix):
        looped = matrix + np.eye(n)
        degrees = looped.sum(axis=1)
        return looped / np.sqrt(degrees[:, None] * degrees[None, :])

    def rows(name):
        if name == "features":
            return features
        if "links" in name:
            degrees = received.sum(axis=0)
            weights = np.array([degree**-0.25 if degree > 0 else 0.0 for degree in degrees])
            return received * weights if name == "scaled-links" else received
        matrix = graph.with_direction("both").received.toarray() if "undirected" in name else received
        return np.linalg.matrix_power(convolution(matrix), int(name[-1])) @ features

    kernel = np.zeros((n, n))
    for name in setting.views:
        view = rows(name)
        for i in range(n):
            for j in range(n):
                lengths = np.linalg.norm(view[i]) * np.linalg.norm(view[j])
                kernel[i, j] += view[i] @ view[j] / lengths if lengths else 0.0
    return np.exp(setting.sharpness * (kernel / len(setting.views) - 1))


def dense_scores(features, graph, setting, training, targets):
    kernel = dense_kernel(features, graph, setting)[:, training]
    gram, mean = kernel[training], targets[training].mean(axis=0)
    penalty = setting.ridge * np.diagonal(gram).mean()
    return kernel @ np.linalg.inv(gram + penalty * np.eye(len(gram))) @ (targets[training] - mean) + mean


def fit(features=FEATURES, graph=None, labels=LABELS, **changes):
    given = dict(training_mask=TRAINING, validation_mask=~TRAINING, settings=[SETTING], dtype=torch.float64) | changes
    return fit_kernel_ridge(features, graph or weighted_graph("out"), labels, **given)


@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("views", [SETTING.views, *[(view,) for view in VIEWS]])
def test_it_is_the_equation(direction, views):
    graph, setting = weighted_graph(direction), SETTING._replace(views=views)
    expected = dense_scores(FEATURES, graph, setting, np.flatnonzero(TRAINING), np.eye(3)[LABELS])
    found = fit(graph=graph, settings=[setting])
    np.testing.assert_allclose(found.scores, expected, atol=1e-9)
    np.testing.assert_allclose(
        fit(scipy.sparse.csr_array(FEATURES), graph, settings=[setting]).scores, expected, atol=1e-9
    )
    np.testing.assert_allclose(fit(graph=graph, settings=[setting], dtype=torch.float32).scores, expected, atol=1e-4)


def test_rows_are_multiplied_in_blocks_and_as_sparse_ones(monkeypatch):
    expected = fit().scores
    monkeypatch.setattr("tdegnn.node_views.ROWS_AT_ONCE", 2)
    monkeypatch.setattr("tdegnn.node_views.MOST_FILLED", 1.0)
    np.testing.assert_allclose(fit(scipy.sparse.csr_array(FEATURES)).scores, expected, atol=1e-12)


def test_relabelling_changes_nothing():
    graph, new = weighted_graph("out"), np.random.default_rng(1).permutation(NUM_NODES)
    renamed = Graph(new[graph.edge_index], NUM_NODES, graph.edge_weight, "out")
    order = np.argsort(new)
    moved = fit(
        FEATURES[order], renamed, LABELS[order], training_mask=TRAINING[order], validation_mask=~TRAINING[order]
    )
    np.testing.assert_allclose(moved.scores[new], fit().scores, atol=1e-12)


def test_the_setting_is_chosen_on_validation_and_other_labels_are_not_looked_at(monkeypatch):
    monkeypatch.setattr("tdegnn.kernel_ridge.VIEW_SETS", VIEW_SETS[2:5])
    monkeypatch.setattr("tdegnn.kernel_ridge.RIDGES", (0.01, 1.0))
    graph = weighted_graph("out")
    each = [fit(settings=[setting]) for setting in candidates(graph)]
    best = max(each, key=lambda found: found.validation_accuracy)  # the first of the best
    found = fit(settings=None, labels=np.where(TRAINING | (np.arange(NUM_NODES) < 6), LABELS, -1))
    assert (found.setting, found.validation_accuracy) == (best.setting, best.validation_accuracy)
    np.testing.assert_allclose(found.scores, best.scores, atol=1e-12)
    np.testing.assert_array_equal(found.predicted, best.scores.argmax(axis=1))


def test_with_many_training_nodes_settings_are_judged_by_landmarks_and_their_ridges_by_what_solves(monkeypatch):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, size=90)
    features, graph = np.eye(3)[labels] + 0.3 * rng.normal(size=(90, 3)), Graph(np.empty((2, 0), int), 90)
    training = np.arange(90) % 2 == 0
    settings = [KernelSetting(("features",), sharpness, ridge) for sharpness in (1.0, 6.0) for ridge in (0.1, 1e4)]
    views = NodeViews(features, graph, settings)
    few, given = Limit(44, 1), (labels, training, ~training, settings)
    exact, judged = (judge_settings(views, *given, limit) for limit in (TO_SOLVE, few))
    assert (judged < exact[::2].min() - 0.1).all()
    by_landmarks = settings[judged.argmax()]
    best = max(other_ridges(by_landmarks, settings), key=lambda setting: exact[settings.index(setting)])
    monkeypatch.setattr("tdegnn.rivals.nodes.kernel_ridge.TO_CHOOSE", few)
    masks = dict(training_mask=training, validation_mask=~training)
    found = fit(features, graph, labels, settings=settings, dtype=torch.float32, **masks)
    assert (found.setting, found.validation_accuracy) == (best, exact[settings.index(best)])
    # With one ridge, there is nothing to judge again.
    found = fit(features, graph, labels, settings=[by_landmarks], **masks)
    assert found.setting == by_landmarks


def test_views_that_take_too_much_memory_are_made_again(monkeypatch):
    expected, names, nodes = fit().scores, SETTING.views, np.arange(NUM_NODES)
    monkeypatch.setattr("tdegnn.node_views.COLUMNS_AT_ONCE", 3)
    monkeypatch.setattr("tdegnn.node_views.MOST_KEPT", 0)
    np.testing.assert_allclose(fit().scores, expected, atol=1e-12)
    views = NodeViews(FEATURES, weighted_graph("out"), [SETTING])
    assert (views.diagonal(SETTING, nodes) <= 1).all()
    views.cosines(names, nodes, nodes)
    assert [*views._kept] == [names[-1]]
    without = NodeViews(np.zeros((NUM_NODES, 0)), weighted_graph("out"), [SETTING])
    assert not without.cosines(names[2:], nodes, nodes).any()


def test_candidates_that_differ_by_direction_only_are_left_out_if_there_is_none():
    num_settings = len(SHARPNESSES) * len(RIDGES)
    assert len(candidates(weighted_graph("out"))) == num_settings * len(VIEW_SETS)
    assert len(candidates(weighted_graph("both"))) == num_settings * (len(VIEW_SETS) - 2)
    assert candidates(weighted_graph("both"), ["hop-1"], 2.0, 0.5) == (KernelSetting(("hop-1",), 2.0, 0.5),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(features=scipy.sparse.csr_array(FEATURES[:3])), "features of the 7 nodes of the graph, got 3"),
        (dict(training_mask=np.zeros(7, bool)), "training_mask to hold at least one node, got none"),
        (dict(validation_mask=np.zeros(7, bool)), "validation_mask to hold at least one node, got none"),
        (dict(labels=LABELS - 1), "labels from 0 on in training_mask, got -1"),
        (dict(settings=[]), "at least one setting to choose from, got none"),
        (dict(settings=[SETTING._replace(views=("names",))]), "views among links, .*, at least one, got 'names'"),
        (dict(settings=[SETTING._replace(views=())]), "at least one, got none"),
        (dict(settings=[SETTING._replace(ridge=0.0)]), "positive sharpness and ridge, got 3 and 0"),
        (dict(settings=[SETTING._replace(sharpness=np.inf)]), "sharpness to be finite, got inf"),
    ],
)
def test_wrong_input_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        fit(**change)


def test_a_kernel_that_is_too_large_is_refused():
    views = NodeViews(FEATURES, weighted_graph("out"), [SETTING])
    set_memory_limit("500B")
    try:
        with pytest.raises(InputError, match="Expected a kernel of 7 by 5 nodes to take at most 500 B of memory"):
            views.cosines(SETTING.views, np.arange(NUM_NODES), np.flatnonzero(TRAINING))
    finally:
        set_memory_limit(None)
