"""The kernel multiplies as torch does, for every precision, shape and stride, and always to the same bits."""

import numpy as np
import pytest
import scipy.sparse
import torch

import tdegnn.sparse
from tdegnn.messages import messages_in
from tdegnn.sparse import SparseMatrix

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
CUDA = torch.device("cuda")


def make_matrix(num_rows: int = 40, num_columns: int = 50) -> scipy.sparse.csr_array:
    """A matrix with empty rows and columns, and a full row."""
    dense = scipy.sparse.random_array((num_rows, num_columns), density=0.2, rng=np.random.default_rng(0)).toarray()
    dense[3], dense[5], dense[:, 7] = 1.5, 0.0, 0.0
    return scipy.sparse.csr_array(dense)


@pytest.mark.parametrize("channels", [1, 3, 64, 200])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 5e-2)]
)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_products_and_gradients_are_those_of_the_dense_matrix(channels, dtype, tolerance, batch):
    matrix = SparseMatrix.from_scipy(make_matrix()).to(CUDA, dtype)
    assert matrix.columns.dtype == torch.int32
    state = torch.randn(*batch, 50, channels, device=CUDA, dtype=dtype, requires_grad=True)
    expected = matrix.to_dense().double() @ state.detach().double()
    product = matrix @ state
    torch.testing.assert_close(product.double(), expected, rtol=tolerance, atol=tolerance)
    gradient = torch.randn_like(product)
    (to_state,) = torch.autograd.grad(product, state, gradient)
    back = matrix.to_dense().double().mT @ gradient.double()
    torch.testing.assert_close(to_state.double(), back, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_messages_of_16_bits_are_added_in_32(batch):
    matrix, state = (
        SparseMatrix.from_scipy(make_matrix()).to(CUDA, torch.float32),
        torch.randn(*batch, 50, 64, device=CUDA),
    )
    with messages_in(torch.bfloat16):
        product = matrix @ state
    assert product.dtype == torch.float32
    torch.testing.assert_close(product, matrix @ state.bfloat16().float())


def test_states_are_read_where_they_are():
    matrix = SparseMatrix.from_scipy(make_matrix()).to(CUDA, torch.float32)
    state = torch.randn(50, 4, 16, device=CUDA).movedim(1, 0)  # members are not in front in memory
    assert torch.equal(matrix @ state, matrix @ state.contiguous())


def test_members_get_what_they_get_alone():
    matrix = SparseMatrix.from_scipy(make_matrix()).to(CUDA, torch.float64)
    members = torch.randn(6, 50, 8, device=CUDA, dtype=torch.float64)

    def loss(state):
        return (matrix @ state).square().sum()

    together = torch.func.vmap(torch.func.grad(loss), in_dims=1)(members.movedim(0, 1))
    alone = torch.stack([torch.func.grad(loss)(member) for member in members])
    torch.testing.assert_close(together, alone)


def test_the_same_bits_every_time():
    matrix = SparseMatrix.from_scipy(make_matrix(4000, 1500)).to(CUDA, torch.float32)
    assert matrix.columns.dtype == torch.int32  # no row is too long for the kernel
    state = torch.randn(1500, 64, device=CUDA)
    first = matrix @ state
    assert all(torch.equal(first, matrix @ state) for _ in range(20))


def test_long_rows_are_left_to_torch(monkeypatch):
    monkeypatch.setattr(tdegnn.sparse, "LONGEST_ROW", 10)
    matrix = SparseMatrix.from_scipy(make_matrix()).to(CUDA, torch.float64)
    assert matrix.columns.dtype == torch.int64
    state = torch.randn(2, 50, 8, device=CUDA, dtype=torch.float64)
    torch.testing.assert_close(matrix @ state, matrix.to_dense() @ state)


def test_without_triton_torch_multiplies(monkeypatch):
    monkeypatch.setattr("tdegnn.kernels.usable._compiles", lambda device: False)
    matrix = SparseMatrix.from_scipy(make_matrix()).to(CUDA, torch.float64)
    state = torch.randn(2, 50, 8, device=CUDA, dtype=torch.float64)
    torch.testing.assert_close(matrix @ state, matrix.to_dense() @ state)
