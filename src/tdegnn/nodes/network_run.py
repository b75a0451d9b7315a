"""What a trained network returns for all nodes: at once, or in blocks if it was trained in batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.data.nodes import NodeDataset
from tdegnn.nets.in_blocks import cut_into_blocks, run_in_blocks
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.training.devices import Placement, threads_for
from tdegnn.training.node_rows import NodeRows
from tdegnn.training.node_training import as_input


def compute_outputs(
    network: StationaryNetwork, nodes: NodeDataset, placement: Placement, batches: Any
) -> Float[np.ndarray, "nodes outputs"]:
    """Return the outputs of a network in evaluation mode.

    Args:
        network: The network, on the device.
        nodes: The nodes, prepared.
        placement: Where to compute.
        batches: How it was trained. If None, all nodes are computed at once, else in blocks if they are many.
    """
    with torch.no_grad(), threads_for(nodes.num_nodes * network.hidden_channels):
        blocks = [] if batches is None else cut_into_blocks(nodes.graph)
        if len(blocks) < 2:
            return _as_array(network(as_input(nodes, placement), nodes.graph))
        return _as_array(run_in_blocks(network, NodeRows(nodes.features, placement).take, nodes.graph, blocks).outputs)


def compute_coefficients(
    network: StationaryNetwork, nodes: NodeDataset, placement: Placement, batches: Any
) -> Float[np.ndarray, "layers order"]:
    """Return c of each layer. The arguments are those of `compute_outputs`."""
    with torch.no_grad(), threads_for(nodes.num_nodes * network.hidden_channels):
        blocks = [] if batches is None else cut_into_blocks(nodes.graph)
        if len(blocks) < 2:
            return _as_array(network.integrate(as_input(nodes, placement), nodes.graph).coefficients)
        run = run_in_blocks(network, NodeRows(nodes.features, placement).take, nodes.graph, blocks)
        return _as_array(run.integration.coefficients)


def _as_array(numbers: Tensor) -> Float[np.ndarray, "..."]:
    return np.asarray(numbers.double().cpu().numpy())
