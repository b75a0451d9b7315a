"""GRAND++: GRAND with a source on training nodes, `s(F; G) = sg(a) (G_0 F - F) + b F_0 + m (F_0 - mean_m F_0)`.

Thorpe et al. (2022), GRAND++: Graph Neural Diffusion with a Source Term. m is 1 for training nodes and 0 for others;
the mean is over training nodes. Which nodes these are is kept with the weights. As released, the source is added to the
first state instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from tdegnn.errors import check_choice, check_count, check_finite, check_fits, check_num_nodes
from tdegnn.graph import Graph, State
from tdegnn.operators.grand import GrandOperator
from tdegnn.operators.mixing_operator import FirstState
from tdegnn.training_nodes import TrainingNodes


class FirstSource(NamedTuple):
    """The context of `GrandPlusPlusOperator`.

    Attributes:
        first: What linear GRAND keeps of layer 0.
        source: `m (F_0 - mean_m F_0)`. None if it was added to the first state.
    """

    first: FirstState
    source: State | None


class GrandPlusPlusOperator(GrandOperator):
    """Linear GRAND with a source on training nodes, `s = sg(a) (G_0 F - F) + b F_0 + m (F_0 - mean_m F_0)`.

    Without training nodes (`see_training_nodes` was not called) it is GRAND. Gradients pass through the source.

    Paper: GRAND plus a source on labeled nodes, their first state minus its mean. Deviation: the released
    version, which is inside the code of GREAD, adds this to the first state only, not to the rate: `source="start"`.
    All training nodes are sources. GRAND is as in `GrandOperator`.

    Args:
        channels: Channels of a state.
        num_nodes: Number of nodes of the graph.
        step_size: h.
        source: Where the source is added, to the `"rate"` of every layer (default), or to the first state, `"start"`.
            The rate of layer 0 is then `(source + h s(F_0 + source)) / h`, with s and G those of GRAND, so that with
            c = [1] the first step is one from `F_0 + source`.
        mixing: G, `"attention"` (default) or `"constant"`; with settings `{"name": ..., "settings": {...}}`.
        self_loops: Whether a node receives from itself too. Default: True, as released.
    """

    is_bound_to_nodes: ClassVar[bool] = True
    equation: ClassVar[str] = "sg(a) (G F - F) + b F0 + m (F0 - mean of F0 over m), m = training nodes, G as in GRAND"
    citation: ClassVar[str] = "Thorpe et al., 2022, GRAND++: Graph Neural Diffusion with a Source Term"
    is_training: Tensor
    step_size: Tensor

    def __init__(
        self,
        channels: int,
        num_nodes: int,
        step_size: float,
        *,
        mixing: str | Mapping[str, Any] = "attention",
        self_loops: bool = True,
        source: str = "rate",
    ) -> None:
        super().__init__(channels, mixing=mixing, self_loops=self_loops)
        check_count(num_nodes=num_nodes)
        check_finite(step_size=step_size)
        check_choice(("rate", "start"), source=source)
        self.num_nodes, self.source = num_nodes, source
        self.reach = None  # the source is relative to the mean over all training nodes
        self.register_buffer("step_size", torch.tensor(step_size, dtype=torch.float64), persistent=False)
        self.register_buffer("is_training", torch.zeros(num_nodes))

    def see_training_nodes(self, nodes: TrainingNodes) -> None:
        """Keep which nodes are trained on."""
        check_num_nodes(nodes.graph.num_nodes, self.num_nodes)
        self.is_training.copy_(torch.as_tensor(nodes.mask))

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return the rate of GRAND plus the source, and what is kept of layer 0."""
        check_num_nodes(graph.num_nodes, self.num_nodes)
        if context is not None:
            rate, _ = super().forward(state, graph, layer, context.first)
            return rate if context.source is None else rate + context.source, context
        source = self._source(state)
        if self.source == "rate":
            rate, first = super().forward(state, graph, layer)
            return rate + source, FirstSource(first, source)
        check_fits(state, self.raw_rate, self.channels)
        start = state + source
        first = FirstState(state.detach(), self.mixing.weigh(start, graph))
        rate, _ = super().forward(start, graph, layer, first)
        return rate + source / self.step_size.to(state.dtype), FirstSource(first, None)

    def _source(self, state: State) -> State:
        chosen = self.is_training.to(state.dtype)[:, None]
        mean = (chosen * state).sum(dim=-2, keepdim=True) / chosen.sum().clamp(min=1.0)
        return chosen * (state - mean)
