"""Check and convert nodes: a `NodeDataset`, PyG data, or a matrix of features with a graph of any kind.

Likewise their classes (of any type), their numbers, and the nodes for training, validation and test. Everything is
checked here, so that a training sees one form only.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from tdegnn.data.graphs.edges import is_networkx_graph, read_graph
from tdegnn.data.mapped_features import MappedFeatures
from tdegnn.data.nodes import PYG_MASKS, SUBSETS, NodeDataset, as_real, is_mapped
from tdegnn.errors import LARGEST_VALUE, InputError, find_too_large
from tdegnn.graph import Direction, Graph, is_pyg_data
from tdegnn.sparse_checks import check_sparse

if TYPE_CHECKING:
    from torch_geometric.data import Data


VALIDATION_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class NodeInput:
    """The nodes that a user passed.

    Attributes:
        nodes: Features and graph, without labels and splits.
        labels: The labels of the nodes, unchanged. None if the data have none.
        masks: Training, validation and test nodes, one row per split. None if there are no splits.
        index: The names of the nodes, if features came as a frame.
        feature_names: The names of the features, if they came as a frame.
    """

    nodes: NodeDataset
    labels: Any = None
    masks: tuple[Bool[np.ndarray, "splits nodes"], ...] | None = None
    index: pd.Index | None = None
    feature_names: tuple[str, ...] | None = None


def as_node_input(source: Any, graph: Any = None, direction: Direction | None = None) -> NodeInput:
    """Convert nodes of any form.

    Args:
        source: A `NodeDataset`, PyG data, or a matrix of features (NumPy, SciPy, torch, pandas), one row per node. The
            index of a frame has the names of the nodes.
        graph: Needed with a matrix; otherwise it replaces the graph of the data. A `Graph`, an adjacency matrix (SciPy
            or NumPy), or an edge_index of two rows, all in the order of the rows. Or, by the names of the nodes (their
            numbers, if they have no names), a networkx graph or a frame of edges, `source, target[, weight]`.
        direction: Whose states a node receives, see `Graph`. If None, that of a `Graph`, else `"both"`.
    """
    if isinstance(source, NodeDataset):
        masks = (source.training_masks, source.validation_masks, source.test_masks)
        bare = _bare(
            source.name,
            source.features,
            _as_graph(source.graph if graph is None else graph, source.num_nodes, direction),
        )
        return NodeInput(bare, source.labels, masks if source.num_splits else None)
    if is_pyg_data(source):
        return _from_pyg(source, graph, direction)
    features = source if isinstance(source, MappedFeatures) else _as_features(source)
    if graph is None:
        raise InputError("Expected a graph with the features, got none. Pass graph=, for example an adjacency matrix.")
    index = source.index if isinstance(source, pd.DataFrame) else None
    nodes = _bare("", features, _as_graph(graph, features.shape[0], direction, index))
    names = None if index is None else tuple(map(str, source.columns))
    return NodeInput(nodes, index=index, feature_names=names)


def align(labels: Any, index: pd.Index | None) -> Any:
    """Return labels in the order of the nodes, matched by name if both have names. A node without a label gets NaN."""
    if index is None or not isinstance(labels, pd.Series | pd.DataFrame) or labels.index.equals(index):
        return labels
    unknown = labels.index.difference(index)
    if len(unknown) or labels.index.has_duplicates or index.has_duplicates:
        what = f"of {unknown[0]!r}, which has no features" if len(unknown) else "of one node several times"
        raise InputError(
            f"Expected labels with the index of the features, got one {what}. Correct the index, or use .to_numpy()."
        )
    return labels.astype(object).reindex(index)


def encode_classes(labels: Any, num_nodes: int) -> tuple[Int64[np.ndarray, " nodes"], Shaped[np.ndarray, " classes"]]:
    """Number the classes; return the number of each node, -1 if unknown, and the classes.

    None, NaN and the number -1 mean unknown. Classes are sorted if they can be, else kept in the order they come.
    """
    given = _one_per_node(labels, num_nodes, "labels")
    if given.dtype.kind in "iu" and given.size and given.min() >= -1:
        # The same as below, without an object per node.
        numbered, codes = np.unique(given, return_inverse=True)
        num_unknown = int(numbered[0] == -1)
        if len(numbered) - num_unknown > 1:
            return codes.astype(np.int64) - num_unknown, numbered[num_unknown:]
    values = given.tolist()
    is_known = np.array([not _is_unknown(value) for value in values], dtype=bool)
    known = [value for value, is_kept in zip(values, is_known, strict=True) if is_kept]
    if any(isinstance(value, float) and not value.is_integer() for value in known):
        raise InputError("Expected classes, got continuous numbers with a fraction. Use NodeRegressor.")
    try:
        classes = list(dict.fromkeys(known))
    except TypeError as error:
        raise InputError(f"Expected labels that can be compared, such as text or whole numbers: {error}.") from error
    with suppress(TypeError):  # classes of different types cannot be sorted: they keep their order
        classes.sort()
    if len(classes) < 2:
        came = f"{len(classes)} class{'' if len(classes) == 1 else 'es'}"
        raise InputError(f"Expected nodes of at least two classes, got {came}. Give more labels.")
    codes = np.full(num_nodes, -1, dtype=np.int64)
    numbers = {name: number for number, name in enumerate(classes)}
    codes[is_known] = [numbers[value] for value in known]
    return codes, as_vector(classes)


def as_targets(targets: Any, num_nodes: int) -> Float[np.ndarray, "nodes targets"]:
    """Return the numbers to predict, one row per node. NaN means unknown."""
    try:
        numbers = np.asarray(_to_numpy(targets), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("Expected numbers as targets, got something else. Use NodeClassifier for classes.") from error
    numbers = numbers[:, None] if numbers.ndim == 1 else numbers
    if numbers.ndim != 2 or len(numbers) != num_nodes or numbers.shape[1] == 0:
        raise InputError(f"Expected one row of targets for each of {num_nodes} nodes, got shape {numbers.shape}.")
    if np.isinf(numbers).any():
        raise InputError("Expected finite targets, or NaN if unknown, got infinite ones.")
    place = find_too_large(numbers)
    if place is not None:
        raise InputError(
            f"Expected targets of at most {LARGEST_VALUE:g} in size, got {numbers[place]:g} for node {place[0]}. Use a "
            "larger unit."
        )
    return numbers


def as_vector(values: Any) -> Shaped[np.ndarray, " values"]:
    """Return a vector of values of any one type, or of objects if they have several types."""
    if len({type(value) for value in values}) == 1 and isinstance(values[0], str | int | float):
        return np.array(values)
    vector = np.empty(len(values), dtype=object)
    vector[:] = values
    return vector


def as_mask(subset: Any, num_nodes: int, name: str) -> Bool[np.ndarray, " nodes"]:
    """Return the mask of nodes that are given as a mask or by their numbers."""
    values = np.asarray(_to_numpy(subset))
    if values.dtype == bool and values.shape == (num_nodes,):
        return values
    is_numbers = values.ndim == 1 and np.issubdtype(values.dtype, np.integer)
    outside = values[(values < 0) | (values >= num_nodes)] if is_numbers else values
    if not is_numbers or outside.size:
        came = f"{outside[0]}" if is_numbers else f"{values.dtype} of shape {values.shape}"
        raise InputError(
            f"Expected {name} to be a mask of {num_nodes} nodes or their numbers from 0 to {num_nodes - 1}, got {came}."
        )
    mask = np.zeros(num_nodes, dtype=bool)
    mask[values] = True
    return mask


def hold_out(
    nodes: Int64[np.ndarray, " some"], seed: int, strata: Int64[np.ndarray, " some"] | None = None
) -> Int64[np.ndarray, " held"]:
    """Choose a fifth of some nodes to validate on, the same share of each stratum. A stratum of one node gives none."""
    from sklearn.model_selection import train_test_split  # takes a moment, and a prediction holds nothing out

    if strata is not None:
        _, number, count = np.unique(strata, return_inverse=True, return_counts=True)
        is_shared = count[number] > 1
        nodes, strata = nodes[is_shared], strata[is_shared]
    if len(nodes) < 2:
        raise InputError(
            "Expected enough nodes with a label, besides test nodes, to hold a fifth of them out, got too few. Label "
            "more nodes, test on fewer, or choose those to validate on."
        )
    smallest = 1 if strata is None else len(np.unique(strata))
    size = max(int(np.ceil(VALIDATION_SHARE * len(nodes))), smallest)
    held: Int64[np.ndarray, " held"] = train_test_split(nodes, test_size=size, random_state=seed, stratify=strata)[1]
    return held


def _bare(name: str, features: Any, graph: Graph) -> NodeDataset:
    unknown = np.full(graph.num_nodes, -1, dtype=np.int64)
    return NodeDataset(name, features, graph, unknown, *[np.zeros((0, graph.num_nodes), dtype=bool)] * 3)


def _from_pyg(data: Data, graph: Any, direction: Direction | None) -> NodeInput:
    from torch_geometric.data import Data

    bare = Data(x=data.get("x"), edge_index=data.get("edge_index"), num_nodes=data.num_nodes)
    for key in ("edge_weight", "edge_attr"):
        if data.get(key) is not None:
            bare[key] = data[key]
    nodes = NodeDataset.from_pyg(bare, direction or "both")
    if graph is not None:
        nodes = replace(nodes, graph=_as_graph(graph, nodes.num_nodes, direction))
    masks = [None if data.get(key) is None else np.atleast_2d(data[key].cpu().numpy().T) for key in PYG_MASKS]
    num_splits = max((len(mask) for mask in masks if mask is not None), default=0)
    empty = np.zeros((num_splits, nodes.num_nodes), dtype=bool)
    by_split = tuple(empty if mask is None else mask for mask in masks)
    return NodeInput(nodes, data.get("y"), by_split if num_splits else None)


def _as_graph(graph: Any, num_nodes: int, direction: Direction | None, index: pd.Index | None = None) -> Graph:
    made = _make_graph(graph, range(num_nodes) if index is None else index, direction or "both")
    if made.num_nodes != num_nodes:
        raise InputError(
            f"Expected a graph of {num_nodes} nodes, one per row of the features, got {made.num_nodes}. For folds of "
            "nodes, use tdegnn.Transductive."
        )
    return made if direction is None or made.direction == direction else made.with_direction(direction)


def _make_graph(graph: Any, names: pd.Index | range, direction: Direction) -> Graph:
    if isinstance(graph, Graph):
        return graph
    if is_networkx_graph(graph) or isinstance(graph, pd.DataFrame):
        return read_graph(graph, tuple(map(str, names)), direction=direction)[0]
    if scipy.sparse.issparse(graph):
        return Graph.from_scipy(graph, direction)
    try:
        array = np.asarray(_to_numpy(graph))
    except ValueError as error:  # lists of unlike lengths: adjacency lists, or rows that scikit-learn cut from a graph
        raise InputError(
            f"Expected a Graph, an adjacency matrix, a networkx graph or an edge_index, got a {type(graph).__name__} "
            "of unlike rows. Do not cut a graph into folds: pass it whole, with train= and validation=, or use "
            "tdegnn.Transductive."
        ) from error
    # With two nodes, a square matrix could be either. It is read as edges, the form that PyG users have.
    is_matrix = array.ndim == 2 and array.shape[0] == array.shape[1] != 2
    return Graph.from_scipy(array, direction) if is_matrix else Graph(array, len(names), direction=direction)


def _as_features(source: Any) -> Any:
    if scipy.sparse.issparse(source):
        return as_real(scipy.sparse.csr_array(check_sparse(source, "features")))
    try:
        features = as_real(np.asarray(_to_numpy(source)))
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        texts = source.select_dtypes(exclude="number").columns.tolist() if isinstance(source, pd.DataFrame) else []
        what = f"a column {texts[0]!r} that has none. Drop it or encode it" if texts else type(source).__name__
        what = "an array that holds text. Encode it" if isinstance(source, np.ndarray) else what
        raise InputError(f"Expected a NodeDataset, PyG data or a matrix of numbers, got {what}.") from error
    if features.ndim != 2 or 0 in features.shape:
        raise InputError(f"Expected features of shape (nodes, features), got {features.shape}. Reshape your data.")
    return MappedFeatures(features) if is_mapped(features) else np.ascontiguousarray(features)


def _to_numpy(values: Any) -> Any:
    return values.numpy(force=True) if isinstance(values, Tensor) else values


def _one_per_node(labels: Any, num_nodes: int, name: str) -> Shaped[np.ndarray, " nodes"]:
    values = _to_numpy(labels)
    # A list of tuples is a list of labels, not a matrix.
    array = as_vector(values) if isinstance(values, list | tuple) else np.asarray(values)
    # Some datasets keep labels as a column.
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.shape != (num_nodes,):
        raise InputError(f"Expected {name} for each of {num_nodes} nodes, got shape {array.shape}.")
    return array


def _is_unknown(value: Any) -> bool:
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and (math.isnan(value) or value == -1)


def choose_subsets(
    given: NodeInput,
    is_known: Bool[np.ndarray, " nodes"],
    split: int,
    subsets: tuple[Any, Any, Any],
    seed: int,
    strata: Int64[np.ndarray, " nodes"] | None,
) -> tuple[Bool[np.ndarray, " nodes"], ...]:
    """Choose training, validation and test nodes: those given, else those of the split, else all with a label.

    Args:
        given: The nodes.
        is_known: The nodes with a label.
        split: Which split of the nodes to take, if no subset is given.
        subsets: Training, validation and test nodes as the user gave them, None for those not given.
        seed: Seed of the nodes that are held out if there is no validation subset.
        strata: The class of each node, if classes are to be held out in equal shares.
    """
    num_nodes = len(is_known)
    names = ("train", "validation", "test")
    chosen = [
        None if nodes is None else as_mask(nodes, num_nodes, name) for nodes, name in zip(subsets, names, strict=True)
    ]
    if given.masks is not None and all(mask is None for mask in chosen):
        num_splits = len(given.masks[0])
        if not 0 <= split < num_splits:
            raise InputError(f"Expected split to be from 0 to {num_splits - 1}, got {split}.")
        # An empty subset of a split was never assigned.
        chosen = [masks[split] if masks[split].any() else None for masks in given.masks]
    training, validation, test = chosen
    test = np.zeros(num_nodes, dtype=bool) if test is None else test
    if training is None:
        training = is_known & ~test if validation is None else is_known & ~test & ~validation
    if validation is None:
        numbers = np.flatnonzero(training & is_known)
        held = hold_out(numbers, seed, None if strata is None else strata[numbers])
        validation = as_mask(held, num_nodes, "validation")
        training = training & ~validation
    _check_subsets((training, validation, test), is_known)
    return training, validation, test


def _check_subsets(masks: tuple[Bool[np.ndarray, " nodes"], ...], is_known: Bool[np.ndarray, " nodes"]) -> None:
    for name, mask in zip(SUBSETS, masks, strict=True):
        if not mask.any() and name != "test":
            raise InputError(f"Expected at least one {name} node, got none.")
        if (mask & ~is_known).any():
            node = int(np.argmax(mask & ~is_known))
            raise InputError(f"Expected a label for each {name} node, got none for node {node}. Leave it out.")
    times_used = np.stack(masks).sum(axis=0)
    if (times_used > 1).any():
        node = int(np.argmax(times_used > 1))
        raise InputError(
            f"Expected each node in at most one of train, validation and test, got node {node} in two. Leave it out of "
            "one."
        )


def counted_nodes(is_known: Bool[np.ndarray, " nodes"], nodes: Any) -> Bool[np.ndarray, " nodes"]:
    """Return the mask of the nodes that a score counts."""
    counts = is_known if nodes is None else is_known & as_mask(nodes, len(is_known), "nodes")
    if not counts.any():
        raise InputError("Expected nodes with a label to score, got none.")
    return counts


def mean_over(
    values: Float[np.ndarray, "counted *rest"] | Bool[np.ndarray, " counted"],
    counts: Bool[np.ndarray, " nodes"],
    sample_weight: Any,
) -> Any:
    """Return the mean of values at the counted nodes, each with its weight, if nodes have weights.

    Args:
        values: One row per counted node.
        counts: The nodes that count.
        sample_weight: One weight per node. If None, all nodes weigh the same.
    """
    if sample_weight is None:
        return values.mean(axis=0)
    weights = _one_per_node(sample_weight, len(counts), "a weight").astype(np.float64)[counts]
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise InputError("Expected weights of nodes that are not negative, at least one above 0, got others.")
    return np.average(values, axis=0, weights=weights)


def labels_to_score(X: Any, y: Any) -> Any:  # noqa: N803
    """Return the labels to score against: `y`, or the labels that come with `X`."""
    if y is not None:
        return align(y, X.index if isinstance(X, pd.DataFrame) else None)
    labels: Any = getattr(X, "labels", getattr(X, "y", None))
    if labels is None:
        raise InputError("Expected labels to score against, got none. Pass y=.")
    return labels
