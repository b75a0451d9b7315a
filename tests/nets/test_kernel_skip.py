from dataclasses import replace

import numpy as np
import pytest
import torch

from tdegnn import Graph, InputError
from tdegnn.kernel_ridge import TO_SOLVE, VIEW_SETS, Limit
from tdegnn.nets import kernel_skip
from tdegnn.nets.kernel_skip import KernelRidgeSkip
from tdegnn.nets.node_skips import SKIPS
from tdegnn.node_views import KernelSetting
from tdegnn.parts import Part
from tdegnn.training.members import GroupDescent, GroupedAdam, Members
from tdegnn.training_nodes import TrainingNodes
from tests.core.checkers import NUM_NODES, weighted_graph
from tests.rivals.test_kernel_ridge import FEATURES, LABELS, dense_scores

MASK = np.array([1, 1, 1, 1, 0, 0, 1], bool)
SETTING = KernelSetting(("links", "features"), 2.0, 0.3)


def some_nodes(labels=LABELS, mask=MASK, features=FEATURES, graph=None):
    targets = np.eye(3)[labels] * mask[:, None]
    return TrainingNodes(features, graph or weighted_graph("out"), targets, mask)


def make(nodes=None, **changes):
    """A skip in float64 that has seen the nodes."""
    skip = KernelRidgeSkip(NUM_NODES, 3, **(SETTING._asdict() | dict(num_folds=2) | changes)).double()
    if nodes is not None:
        skip.see_training_nodes(nodes)
    return skip


def test_scores_are_the_equation_and_out_of_fold_on_training_nodes():
    nodes = some_nodes()
    training = np.flatnonzero(MASK)

    def solved_from(seen):
        return dense_scores(FEATURES, nodes.graph, SETTING, seen, nodes.targets)

    expected = solved_from(training)
    for fold in range(2):
        held_out = training[fold::2]
        expected[held_out] = solved_from(np.setdiff1d(training, held_out))[held_out]
    skip = make(nodes)
    np.testing.assert_allclose(skip.scores.numpy(), expected, atol=1e-9)
    torch.testing.assert_close(skip(nodes.graph), 10 * skip.scores)
    assert skip.scores.isfinite().all()  # the last node is isolated, and has no features


@pytest.mark.parametrize("node", np.flatnonzero(MASK))
@pytest.mark.parametrize("given", [{}, dict(num_folds=99)])
@pytest.mark.parametrize("limit", [TO_SOLVE, Limit(0, 3)], ids=["exact", "landmarks"])
def test_a_training_node_does_not_see_its_own_label(monkeypatch, node, given, limit):
    monkeypatch.setattr(kernel_skip, "TO_SOLVE", limit)
    other = LABELS.copy()
    other[node] = (other[node] + 1) % 3
    before, after = (make(some_nodes(labels), **given).scores for labels in (LABELS, other))
    torch.testing.assert_close(after[node], before[node], atol=1e-12, rtol=0)
    assert not torch.allclose(after, before)


def test_relabelling_changes_nothing_but_the_folds():
    graph, new = weighted_graph("out"), np.random.default_rng(1).permutation(NUM_NODES)
    renamed = Graph(new[graph.edge_index], NUM_NODES, graph.edge_weight, "out")
    order = np.argsort(new)
    moved = make(some_nodes(LABELS[order], MASK[order], FEATURES[order], renamed)).scores[new]
    before = make(some_nodes(graph=graph)).scores
    torch.testing.assert_close(moved[~MASK], before[~MASK])
    # One fold per training node: the folds do not depend on the order either.
    moved = make(some_nodes(LABELS[order], MASK[order], FEATURES[order], renamed), num_folds=NUM_NODES).scores[new]
    torch.testing.assert_close(moved, make(some_nodes(graph=graph), num_folds=NUM_NODES).scores)


def test_settings_that_are_not_given_are_chosen_by_training_nodes(monkeypatch):
    monkeypatch.setattr("tdegnn.kernel_ridge.VIEW_SETS", VIEW_SETS[2:5])
    monkeypatch.setattr("tdegnn.kernel_ridge.RIDGES", (0.01, 1.0))
    nodes = some_nodes()
    automatic = make(nodes, views="auto", sharpness="auto", ridge="auto").scores
    errors = {}
    for setting in kernel_skip.candidates(nodes.graph):
        scores = make(nodes, **setting._asdict()).scores
        errors[setting] = float((scores - torch.as_tensor(nodes.targets))[MASK].square().mean())
    best = min(errors, key=errors.__getitem__)
    torch.testing.assert_close(automatic, make(nodes, **best._asdict()).scores)
    monkeypatch.setattr(kernel_skip, "MOST_TO_CHOOSE_ON", 3)
    assert make(some_nodes(), views="auto").scores.isfinite().all()


def test_scores_are_found_once_per_graph_and_nodes(monkeypatch):
    nodes = some_nodes()
    first = make(nodes).scores
    solve = kernel_skip._solve
    monkeypatch.setattr(kernel_skip, "_solve", None)
    assert torch.equal(make(nodes).scores, first)
    monkeypatch.setattr(kernel_skip, "_solve", solve)
    for other in (replace(nodes, features=2 * FEATURES + 1), some_nodes(mask=~MASK | (LABELS == 0), graph=nodes.graph)):
        assert not torch.equal(make(other).scores, first)


def test_only_the_scale_learns_and_members_have_scores_of_their_own():
    graph = weighted_graph("out")
    masks = (MASK, MASK & (np.arange(NUM_NODES) != 3))
    skips = [make(some_nodes(mask=mask, graph=graph), sharpness=2.0 + number) for number, mask in enumerate(masks)]
    members = Members(skips, [GroupedAdam(embedding=GroupDescent(0.1, 1.0))] * 2)
    for _ in range(3):
        members.step(lambda outputs: -outputs.square().mean(dim=(1, 2)), graph)
    answers = members.evaluate(graph)
    scales = members.parameters()["scale"]
    assert (scales > 10).all()
    for answer, scale, skip in zip(answers, scales, skips, strict=True):
        torch.testing.assert_close(answer, scale * skip.scores)


@pytest.mark.parametrize("limit", [TO_SOLVE, Limit(0, 3)], ids=["exact", "landmarks"])
def test_it_is_made_by_name_and_saved(monkeypatch, limit):
    monkeypatch.setattr(kernel_skip, "TO_SOLVE", limit)
    nodes = some_nodes()
    part = Part("kernel-ridge", views=["features"], ridge=1.0, first_scale=1.0)
    skip, other = (SKIPS.make(part, num_nodes=NUM_NODES, num_outputs=3).double() for _ in range(2))
    assert SKIPS.from_record(SKIPS.to_record(part)) == part
    skip.see_training_nodes(nodes)
    assert not torch.equal(skip(nodes.graph), other(nodes.graph))
    other.load_state_dict(skip.state_dict())
    assert torch.equal(skip(nodes.graph), other(nodes.graph))
    assert "views=['features'], sharpness=auto, ridge=1.0, num_folds=5" in repr(skip)


def test_wrong_input_is_refused():
    for change, message in (
        (dict(views=["names"]), "Expected views among links"),
        (dict(ridge=-1.0), "Expected a positive sharpness and ridge"),
        (dict(num_folds=1), "Expected num_folds to be at least 2, got 1"),
        (dict(first_scale=np.nan), "Expected first_scale to be finite"),
    ):
        with pytest.raises(InputError, match=message):
            make(**change)
    with pytest.raises(InputError, match="Expected at least 2 training nodes for a kernel ridge, got 1. Add some."):
        make(some_nodes(mask=np.arange(NUM_NODES) == 2))
    with pytest.raises(InputError, match=r"Expected targets of shape \(7, 2\), for which this skip was made, got"):
        KernelRidgeSkip(NUM_NODES, 2).see_training_nodes(some_nodes())
    with pytest.raises(InputError, match="Expected the graph of the training, of 7 nodes, .* got 3 nodes"):
        make()(Graph([[0, 1], [1, 2]]))
