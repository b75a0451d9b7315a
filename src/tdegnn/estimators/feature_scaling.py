"""Features of nodes in units of their own spread, so that a column in thousands does not drown one in hundredths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float

# Features of which more than this are zero are left alone, as are indicators: their zeros mean something.
MOST_ZEROS = 0.8


@dataclass(frozen=True, eq=False)
class FeatureScaling:
    """What is subtracted from each feature, and what it is then divided by.

    Attributes:
        center: Mean of each feature over the nodes; 0 where it is left alone.
        scale: Standard deviation of each feature; 1 where it is left alone.
    """

    center: Float[np.ndarray, " features"]
    scale: Float[np.ndarray, " features"]

    @staticmethod
    def of(features: Any) -> FeatureScaling | None:
        """The scaling of a matrix of features; None where it is sparse, or nearly so."""
        if not isinstance(features, np.ndarray) or (features == 0).mean() > MOST_ZEROS:
            return None
        numbers = features.astype(np.float64)
        center, spread = numbers.mean(axis=0), numbers.std(axis=0)
        is_indicator = np.array([len(np.unique(column)) <= 2 for column in numbers.T])
        is_left = is_indicator | (spread <= 1e-12 * np.abs(center))
        return FeatureScaling(np.where(is_left, 0.0, center), np.where(is_left, 1.0, spread))

    def apply(self, features: Any) -> Float[np.ndarray, "nodes features"]:
        """Scaled features."""
        dense = features.toarray() if scipy.sparse.issparse(features) else features
        return np.asarray((np.asarray(dense, dtype=np.float64) - self.center) / self.scale, dtype=np.float32)

    def to_record(self) -> dict[str, list[float]]:
        """As JSON keeps it."""
        return {"center": self.center.tolist(), "scale": self.scale.tolist()}

    @staticmethod
    def from_record(record: dict[str, list[float]] | None) -> FeatureScaling | None:
        """What `to_record` gave."""
        return None if record is None else FeatureScaling(*(np.array(record[name]) for name in ("center", "scale")))
