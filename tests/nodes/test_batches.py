"""Estimators that are trained in batches: the gradient of the whole graph, exact inner nodes, resumed trainings."""

import numpy as np
import pytest
import torch

from tdegnn import Graph, InputError, NodeClassifier, NodeRegressor, Part
from tdegnn.batches.base import Batch, Batches, BatchPlan
from tdegnn.batches.registry import BATCHES
from tdegnn.core.rules import COEFFICIENTS
from tdegnn.nets import in_blocks
from tdegnn.nodes.batch_training import BatchTraining
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import choose_placement
from tdegnn.training.node_rows import NodeRows
from tdegnn.training.node_training import Classification, NodeSubsets, Regression, TaskTraining
from tdegnn.training.processes import ALONE
from tests.test_subgraph import LOCAL

NODES, CLASSES = 90, 3
DRAW = np.random.default_rng(5)
LABELS = np.arange(NODES) * CLASSES // NODES
FEATURES = (np.eye(CLASSES)[LABELS] + 0.5 * DRAW.random((NODES, CLASSES))).astype(np.float32)
GRAPH = Graph(np.stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES]), NODES)
SUBSETS = NodeSubsets(*(np.arange(NODES)[None] % 3 == part for part in range(3)))
SMALL = dict(hidden_channels=8, num_steps=12, device="cpu", baselines=False, network=None)
WHOLE = [
    Part("partitions", num_parts=3, parts_per_batch=3),
    Part("ranges", num_parts=1, parts_per_batch=1),
    Part("neighborhoods", batch_size=NODES, num_neighbors=[NODES] * 50),
]


class EveryOther(Batches):
    """All nodes, of which those with even, then those with odd numbers are inner ones."""

    def plan(self, graph, training, seed):
        class Plan(BatchPlan):
            num_batches = 2

            def choose(self, step):
                nodes = np.arange(graph.num_nodes)
                return Batch(nodes, nodes % 2 == step % 2)

        return Plan()


def make_training(batches, task=None, block_size=10**6, seed=0, processes=ALONE, **settings):
    settings = dict(hidden_channels=8, num_layers=2, order=2, outer_dropout=0.3, hidden_dropout=0.2) | settings
    config = NodeConfig(**settings)
    task = task or Classification(torch.as_tensor(LABELS), torch.tensor([1.0, 2.0, 3.0]))
    network, placement = config.build_network(CLASSES, CLASSES, 0, NODES), choose_placement("cpu", "64-true")
    if batches is None:
        inputs = torch.as_tensor(FEATURES).double(), GRAPH
        return TaskTraining([network], [config.descent], inputs, task, SUBSETS, placement)
    made = BATCHES.make(batches, num_layers=2)
    plan = made.plan(GRAPH, np.flatnonzero(SUBSETS.training[0]), seed)
    rows = NodeRows(FEATURES, placement)
    shared = (task, SUBSETS, placement, "accuracy", block_size, made.batches_per_step, processes)
    return BatchTraining([network], [config.descent], rows, GRAPH, plan, *shared)


def first_gradient(training):
    """The gradient of the first step, which is what Adam's first mean is made of."""
    training.step()
    return training.members.state()["mean"] * 10


@pytest.mark.parametrize("batches", WHOLE, ids=str)
@pytest.mark.parametrize("task", [None, Regression(torch.as_tensor(FEATURES).double())], ids=["classes", "numbers"])
def test_a_batch_of_the_whole_graph_has_the_whole_gradient(batches, task):
    found, expected = (first_gradient(make_training(each, task)) for each in (batches, None))
    assert float(expected.abs().max()) > 1e-3
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [*({"operator": name} for name in LOCAL), *({"coefficients": name} for name in COEFFICIENTS.names)],
    ids=str,
)
def test_the_gradient_is_the_whole_one_for_every_part(settings):
    found, expected = (first_gradient(make_training(each, **settings)) for each in (WHOLE[1], None))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-10)


def test_losses_of_an_epoch_have_the_loss_of_the_graph_as_their_mean():
    """Inner nodes see all that their layers look at, so an epoch is the whole graph, node by node."""
    plain = dict(outer_dropout=0.0, hidden_dropout=0.0)
    training = make_training(Part("partitions", num_parts=7, parts_per_batch=2, halo=2), **plain)
    whole = make_training(None, **plain)
    for each in (training, whole):
        each.members._learning_rates.zero_()
    losses = []
    for _ in range(training.num_batches):
        training.step()
        losses.append(training.last_losses().clone())
    whole.step()
    assert training.num_batches == 4
    torch.testing.assert_close(torch.stack(losses).mean(dim=0), whole.last_losses(), rtol=1e-10, atol=0)


@pytest.mark.parametrize("batches", ["partitions", Part("neighborhoods", batch_size=10)], ids=str)
def test_validation_in_blocks_is_validation_of_the_whole_graph(batches):
    trainings = [make_training(batches, block_size=size, averaging=0.5) for size in (40, 10**6)]
    for training in trainings:
        training.step()
        training.step()
    outputs = [training._evaluate() for training in trainings]
    assert len(trainings[0]._blocks) > 2
    torch.testing.assert_close(*outputs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("batches", [*BATCHES.names, EveryOther], ids=str)
def test_an_interrupted_training_goes_on_with_the_same_batches(batches):
    begun, resumed = make_training(batches, seed=3), make_training(batches, seed=3)
    for _ in range(5):
        begun.step()
    resumed.load_state({name: tensor.clone() for name, tensor in begun.state().items()})
    for _ in range(9):
        resumed.step()
    whole = make_training(batches, seed=3)
    for _ in range(14):
        whole.step()
    assert torch.equal(resumed.members.weights, whole.members.weights)


@pytest.mark.parametrize("batches", [*BATCHES.names, EveryOther, Part("partitions", num_parts=6, halo=2)], ids=str)
def test_a_classifier_in_batches_is_fitted_saved_and_loaded(batches, tmp_path, monkeypatch):
    monkeypatch.setattr(in_blocks, "BLOCK_SIZE", 50)
    model = NodeClassifier(batches=batches, **SMALL).fit(FEATURES, LABELS, graph=GRAPH, run=tmp_path / "run")
    assert model.score(FEATURES, LABELS, graph=GRAPH) > 0.5
    own = {"batches": EveryOther} if batches is EveryOther else {}
    loaded = NodeClassifier.load(tmp_path / "run", **own)
    assert loaded.batches == batches
    np.testing.assert_allclose(loaded.predict_proba(FEATURES, graph=GRAPH), model.predict_proba(), atol=1e-6)
    again = NodeClassifier(batches=batches, **SMALL).fit(
        FEATURES, LABELS, graph=GRAPH, run=tmp_path / "run", resume=True
    )
    np.testing.assert_allclose(again.predict_proba(), model.predict_proba(), atol=1e-6)


class StoppedError(Exception):
    pass


def test_a_fit_that_was_stopped_is_resumed_to_the_same_end(tmp_path):
    settings = SMALL | {"batches": Part("neighborhoods", batch_size=8), "num_steps": 24}
    whole = NodeClassifier(**settings).fit(FEATURES, LABELS, graph=GRAPH)

    def stop(look):
        if look.step > 10:
            raise StoppedError

    data = dict(X=FEATURES, y=LABELS, graph=GRAPH, run=tmp_path / "run")
    with pytest.raises(StoppedError):
        NodeClassifier(**settings).fit(**data, on_look=stop)
    resumed = NodeClassifier(**settings).fit(**data, resume=True)
    assert np.array_equal(resumed.predict_proba(), whole.predict_proba())


def test_a_regressor_and_many_starts_in_batches():
    model = NodeRegressor(**SMALL | {"network": "auto", "num_steps": 6}, batches=Part("partitions", num_parts=5))
    targets = FEATURES.sum(axis=1)
    assert model.fit(FEATURES, targets, graph=GRAPH).predict().shape == (NODES,)
    assert np.isfinite(model.predict()).all()


@pytest.mark.parametrize("settings", [{"skip": "kernel-ridge"}, {"operator": "acm+"}, {"adjacency_features": True}])
def test_what_is_kept_per_node_is_found_by_its_number(settings):
    found, expected = (
        NodeClassifier(**SMALL, **settings, batches=batches).fit(FEATURES, LABELS, graph=GRAPH)
        for batches in (WHOLE[1], None)
    )
    np.testing.assert_allclose(found.predict_proba(), expected.predict_proba(), atol=1e-5)
    NodeClassifier(**SMALL, **settings, batches="neighborhoods").fit(FEATURES, LABELS, graph=GRAPH)


@pytest.mark.parametrize("operator", ["flode", "grand++", "learned-adjacency"])
def test_an_operator_that_needs_all_nodes_is_refused(operator):
    with pytest.raises(InputError, match="^Expected an operator that looks at neighbors, for batches, got"):
        NodeClassifier(**SMALL, operator=operator, batches="partitions").fit(FEATURES, LABELS, graph=GRAPH)


def test_wrong_batches_are_refused_before_anything_is_done():
    for batches, message in {
        "partition": "Expected batches to be one of partitions, ranges, neighborhoods",
        Part(
            "partitions", parts=3
        ): "Expected settings of partitions among num_parts, parts_per_batch, halo, batches_per_step, got",
        Part("partitions", halo="1"): "Expected halo of partitions to be a whole number, got '1'",
    }.items():
        with pytest.raises(InputError, match=message):
            NodeClassifier(batches=batches).check_settings()


def test_validation_is_at_most_once_per_epoch():
    model = NodeClassifier(**SMALL, batches=Part("ranges", num_parts=5, parts_per_batch=1), validate_every=2)
    steps = [line["step"] for line in model.fit(FEATURES, LABELS, graph=GRAPH).history_]
    assert steps == [5, 10, 12]


@pytest.mark.parametrize("kind", [NodeClassifier, NodeRegressor])
def test_a_decay_inside_noisy_gradients_is_noted(kind):
    def noted(**settings):
        model = kind(**SMALL | settings | {"num_steps": 2}).fit(FEATURES, LABELS, graph=GRAPH)
        return [note for note in model.notes_ if "weight decay" in note]

    (note,) = noted(batches="ranges")
    assert note == (
        "Batches make gradients noisy, which weakens a weight decay inside the gradient of Adam. Pass "
        "optimizer='adamw' with larger weight decays, such as 1."
    )
    assert "Pass --optimizer adamw with larger weight decays" in note.as_options()
    assert noted(batches="ranges", embedding_weight_decay=0.0) == [note]
    for quiet in ({"optimizer": "adamw"}, {"embedding_weight_decay": 0.0, "spatial_weight_decay": 0.0}):
        assert noted(batches="ranges", **quiet) == []
    assert noted() == []
