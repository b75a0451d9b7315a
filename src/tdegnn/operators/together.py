"""Several terms together: `s(F) = sum_i s_i(F)`, such as walks on a given graph and on a learned one.

Each term has its own weights, and its own context from layer to layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from tdegnn.core.integrator import call_operator
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError
from tdegnn.graph import Graph, State
from tdegnn.parts import reset_parts


class TogetherOperator(SpatialOperator):
    """The sum of the rates of several operators, `s(F) = sum_i s_i(F)`.

    Args:
        terms: The operators, at least one. None of them takes past features.
    """

    equation = "s_1(F) + s_2(F) + ..."
    citation = "A sum of other terms"

    def __init__(self, terms: Sequence[SpatialOperator]) -> None:
        super().__init__()
        if not terms:
            raise InputError("Expected at least one term, got none.")
        for term in terms:
            if term.takes_past_features:
                raise InputError(f"Expected terms that need no past features, got {type(term).__name__}.")
        self.terms = nn.ModuleList(terms)
        reaches = [term.reach for term in terms]
        self.reach = None if None in reaches else max(reach for reach in reaches if reach is not None)
        self.is_bound_to_nodes = any(term.is_bound_to_nodes for term in terms)  # type: ignore[misc] # by its terms

    def reset_parameters(self) -> None:
        """Draw all weights anew, term by term."""
        reset_parts(*self.terms)

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, tuple[Any, ...]]:
        """Return the sum of the rates, and the context of each term."""
        before = (None,) * len(self.terms) if context is None else context
        answers = [call_operator(term, state, graph, layer, own) for term, own in zip(self.terms, before, strict=True)]
        rate = answers[0][0]
        for other, _ in answers[1:]:
            rate = rate + other
        return rate, tuple(own for _, own in answers)
