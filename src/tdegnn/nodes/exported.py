"""A fitted node estimator as one function of features, for `tdegnn.export`: scaling, network, and units or classes."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import InputError
from tdegnn.export import export_program
from tdegnn.graph import Graph
from tdegnn.nodes.fitted import FittedNodes
from tdegnn.nodes.inputs import as_node_input

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def export_nodes(fitted: FittedNodes, graph: Any) -> ExportedProgram:
    """Return the program of a trained network.

    Args:
        fitted: The trained network.
        graph: The graph, in any form. If None, that of the training.
    """
    features = np.zeros((int(fitted.config["data"]["nodes"]), fitted.num_features))
    if graph is not None:
        nodes = as_node_input(features, graph, fitted.config["settings"]["direction"]).nodes
    elif fitted.nodes is not None:
        nodes = replace(fitted.nodes, features=features)
    else:
        raise InputError("Expected a graph to export, got none. A loaded estimator has no data: pass graph=.")
    function = NodeFunction(fitted, fitted.settings.prepare(nodes).graph)
    return export_program(function, {"features": torch.as_tensor(features)})


class NodeFunction(nn.Module):
    """From the features of all nodes, in float64, to probabilities of classes or to numbers.

    Args:
        fitted: The trained network.
        graph: The graph of the nodes, as the network sees it.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, fitted: FittedNodes, graph: Graph) -> None:
        super().__init__()
        self._check(fitted)
        self.network, self._graph = deepcopy(fitted.network).to("cpu").requires_grad_(False), graph
        self._precision = next(fitted.network.parameters()).dtype
        scaling, learned = fitted.scaling, fitted.learned
        ones = np.ones(fitted.num_features)
        self.register_buffer("center", torch.as_tensor(0 * ones if scaling is None else scaling.center))
        self.register_buffer("scale", torch.as_tensor(ones if scaling is None else scaling.scale))
        self._numbers = None
        if "scale" in learned:
            self._numbers = torch.tensor(learned["center"]).double(), torch.tensor(learned["scale"]).double()

    def forward(self, features: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes outputs"]:
        """Return what the estimator predicts for the nodes."""
        scaled = ((features - self.center) / self.scale).to(self._precision)
        outputs: Tensor = self.network(scaled, self._graph).double()
        if self._numbers is None:
            return torch.softmax(outputs, dim=-1)
        center, scale = self._numbers
        return outputs * scale + center

    @staticmethod
    def _check(fitted: FittedNodes) -> None:
        for name in ("adjacency_features", "normalized_features"):
            if getattr(fitted.settings, name):
                raise InputError(f"Expected a network of plain features to export, got one with {name}. Train without.")
