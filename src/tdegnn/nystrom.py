"""Nystrom features: `phi_i = L^-1 K_mi` with `K_mm = L L^T`, whose inner products stand for a kernel K.

`phi_i . phi_j = K_im K_mm^-1 K_mj` is `K_ij` if i or j is one of the m landmarks, and close to it if landmarks are like
the other rows. A ridge on phi needs only sums over rows, of size m x m, so rows are taken in blocks and not kept
(Williams & Seeger, 2001, Using the Nystrom method to speed up kernel machines).
Deviation: L is a Cholesky factor instead of the symmetric root of `K_mm`. It is quicker to find, and phi is only turned
in space, which changes no ridge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tdegnn.ridge import ROUNDING, solve_refined_ridge


class NystromFeatures:
    """Features of rows by their kernel with the landmarks.

    Twins among the landmarks make `K_mm` singular, so a share of its trace is added to its diagonal: as much as
    rounding may have taken from an eigenvalue.

    Args:
        gram: `K_mm`, the kernel between the landmarks.
    """

    def __init__(self, gram: Float[Tensor, "landmarks landmarks"]) -> None:
        exact = gram.to(torch.float64)
        share = max(torch.finfo(gram.dtype).eps, ROUNDING)
        exact.diagonal().add_(share * float(exact.diagonal().sum()))
        self._factor = torch.linalg.cholesky(exact)
        self._upper = self._factor.mT.to(gram.dtype)

    def of(self, kernel: Float[Tensor, "rows landmarks"]) -> Float[Tensor, "rows landmarks"]:
        """Return the features of rows, in the precision of their kernel with the landmarks."""
        features: Tensor = torch.linalg.solve_triangular(self._upper, kernel, upper=True, left=False)
        return features

    def weights(self, on_features: Float[Tensor, "landmarks outputs"]) -> Float[Tensor, "landmarks outputs"]:
        """Return weights of the kernel, `L^-T w`, which predict the same as weights w of the features."""
        weights: Tensor = torch.linalg.solve_triangular(self._factor.mT, on_features, upper=True)
        return weights

    def directions_of(self, positions: Int[np.ndarray, " some"]) -> Float[Tensor, "landmarks some"]:
        """Return an orthonormal basis of the features' directions that only some landmarks, by position, add.

        Weights orthogonal to it are those that a ridge on the other landmarks may have.
        """
        columns = torch.zeros(len(self._factor), len(positions), dtype=torch.float64, device=self._factor.device)
        columns[positions, np.arange(len(positions))] = 1.0
        added = torch.linalg.solve_triangular(self._factor, columns, upper=False)
        basis: Tensor = torch.linalg.qr(added).Q.to(self._upper.dtype)
        return basis


@dataclass
class RidgeSums:
    """What a ridge has to know of rows: sums over them, which can be added, and subtracted to leave rows out.

    Attributes:
        num_rows: Number of rows.
        gram: `sum_i phi_i phi_i^T`.
        features: `sum_i phi_i`.
        products: `sum_i phi_i y_i^T`.
        targets: `sum_i y_i`.
        diagonal: `sum_i K_ii`.
    """

    num_rows: int
    gram: Float[Tensor, "landmarks landmarks"]
    features: Float[Tensor, " landmarks"]
    products: Float[Tensor, "landmarks outputs"]
    targets: Float[Tensor, " outputs"]
    diagonal: float

    @classmethod
    def zeros(cls, num_landmarks: int, targets: Float[Tensor, "rows outputs"], dtype: torch.dtype) -> RidgeSums:
        """Return the sums over no rows."""
        features = torch.zeros(num_landmarks, dtype=dtype, device=targets.device)
        products = features[:, None] * targets[:1].to(dtype)
        return cls(0, torch.outer(features, features), features, products, torch.zeros_like(targets[0]), 0.0)

    @classmethod
    def of(
        cls, features: Float[Tensor, "rows landmarks"], targets: Float[Tensor, "rows outputs"], diagonal: float
    ) -> RidgeSums:
        """Return the sums over a block of rows."""
        products = features.mT @ targets.to(features.dtype)
        return cls(len(features), features.mT @ features, features.sum(0), products, targets.sum(0), diagonal)

    def __add__(self, other: RidgeSums) -> RidgeSums:
        """Return the sums over the rows of both."""
        return RidgeSums(*(own + others for own, others in zip(vars(self).values(), vars(other).values(), strict=True)))

    def __sub__(self, other: RidgeSums) -> RidgeSums:
        """Return the sums over the rows that are not in the other."""
        return RidgeSums(*(own - others for own, others in zip(vars(self).values(), vars(other).values(), strict=True)))

    def without(self, directions: Float[Tensor, "landmarks some"]) -> RidgeSums:
        """Return the sums of features that have no part in some directions, given by an orthonormal basis N.

        The matrix is `(I - N N^T) gram (I - N N^T)`.
        """
        left = self.gram @ directions
        half = left - directions @ (directions.mT @ left) / 2
        gram = self.gram - half @ directions.mT - directions @ half.mT
        features = self.features - directions @ (directions.mT @ self.features)
        products = self.products - directions @ (directions.mT @ self.products)
        return replace(self, gram=gram, features=features, products=products)

    def solve(self, ridge: float) -> tuple[Float[Tensor, "landmarks outputs"], Float[Tensor, " outputs"]]:
        """Return the weights of the features, and the mean of the targets, which predictions add.

        Args:
            ridge: lambda, relative to the mean of the diagonal of K.
        """
        mean = self.targets / self.num_rows
        products = self.products.to(mean.dtype) - torch.outer(self.features.to(mean.dtype), mean)
        weights = solve_refined_ridge(self.gram, products, ridge * self.diagonal / self.num_rows)
        return weights, mean
