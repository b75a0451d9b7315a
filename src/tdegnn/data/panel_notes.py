"""What a careful colleague would mention about a table that can be used: missing values, constant or lonely nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from tdegnn.graph import Graph

MOST_NAMES = 3


def notice_values(values: Float[np.ndarray, "time nodes channels"], nodes: Sequence[str]) -> tuple[str, ...]:
    """Lines about the values of a panel."""
    observed = ~np.isnan(values)
    is_empty = ~observed.any(axis=(0, 2))
    notes = []
    if not observed.all():
        num_missing = int(np.count_nonzero(~observed))
        share = f"{num_missing / observed.size:.1%}"
        # Few of many would be rounded away.
        amount = share if share != "0.0%" else f"{num_missing} of {observed.size:,}"
        notes.append(f"{amount} of the values are missing.")
    if is_empty.any():
        notes.append(f"Nothing was ever observed at {_name(nodes, is_empty)}.")
    # The first channel is the one that is forecast. A node seen once is not called constant.
    first = values[..., 0]
    lowest = np.min(first, axis=0, initial=np.inf, where=observed[..., 0])
    highest = np.max(first, axis=0, initial=-np.inf, where=observed[..., 0])
    is_constant = (lowest == highest) & (observed[..., 0].sum(axis=0) > 1)
    if is_constant.any():
        notes.append(f"The value never changes at {_name(nodes, is_constant)}.")
    if len(nodes) == 1:
        notes.append("There is one node only: a graph can tell nothing here.")
    return tuple(notes)


def notice_graph(graph: Graph, nodes: Sequence[str]) -> tuple[str, ...]:
    """Lines about the graph of a panel."""
    if graph.num_edges == 0:
        return ("The graph has no edges.",)
    is_linked = np.zeros(len(nodes), dtype=bool)
    is_linked[graph.edge_index.numpy().ravel()] = True
    if is_linked.all():
        return ()
    return (f"No edge touches {_name(nodes, ~is_linked)}.",)


def _name(nodes: Sequence[str], is_meant: Bool[np.ndarray, " nodes"]) -> str:
    """`3 of 20 nodes: 'A', 'B', 'C'`, or fewer names and an ellipsis."""
    names = [repr(nodes[position]) for position in np.flatnonzero(is_meant).tolist()]
    more = ", ..." if len(names) > MOST_NAMES else ""
    return f"{len(names)} of {len(nodes)} nodes: {', '.join(names[:MOST_NAMES])}{more}"
