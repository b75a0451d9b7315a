"""Diffusion, in all its forms, as its equation is written."""

import pytest
import torch

from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Part
from tests.core.checkers import CHANNELS, check_equation
from tests.dense_matrices import batch_norm, scaled

STEP_SIZE = 0.3


def laplacian(received, state):
    """`L F = F - P F`; the row of a node that receives nothing is zero."""
    receives = (received.sum(dim=1, keepdim=True) > 0).double()
    return receives * state - scaled(received) @ state


def activate(operator, mixed, layer):
    return torch.relu(batch_norm(operator.norms[layer], mixed) if operator.norms else mixed)


def diffusion(operator, received, first, state, layer):
    mixed = (state - STEP_SIZE * laplacian(received, state)) @ operator.weight[layer]
    return activate(operator, mixed, layer)


def near_identity(operator, received, first, state, layer):
    map_of_layer = torch.eye(CHANNELS, dtype=torch.float64) + operator.weight[layer]
    return activate(operator, (state - STEP_SIZE * laplacian(received, state)) @ map_of_layer, layer)


def hidden_diffusion(operator, received, first, state, layer):
    own = state @ operator.state_map.weight.T + operator.state_map.bias
    return torch.relu(own - laplacian(received, state) @ operator.difference_map.weight.T) @ operator.readout.weight.T


def past_diffusion(operator, received, first, state, layer):
    # What `context_like` of the checkers passes to layer 0.
    past, time = first.cos(), first.sin()
    for number in range(layer):
        past = torch.relu(operator.updates[number](torch.cat([past, state, time], dim=1)))
    diffused = (state - STEP_SIZE * laplacian(received, state)) @ operator.state_maps[layer].weight.T
    return torch.relu(diffused + past @ operator.past_maps[layer].weight.T + operator.past_maps[layer].bias)


DENSE = {
    "diffusion": diffusion,
    "near-identity": near_identity,
    "hidden-diffusion": hidden_diffusion,
    "past-diffusion": past_diffusion,
}


@pytest.mark.parametrize("name", ["diffusion", "near-identity"])
def test_with_batch_norm_it_is_its_equation_too(name):
    """As in the recipes, and in training too: see `check_equation`."""
    part = Part(name, batch_norm=True)
    check_equation(lambda: OPERATORS.make(part, channels=CHANNELS, num_layers=2, step_size=STEP_SIZE), DENSE[name])


def test_the_checker_sees_statistics_of_the_wrong_mode():
    def as_in_use(operator, received, first, state, layer):
        operator.norms.eval()
        rate = diffusion(operator, received, first, state, layer)
        operator.norms.train(operator.training)
        return rate

    part = Part("diffusion", batch_norm=True)
    with pytest.raises(AssertionError, match="not close"):
        check_equation(lambda: OPERATORS.make(part, channels=CHANNELS, num_layers=2, step_size=STEP_SIZE), as_in_use)
