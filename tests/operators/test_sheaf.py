import pytest
import torch

from tdegnn import Graph, InputError
from tdegnn.operators.restriction_maps import inverse_square_roots, orthogonal_maps
from tdegnn.operators.sheaf import BundleSheafDiffusion, DiagonalSheafDiffusion, GeneralSheafDiffusion
from tests.core.checkers import CHANNELS, NUM_NODES, check_equation, check_members, random_history, weighted_graph

KINDS = [DiagonalSheafDiffusion, BundleSheafDiffusion, GeneralSheafDiffusion]


def restriction(operator, numbers):
    size = operator.stalk_channels
    if isinstance(operator, DiagonalSheafDiffusion):
        return torch.diag(numbers)
    if isinstance(operator, GeneralSheafDiffusion):
        return numbers.view(size, size)
    below = torch.eye(size, dtype=torch.float64)
    row, column = torch.tril_indices(size, size, -1)
    order = torch.argsort(column * size + row)
    below = below.index_put((row[order], column[order]), numbers)
    product = torch.eye(size, dtype=torch.float64)
    for vector in below.T:
        product = product @ (torch.eye(size, dtype=torch.float64) - 2 * torch.outer(vector, vector) / (vector @ vector))
    return product


def inverse_root(matrix):
    """By eigenvectors."""
    values, vectors = torch.linalg.eigh(matrix)
    return vectors @ torch.diag(values**-0.5) @ vectors.T


def dense_rate(operator, received, first, state, layer):
    """Blocks of the whole Laplacian (nodes x stalk, nodes x stalk)."""
    size = operator.stalk_channels
    weights = torch.maximum(received, received.T)
    both = torch.cat(tuple(operator.map_weight[layer]))
    blocks = [[torch.zeros(size, size, dtype=torch.float64) for _ in range(NUM_NODES)] for _ in range(NUM_NODES)]
    for u, v in weights.nonzero().tolist():
        own = restriction(operator, torch.tanh(torch.cat([state[u], state[v]]) @ both))
        other = restriction(operator, torch.tanh(torch.cat([state[v], state[u]]) @ both))
        blocks[u][u] = blocks[u][u] + weights[u, v] * own.T @ own
        blocks[u][v] = blocks[u][v] - weights[u, v] * own.T @ other
    laplacian = torch.cat([torch.cat(row, dim=1) for row in blocks])
    # Scaled apart, eigenvalues are not equal: their gradients by eigenvectors exist.
    shift = torch.diag(torch.linspace(0, 1e-13, size, dtype=torch.float64))
    norms = [inverse_root(blocks[u][u] + torch.eye(size, dtype=torch.float64) + shift) for u in range(NUM_NODES)]
    norm = torch.block_diag(*norms)
    stalks = state.reshape(NUM_NODES * size, -1)
    left = torch.block_diag(*[operator.stalk_weight[layer]] * NUM_NODES)
    change = norm @ laplacian @ norm @ left @ stalks @ operator.feature_weight[layer]
    growth = torch.tanh(operator.growth[layer]).repeat(NUM_NODES)[:, None]
    return (growth * stalks - torch.nn.functional.elu(change)).reshape(state.shape)
