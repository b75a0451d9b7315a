"""The check of a rival for nodes against a dense, slow transcription of its equation."""

from collections.abc import Callable
from typing import Any

import torch

from tests.core.checkers import NUM_NODES, weighted_graph
from tests.rivals.checkers import NUM_FEATURES, make

# Computes scores as the equation is written: `(network, received, features) -> scores`, where `received` is A'.
Transcription = Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]


def check_equation(build, dense: Transcription, **settings) -> None:
    """Scores and gradients must equal those of the transcription: directed, weighted edges, an isolated node."""
    network = make(build, num_nodes=NUM_NODES, **settings).eval()
    with torch.no_grad():  # some weights start at zero or alike, where a wrong term would not be seen
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    for direction in ("out", "in", "both"):
        graph = weighted_graph(direction)
        features = torch.randn(NUM_NODES, NUM_FEATURES, dtype=torch.float64, requires_grad=True)
        came = network(features, graph)
        wanted = dense(network, torch.as_tensor(graph.received.toarray()), features)
        torch.testing.assert_close(came, wanted, atol=1e-9, rtol=1e-9)
        inputs = [features, *network.parameters()]
        gradients = [torch.autograd.grad((scores.sin() * scores).sum(), inputs) for scores in (came, wanted)]
        for gradient, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(gradient, expected, atol=1e-9, rtol=1e-9)


def with_loops(received: torch.Tensor) -> torch.Tensor:
    """A' with a loop of weight one at each node that has none."""
    return received + torch.diag((received.diagonal() == 0).double())


def scaled_by_rows(matrix: torch.Tensor) -> torch.Tensor:
    """`D^-1/2 A D^-1/2`, with the row sums on both sides; an empty row has D = 1."""
    sums = matrix.sum(dim=1)
    scales = torch.where(sums > 0, sums, 1.0) ** -0.5
    return scales[:, None] * matrix * scales[None, :]
