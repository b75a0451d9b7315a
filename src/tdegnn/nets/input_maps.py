"""Input maps, from features to the embedding: a linear map, with relu as in the paper or without, or several layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import InputError, check_count
from tdegnn.nets.node_network import Features, apply_linear
from tdegnn.nets.node_parts import Drop, InputMap, keep_all
from tdegnn.nets.stationary import LinearInput
from tdegnn.parts import Family, reset_parts
from tdegnn.sparse import SparseMatrix
from tdegnn.training_nodes import TrainingNodes

MOST_LAYERS = 3


class AffineInput(LinearInput):
    """The embedding `X W + b`, without relu, as in GRAND, GREAD and GRAFF.

    Args:
        num_features: Features of a node.
        channels: Channels of the embedding.
    """

    def forward(self, features: Features) -> Float[Tensor, "nodes channels"]:
        """Return the embedding."""
        return apply_linear(self, features)


class PerceptronInput(InputMap):
    """`X <- norm(relu(X W + b))`, one to three times.

    The norm comes after relu, as in OrderedGNN. There is no dropout between the layers.

    Args:
        num_features: Features of a node.
        channels: Channels of each layer.
        num_layers: Number of layers, 1 to 3. Default: 2.
        layer_norm: Whether each layer ends with a layer norm. Default: False.
    """

    def __init__(self, num_features: int, channels: int, *, num_layers: int = 2, layer_norm: bool = False) -> None:
        super().__init__()
        check_count(num_layers=num_layers)
        if num_layers > MOST_LAYERS:
            raise InputError(f"Expected an input map of 1 to {MOST_LAYERS} layers, got {num_layers}.")
        sizes = [num_features, *[channels] * (num_layers - 1)]
        self.linears = nn.ModuleList(nn.Linear(size, channels) for size in sizes)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) if layer_norm else nn.Identity() for _ in sizes)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        reset_parts(*self.linears, *self.norms)

    def forward(self, features: SparseMatrix | Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes channels"]:
        """Return the embedding."""
        layers: Sequence[tuple[nn.Module, nn.Module]] = list(zip(self.linears, self.norms, strict=True))
        state: SparseMatrix | Tensor = features
        for linear, norm in layers:
            assert isinstance(linear, nn.Linear)
            state = norm(torch.relu(apply_linear(linear, state)))
        assert isinstance(state, Tensor)  # there is at least one layer
        return state


class EluInput(AffineInput):
    """The embedding `elu(X W + b) W' + b'`, as in neural sheaf diffusion.

    Args:
        num_features: Features of a node.
        channels: Channels of both layers.
    """

    def __init__(self, num_features: int, channels: int) -> None:
        super().__init__(num_features, channels)
        self.second = nn.Linear(channels, channels)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        super().reset_parameters()
        reset_parts(getattr(self, "second", None))  # torch calls this before the second layer is there

    def forward(self, features: Features) -> Float[Tensor, "nodes channels"]:
        """Return the embedding."""
        embedded: Tensor = self.second(nn.functional.elu(super().forward(features)))
        return embedded


class ResidualInput(AffineInput):
    """The embedding `Y = X W + b`, then twice `Y <- Y + relu(Y) W' + b'`, as in GREAD on some datasets.

    Args:
        num_features: Features of a node.
        channels: Channels of each layer.
        dropped: Whether Y is dropped in training after each layer, the first one included, at the rate of the readout,
            as released. Default: False.
    """

    def __init__(self, num_features: int, channels: int, *, dropped: bool = False) -> None:
        super().__init__(num_features, channels)
        self.dropped = dropped
        self.residuals = nn.ModuleList(nn.Linear(channels, channels) for _ in range(2))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        super().reset_parameters()
        reset_parts(*getattr(self, "residuals", ()))  # torch calls this before these are there

    def forward(self, features: Features, drop: Drop = keep_all) -> Float[Tensor, "nodes channels"]:
        """Return the embedding."""
        embedded = drop(super().forward(features))
        for residual in self.residuals:
            embedded = drop(embedded + residual(torch.relu(embedded)))
        return embedded

    def embed(self, features: Features, drop: Drop) -> Float[Tensor, "nodes channels"]:
        """Return the embedding, with dropout between the layers if it was asked for."""
        embedded: Tensor = self(features, drop if self.dropped else keep_all)
        return embedded


class UnitColumnsInput(AffineInput):
    """The embedding `X D W + b`, where D scales each feature to unit length over all nodes, as in FLODE.

    Features that many nodes have then count less. A feature whose length is below one stays as it is. Without nodes to
    see (`see_training_nodes` was not called), D is the identity.

    Args:
        num_features: Features of a node.
        channels: Channels of the embedding.
    """

    column_scale: Tensor

    def __init__(self, num_features: int, channels: int) -> None:
        super().__init__(num_features, channels)
        self.register_buffer("column_scale", torch.ones(num_features))

    def see_training_nodes(self, nodes: TrainingNodes) -> None:
        """Keep the scale of each feature. It uses the features of all nodes, and no target."""
        squares = scipy.sparse.csr_array(nodes.features).power(2).sum(axis=0)
        self.column_scale.copy_(torch.as_tensor(1.0 / np.sqrt(np.maximum(squares, 1.0))))

    def forward(self, features: Features) -> Float[Tensor, "nodes channels"]:
        """Return the embedding."""
        # W is scaled rather than X: it is smaller, and X may be sparse.
        product: Tensor = features @ (self.weight * self.column_scale).T
        return product + self.bias


INPUT_MAPS = Family(
    "input_map",
    InputMap,
    {
        "linear": LinearInput,
        "affine": AffineInput,
        "perceptron": PerceptronInput,
        "elu": EluInput,
        "residual": ResidualInput,
        "unit-columns": UnitColumnsInput,
    },
)
