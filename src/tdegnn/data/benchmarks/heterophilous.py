"""Files of the study of heterophilous graphs: Chameleon and Squirrel, whole and without duplicates, with direction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.sparse

from tdegnn.data.array_files import read_arrays
from tdegnn.data.nodes import NodeDataset
from tdegnn.graph import Graph

ARRAYS = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")


def read(name: str, paths: Mapping[str, Path]) -> NodeDataset:
    """Read a dataset from its one file. A node receives from the pages to which it links (`out`)."""
    (path,) = paths.values()
    arrays = dict(zip(ARRAYS, read_arrays(path, "a dataset", ARRAYS), strict=True))
    labels = arrays["node_labels"].astype(np.int64)
    return NodeDataset(
        name,
        scipy.sparse.csr_array(arrays["node_features"].astype(np.float32, copy=False)),
        Graph(arrays["edges"].T, len(labels), direction="out"),
        labels,
        *(arrays[f"{subset}_masks"].astype(bool) for subset in ("train", "val", "test")),
    )
