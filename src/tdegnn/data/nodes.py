"""A `NodeDataset`: nodes with features, labels and a graph, and the splits on which methods are compared.

Sparse features stay sparse: PubMed is the only benchmark with as much as a tenth of its entries filled. Features keep
their precision until a training casts them, because a network sees them centered, and a large offset would use up the
digits that matter. The direction of the graph matters more than most choices of a network (on Chameleon it is worth 50
points), so it is never left open.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int64
from torch import Tensor

from tdegnn.data.mapped_features import MappedFeatures
from tdegnn.errors import LARGEST_VALUE, InputError, find_too_large
from tdegnn.graph import Direction, Graph
from tdegnn.sparse_checks import check_sparse

if TYPE_CHECKING:
    from torch_geometric.data import Data


Features: TypeAlias = (
    scipy.sparse.csr_array
    | Float32[np.ndarray, "nodes features"]
    | Float64[np.ndarray, "nodes features"]
    | MappedFeatures
)
Masks: TypeAlias = Bool[np.ndarray, "splits nodes"]

SUBSETS = ("training", "validation", "test")
PYG_MASKS = ("train_mask", "val_mask", "test_mask")


@dataclass(frozen=True, eq=False)
class NodeDataset:
    """Nodes to classify.

    Attributes:
        name: Name of the data in tables and plots.
        features: One row per node, in float32 or float64: a SciPy CSR array, a NumPy array, or features in a file.
        graph: The graph, with its direction.
        labels: The class of each node, from 0 on. -1 means unknown.
        training_masks: The nodes to train on, one row per split.
        validation_masks: The nodes on which settings and steps are chosen.
        test_masks: The nodes on which results are reported. A node may be in none of the three subsets, never in two.
    """

    name: str
    features: Features
    graph: Graph
    labels: Int64[np.ndarray, " nodes"]
    training_masks: Masks
    validation_masks: Masks
    test_masks: Masks

    def __post_init__(self) -> None:
        if not isinstance(self.graph, Graph):
            raise InputError(f"Expected graph to be a Graph, got {type(self.graph).__name__}.")
        _check_features(self.features, self.num_nodes)
        _check_labels(self.labels, self.num_nodes)
        _check_masks(self._masks, self.labels)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    @property
    def num_features(self) -> int:
        """Number of features per node."""
        return int(self.features.shape[1])

    @property
    def num_classes(self) -> int:
        """Number of classes: the largest label plus one."""
        return int(self.labels.max(initial=-1)) + 1

    @property
    def has_negative_features(self) -> bool:
        """Whether any feature is negative."""
        if isinstance(self.features, MappedFeatures):
            return any(bool((chunk < 0).any()) for chunk in self.features.chunks())
        return bool((self.features < 0).sum())

    @property
    def num_splits(self) -> int:
        """Number of splits. 0 if the dataset has none."""
        return len(self.training_masks)

    @property
    def _masks(self) -> tuple[Masks, Masks, Masks]:
        return self.training_masks, self.validation_masks, self.test_masks

    def with_normalized_features(self) -> NodeDataset:
        """Return the dataset with features that sum to one at each node. A node with zeros only keeps them."""
        if isinstance(self.features, MappedFeatures):
            raise InputError("Expected features in memory, to scale their sums to one, got a file. Scale it before.")
        if self.has_negative_features:
            raise InputError("Expected features that are not negative, to scale their sums to one, got negative ones.")
        sums = np.asarray(self.features.sum(axis=1, dtype=np.float64))
        scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
        return replace(self, features=scipy.sparse.diags_array(scale) @ self.features)

    def with_adjacency_features(self) -> NodeDataset:
        """Return the dataset with rows of the adjacency matrix (what each node receives) joined to the features.

        The features become sparse: most nodes receive from few others.
        """
        if isinstance(self.features, MappedFeatures):
            raise InputError("Expected features in memory, for adjacency features, got a file. Load it first.")
        joined = scipy.sparse.hstack([scipy.sparse.csr_array(self.features), self.graph.received])
        return replace(self, features=scipy.sparse.csr_array(joined))

    def with_direction(self, direction: Direction) -> NodeDataset:
        """Return the dataset with a graph whose nodes receive along another direction."""
        return replace(self, graph=self.graph.with_direction(direction))

    def to_pyg(self) -> Data:
        """Return PyG data with dense `x`, `y`, the edges, and masks of shape (nodes, splits) if there are splits.

        PyG has no direction: its layers receive along the edges, `"in"`. See `Graph.messages` for the others.
        """
        data = self.graph.to_pyg()
        features = self.features[:] if isinstance(self.features, MappedFeatures) else self.features
        data.x = torch.tensor(features if isinstance(features, np.ndarray) else features.toarray())
        data.y = torch.tensor(self.labels)
        if self.num_splits:
            for key, masks in zip(PYG_MASKS, self._masks, strict=True):
                data[key] = torch.tensor(masks.T)
        return data

    @classmethod
    def from_pyg(cls, data: Data, direction: Direction = "both", name: str = "") -> NodeDataset:
        """Make a dataset from PyG data: its edges, `x`, and, if present, `y`, `train_mask`, `val_mask`, `test_mask`.

        Args:
            data: PyG data with `x` dense or sparse, `y` whole numbers, masks of shape (nodes,) or (nodes, splits).
            direction: Whose states a node receives, see `Graph`. PyG's own layers use `"in"`.
            name: Name of the data.
        """
        graph = Graph.from_pyg(data, direction)
        features = data.get("x")
        if not isinstance(features, Tensor) or features.dim() != 2:
            raise InputError(f"Expected PyG data with x of shape (nodes, features), got {_describe(features)}.")
        labels = torch.as_tensor(data.get("y", torch.full((graph.num_nodes,), -1)))
        masks = _masks_of_pyg([data.get(key) for key in PYG_MASKS], graph.num_nodes)
        return cls(name, _features_of_pyg(features), graph, _labels_of_pyg(labels), *masks)

    def __repr__(self) -> str:
        counts = f"nodes={self.num_nodes}, features={self.num_features}, classes={self.num_classes}"
        return f"NodeDataset({self.name!r}, {counts}, splits={self.num_splits}, graph={self.graph!r})"


def _describe(value: Any) -> str:
    """Describe a value for an error message."""
    shape = getattr(value, "shape", None)
    kind = type(value).__name__
    return kind if shape is None else f"{kind} of {value.dtype} and shape {tuple(shape)}"


def _check_features(features: Any, num_nodes: int) -> None:
    is_sparse = isinstance(features, scipy.sparse.csr_array)
    is_matrix = (is_sparse or isinstance(features, np.ndarray | MappedFeatures)) and features.ndim == 2
    if not is_matrix or features.dtype not in (np.float32, np.float64):
        raise InputError(
            "Expected features to be a SciPy csr_array or a NumPy array of float32 or float64 and shape "
            "(nodes, features), "
            f"got {_describe(features)}. Convert them first."
        )
    if features.shape[0] != num_nodes:
        raise InputError(f"Expected features of {num_nodes} nodes, as in the graph, got {features.shape[0]} rows.")
    if is_sparse:
        check_sparse(features, "features")
    num_before = 0
    for entries in features.chunks() if isinstance(features, MappedFeatures) else (features,):
        numbers: Any = entries.data if is_sparse else entries
        if not np.isfinite(numbers).all():
            first = np.argwhere(~np.isfinite(numbers))[0]
            where = "" if is_sparse else f" for node {num_before + first[0]}, feature {first[1]}"
            number = numbers[tuple(first)]
            got = "NaN" if np.isnan(number) else number
            raise InputError(f"Expected finite features, got {got}{where}. Fill in what is missing.")
        place = find_too_large(numbers)
        if place is not None:
            where = "" if is_sparse else f" for node {num_before + place[0]}, feature {place[1]}"
            raise InputError(
                f"Expected features of at most {LARGEST_VALUE:g} in size, got {numbers[place]:g}{where}. Use a larger "
                "unit."
            )
        num_before += entries.shape[0]


def _check_labels(labels: Any, num_nodes: int) -> None:
    if not isinstance(labels, np.ndarray) or labels.dtype != np.int64 or labels.shape != (num_nodes,):
        raise InputError(f"Expected labels of int64 and shape ({num_nodes},), one per node, got {_describe(labels)}.")
    if labels.min(initial=0) < -1:
        raise InputError(f"Expected labels from 0 on, or -1 if unknown, got {labels.min()}.")


def _check_masks(masks: tuple[Any, Any, Any], labels: Int64[np.ndarray, " nodes"]) -> None:
    for subset, mask in zip(SUBSETS, masks, strict=True):
        if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.ndim != 2 or mask.shape[1] != len(labels):
            raise InputError(
                f"Expected {subset}_masks of bool and shape (splits, {len(labels)} nodes), got {_describe(mask)}."
            )
    num_splits = [len(mask) for mask in masks]
    if len(set(num_splits)) > 1:
        raise InputError(f"Expected the same number of splits in all masks, got {num_splits}.")
    times_used = np.stack(masks).sum(axis=0)
    if (times_used > 1).any():
        split, node = np.argwhere(times_used > 1)[0]
        raise InputError(
            f"Expected each node in at most one subset of a split, got node {node} in two of split {split}."
        )
    if (times_used[:, labels < 0] > 0).any():
        raise InputError("Expected a label for each node in a split, got masks with nodes whose label is -1.")


def as_real(numbers: Any) -> Any:
    """Return a matrix in float32 if that holds all its numbers, else in float64. It is copied only if needed."""
    if np.iscomplexobj(numbers):
        raise InputError("Expected features of real numbers, got complex ones. Pass real and imaginary parts.")
    # float32 holds integers of up to 16 bits. A network does not need more precision than float64.
    is_short = numbers.dtype.kind in "biuf" and np.result_type(numbers.dtype, np.float32) == np.float32
    return numbers.astype(np.float32 if is_short else np.float64, copy=False)


def is_mapped(array: Any) -> bool:
    """Return whether an array is a view of a file."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return isinstance(array, mmap.mmap)


def _features_of_pyg(features: Tensor) -> Features:
    features = features.detach().cpu()
    if features.is_floating_point():
        features = features.to(torch.promote_types(features.dtype, torch.float32))  # NumPy has no bfloat16
    if features.layout == torch.strided:
        return as_real(features.numpy())
    matrix = features.to_sparse_coo().coalesce()
    entries = (as_real(matrix.values().numpy()), matrix.indices().numpy())
    return scipy.sparse.csr_array(entries, shape=tuple(matrix.shape))


def _labels_of_pyg(labels: Tensor) -> Int64[np.ndarray, " nodes"]:
    # Some datasets keep labels as a column.
    flat = labels.squeeze(1) if labels.dim() == 2 and labels.shape[1] == 1 else labels
    if flat.dim() != 1 or flat.is_floating_point() or flat.is_complex():
        raise InputError(f"Expected y to hold one whole number per node, got {_describe(labels)}.")
    return flat.cpu().numpy().astype(np.int64)


def _masks_of_pyg(masks: list[Tensor | None], num_nodes: int) -> list[Masks]:
    """Return masks with one row per split. A missing mask is empty. If all are missing, there is no split."""
    by_split = [None if mask is None else np.atleast_2d(mask.cpu().numpy().T) for mask in masks]
    num_splits = max((len(mask) for mask in by_split if mask is not None), default=0)
    return [np.zeros((num_splits, num_nodes), bool) if mask is None else mask for mask in by_split]


# Features of which a larger share is zero are left alone, as are indicators: their zeros mean something.
MOST_ZEROS = 0.8


@dataclass(frozen=True, eq=False)
class FeatureScaling:
    """The center that is subtracted from each feature, and the scale by which it is then divided.

    Attributes:
        center: Mean of each feature over the nodes, or 0 if the feature is left alone.
        scale: Standard deviation of each feature, or 1 if the feature is left alone.
    """

    center: Float[np.ndarray, " features"]
    scale: Float[np.ndarray, " features"]

    @staticmethod
    def of(features: Any) -> FeatureScaling | None:
        """Return the scaling of a matrix of features. None if it is sparse, or nearly so."""
        if isinstance(features, MappedFeatures):
            return _scaling_of_file(features)
        if not isinstance(features, np.ndarray) or (features == 0).mean() > MOST_ZEROS:
            return None
        numbers = features.astype(np.float64, copy=False)
        center, spread = numbers.mean(axis=0), numbers.std(axis=0)
        is_indicator = np.array([len(np.unique(column)) <= 2 for column in numbers.T])
        is_left = is_indicator | (spread <= 1e-12 * np.abs(center))
        return FeatureScaling(np.where(is_left, 0.0, center), np.where(is_left, 1.0, spread))

    def apply(self, features: Any) -> Any:
        """Return scaled features, in float64. Those of a file stay there, and are scaled when they are read."""
        if isinstance(features, MappedFeatures):
            return MappedFeatures(features.numbers, self)
        dense = features.toarray() if scipy.sparse.issparse(features) else features
        return np.asarray((np.asarray(dense, dtype=np.float64) - self.center) / self.scale)

    def to_record(self) -> dict[str, list[float]]:
        """Return the scaling in types that JSON supports."""
        return {"center": self.center.tolist(), "scale": self.scale.tolist()}

    @staticmethod
    def from_record(record: dict[str, list[float]] | None) -> FeatureScaling | None:
        """Return the scaling of a record of `to_record`."""
        return None if record is None else FeatureScaling(*(np.array(record[name]) for name in ("center", "scale")))


def _scaling_of_file(features: MappedFeatures) -> FeatureScaling | None:
    """Return the scaling of features in a file, from two passes over it."""
    num_nodes, num_features = features.shape
    first = np.asarray(features.numbers[0], dtype=np.float64)
    sums, num_zeros = np.zeros(num_features), 0
    # A feature with two values is an indicator: the first one, and the first other one.
    others, is_indicator = np.full(num_features, np.nan), np.ones(num_features, dtype=bool)
    for chunk in features.chunks():
        sums += chunk.sum(axis=0, dtype=np.float64)
        num_zeros += int((chunk == 0).sum())
        is_other = chunk != first
        is_new = np.isnan(others) & is_other.any(axis=0)
        others[is_new] = chunk[is_other.argmax(axis=0), np.arange(num_features)][is_new]
        is_indicator &= ~(is_other & (chunk != others)).any(axis=0)
    if num_zeros > MOST_ZEROS * num_nodes * num_features:
        return None
    center = sums / num_nodes
    squares = np.zeros(num_features)
    for chunk in features.chunks():
        squares += np.square(chunk - center).sum(axis=0)
    spread = np.sqrt(squares / num_nodes)
    is_left = is_indicator | (spread <= 1e-12 * np.abs(center))
    return FeatureScaling(np.where(is_left, 0.0, center), np.where(is_left, 1.0, spread))
