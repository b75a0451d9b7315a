"""Base class of all networks for nodes, ours and rivals: `network(features, graph) -> scores`, checks and dropout.

Rates, seed and step of the dropout are buffers, so that networks that differ in them can be trained as one batch. The
masks depend on them alone: a forward pass draws nothing. Each pass in training mode increases the step, and so has
other masks. The file of each network documents where it drops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import InputError, check_count, check_finite
from tdegnn.graph import Graph
from tdegnn.nets.dropout import DropoutStream, PassDropout
from tdegnn.sparse import SparseMatrix
from tdegnn.training_nodes import SeesTrainingNodes, TrainingNodes

Features: TypeAlias = SparseMatrix | Float[Tensor, "nodes features"]


class NodeNetwork(nn.Module, ABC):
    """Node features to scores.

    Args:
        num_features: Features of a node.
        num_outputs: Outputs per node: classes, or targets of a regression.
        hidden_channels: Channels of a state.
        num_layers: Number of layers.
        outer_dropout: Fraction of the input that is dropped in training.
        hidden_dropout: Fraction of the states that is dropped in training.
        seed: Seed of the dropout.
        readout_dropout: Fraction of the input of the readout that is dropped in training. If None, `outer_dropout`.
    """

    outer_dropout: Tensor
    hidden_dropout: Tensor
    readout_dropout: Tensor | None
    seed: Tensor
    step: Tensor

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        hidden_channels: int,
        num_layers: int,
        outer_dropout: float,
        hidden_dropout: float,
        seed: int,
        readout_dropout: float | None = None,
    ) -> None:
        super().__init__()
        check_count(num_features=num_features, num_outputs=num_outputs)
        check_count(hidden_channels=hidden_channels, num_layers=num_layers)
        self.num_features, self.num_outputs = num_features, num_outputs
        self.hidden_channels, self.num_layers = hidden_channels, num_layers
        rates = dict(outer_dropout=outer_dropout, hidden_dropout=hidden_dropout)
        if readout_dropout is None:
            # No buffer: run folders of earlier versions have none.
            self.register_buffer("readout_dropout", None)
        else:
            rates["readout_dropout"] = readout_dropout
        for name, rate in rates.items():
            check_finite(**{name: rate})
            if not 0.0 <= rate < 1.0:
                raise InputError(f"Expected {name} to be at least 0 and below 1, got {rate}.")
            self._register_setting(name, rate)
        self.register_buffer("seed", torch.tensor(seed, dtype=torch.int64), persistent=False)
        self.register_buffer("step", torch.tensor(0, dtype=torch.int64), persistent=False)

    def _register_setting(self, name: str, number: float) -> None:
        """Keep a number as a buffer, so that networks trained together may differ in it."""
        self.register_buffer(name, torch.tensor(number, dtype=torch.float64), persistent=False)

    @property
    def _state_sizes(self) -> Sequence[int]:
        """Channels before the first layer, between layers, and after the last."""
        return [self.num_features, *[self.hidden_channels] * (self.num_layers - 1), self.num_outputs]

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for module in self.modules():
            if module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()  # type: ignore[operator]

    @property
    def sees_training_nodes(self) -> bool:
        """Whether the network, or a part of it, wants to see the nodes before training."""
        is_own = type(self).see_training_nodes is not NodeNetwork.see_training_nodes
        return is_own or bool(self._seeing_parts())

    def see_training_nodes(self, nodes: TrainingNodes) -> None:
        """Show the nodes to every part that wants to see them (`SeesTrainingNodes`), once the weights are drawn."""
        for part in self._seeing_parts():
            part.see_training_nodes(nodes)

    def _seeing_parts(self) -> list[SeesTrainingNodes]:
        parts = (module for module in self.modules() if module is not self)
        return [part for part in parts if isinstance(part, SeesTrainingNodes)]

    @abstractmethod
    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""

    def _start(self, features: Features, graph: Graph) -> PassDropout:
        """Check the input and return the dropout of this pass."""
        self._check_features(features, graph)
        stream = None
        if self.training:
            self.step += 1  # for other masks than in the pass before
            stream = DropoutStream(self.seed, self.step)
        return PassDropout(stream, self.outer_dropout, self.hidden_dropout, self.readout_dropout)

    def _check_features(self, features: Features, graph: Graph) -> None:
        if not isinstance(features, Tensor | SparseMatrix):
            raise InputError(
                f"Expected features to be a tensor or a SparseMatrix, got {type(features).__name__}. "
                "Use torch.as_tensor, or SparseMatrix.from_scipy."
            )
        expected = (graph.num_nodes, self.num_features)
        if tuple(features.shape) != expected:
            raise InputError(
                f"Expected features of shape {expected}, nodes of the graph and features of the network, "
                f"got {tuple(features.shape)}."
            )
        dtype = next(self.parameters()).dtype
        if features.dtype != dtype:
            raise InputError(
                f"Expected features in {dtype}, as the weights are, got {features.dtype}. Convert one of them."
            )

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        sizes = f"features={self.num_features}, outputs={self.num_outputs}, hidden_channels={self.hidden_channels}"
        rates = f"outer_dropout={float(self.outer_dropout):g}, hidden_dropout={float(self.hidden_dropout):g}"
        return f"{sizes}, num_layers={self.num_layers}, {rates}"


def apply_linear(linear: nn.Linear, features: SparseMatrix | Tensor) -> Float[Tensor, "nodes channels"]:
    """Return `X W^T + b`. Sparse features are multiplied as sparse ones."""
    product: Tensor = features @ linear.weight.T
    return product + linear.bias
