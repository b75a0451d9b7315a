import numpy as np
import pytest
import torch

from tdegnn.nystrom import NystromFeatures, RidgeSums
from tdegnn.ridge import solve_ridge

NUM_LANDMARKS = 5
POINTS = np.random.default_rng(0).normal(size=(20, 3))
KERNEL = torch.as_tensor(np.exp(-((POINTS[:, None] - POINTS) ** 2).sum(axis=-1)))
TO_LANDMARKS = KERNEL[:, :NUM_LANDMARKS]
TARGETS = torch.as_tensor(np.random.default_rng(1).normal(size=(20, 2)))


def test_inner_products_of_features_stand_for_the_kernel():
    features = NystromFeatures(TO_LANDMARKS[:NUM_LANDMARKS]).of(TO_LANDMARKS)
    inverse = torch.linalg.inv(TO_LANDMARKS[:NUM_LANDMARKS])
    torch.testing.assert_close(features @ features.T, TO_LANDMARKS @ inverse @ TO_LANDMARKS.T, atol=1e-8, rtol=0)
    torch.testing.assert_close(features @ features[:NUM_LANDMARKS].T, TO_LANDMARKS, atol=1e-8, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_landmarks_may_have_twins(dtype):
    twice = torch.tensor([0, 1, 2, 2, 1, 3, 4])
    gram = KERNEL[twice][:, twice].to(dtype)
    features = NystromFeatures(gram).of(KERNEL[:, twice].to(dtype))
    once = NystromFeatures(TO_LANDMARKS[:NUM_LANDMARKS]).of(TO_LANDMARKS)
    torch.testing.assert_close((features @ features.T).double(), once @ once.T, atol=1e-4, rtol=0)


def test_a_ridge_from_sums_is_the_ridge_on_the_features_and_rows_can_be_left_out():
    landmarks = NystromFeatures(TO_LANDMARKS[:NUM_LANDMARKS])
    features = landmarks.of(TO_LANDMARKS)
    blocks = [RidgeSums.of(features[rows], TARGETS[rows], 8.0) for rows in (slice(0, 4), slice(4, 12), slice(12, 20))]
    nothing = RidgeSums.zeros(NUM_LANDMARKS, TARGETS, torch.float64)
    total = nothing + blocks[0] + blocks[1] + blocks[2]
    for sums, rows in ((total, slice(0, 20)), (total - blocks[0], slice(4, 20))):
        seen, mean = features[rows], TARGETS[rows].mean(dim=0)
        penalty = 0.5 * sums.diagonal / len(seen)
        expected = solve_ridge(seen.T @ seen, seen.T @ (TARGETS[rows] - mean), penalty)
        weights, added = sums.solve(0.5)
        torch.testing.assert_close(weights, expected)
        torch.testing.assert_close(added, mean)
        torch.testing.assert_close(TO_LANDMARKS @ landmarks.weights(weights), features @ expected)
