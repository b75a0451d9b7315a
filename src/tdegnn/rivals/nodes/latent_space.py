"""Where the nodes of a graph lie in a plane, and the nine relations that Geom-GCN (Pei et al., 2020) makes of it.

Positions are those of Isomap: classical multidimensional scaling of distances in hops, to landmarks only in a large
component (de Silva & Tenenbaum, 2004), `y_k(i) = -1/2 sum_a v_k(a) (D_ai^2 - mean_b D_ab^2) / sqrt(e_k)`, with the two
largest eigenvalues e and eigenvectors v of the centered squared distances between landmarks. A node has neighbors in
the graph, and latent ones: near in the plane, not linked. Each kind falls into four relations by the quadrant in which
the neighbor lies; the ninth is the node itself. No matrix (nodes x nodes) is made for a large graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.spatial import cKDTree

from tdegnn.adjacency import keep
from tdegnn.data.benchmarks.catalogue import CATALOGUE, data_file
from tdegnn.data.benchmarks.fetch import announce, fetch
from tdegnn.data.benchmarks.geom_gcn import NUM_QUADRANTS, read_relations
from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import InputError
from tdegnn.graph import Graph

NUM_RELATIONS = 2 * NUM_QUADRANTS + 1
# Up to this many nodes of a component are landmarks. The matrix of distances is (landmarks x nodes).
MOST_LANDMARKS = 256
NUM_DIMENSIONS = 2
# Eigenvalues or third moments that are nearer than this, relative to their size, are taken as equal or zero.
TOLERANCE = 1e-6
# Positions are in hops. Beyond these digits they are rounding errors, which would decide between quadrants.
NUM_DIGITS = 9
# Relations are kept on the host, in double precision.
_HOST = torch.empty(0, dtype=torch.float64)


def relations_of(graph: Graph) -> tuple[scipy.sparse.csr_array, ...]:
    """Return nine matrices of zeros and ones; row i has the nodes that node i receives from by that relation.

    First the quadrants of neighbors in the graph (upper left, upper right, lower left, lower right), then those of
    latent neighbors, then the identity. Neighbors in the graph are those a node receives from along its direction;
    weights and self-loops do not matter. Latent neighbors are the nodes of the same component that are not linked with
    a node either way, are not at the same place, and are nearer than a radius: the largest one at which nodes have, on
    average, at most as many latent neighbors as neighbors in the graph. Neighbors in the graph that are at the same
    place are in the first quadrant both ways.

    Relabelling nodes relabels the relations. So a coordinate that the graph does not determine (equal eigenvalues, or a
    mirror symmetry) is zero. The one exception is a component of more than 256 nodes of which more than 253 tie for
    being landmarks: then those that come first are.

    They are made on the first call and live as long as the graph. `use_relations` gives others.
    """
    return keep(graph, "relations", _HOST, lambda: _make_relations(graph))


def use_relations(graph: Graph, relations: Sequence[scipy.sparse.sparray]) -> None:
    """Use these relations for a graph, in place of those that `relations_of` would make.

    Args:
        graph: The graph. It must not have others already.
        relations: Nine matrices (nodes, nodes) of zeros and ones, in the order of `relations_of`.
    """
    shapes = [tuple(each.shape) for each in relations]
    expected = (graph.num_nodes, graph.num_nodes)
    if len(shapes) != NUM_RELATIONS or set(shapes) != {expected}:
        raise InputError(f"Expected {NUM_RELATIONS} relations of shape {expected}, got shapes {shapes}.")
    given = tuple(scipy.sparse.csr_array(each, dtype=np.float64) for each in relations)
    kept = keep(graph, "relations", _HOST, lambda: given)
    if any((old != new).nnz for old, new in zip(kept, given, strict=True)):
        raise InputError("Expected a graph without relations, got one that has others already. Make the graph anew.")


def use_published_relations(dataset: NodeDataset) -> bool:
    """Use the relations that were published for a benchmark, if there are any. Return whether there are.

    They are of one embedding (Poincare). The published results are the best of three embeddings, after the fact.
    """
    benchmark = CATALOGUE.get(dataset.name)
    if benchmark is None or benchmark.relations is None or benchmark.statistics.nodes != dataset.num_nodes:
        return False
    file = data_file(benchmark.relations)
    announce(f"relations of {dataset.name}", [file])
    use_relations(dataset.graph, read_relations(fetch(file), dataset.num_nodes))
    return True


def _make_relations(graph: Graph) -> tuple[scipy.sparse.csr_array, ...]:
    received = _links(graph.received)
    links = _links(graph.with_direction("both").received)
    components = connected_components(links, directed=False)[1]
    positions = _place_nodes(links, components)
    latent = _find_latent_neighbors(links, components, positions, received.nnz)
    identity = scipy.sparse.eye_array(graph.num_nodes, format="csr")
    return *_split_by_quadrant(received, positions), *_split_by_quadrant(latent, positions), identity


def _links(matrix: scipy.sparse.sparray) -> scipy.sparse.csr_array:
    """Return ones where a matrix is not zero, off the diagonal."""
    entries = matrix.tocoo()
    is_link = (entries.row != entries.col) & (entries.data != 0)
    ends = (entries.row[is_link], entries.col[is_link])
    return scipy.sparse.csr_array((np.ones(is_link.sum()), ends), shape=matrix.shape)


def _split_by_quadrant(
    neighbors: scipy.sparse.csr_array, positions: Float[np.ndarray, "nodes 2"]
) -> list[scipy.sparse.csr_array]:
    """Return four matrices: the neighbors at the upper left, upper right, lower left and lower right of a node."""
    entries = neighbors.tocoo()
    right, up = (positions[entries.col] - positions[entries.row]).T
    quadrants = 2 * (up < 0).astype(np.int64) + (right > 0)
    return [
        scipy.sparse.csr_array(
            (entries.data[chosen], (entries.row[chosen], entries.col[chosen])), shape=neighbors.shape
        )
        for chosen in (quadrants == quadrant for quadrant in range(NUM_QUADRANTS))
    ]


def _place_nodes(links: scipy.sparse.csr_array, components: Int[np.ndarray, " nodes"]) -> Float[np.ndarray, "nodes 2"]:
    """Return the position of each node, relative to the center of its component."""
    positions = np.zeros((len(components), NUM_DIMENSIONS))
    order = np.argsort(components, kind="stable")
    for nodes in np.split(order, np.cumsum(np.bincount(components))[:-1]):
        # Two nodes are symmetric to each other.
        if len(nodes) > 2:
            positions[nodes] = _place_component(links[nodes][:, nodes])
    return np.round(positions, NUM_DIGITS)


def _place_component(links: scipy.sparse.csr_array) -> Float[np.ndarray, "nodes 2"]:
    landmarks = _choose_landmarks(links)
    squares = shortest_path(links, directed=False, unweighted=True, indices=landmarks) ** 2
    among = squares[:, landmarks]
    means = among.mean(axis=1)
    centered = -0.5 * (among - means[:, None] - means[None, :] + means.mean())
    values, vectors = np.linalg.eigh(centered)
    coordinates = -0.5 * (squares - means[:, None]).T @ vectors[:, : -NUM_DIMENSIONS - 1 : -1]
    is_determined = _are_determined(values[::-1])
    sizes = np.sqrt(np.where(is_determined, values[: -NUM_DIMENSIONS - 1 : -1], 1.0))
    coordinates = np.where(is_determined, coordinates / sizes, 0.0)
    # An eigenvector may point either way. The long tail is to be at the positive end; without one, nothing tells.
    cubes = coordinates**3
    skews, largest = cubes.sum(axis=0), np.abs(cubes).sum(axis=0)
    return coordinates * np.where(np.abs(skews) > TOLERANCE * largest, np.sign(skews), 0.0)


def _are_determined(descending: Float[np.ndarray, " values"]) -> np.ndarray:
    """Return whether each of the largest eigenvalues is positive and differs from those before and after it."""
    gaps = np.abs(np.diff(descending)) > TOLERANCE * descending[0]
    is_apart = np.concatenate([[True], gaps])[:NUM_DIMENSIONS] & gaps[:NUM_DIMENSIONS]
    is_positive = descending[:NUM_DIMENSIONS] > TOLERANCE * descending[0]
    return np.asarray(is_apart & is_positive & (descending[0] > 0))


def _choose_landmarks(links: scipy.sparse.csr_array) -> Int[np.ndarray, " landmarks"]:
    """Return the nodes from which most walks of three steps start. Those that tie for the last place are left out."""
    num_nodes = links.shape[0]
    if num_nodes <= MOST_LANDMARKS:
        return np.arange(num_nodes)
    # Whole numbers, which do not depend on the order in which they are added.
    steps = links.astype(np.int64)
    walks = steps @ (steps @ (steps @ np.ones(num_nodes, np.int64)))
    order = np.argsort(-walks, kind="stable")
    num_ahead = int((walks > walks[order[MOST_LANDMARKS]]).sum())
    return order[: num_ahead if num_ahead > NUM_DIMENSIONS else MOST_LANDMARKS]


def _find_latent_neighbors(
    links: scipy.sparse.csr_array,
    components: Int[np.ndarray, " nodes"],
    positions: Float[np.ndarray, "nodes 2"],
    most_neighbors: int,
) -> scipy.sparse.csr_array:
    """Return the latent neighbors of all nodes: both ways, and at most `most_neighbors` of them."""
    longest = 2.0 * float(np.abs(positions).max(initial=0.0)) * NUM_DIMENSIONS + 1.0
    # Many nodes share a place, such as the leaves of a hub. A third dimension keeps components apart.
    points = np.column_stack([positions, 2.0 * longest * components])
    places, place_of_node, sizes = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    tree, num_same = cKDTree(places), float((sizes.astype(np.float64) ** 2).sum())
    ends = links.tocoo()
    lengths = np.sort(np.linalg.norm(positions[ends.row] - positions[ends.col], axis=1))
    lengths = lengths[lengths > 0]

    def count(radius: float) -> float:
        near: float = tree.count_neighbors(tree, radius, weights=(sizes, sizes))
        return near - num_same - float(np.searchsorted(lengths, radius, side="right"))

    radius, above = 0.0, longest
    while above - radius > TOLERANCE * longest:
        middle = 0.5 * (radius + above)
        radius, above = (middle, above) if count(middle) <= most_neighbors else (radius, middle)
    pairs = tree.query_pairs(radius, output_type="ndarray")
    both_ways = (np.append(pairs[:, 0], pairs[:, 1]), np.append(pairs[:, 1], pairs[:, 0]))
    near_places = scipy.sparse.csr_array((np.ones(len(both_ways[0])), both_ways), shape=(len(places), len(places)))
    num_nodes = len(components)
    node_to_place = scipy.sparse.csr_array(
        (np.ones(num_nodes), (np.arange(num_nodes), place_of_node.reshape(-1))), shape=(num_nodes, len(places))
    )
    near = node_to_place @ near_places @ node_to_place.T
    latent = (near - near.multiply(links)).tocsr()
    latent.eliminate_zeros()
    return latent
