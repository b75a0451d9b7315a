"""Small matrices of a sheaf, one per edge end or node: orthogonal maps, products, inverse square roots.

Edges and nodes are the last axis, `(*batch, stalk, stalk, edges)`, as `tdegnn.edge_values` has them. Everything is made
of sums and products: no decomposition, whose gradient would be infinite for equal eigenvalues, and no call that waits
for the device.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# Iterations for the inverse square root. Each more than doubles the eigenvalues that are far below one; once they are
# near one, five more reach full precision. So 20 are enough for traces of up to 100,000, far above usual degrees.
ITERATIONS = 20


def orthogonal_maps(
    numbers: Float[Tensor, "*batch numbers edges"], stalk_channels: int
) -> Float[Tensor, "*batch stalk stalk edges"]:
    """Return orthogonal matrices, products of Householder reflections `I - 2 v v^T / |v|^2`, one per stalk channel.

    The k-th vector v is zero before k, one at k, and has the next of the `stalk (stalk - 1) / 2` numbers after k. For
    numbers of zero, the matrix is -I.
    """
    ones = torch.ones_like(numbers[..., :1, :])
    maps = None
    first = 0
    for k in range(stalk_channels):
        num_below = stalk_channels - 1 - k
        parts = [ones.expand(*ones.shape[:-2], k, -1) * 0, ones, numbers[..., first : first + num_below, :]]
        first += num_below
        vector = torch.cat(parts, dim=-2)  # (*batch, stalk, edges)
        scaled = 2 * vector / vector.square().sum(dim=-2, keepdim=True)
        if maps is None:
            identity = torch.eye(stalk_channels, dtype=numbers.dtype, device=numbers.device)[..., None]
            maps = identity - scaled[..., :, None, :] * vector[..., None, :, :]
        else:
            turned = (maps * scaled[..., None, :, :]).sum(dim=-2)
            maps = maps - turned[..., :, None, :] * vector[..., None, :, :]
    assert maps is not None  # a stalk has channels
    return maps


def transposed_product(
    left: Float[Tensor, "*batch stalk stalk edges"], right: Float[Tensor, "*batch stalk stalk edges"]
) -> Float[Tensor, "*batch stalk stalk edges"]:
    """Return `left^T right` for each edge."""
    # One term after the other: all of them at once would take stalk^3 numbers per edge.
    product = left[..., 0, :, None, :] * right[..., 0, None, :, :]
    for k in range(1, left.shape[-3]):
        product = product + left[..., k, :, None, :] * right[..., k, None, :, :]
    return product


def inverse_square_roots(
    blocks: Float[Tensor, "*batch stalk stalk nodes"],
) -> Float[Tensor, "*batch stalk stalk nodes"]:
    """Return `M^-1/2` of symmetric matrices whose eigenvalues are at least one.

    In closed form for up to two stalk channels, else by the Newton-Schulz iteration `Y <- Y T, Z <- T Z` with
    `T = (3 I - Z Y) / 2`, where Z goes to the inverse square root of the first Y.
    """
    stalk_channels = blocks.shape[-2]
    if stalk_channels == 1:
        return blocks.rsqrt()
    if stalk_channels == 2:
        return _inverse_square_roots_of_pairs(blocks)
    matrices = blocks.movedim(-1, -3)
    identity = torch.eye(stalk_channels, dtype=blocks.dtype, device=blocks.device)
    # The trace is an upper bound of the largest eigenvalue.
    trace = matrices.diagonal(dim1=-2, dim2=-1).sum(dim=-1)[..., None, None]
    root, inverse = matrices / trace, identity.expand_as(matrices)
    for _ in range(ITERATIONS):
        factor = 1.5 * identity - 0.5 * (inverse @ root)
        root, inverse = root @ factor, factor @ inverse
    return (inverse * trace.rsqrt()).movedim(-3, -1)


def _inverse_square_roots_of_pairs(blocks: Float[Tensor, "*batch 2 2 nodes"]) -> Float[Tensor, "*batch 2 2 nodes"]:
    """Return `((tr M + s) I - M) / (s t)` with `s = sqrt(det M)` and `t = sqrt(tr M + 2 s)`."""
    first, mixed, last = blocks[..., 0, 0, :], blocks[..., 0, 1, :], blocks[..., 1, 1, :]
    root = (first * last - mixed.square()).sqrt()
    scale = 1 / (root * (first + last + 2 * root).sqrt())
    rows = torch.stack([last + root, -mixed, -mixed, first + root], dim=-2)
    scaled: Tensor = (rows * scale[..., None, :]).unflatten(-2, (2, 2))
    return scaled
