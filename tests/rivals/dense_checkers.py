"""The check of a rival for nodes against a dense, slow transcription of its equation."""

from collections.abc import Callable
from typing import Any

import torch

from tests.core.checkers import NUM_NODES
from tests.rivals import checkers
from tests.rivals.checkers import make

# Computes scores as the equation is written: `(network, received, features) -> scores`, where `received` is A'.
Transcription = Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]


def check_equation(build, dense: Transcription, **settings) -> None:
    """Scores and gradients must equal those of the transcription: directed, weighted edges, an isolated node."""
    checkers.check_equation(lambda: make(build, num_nodes=NUM_NODES, **settings), dense)


def with_loops(received: torch.Tensor) -> torch.Tensor:
    """A' with a loop of weight one at each node that has none."""
    return received + torch.diag((received.diagonal() == 0).double())


def scaled_by_rows(matrix: torch.Tensor) -> torch.Tensor:
    """`D^-1/2 A D^-1/2`, with the row sums on both sides; an empty row has D = 1."""
    sums = matrix.sum(dim=1)
    scales = torch.where(sums > 0, sums, 1.0) ** -0.5
    return scales[:, None] * matrix * scales[None, :]
