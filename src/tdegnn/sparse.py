"""Product of a constant sparse matrix with dense states, `Y = A X`.

The matrix and its transpose are kept in compressed rows, so that the backward pass is a product like the
forward one (torch would transpose the matrix anew in every backward pass). The product is registered as an
operator of its own: `torch.compile` takes it as a whole, and `torch.func.vmap` folds its members into channels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import scipy.sparse
import torch
from jaxtyping import Float, Int
from torch import Tensor

# torch says once in a process that compressed rows are in beta, and that it does not check them unless asked. It is
# said here, where nobody listens.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False).to_dense()
    torch.eye(1).to_sparse_csr()


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A constant sparse matrix, ready to be multiplied with dense states and to be differentiated through.

    Attributes:
        row_pointers: Where each row starts in `columns` and `values`.
        columns: Column index of each entry.
        values: Value of each entry.
        transposed_row_pointers: The same for the transposed matrix.
        transposed_columns: The same for the transposed matrix.
        transposed_values: The same for the transposed matrix.
    """

    row_pointers: Int[Tensor, " rows_plus_one"]
    columns: Int[Tensor, " entries"]
    values: Float[Tensor, " entries"]
    transposed_row_pointers: Int[Tensor, " columns_plus_one"]
    transposed_columns: Int[Tensor, " entries"]
    transposed_values: Float[Tensor, " entries"]

    @staticmethod
    def from_scipy(matrix: scipy.sparse.sparray) -> SparseMatrix:
        """Copy a SciPy sparse matrix; values become float64 on the CPU."""
        parts: list[Tensor] = []
        for compressed in (matrix.tocsr(), matrix.T.tocsr()):
            compressed.sort_indices()
            parts.append(torch.as_tensor(compressed.indptr, dtype=torch.int64).clone())
            parts.append(torch.as_tensor(compressed.indices, dtype=torch.int64).clone())
            parts.append(torch.as_tensor(compressed.data, dtype=torch.float64).clone())
        return SparseMatrix(*parts)

    def to(self, device: torch.device, dtype: torch.dtype) -> SparseMatrix:
        """Return a copy with its values in `dtype`, on `device`."""
        return SparseMatrix(
            self.row_pointers.to(device),
            self.columns.to(device),
            self.values.to(device, dtype),
            self.transposed_row_pointers.to(device),
            self.transposed_columns.to(device),
            self.transposed_values.to(device, dtype),
        )

    def __matmul__(self, state: Float[Tensor, "*batch columns channels"]) -> Float[Tensor, "*batch rows channels"]:
        """Multiply along the node axis of `state`; batch axes ride along as channels."""
        if state.dim() == 2:
            return self._multiply(state)
        nodes_first = state.movedim(-2, 0)
        product = self._multiply(nodes_first.flatten(1))
        folded: Tensor = product.unflatten(1, nodes_first.shape[1:])
        return folded.movedim(0, -2)

    def _multiply(self, dense: Float[Tensor, "columns channels"]) -> Float[Tensor, "rows channels"]:
        product: Tensor = _SparseProduct.apply(  # type: ignore[no-untyped-call]
            self.row_pointers,
            self.columns,
            self.values,
            self.transposed_row_pointers,
            self.transposed_columns,
            self.transposed_values,
            dense,
        )
        return product


@torch.library.custom_op(
    "tdegnn::sparse_product",
    mutates_args=(),
    schema="(Tensor row_pointers, Tensor columns, Tensor values, int num_columns, Tensor dense) -> Tensor",
)
def sparse_product(row_pointers: Tensor, columns: Tensor, values: Tensor, num_columns: int, dense: Tensor) -> Tensor:
    """`A @ dense`, as one operator that `torch.compile` does not look into."""
    shape = (row_pointers.numel() - 1, num_columns)
    matrix = torch.sparse_csr_tensor(row_pointers, columns, values, shape, check_invariants=False)
    product: Tensor = torch.sparse.mm(matrix, dense.contiguous())
    return product


@sparse_product.register_fake
def _(row_pointers: Tensor, columns: Tensor, values: Tensor, num_columns: int, dense: Tensor) -> Tensor:  # noqa: ARG001
    return dense.new_empty(row_pointers.shape[0] - 1, dense.shape[1])


class _SparseProduct(torch.autograd.Function):
    """`A X` for the parts of A, those of its transpose, and X. Only X has a gradient, `A^T dY`."""

    @staticmethod
    def forward(*inputs: Tensor) -> Tensor:
        row_pointers, columns, values, transposed_row_pointers, _, _, dense = inputs
        product: Tensor = sparse_product(row_pointers, columns, values, transposed_row_pointers.numel() - 1, dense)
        return product

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs[:6])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        matrix, transposed = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        return (*[None] * 6, _SparseProduct.apply(*transposed, *matrix, gradient))  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Tensor, int]:  # noqa: ARG004
        """Fold the members into channels: one product for all of them."""
        member_axis = in_dims[-1]
        assert member_axis is not None  # the matrix is a constant: only the dense factor has members
        members_in_the_middle = inputs[-1].movedim(member_axis, 1)
        product = _SparseProduct.apply(*inputs[:6], members_in_the_middle.flatten(1))  # type: ignore[no-untyped-call]
        return product.unflatten(1, members_in_the_middle.shape[1:]), 1
