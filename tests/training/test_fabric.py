import pytest
import torch
from torch import nn

from tdegnn import NodeClassifier
from tdegnn.training.fabric import make_fabric, place, weight_type
from tdegnn.training.fit import ClosureTrainee, fit
from tdegnn.training.node_training import NodeTraining
from tests.node_datasets import make_dataset
from tests.training.test_members import FAST, make_network

TYPES = {"32-true": torch.float32, "64-true": torch.float64}


@pytest.mark.parametrize(("precision", "dtype"), TYPES.items())
def test_weights_have_the_numbers_that_were_asked_for(precision, dtype, device):
    fabric = make_fabric(device.type, precision)
    assert fabric.device.type == device.type
    assert weight_type(fabric) is dtype
    training = NodeTraining(
        [make_network("attention", seed) for seed in (0, 1)], [FAST] * 2, make_dataset(), [0, 1], fabric
    )
    fit(training, num_steps=6, validate_every=3)
    assert training.members.weights.dtype is dtype
    assert training.members.weights.device.type == device.type
    assert training.last_losses().dtype is dtype


def test_more_digits_are_computed_with_and_not_only_kept():
    """Two trainings that differ in the order of sums alone: in 64 bits they agree to more digits."""
    gaps = {}
    for precision in TYPES:
        fabric, networks = make_fabric("cpu", precision), [make_network("direct", seed) for seed in (0, 1)]
        together = NodeTraining(networks, [FAST] * 2, make_dataset(), [0, 1], fabric)
        alone = NodeTraining(networks[:1], [FAST], make_dataset(), [0], fabric)
        for training in (together, alone):
            fit(training, num_steps=6)
        gaps[precision] = float((together.members.weights[0] - alone.members.weights[0]).abs().max())
    assert gaps["64-true"] < 1e-12
    assert gaps["64-true"] < gaps["32-true"]


def test_settings_kept_in_64_bits_stay_so():
    network = place(make_network("direct", 0), make_fabric("cpu"))
    assert network.step_size.dtype is torch.float64
    assert network.embedding.weight.dtype is torch.float32


def test_a_saved_classifier_keeps_all_digits(tmp_path):
    model = NodeClassifier(num_layers=2, order=2, hidden_channels=4, num_steps=6, precision="64-true", device="cpu")
    model.fit(make_dataset(), run=tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    assert loaded.precision == "64-true"
    assert torch.equal(loaded.network_.embedding.weight, model.network_.embedding.weight)
    assert loaded.network_.embedding.weight.dtype is torch.float64


def test_a_closure_is_descended_by_the_fabric():
    """The backward pass goes through it: that is where gradients of several processes will meet."""
    model, calls = nn.Linear(1, 1), []
    fabric = make_fabric("cpu")
    backward = fabric.backward
    fabric.backward = lambda loss: (calls.append(1), backward(loss))
    loss = lambda: model(torch.ones(3, 1)).square().mean()  # noqa: E731
    fit(ClosureTrainee(model, loss, loss, torch.optim.SGD(model.parameters(), lr=0.1), fabric=fabric), num_steps=4)
    assert len(calls) == 4
    assert float(loss().detach()) < 1e-2
