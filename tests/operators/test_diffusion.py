"""Diffusion, in all its forms, as its equation is written."""

import torch

from tests.core.checkers import CHANNELS
from tests.dense_matrices import scaled

STEP_SIZE = 0.3


def laplacian(received, state):
    """`L F = F - P F`; the row of a node that receives nothing is zero."""
    receives = (received.sum(dim=1, keepdim=True) > 0).double()
    return receives * state - scaled(received) @ state


def diffusion(operator, received, first, state, layer):
    return torch.relu((state - STEP_SIZE * laplacian(received, state)) @ operator.weight[layer])


def near_identity(operator, received, first, state, layer):
    map_of_layer = torch.eye(CHANNELS, dtype=torch.float64) + operator.weight[layer]
    return torch.relu((state - STEP_SIZE * laplacian(received, state)) @ map_of_layer)


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
