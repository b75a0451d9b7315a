from functools import partial
from itertools import product

import pytest
import torch

from tdegnn import Graph, InputError
from tdegnn.adjacency import pattern_of
from tdegnn.operators.restriction_maps import inverse_square_roots, orthogonal_maps
from tdegnn.operators.sheaf import BundleSheafDiffusion, DiagonalSheafDiffusion, GeneralSheafDiffusion
from tests.core.checkers import CHANNELS, NUM_NODES, check_equation, check_members, random_history, weighted_graph

KINDS = [DiagonalSheafDiffusion, BundleSheafDiffusion, GeneralSheafDiffusion]


def restriction(operator, numbers):
    size = operator.map_channels
    if isinstance(operator, DiagonalSheafDiffusion):
        return torch.diag(numbers)
    if isinstance(operator, GeneralSheafDiffusion):
        return numbers.view(size, size)
    below = torch.eye(size, dtype=torch.float64)
    row, column = torch.tril_indices(size, size, -1)
    order = torch.argsort(column * size + row)
    below = below.index_put((row[order], column[order]), numbers)
    turned = torch.eye(size, dtype=torch.float64)
    for vector in below.T:
        turned = turned @ (torch.eye(size, dtype=torch.float64) - 2 * torch.outer(vector, vector) / (vector @ vector))
    return turned


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
        numbers = [torch.cat([state[u], state[v]]) @ both, torch.cat([state[v], state[u]]) @ both]
        weight = weights[u, v]
        if operator.learned_weights:
            weight = weight * (torch.sigmoid(numbers[0][-1]) * torch.sigmoid(numbers[1][-1])) ** 2
            numbers = [each[:-1] for each in numbers]
        own, other = (restriction(operator, torch.tanh(each)) for each in numbers)
        products = [weight * own.T @ own, -weight * own.T @ other]
        if operator.fixed_channel:
            products = [torch.block_diag(each, weights[u, v]) for each in products]
        blocks[u][u] = blocks[u][u] + products[0]
        blocks[u][v] = blocks[u][v] + products[1]
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


DENSE = {f"sheaf-{kind}": dense_rate for kind in ("diagonal", "bundle", "general")}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "stalk_channels"), [*product(KINDS, [2, 4]), (GeneralSheafDiffusion, 1)])
def test_rate_is_the_equation(kind, stalk_channels):
    check_equation(lambda: kind(CHANNELS, 2, stalk_channels=stalk_channels), dense_rate, directions=("out", "both"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rate_with_a_fixed_channel_and_learned_weights_is_the_equation(kind):
    make = partial(kind, CHANNELS, 2, stalk_channels=4, fixed_channel=True, learned_weights=True)
    check_equation(make, dense_rate, directions=("out",))
    check_members(make)


@pytest.mark.parametrize("kind", KINDS)
def test_identity_maps_give_the_laplacian_of_the_graph(kind):
    """With degrees plus one: `(D + 1)^-1/2 (D - A) (D + 1)^-1/2`."""
    operator, graph, (state,) = kind(CHANNELS, 1).double(), weighted_graph(), random_history(1)
    pattern = torch.as_tensor(graph.received.toarray())
    # Numbers that make the maps I, or -I, which are the same: only products of two maps enter.
    numbers = {DiagonalSheafDiffusion: [1.0, 1.0], BundleSheafDiffusion: [0.0], GeneralSheafDiffusion: [1.0, 0, 0, 1.0]}
    ends = torch.tensor(numbers[kind], dtype=torch.float64)[:, None].expand(-1, graph.received.nnz)
    stalks = state.unflatten(-1, (2, -1)).movedim(-2, -3)
    change = operator._laplacian(pattern_of(graph, state), pattern_of(graph, state).values, ends, ends, stalks)
    degrees = pattern.sum(dim=1)
    norm = torch.diag((degrees + 1) ** -0.5)
    expected = norm @ (torch.diag(degrees) - pattern) @ norm @ stalks
    torch.testing.assert_close(change, expected)


def test_starts_as_the_published_weights_do():
    operator, state = GeneralSheafDiffusion(CHANNELS, 2), random_history(1, dtype=torch.float32)[0]
    assert torch.equal(operator.stalk_weight[1], torch.eye(2))
    torch.testing.assert_close(operator.feature_weight[0] @ operator.feature_weight[0].T, torch.eye(2))
    # e is zero, so that a node without edges keeps its state.
    assert operator(state, weighted_graph(), 0)[0][-1].abs().max() == 0
    assert operator(state, Graph([[], []], NUM_NODES), 0)[0].abs().max() == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_members_with_four_stalk_channels_get_what_they_get_alone(kind):
    check_members(lambda: kind(CHANNELS, 2, stalk_channels=4))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_orthogonal_maps_are_orthogonal(size):
    maps = orthogonal_maps(torch.randn(size * (size - 1) // 2, 6, dtype=torch.float64), size).movedim(-1, 0)
    identity = torch.eye(size, dtype=torch.float64).expand_as(maps)
    torch.testing.assert_close(maps @ maps.mT, identity)
    at_zero = orthogonal_maps(torch.zeros(size * (size - 1) // 2, 1, dtype=torch.float64), size)
    torch.testing.assert_close(at_zero[..., 0], -identity[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("largest", [0.0, 1.0, 1e4])
def test_inverse_square_roots_of_equal_and_of_very_different_eigenvalues(dtype, size, largest):
    factors = torch.randn(6, size, size, dtype=torch.float64)
    low_rank = factors[..., :1] @ factors[..., :1].mT * largest
    blocks = (torch.eye(size, dtype=torch.float64) + low_rank).to(dtype).movedim(0, -1).requires_grad_()
    roots = inverse_square_roots(blocks)
    expected = torch.stack([inverse_root(block) for block in blocks.detach().double().movedim(-1, 0)], dim=-1)
    tolerance = 1e-9 if dtype is torch.float64 else 1e-3
    torch.testing.assert_close(roots.double(), expected, atol=tolerance, rtol=tolerance)
    roots.square().sum().backward()
    assert blocks.grad.isfinite().all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiagonalSheafDiffusion(4, 1, stalk_channels=3), "stalk_channels to divide the 4 channels.*got 3"),
        (lambda: BundleSheafDiffusion(4, 1, stalk_channels=1), "stalk_channels to be at least 2, got 1"),
        (lambda: GeneralSheafDiffusion(4, 1).double()(random_history(1)[0], weighted_graph(), 1), "got layer 1"),
    ],
)
def test_wrong_settings_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
