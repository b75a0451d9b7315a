"""Telling PyG data without importing PyG, which takes seconds: whoever has such data has imported it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from torch_geometric.data import Data


def is_pyg_data(value: Any) -> TypeGuard[Data]:
    """Whether a value is PyG data."""
    module = sys.modules.get("torch_geometric.data")
    return module is not None and isinstance(value, module.Data)
