"""Graphs that change over time: which of a few graphs holds at each step of a series.

Graphs with the same edges are one object, so that their matrices are made once. `edge_times.py` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tdegnn.errors import InputError
from tdegnn.graph import Graph


@dataclass(frozen=True, eq=False)
class GraphSteps:
    """The graph of each step, or of each window, which is that of its last observed step.

    Attributes:
        graphs: Different graphs of the same nodes, all with weights or all without.
        numbers: For each step, the place of its graph in `graphs`.
    """

    graphs: tuple[Graph, ...]
    numbers: Int[np.ndarray, " steps"]

    @classmethod
    def of(cls, by_step: Sequence[Graph]) -> GraphSteps:
        """Return the graphs of steps, in their order. Equal ones become one object."""
        places: dict[bytes, int] = {}
        graphs: list[Graph] = []
        known: dict[int, int] = {}
        for graph in by_step:
            if id(graph) not in known:
                key = _content(graph)
                if key not in places:
                    places[key] = len(graphs)
                    graphs.append(graph)
                known[id(graph)] = places[key]
        first = graphs[0]
        for graph in graphs:
            if (graph.is_weighted, graph.direction) != (first.is_weighted, first.direction):
                raise InputError(
                    "Expected weights of edges at all steps or at none, and one direction, got graphs that differ in "
                    "that. Write weights everywhere."
                )
        return cls(tuple(graphs), np.array([known[id(graph)] for graph in by_step], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, steps: slice | Int[np.ndarray, " chosen"]) -> GraphSteps:
        """Return the graphs of some steps."""
        return GraphSteps(self.graphs, self.numbers[steps])

    @property
    def newest(self) -> Graph:
        """The graph of the last step."""
        return self.graphs[int(self.numbers[-1])]

    @property
    def is_constant(self) -> bool:
        """Whether one graph holds at all steps."""
        return bool((self.numbers == self.numbers[0]).all())

    @property
    def num_changes(self) -> int:
        """Number of steps whose graph is not that of the step before."""
        return int(np.count_nonzero(np.diff(self.numbers)))

    @property
    def has_edges(self) -> bool:
        """Whether there is an edge at any step."""
        return any(self.graphs[number].num_edges for number in np.unique(self.numbers))

    def longer(self, num_steps: int) -> GraphSteps:
        """Return the graphs with more steps at the end, at which the last graph still holds."""
        return GraphSteps(self.graphs, np.concatenate([self.numbers, np.full(num_steps, self.numbers[-1])]))

    def runs(self) -> Iterator[range]:
        """Yield steps in a row that have one graph, in their order."""
        starts = [0, *(np.flatnonzero(np.diff(self.numbers)) + 1).tolist(), len(self)]
        yield from (range(*ends) for ends in pairwise(starts))

    def groups(self, chosen: Int[Tensor, " batch"] | slice) -> list[tuple[Graph, Int[Tensor, " group"]]]:
        """Return the graphs of some steps, and the places among these that each of them has."""
        numbers = self.numbers[chosen.cpu().numpy() if isinstance(chosen, Tensor) else chosen]
        return [
            (self.graphs[number], torch.from_numpy(np.flatnonzero(numbers == number))) for number in np.unique(numbers)
        ]

    def compact(self) -> GraphSteps:
        """Return the same without graphs that no step has."""
        used, numbers = np.unique(self.numbers, return_inverse=True)
        return GraphSteps(tuple(self.graphs[number] for number in used), numbers.reshape(-1))

    def equals(self, other: GraphSteps) -> bool:
        """Return whether the same graphs hold at the same steps."""
        return len(self) == len(other) and all(
            self.graphs[own].equals(other.graphs[others])
            for own, others in {*zip(self.numbers.tolist(), other.numbers.tolist(), strict=True)}
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return all edges side by side, with their weights, the number of edges per graph, and the graph per step."""
        own = self.compact()
        return {
            "edges": np.concatenate([graph.edge_index.numpy() for graph in own.graphs], axis=1),
            "edge_weights": np.concatenate([graph.edge_weight.numpy() for graph in own.graphs]),
            "edge_counts": np.array([graph.num_edges for graph in own.graphs], dtype=np.int64),
            "graph_numbers": own.numbers.astype(np.int64),
        }


def _content(graph: Graph) -> bytes:
    weights = graph.edge_weight.numpy().tobytes() if graph.is_weighted else b""
    return graph.edge_index.numpy().tobytes() + b"|" + weights
