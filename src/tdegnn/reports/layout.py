"""Where nodes are drawn: at their coordinates, or so that neighbors are near each other."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
from jaxtyping import Float, Int

from tdegnn.data.graphs.neighbors import read_coordinates
from tdegnn.graph import Graph

# Maximum number of nodes that are drawn, and of edges between them: more would be a blot.
MOST_NODES, MOST_EDGES = 600, 3000
# A part of the graph with at most this share of the nodes is small.
SMALL_PART = 0.03

Places = Float[np.ndarray, "nodes two"]


def places_on_map(source: Any, nodes: tuple[str, ...]) -> Places:
    """Return east and north of each node, from its coordinates: those of a globe are shown with true proportions."""
    axes, metric = read_coordinates(source, nodes)
    if metric == "euclidean":
        return axes[:, :2] if axes.shape[1] > 1 else np.column_stack([axes[:, 0], np.zeros(len(axes))])
    latitude, longitude = axes[:, 0], axes[:, 1]
    # Near enough for a map of a city or a country: a degree of longitude is shorter far from the equator.
    return np.column_stack([longitude * np.cos(np.radians(latitude.mean())), latitude])


def places_by_graph(graph: Graph, chosen: Int[np.ndarray, " chosen"]) -> Places:
    """Return places of some nodes at which neighbors are near each other.

    Args:
        graph: The graph.
        chosen: The nodes to place.
    """
    links = nx.Graph()
    links.add_nodes_from(range(len(chosen)))
    links.add_edges_from(edges_between(graph, chosen).T.tolist())
    # Small parts of the graph would push the others into a corner: they stand in rows below.
    parts = sorted(nx.connected_components(links), key=len, reverse=True)
    linked = sorted(node for part in parts for node in part if len(part) > SMALL_PART * len(chosen) and len(part) > 1)
    places = np.zeros((len(chosen), 2))
    if linked:
        found = nx.spring_layout(links.subgraph(linked), seed=0, iterations=60, k=1.6 / np.sqrt(len(linked)))
        spread = np.array([found[node] for node in linked])
        spread -= spread.min(axis=0)
        places[linked] = 2 * spread / np.maximum(spread.max(axis=0), 1e-9) - 1
    alone = [node for part in parts for node in sorted(part) if node not in set(linked)]
    columns = max(1, int(np.ceil(np.sqrt(2 * len(alone)))))
    lowest = -1.2 if linked else 0.0
    for number, node in enumerate(alone):
        places[node] = (2 * (number % columns + 0.5) / columns - 1, lowest - 0.15 * (number // columns))
    return places


def edges_between(graph: Graph, chosen: Int[np.ndarray, " chosen"]) -> Int[np.ndarray, "two edges"]:
    """Return the edges between chosen nodes, by their places among them, each pair once."""
    received = graph.received
    number = np.full(graph.num_nodes, -1, dtype=np.int64)
    number[chosen] = np.arange(len(chosen))
    ends = np.sort(np.stack([number[received.row], number[received.col]]), axis=0)
    return np.unique(ends[:, (ends[0] >= 0) & (ends[0] != ends[1])], axis=1)
