"""The naive forecast, `F[l+1] = F[l]`: what every model has to beat."""

from __future__ import annotations

from torch import nn

from tdegnn.core.combination import History
from tdegnn.graph import Graph, State


class NaivePredictor(nn.Module):
    """Predict that nothing changes."""

    order = 1

    def forward(self, history: History, graph: Graph) -> State:  # noqa: ARG002
        """Return the newest state."""
        return history[0]
