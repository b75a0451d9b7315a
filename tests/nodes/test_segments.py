"""Node networks whose layers are computed again in the backward pass: the same training, in less memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tdegnn import Graph, InputError, NodeClassifier, NodeRegressor, Part
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.members import Members
from tdegnn.training.node_training import Classification, NodeSubsets, TaskTraining
from tests.node_datasets import make_dataset

NODES, CLASSES, LAYERS = 60, 3, 7
DRAW = np.random.default_rng(5)
LABELS = np.arange(NODES) * CLASSES // NODES
FEATURES = (np.eye(CLASSES)[LABELS] + 0.5 * DRAW.random((NODES, CLASSES))).astype(np.float32)
GRAPH = Graph(DRAW.integers(0, NODES, (2, 3 * NODES)), NODES)
NORMED = Part("near-identity", batch_norm=True)
CLOSE = dict(rtol=1e-12, atol=1e-12)
SMALL = dict(
    hidden_channels=8,
    num_layers=LAYERS,
    num_steps=8,
    device="cpu",
    precision="64-true",
    baselines=False,
    network=None,
)


def make_members(segment_length, num_members=1, **settings):
    settings = dict(hidden_channels=8, num_layers=LAYERS, order=3, outer_dropout=0.3, hidden_dropout=0.4) | settings
    config = NodeConfig(**settings)
    networks = [
        config.build_network(CLASSES, CLASSES, seed, NODES, segment_length).double() for seed in range(num_members)
    ]
    return Members(networks, [config.descent] * num_members)


def step(members):
    """Differentiate once. Return losses, gradient and buffers: the dropout masks and the running means of the pass."""

    def losses(outputs):
        return torch.log_softmax(outputs, dim=-1)[:, torch.arange(NODES), LABELS].square().mean(dim=1)

    found = members.differentiate(losses, [(torch.as_tensor(FEATURES).double(), GRAPH)])
    return [*found, *(buffer.clone() for buffer in members.buffers.values())]


@pytest.mark.parametrize("num_members", [1, 3])
@pytest.mark.parametrize("operator", ["diffusion", NORMED, "cde", "gcn", "gcnii", "grand"], ids=str)
@pytest.mark.parametrize("rule", ["euler", "direct", "gated-attention", "stable"])
def test_segments_change_neither_gradients_nor_masks_nor_running_means(rule, operator, num_members):
    parts = dict(operator=operator, coefficients=rule, state_norm="layer-norm")
    whole, cut = (step(make_members(length, num_members, **parts)) for length in (None, 3))
    torch.testing.assert_close(cut, whole, **CLOSE)


@pytest.mark.parametrize("segment_length", [1, 2, 3, LAYERS, 100, "auto"])
@pytest.mark.parametrize("readout", ["last", "max", "concatenation"])
def test_any_segment_length_suits_any_readout(readout, segment_length):
    parts = dict(operator=NORMED, coefficients="attention", readout=readout)
    whole, cut = (step(make_members(length, **parts)) for length in (None, segment_length))
    torch.testing.assert_close(cut, whole, **CLOSE)


def fit(segment_length, kind=NodeClassifier, y=LABELS, **settings):
    model = kind(segment_length=segment_length, **(SMALL | settings))
    return model.fit(FEATURES, y, graph=GRAPH)


@pytest.mark.parametrize(
    "settings",
    [
        dict(),
        dict(coefficients="gated-attention", order=3, averaging=0.9),
        dict(operator="gread-bs", coefficients="stable", hidden_dropout=0.0),
        dict(batches=Part("ranges", num_parts=3, parts_per_batch=1, batches_per_step=2)),
        dict(network="deep"),
    ],
    ids=", ".join,
)
def test_a_training_in_segments_ends_with_the_same_predictions(settings):
    whole, cut = (fit(length, **settings) for length in (None, "auto"))
    np.testing.assert_allclose(cut.predict_proba(), whole.predict_proba(), rtol=1e-9)
    np.testing.assert_allclose(cut.coefficients_, whole.coefficients_, rtol=1e-9)
    assert cut.summary_["best_step"] == whole.summary_["best_step"]


def test_numbers_are_predicted_the_same():
    whole, cut = (fit(length, NodeRegressor, FEATURES[:, 0]) for length in (None, 2))
    np.testing.assert_allclose(cut.predict(), whole.predict(), rtol=1e-9)


def test_several_starts_are_trained_one_after_another():
    """The network is still chosen: how it is computed says nothing about it."""
    dataset = make_dataset(num_splits=1)
    settings = dict(num_steps=6, device="cpu", precision="64-true", baselines=False)
    whole, cut = (NodeClassifier(segment_length=length, **settings).fit(dataset) for length in (None, 1))
    assert cut.network_choice_.num_starts > 1
    assert cut.network_choice_.name == whole.network_choice_.name
    np.testing.assert_allclose(cut.predict_proba(), whole.predict_proba(), rtol=1e-6)


def test_steps_in_segments_are_not_recorded():
    config, inputs = NodeConfig(hidden_channels=4, num_layers=4), (torch.as_tensor(FEATURES), GRAPH)
    subsets = NodeSubsets(*(np.arange(NODES)[None] % 3 == part for part in range(3)))
    task = Classification(torch.as_tensor(LABELS))
    for segment_length, is_recorded in ((None, True), (2, False)):
        network = config.build_network(CLASSES, CLASSES, 0, NODES, segment_length)
        training = TaskTraining([network], [config.descent], inputs, task, subsets)
        for _ in range(6):
            training.step()
        assert bool(training._step and training._step.is_replaying) == is_recorded


@pytest.mark.parametrize("segment_length", [3, "auto"])
def test_the_setting_is_saved_and_loaded(segment_length, tmp_path):
    model = fit(segment_length)
    model.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    assert loaded.segment_length == loaded.network_.segment_length == segment_length
    np.testing.assert_array_equal(loaded.predict_proba(FEATURES, graph=GRAPH), model.predict_proba())
    program = loaded.to_exported_program(GRAPH)
    exported = program.module()(features=torch.as_tensor(FEATURES).double())
    np.testing.assert_allclose(exported.detach().numpy(), model.predict_proba(), rtol=1e-9)


def test_a_run_folder_from_before_segments_is_read(tmp_path):
    model = fit(None)
    settings = {name: value for name, value in model.fitted_.config["settings"].items() if name != "segment_length"}
    replace(model.fitted_, config={**model.fitted_.config, "settings": settings}).save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    assert loaded.segment_length is None
    np.testing.assert_array_equal(loaded.predict_proba(FEATURES, graph=GRAPH), model.predict_proba())


@pytest.mark.parametrize(("wrong", "message"), [(0, "at least 1, got 0."), (2.5, "a whole number, got 2.5.")])
def test_wrong_lengths_are_refused_before_the_training(wrong, message):
    with pytest.raises(InputError, match=f"^Expected segment_length to be {message}$"):
        fit(wrong)
