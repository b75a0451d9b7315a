"""Files of Geom-GCN: the fixed splits on which node classification is compared, Film, and relations between nodes.

The splits are called 0.6 / 0.2 but are 48 / 32 / 20 %. Film is two tables of text. A table of relations has a line
`sender,receiver <tab> space <tab> quadrant` for each neighbor in the graph (in both directions) or in the latent space.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.sparse
from jaxtyping import Int64

from tdegnn.data.array_files import read_arrays
from tdegnn.data.nodes import Features, Masks, NodeDataset
from tdegnn.graph import Graph

NUM_FILM_FEATURES = 932
SPACES = ("graph", "latent_space")
NUM_QUADRANTS = 4


def read_splits(paths: Mapping[str, Path]) -> tuple[Masks, Masks, Masks]:
    """Return training, validation and test masks, one row per split among the files."""
    masks = []
    for key in sorted(key for key in paths if "_split_" in key):
        split = read_arrays(paths[key], "a split", ("train_mask", "val_mask", "test_mask"))
        masks.append([mask.astype(bool) for mask in split])
    training, validation, test = np.stack(masks, axis=1)
    return training, validation, test


def read(name: str, paths: Mapping[str, Path]) -> NodeDataset:
    """Read Film from its files, by name. Edges are directed, and a node receives from those it points to (`out`)."""
    features, labels = _read_film_nodes(paths["out1_node_feature_label.txt"])
    edges = np.loadtxt(paths["out1_graph_edges.txt"], dtype=np.int64, skiprows=1)
    graph = Graph(edges.T, len(labels), direction="out")
    return NodeDataset(name, features, graph, labels, *read_splits(paths))


def read_relations(path: Path, num_nodes: int) -> list[scipy.sparse.csr_array]:
    """Return nine matrices of ones: four quadrants in the graph, four in the latent space, and each node itself.

    Row i has the senders of receiver i. As in the released code, a pair has one relation: that of its last line.
    """
    _, *lines = path.read_text("utf-8").splitlines()
    relation_of_pair: dict[tuple[int, int], int] = {}
    for line in lines:
        pair, space, quadrant = line.split("\t")
        sender, receiver = map(int, pair.split(","))
        relation_of_pair[receiver, sender] = SPACES.index(space) * NUM_QUADRANTS + int(quadrant)
    pairs = np.array(list(relation_of_pair), dtype=np.int64).reshape(-1, 2)
    relations = np.array(list(relation_of_pair.values()), dtype=np.int64)
    shape = (num_nodes, num_nodes)
    matrices = [
        scipy.sparse.csr_array((np.ones(len(chosen)), tuple(chosen.T)), shape=shape)
        for chosen in (pairs[relations == relation] for relation in range(len(SPACES) * NUM_QUADRANTS))
    ]
    return [*matrices, scipy.sparse.eye_array(num_nodes, format="csr")]


def _read_film_nodes(path: Path) -> tuple[Features, Int64[np.ndarray, " nodes"]]:
    """Return features and labels. Each line has a node, the indices of its features and its label, in any order."""
    _, *lines = path.read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    nodes = np.array([row[0] for row in rows], dtype=np.int64)
    indices = [np.array(row[1].split(","), dtype=np.int64) for row in rows]
    features = np.zeros((len(nodes), NUM_FILM_FEATURES), np.float32)
    features[np.repeat(nodes, [len(row) for row in indices]), np.concatenate(indices)] = 1.0
    labels = np.empty(len(nodes), np.int64)
    labels[nodes] = np.array([row[2] for row in rows], dtype=np.int64)
    return scipy.sparse.csr_array(features), labels
