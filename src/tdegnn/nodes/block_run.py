"""What a network that was trained in batches returns for all nodes: in blocks, or at once if there are few."""

from __future__ import annotations

import torch

from tdegnn.data.nodes import NodeDataset
from tdegnn.nets.in_blocks import BlockRun, cut_into_blocks, run_in_blocks
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.training.devices import Placement
from tdegnn.training.node_rows import NodeRows
from tdegnn.training.node_training import as_input


def run_network(network: StationaryNetwork, nodes: NodeDataset, placement: Placement) -> BlockRun:
    """Return the outputs of a network in evaluation mode, and its states.

    Args:
        network: The network, on the device.
        nodes: The nodes, prepared.
        placement: Where to compute.
    """
    blocks = cut_into_blocks(nodes.graph)
    if len(blocks) > 1:
        return run_in_blocks(network, NodeRows(nodes.features, placement).take, nodes.graph, blocks)
    inputs = as_input(nodes, placement), nodes.graph
    with torch.no_grad():
        return BlockRun(network(*inputs), network.integrate(*inputs))
