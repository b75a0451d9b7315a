"""Features of nodes, some rows at a time, as networks take them. Those in a file are read when they are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.data.nodes import Features
from tdegnn.sparse import SparseMatrix
from tdegnn.subgraph import NodeNumbers
from tdegnn.training.devices import Placement

# Features of up to this many bytes are copied to the device once.
MOST_BYTES = 2**31


class NodeRows:
    """Features of nodes.

    Args:
        features: One row per node.
        placement: Where networks compute.
    """

    def __init__(self, features: Features, placement: Placement) -> None:
        self._features, self._placement = features, placement
        self._on_device: Tensor | None = None
        if isinstance(features, np.ndarray) and placement.device.type != "cpu":
            num_bytes = features.size * torch.empty((), dtype=placement.dtype).element_size()
            if num_bytes <= MOST_BYTES:
                self._on_device = torch.as_tensor(features, dtype=placement.dtype, device=placement.device)

    def take(self, nodes: NodeNumbers) -> SparseMatrix | Float[Tensor, "nodes features"]:
        """Return the features of some nodes, on the device and in the precision of the networks."""
        device, dtype = self._placement.device, self._placement.dtype
        if self._on_device is not None:
            return self._on_device[torch.as_tensor(nodes, device=device)]
        rows: Any = self._features[nodes]
        if scipy.sparse.issparse(rows):
            return SparseMatrix.from_scipy(rows).to(device, dtype)
        return torch.as_tensor(rows, dtype=dtype, device=device)
