"""Features in a file that is mapped into memory: rows are read when they are needed, and scaled then.

`numpy.load("features.npy", mmap_mode="r")` maps a file of NumPy, `map_tensor` one of safetensors. All that looks at all
rows does so in chunks, so that no copy of the features is made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Shaped

from tdegnn.data.mappings import let_go
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.data.nodes import FeatureScaling

# The name of the tensor of features in a file of several.
FEATURES = "features"
# Numbers that are looked at at a time.
CHUNK = 2**24
# The longest header of a safetensors file, as its authors have it.
LONGEST_HEADER = 100_000_000
_TYPES = ("BOOL ?", "U8 u1", "I8 i1", "I16 <i2", "I32 <i4", "I64 <i8", "F16 <f2", "F32 <f4", "F64 <f8")
TENSOR_TYPES = dict(names.split() for names in _TYPES)


class MappedFeatures:
    """Features in a file, one row per node.

    Args:
        numbers: The array, mapped to the file, in float32 or float64.
        scaling: What rows are scaled by when they are read. If None, they stay as they are.
    """

    ndim = 2

    def __init__(self, numbers: Float[np.ndarray, "nodes features"], scaling: FeatureScaling | None = None) -> None:
        self.numbers, self.scaling = numbers, scaling

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes and of features."""
        return int(self.numbers.shape[0]), int(self.numbers.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers in the file."""
        return self.numbers.dtype

    def __getitem__(self, rows: Any) -> Float[np.ndarray, "rows features"]:
        """Return some rows, scaled."""
        let_go(self.numbers)
        found = np.asarray(self.numbers[rows])
        return found if self.scaling is None else self.scaling.apply(found).astype(found.dtype)

    def chunks(self) -> Iterator[Float[np.ndarray, "rows features"]]:
        """Yield all rows, scaled, some at a time."""
        step = max(1, CHUNK // self.shape[1])
        for first in range(0, self.shape[0], step):
            yield self[first : first + step]

    def copy(self) -> MappedFeatures:
        """Return the same features: a file is not copied."""
        return self

    def __repr__(self) -> str:
        return f"MappedFeatures(nodes={self.shape[0]}, features={self.shape[1]}, {self.dtype})"


def map_matrix(path: Path) -> Float[np.ndarray, "nodes features"]:
    """Map the matrix in a file into memory, without reading it. Whole numbers are read and converted.

    Args:
        path: A `.npy` file, or a `.safetensors` file with a tensor `features`.
    """
    matrix = map_tensor(path, FEATURES) if path.suffix == ".safetensors" else _map_array(path)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf" or 0 in matrix.shape:
        raise InputError(
            f"Expected one row of numbers per node in {path.name}, got {matrix.dtype} of shape {matrix.shape}."
        )
    return matrix if matrix.dtype in (np.float32, np.float64) else np.asarray(matrix, dtype=np.float32)


def _map_array(path: Path) -> Shaped[np.ndarray, "..."]:
    try:
        mapped: Shaped[np.ndarray, "..."] = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise InputError(f"Expected a matrix in {path.name}, got a file that cannot be read: {error}.") from error
    return mapped


def map_tensor(path: str | Path, name: str) -> Shaped[np.ndarray, "..."]:
    """Map a tensor of a safetensors file into memory, without reading it.

    Args:
        path: The file.
        name: The name of the tensor in it.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length <= LONGEST_HEADER else {}
    except (OSError, ValueError) as error:
        raise InputError(f"Expected a safetensors file, got {path}, which cannot be read as one: {error}.") from error
    entry = header.get(name)
    if not isinstance(entry, dict) or entry.get("dtype") not in TENSOR_TYPES:
        found = ", ".join(sorted({*header} - {"__metadata__"})) or "none"
        raise InputError(f"Expected a tensor of numbers {name!r} in {path}, got {found}. Pass the name of one of them.")
    shape, (start, end) = tuple(entry["shape"]), entry["data_offsets"]
    kind = np.dtype(TENSOR_TYPES[entry["dtype"]])
    if kind.itemsize * int(np.prod(shape)) != end - start or 8 + length + end > path.stat().st_size:
        raise InputError(f"Expected a whole safetensors file, got {path}, which is damaged. Write it again.")
    return np.memmap(path, kind, "r", offset=8 + length + start, shape=shape)
