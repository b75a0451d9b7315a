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
