"""Bytes: how many the equations must move, and how many a training step keeps, term by term.

A count of traffic is what remains if nothing is read twice: each operand is read once and each result written once. A
gathered row counts once per message. A cache that holds the states makes these cheaper, so that shares above one are
possible on small graphs. Below, `N` is the number of nodes, `k` of channels, `o` the order, `L` the number of layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tdegnn.sparse import SparseMatrix


@dataclass(frozen=True)
class Sizes:
    """The sizes of a network in training.

    Attributes:
        num_nodes: N.
        channels: k.
        num_layers: L.
        order: o, the number of states in the history.
        is_attending: Whether c comes from attention.
        itemsize: Bytes of a number.
    """

    num_nodes: int
    channels: int
    num_layers: int
    order: int
    is_attending: bool = False
    itemsize: int = torch.float32.itemsize

    @property
    def state(self) -> int:
        """Bytes of one state, `N k` numbers."""
        return self.num_nodes * self.channels * self.itemsize


def product_bytes(matrix: SparseMatrix, channels: int, message_type: torch.dtype | None = None) -> int:
    """Return the traffic of `Y = A X`: starts of rows, columns and values of A, a row of X per entry, the rows of Y.

    If messages have a type of their own, X is read and written once more, to round it.
    """
    indices = num_bytes(matrix.row_pointers) + num_bytes(matrix.columns)
    row = channels * matrix.values.itemsize
    message = row if message_type is None else channels * message_type.itemsize
    rounding = 0 if message_type is None else matrix.shape[1] * (row + message)
    gathered = matrix.columns.numel() * message
    return indices + num_bytes(matrix.values) + rounding + gathered + matrix.shape[0] * row


def sum_bytes(sizes: Sizes) -> tuple[int, int]:
    """Return the traffic of `sum_p c_p F[l-p+1]`, forward and backward.

    Forward reads o states and writes one. Backward reads the gradient, and the o states for the gradient of c, and
    writes o gradients.
    """
    return (sizes.order + 1) * sizes.state, (2 * sizes.order + 1) * sizes.state


def attention_bytes(sizes: Sizes) -> tuple[int, int]:
    """Return the traffic of the sum whose c is attention, forward and backward.

    Scores are sums over all nodes, and c divides them by their sum. So forward reads the o states twice, for the scores
    and for the sum, and writes one. Backward reads the gradient and the o states for the gradient of c, then both again
    for those of the states, and writes o gradients.
    """
    return (2 * sizes.order + 1) * sizes.state, (3 * sizes.order + 2) * sizes.state


def map_bytes(sizes: Sizes) -> tuple[int, int]:
    """Return the traffic of `F W`, forward and backward. W is small.

    Forward reads a state and writes one. Backward reads state and gradient, and writes a gradient.
    """
    return 2 * sizes.state, 3 * sizes.state


def step_bytes(matrix: SparseMatrix, sizes: Sizes, message_type: torch.dtype | None = None) -> int:
    """Return the least traffic of a training step: that of product, sum and map in each layer, forward and backward.

    Everything else (relu, h, additions) could happen on the way. Embedding and readout are left out.
    """
    over_history = attention_bytes(sizes) if sizes.is_attending else sum_bytes(sizes)
    product = product_bytes(matrix, sizes.channels, message_type)
    return sizes.num_layers * (2 * product + sum(over_history) + sum(map_bytes(sizes)))


def graph_bytes(matrix: SparseMatrix) -> int:
    """Return the bytes of a matrix and its transpose. What the halves of a symmetric one share counts once."""
    tensors = {tensor.data_ptr(): tensor for tensor in vars(matrix).values() if isinstance(tensor, Tensor)}
    return sum(map(num_bytes, tensors.values()))


def memory_terms(matrix: SparseMatrix, sizes: Sizes, num_features: int, num_weights: int) -> dict[str, int]:
    """Return the bytes that a training step without dropout keeps at its peak, term by term.

    States are the o initial ones and that of each layer. Saved beside them are, per layer, the input and the output of
    the map (and the query of an attention), and the embedding if the initial states are maps of it. Gradients in flight
    are at most those of the history and two more. Adam keeps two moments per weight.
    """
    saved = (2 + sizes.is_attending) * sizes.num_layers + (sizes.order > 1)
    return {
        "features": sizes.num_nodes * num_features * sizes.itemsize,
        "graph": graph_bytes(matrix),
        "states": (sizes.order + sizes.num_layers) * sizes.state,
        "saved for backward": saved * sizes.state,
        "gradients in flight": (sizes.order + 2) * sizes.state,
        "weights, their gradients and Adam": 4 * num_weights * sizes.itemsize,
    }


def num_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor."""
    return tensor.numel() * tensor.itemsize
