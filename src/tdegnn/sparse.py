"""Product of a constant sparse matrix with dense states, `Y = A X`.

The matrix and its transpose are kept in compressed rows, so that the backward pass is a product like the forward one
(torch would transpose the matrix anew in every backward pass). The product is registered as a custom operator:
`torch.compile` does not look into it. `torch.func.vmap` folds members into channels or, if each member has its own
values (dropout), into the blocks of one large matrix. On a CUDA device, matrices without very long rows are multiplied
by a kernel (`kernels/row_product.py`), which takes the states of members as they are. Messages may have fewer
digits than states and sums (`messages.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tdegnn.kernels.usable import runs_kernels
from tdegnn.messages import as_messages, message_type, messages_in
from tdegnn.torch_internals import quick_to_call

_is_plain: ContextVar[bool] = ContextVar("_is_plain", default=False)


@contextmanager
def plain_products() -> Iterator[None]:
    """Inside the `with` block, compute products by gathering and adding rows, which every runtime knows.

    For the export of a network (`tdegnn.export`). It takes memory for each entry and channel.
    """
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)


# How many matrices of copies a matrix keeps: those of training and of evaluation, for two sizes.
KEPT_COPIES = 4
# On CUDA devices, a matrix whose rows are no longer than this is multiplied by our kernel, others by cuSPARSE: one
# program of the kernel walks a whole row, and all would wait for the longest one.
LONGEST_ROW = 2048

# Trigger torch's one-time warnings here, where they are silenced: that compressed rows are in beta, and that torch does
# not check them unless asked.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False).to_dense()
    torch.eye(1).to_sparse_csr()


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A constant sparse matrix, ready to be multiplied with dense states and to be differentiated through.

    Attributes:
        row_pointers: Start of each row in `columns` and `values`.
        columns: Column index of each entry.
        values: Value of each entry.
        transposed_row_pointers: The same for the transposed matrix.
        transposed_columns: The same for the transposed matrix.
        transposed_values: The same for the transposed matrix.
        known_order: Position in `values` of each entry of `transposed_values`. If None, found when it is needed.
    """

    row_pointers: Int[Tensor, " rows_plus_one"]
    columns: Int[Tensor, " entries"]
    values: Float[Tensor, " entries"]
    transposed_row_pointers: Int[Tensor, " columns_plus_one"]
    transposed_columns: Int[Tensor, " entries"]
    transposed_values: Float[Tensor, " entries"]
    known_order: Int[Tensor, " entries"] | None = None

    @cached_property
    def transposed_order(self) -> Int[Tensor, " entries"]:
        """Position in `values` of each entry of `transposed_values`."""
        if self.known_order is not None:
            return self.known_order
        with torch.inference_mode(False):
            return torch.argsort(self.columns, stable=True)

    @staticmethod
    def from_scipy(matrix: scipy.sparse.sparray) -> SparseMatrix:
        """Copy a SciPy sparse matrix. Values become float64 on the CPU."""
        forward = scipy.sparse.csr_array(matrix, dtype=np.float64, copy=True)
        forward.sum_duplicates()
        numbers = np.arange(forward.nnz, dtype=forward.indices.dtype)
        numbered = scipy.sparse.csr_array((numbers, forward.indices, forward.indptr), forward.shape)
        backward = numbered.T.tocsr()
        backward.sort_indices()
        order = torch.as_tensor(backward.data, dtype=torch.int64)
        values = torch.as_tensor(forward.data)
        pointers, columns = _as_indices(forward)
        # The two halves of a symmetric matrix are the same tensors.
        is_alike = np.array_equal(forward.indptr, backward.indptr) and np.array_equal(forward.indices, backward.indices)
        turned = (pointers, columns) if is_alike else _as_indices(backward)
        turned_values = values[order]
        if is_alike and torch.equal(values, turned_values):
            turned_values = values
        return SparseMatrix(pointers, columns, values, *turned, turned_values, order)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of its values."""
        return self.values.dtype

    def to(self, device: torch.device, dtype: torch.dtype) -> SparseMatrix:
        """Return a copy with its values in `dtype`, on `device`."""
        # On the CPU, indices stay as they are: torch makes those of 32 bits for each product.
        kinds = {"cpu": self.columns.dtype, "cuda": self._kind_for_kernels}
        kind = kinds.get(device.type, torch.int64)
        pointers, columns = self.row_pointers.to(device, kind), self.columns.to(device, kind)
        values = self.values.to(device, dtype)
        # What the two halves of a symmetric matrix share stays shared.
        are_indices_shared = self.transposed_columns is self.columns
        are_values_shared = self.transposed_values is self.values
        return SparseMatrix(
            pointers,
            columns,
            values,
            pointers if are_indices_shared else self.transposed_row_pointers.to(device, kind),
            columns if are_indices_shared else self.transposed_columns.to(device, kind),
            values if are_values_shared else self.transposed_values.to(device, dtype),
            None if self.known_order is None else self.known_order.to(device),
        )

    @property
    def _kind_for_kernels(self) -> torch.dtype:
        """Indices of 32 bits where they suffice and rows are short enough for our kernel, else of 64 bits."""
        is_small = max(*self.shape, self.columns.numel()) <= torch.iinfo(torch.int32).max
        starts = (self.row_pointers, self.transposed_row_pointers)
        longest = max((int(each.diff().max()) for each in starts if len(each) > 1), default=0)
        return torch.int32 if is_small and longest <= LONGEST_ROW else torch.int64

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.row_pointers.numel() - 1, self.transposed_row_pointers.numel() - 1

    def with_values(self, values: Float[Tensor, " entries"]) -> SparseMatrix:
        """Return a matrix with the same pattern and other values."""
        order = self.transposed_order
        return replace(self, values=values, transposed_values=values[order], known_order=order)

    @cached_property
    def rows(self) -> Int[Tensor, " entries"]:
        """Row index of each entry."""
        with torch.inference_mode(False):
            rows = torch.arange(self.shape[0], device=self.columns.device)
            return rows.repeat_interleave(self.row_pointers.diff(), output_size=self.columns.numel())

    @cached_property
    def transposed(self) -> SparseMatrix:
        """The transposed matrix."""
        with torch.inference_mode(False):
            back = torch.empty_like(self.transposed_order)
            back[self.transposed_order] = torch.arange(back.numel(), device=back.device)
        return SparseMatrix(
            self.transposed_row_pointers,
            self.transposed_columns,
            self.transposed_values,
            self.row_pointers,
            self.columns,
            self.values,
            back,
        )

    def copies(self, count: int) -> SparseMatrix:
        """Return the matrix with this one `count` times on its diagonal. The last few are kept."""
        if count == 1:
            return self
        if count not in self._copies:
            while len(self._copies) >= KEPT_COPIES:
                self._copies.pop(next(iter(self._copies)))
            with torch.inference_mode(False):
                values, turned = (each.expand(count, -1) for each in (self.values, self.transposed_values))
                forward = _blocks(self.row_pointers, self.columns, values, self.shape[1])
                backward = _blocks(self.transposed_row_pointers, self.transposed_columns, turned, self.shape[0])
                starts = torch.arange(count, device=self.columns.device)[:, None] * self.columns.numel()
                order = (self.transposed_order + starts).flatten()
            self._copies[count] = SparseMatrix(*forward, *backward, order)
        return self._copies[count]

    @cached_property
    def _copies(self) -> dict[int, SparseMatrix]:
        return {}

    def product_with(
        self, values: Float[Tensor, " entries"], dense: Float[Tensor, "columns channels"]
    ) -> Float[Tensor, "rows channels"]:
        """Return the product of the matrix with these values in place of its own. It has no gradient."""
        if _is_plain.get():
            return self._gather_and_add(values, dense)
        return _product(self.row_pointers, self.columns, values, self.shape[1], as_messages(dense))

    def sampled_product(
        self, left: Float[Tensor, "rows channels"], right: Float[Tensor, "columns channels"]
    ) -> Float[Tensor, " entries"]:
        """Return `left_i . right_j` for each entry, without the copies that indexing would make. It has no gradient."""
        if _is_plain.get():
            return (left[self.rows] * right[self.columns]).sum(dim=-1)
        zeros = left.new_zeros(self.columns.numel())
        pattern = torch.sparse_csr_tensor(self.row_pointers, self.columns, zeros, self.shape, check_invariants=False)
        scores: Tensor = torch.sparse.sampled_addmm(pattern, left.contiguous(), right.mT, beta=0.0).values()
        return scores

    def to_dense(self) -> Float[Tensor, "rows columns"]:
        """Return the same matrix as a dense tensor."""
        num_rows, num_columns = self.shape
        return self.values.new_zeros(num_rows, num_columns).index_put((self.rows, self.columns), self.values)

    def __matmul__(self, state: Float[Tensor, "*batch columns channels"]) -> Float[Tensor, "*batch rows channels"]:
        """Multiply along the node axis of `state`. Batch axes are treated as channels, unless our kernel multiplies."""
        if state.dim() == 2:
            return self._multiply(state)
        if _suits_kernel(self.columns, state) and not _is_plain.get():
            return self._multiply(state.flatten(0, -3)).view(*state.shape[:-2], -1, state.shape[-1])
        nodes_first = state.movedim(-2, 0)
        product = self._multiply(nodes_first.flatten(1))
        folded: Tensor = product.unflatten(1, nodes_first.shape[1:])
        return folded.movedim(0, -2)

    def _gather_and_add(
        self, values: Float[Tensor, " entries"], dense: Float[Tensor, "columns channels"]
    ) -> Float[Tensor, "rows channels"]:
        zeros = values.new_zeros(self.shape[0], dense.shape[1])
        messages = as_messages(dense).to(values.dtype)
        return zeros.index_add(0, self.rows, values[:, None] * messages[self.columns])

    def _multiply(self, dense: Float[Tensor, "*batch columns channels"]) -> Float[Tensor, "*batch rows channels"]:
        if _is_plain.get():
            return self._gather_and_add(self.values, dense)
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


def _suits_kernel(columns: Tensor, dense: Tensor) -> bool:
    """Return whether our kernel multiplies. It takes a batch of states, where torch takes a matrix."""
    return columns.dtype == torch.int32 and runs_kernels(dense)


def _product(row_pointers: Tensor, columns: Tensor, values: Tensor, num_columns: int, dense: Tensor) -> Tensor:
    """Return `A @ dense` in the precision of `values`. Messages may have fewer digits."""
    if _suits_kernel(columns, dense):
        from tdegnn.kernels.row_product import multiply_rows

        batch = dense if dense.dim() == 3 else dense[None]
        return multiply_rows(row_pointers, columns, values, batch).view(*dense.shape[:-2], -1, dense.shape[-1])
    shape = (row_pointers.numel() - 1, num_columns)
    matrix = torch.sparse_csr_tensor(row_pointers, columns, values, shape, check_invariants=False)
    same_type = dense.to(values.dtype).contiguous()
    if dense.is_cpu:
        # `torch.sparse.mm` makes a result of zeros before the result: twice the memory, and half as much time again.
        return torch.addmm(values.new_zeros(1), matrix, same_type, beta=0.0)
    product: Tensor = torch.sparse.mm(matrix, same_type)
    return product


@torch.library.custom_op(
    "tdegnn::sparse_product",
    mutates_args=(),
    schema="(Tensor row_pointers, Tensor columns, Tensor values, int num_columns, Tensor dense) -> Tensor",
)
def sparse_product(row_pointers: Tensor, columns: Tensor, values: Tensor, num_columns: int, dense: Tensor) -> Tensor:
    """Return `A @ dense`, as one operator that `torch.compile` does not look into."""
    return _product(row_pointers, columns, values, num_columns, dense)


@sparse_product.register_fake
def _(row_pointers: Tensor, columns: Tensor, values: Tensor, num_columns: int, dense: Tensor) -> Tensor:  # noqa: ARG001
    return values.new_empty(row_pointers.shape[0] - 1, dense.shape[1])


@quick_to_call
class _SparseProduct(torch.autograd.Function):
    """`A X`, given the compressed rows of A, those of its transpose, and X. Only X has a gradient, `A^T dY`."""

    @staticmethod
    def forward(*inputs: Tensor) -> Tensor:
        row_pointers, columns, values, transposed_row_pointers, _, _, dense = inputs
        # Only the compiler needs the registered operator. Calling it costs a quarter of a small product.
        multiply = sparse_product if torch.compiler.is_compiling() else _product
        return multiply(row_pointers, columns, values, transposed_row_pointers.numel() - 1, as_messages(dense))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.message_type = message_type()
        ctx.save_for_backward(*inputs[:6])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # read once: tensors that are computed again (`core/segments.py`) come only once
        matrix, transposed = saved[:3], saved[3:]
        with messages_in(ctx.message_type):
            return (*[None] * 6, _SparseProduct.apply(*transposed, *matrix, gradient))  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Tensor, int]:
        """Make one product for all members: as a batch, as channels, or as blocks if they have values of their own."""
        *_, dense = inputs
        if in_dims[2] is None:
            assert in_dims[-1] is not None  # values or states must have members
            if _suits_kernel(inputs[1], dense):
                states = dense.movedim(in_dims[-1], 0)
                product = _SparseProduct.apply(*inputs[:6], states.flatten(0, -3))  # type: ignore[no-untyped-call]
                return product.unflatten(0, states.shape[:-2]), 0
            members_in_the_middle = dense.movedim(in_dims[-1], 1)
            product = _SparseProduct.apply(*inputs[:6], members_in_the_middle.flatten(1))  # type: ignore[no-untyped-call]
            return product.unflatten(1, members_in_the_middle.shape[1:]), 1
        members_first = (
            dense.expand(info.batch_size, *dense.shape) if in_dims[-1] is None else dense.movedim(in_dims[-1], 0)
        )
        forward = _blocks(inputs[0], inputs[1], inputs[2].movedim(in_dims[2], 0), inputs[3].numel() - 1)
        backward = _blocks(inputs[3], inputs[4], inputs[5].movedim(in_dims[5] or 0, 0), inputs[0].numel() - 1)
        product = _SparseProduct.apply(*forward, *backward, members_first.flatten(0, 1))  # type: ignore[no-untyped-call]
        return product.unflatten(0, (info.batch_size, -1)), 0


def _as_indices(matrix: scipy.sparse.csr_array) -> tuple[Int[Tensor, " rows_plus_one"], Int[Tensor, " entries"]]:
    """Return the starts of rows, and the columns of entries."""
    return torch.as_tensor(matrix.indptr, dtype=torch.int64), torch.as_tensor(matrix.indices, dtype=torch.int64)


def _blocks(
    row_pointers: Int[Tensor, " rows_plus_one"],
    columns: Int[Tensor, " entries"],
    values: Float[Tensor, "members entries"],
    num_columns: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return compressed rows of a matrix with one diagonal block per member: this pattern, the member's values."""
    members = torch.arange(len(values), device=columns.device)[:, None]
    starts = (row_pointers[:-1] + members * columns.numel()).flatten()
    end = starts.new_full((1,), values.numel())
    largest = max(values.numel(), len(values) * num_columns)
    # Indices of 32 bits stay so where they suffice.
    kind = columns.dtype if largest <= torch.iinfo(columns.dtype).max else torch.int64
    blocks = (columns + members * num_columns).flatten()
    return torch.cat([starts, end]).to(kind), blocks.to(kind), values.flatten()
