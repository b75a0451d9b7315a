"""Pickles of numbers: NumPy arrays, SciPy's CSR matrices and plain containers, and no code.

Unpickling may call anything that a file names, so only the names on a short list are allowed. Python 2 wrote the files
of the citation graphs, hence its name for the builtins and the old modules of NumPy and SciPy. The checksum is verified
as well: open only files that `fetch` returned.
"""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy._core import multiarray

from tdegnn.errors import InputError

ADMITTED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): multiarray._reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): multiarray._reconstruct,
    ("numpy.core.multiarray", "scalar"): multiarray.scalar,
    ("numpy._core.multiarray", "scalar"): multiarray.scalar,
    ("scipy.sparse.csr", "csr_matrix"): scipy.sparse.csr_matrix,
    ("scipy.sparse._csr", "csr_matrix"): scipy.sparse.csr_matrix,
    ("collections", "defaultdict"): collections.defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _NumbersOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ADMITTED:
            raise InputError(
                f"Expected a pickle of numbers and plain containers, got one that asks for {module}.{name}."
            )
        return ADMITTED[module, name]


def read_pickle(path: Path) -> Any:
    """Read a pickle that holds only numbers and plain containers."""
    with path.open("rb") as stream:
        try:
            # Python 2 wrote arrays as strings of bytes; latin1 keeps every byte.
            return _NumbersOnly(stream, encoding="latin1").load()
        except InputError as error:
            raise InputError(error.message, f" Do not open {path} by other means.") from error
        except Exception as error:
            # A broken pickle may raise anything.
            raise InputError(f"Expected a pickle in {path}, got something else: {error}.") from error
