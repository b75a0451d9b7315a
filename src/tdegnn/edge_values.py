"""Values on the edges of a graph that depend on states: attention, signs, weights that are learned.

A pattern is a `SparseMatrix` whose row i has an entry for each node that node i receives from. Values have one number
per entry, in the order of its compressed rows, and any batch axes in front. All functions can be differentiated through
(twice), and `torch.func.vmap` makes one product of all members: their patterns are the blocks of one large matrix. Only
`rectified_sums` copies the channels of a state to the edges, since it needs them. All add in an order that does not
change from run to run.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.messages import message_type, messages_in
from tdegnn.sparse import SparseMatrix
from tdegnn.torch_internals import quick_to_call


def edge_scores(
    pattern: SparseMatrix,
    receivers: Float[Tensor, "*batch rows channels"],
    senders: Float[Tensor, "*batch columns channels"],
) -> Float[Tensor, "*batch entries"]:
    """Return the inner product `receivers_i . senders_j` for each entry (i, j) of the pattern."""
    batch = torch.broadcast_shapes(receivers.shape[:-2], senders.shape[:-2])
    left, right = (each.expand(*batch, *each.shape[-2:]).reshape(-1, *each.shape[-2:]) for each in (receivers, senders))
    scores: Tensor = _EdgeScores.apply(pattern, left, right)  # type: ignore[no-untyped-call]
    return scores.reshape(*batch, scores.shape[-1])


def edge_sums(
    pattern: SparseMatrix, receivers: Float[Tensor, "*batch rows"], senders: Float[Tensor, "*batch columns"]
) -> Float[Tensor, "*batch entries"]:
    """Return `receivers_i + senders_j` for each entry (i, j) of the pattern: additive attention."""
    left = torch.stack([receivers, torch.ones_like(receivers)], dim=-1)
    right = torch.stack([torch.ones_like(senders), senders], dim=-1)
    return edge_scores(pattern, left, right)


def weighted_product(
    pattern: SparseMatrix, values: Float[Tensor, "*values entries"], state: Float[Tensor, "*batch columns channels"]
) -> Float[Tensor, "*batch rows channels"]:
    """Return `sum_j values_ij state_j` for each row i. Values may have the batch axes of the state, or none."""
    flat = state.reshape(-1, *state.shape[-2:])
    own = _as_rows(values)
    if len(own) == 1 and len(flat) > 1:
        # One matrix for all elements of the batch, which become channels.
        folded = flat.movedim(0, 1).flatten(1)[None]
        product: Tensor = _WeightedProduct.apply(pattern, own, folded)  # type: ignore[no-untyped-call]
        unfolded: Tensor = product[0].unflatten(1, (len(flat), -1))
        return unfolded.movedim(1, 0).reshape(*state.shape[:-2], -1, state.shape[-1])
    if len(flat) == 1 and len(own) > 1:
        flat = flat.expand(len(own), *flat.shape[1:])
    product = _WeightedProduct.apply(pattern, own, flat)  # type: ignore[no-untyped-call]
    batch = values.shape[:-1] if values.dim() + 1 > state.dim() else state.shape[:-2]
    return product.reshape(*batch, *product.shape[-2:])


def row_sums(pattern: SparseMatrix, values: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch rows"]:
    """Return the sum of the values in each row. Zero for an empty row."""
    sums: Tensor = _RowSums.apply(pattern, _as_rows(values))  # type: ignore[no-untyped-call]
    return sums.reshape(*values.shape[:-1], sums.shape[-1])


def spread_rows(pattern: SparseMatrix, rows: Float[Tensor, "*batch rows"]) -> Float[Tensor, "*batch entries"]:
    """Return, for each entry (i, j) of the pattern, the number of its row, `rows_i`."""
    spread: Tensor = _SpreadRows.apply(pattern, _as_rows(rows))  # type: ignore[no-untyped-call]
    return spread.reshape(*rows.shape[:-1], spread.shape[-1])


def row_softmax(pattern: SparseMatrix, scores: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch entries"]:
    """Return weights that are positive and sum to one in each row that is not empty."""
    weights: Tensor = _RowSoftmax.apply(pattern, _as_rows(scores))  # type: ignore[no-untyped-call]
    return weights.reshape(scores.shape)


def rectified_sums(
    differences: SparseMatrix, sums: SparseMatrix, state: Float[Tensor, "*batch columns channels"]
) -> Float[Tensor, "*batch rows channels"]:
    """Return `S relu(D F)`, where D has a row and S a column for each edge.

    All channels are on the edges once, and the backward pass keeps one byte for each: whether it is positive.

    Args:
        differences: D, which takes states to edges.
        sums: S, which adds up what is on edges.
        state: F.
    """
    product: Tensor = _RectifiedSums.apply(differences, sums, state)[0]  # type: ignore[no-untyped-call]
    return product


class _OfTwo(torch.autograd.Function):
    """A function of a pattern and two tensors, both of which its gradient needs."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.pattern, ctx.message_type = inputs[0], message_type()
        ctx.save_for_backward(*inputs[1:])


@quick_to_call
class _EdgeScores(_OfTwo):
    """`left_i . right_j` for each entry, given a pattern and two states with one batch axis."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        pattern, left, right = inputs
        blocks: SparseMatrix = pattern.copies(len(left))
        return blocks.sampled_product(left.flatten(0, 1), right.flatten(0, 1)).view(len(left), -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        pattern: SparseMatrix = ctx.pattern
        left, right = ctx.saved_tensors
        to_left = _WeightedProduct.apply(pattern, gradient, right)  # type: ignore[no-untyped-call]
        turned = gradient[:, pattern.transposed_order]
        to_right = _WeightedProduct.apply(pattern.transposed, turned, left)  # type: ignore[no-untyped-call]
        return None, to_left, to_right

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        left, right = (_members_first(info, *each) for each in zip(inputs[1:], in_dims[1:], strict=True))
        scores = _EdgeScores.apply(inputs[0], left.flatten(0, 1), right.flatten(0, 1))  # type: ignore[no-untyped-call]
        return scores.unflatten(0, (info.batch_size, -1)), 0


@quick_to_call
class _WeightedProduct(_OfTwo):
    """`sum_j values_ij X_j`, given a pattern, values (batch, entries) and states (batch, columns, channels)."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        pattern, values, dense = inputs
        blocks: SparseMatrix = pattern.copies(len(values))
        return blocks.product_with(values.flatten(), dense.flatten(0, 1)).view(len(values), -1, dense.shape[-1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        pattern: SparseMatrix = ctx.pattern
        values, dense = ctx.saved_tensors
        to_values = to_dense = None
        if ctx.needs_input_grad[1]:
            to_values = _EdgeScores.apply(pattern, gradient, dense)  # type: ignore[no-untyped-call]
        if ctx.needs_input_grad[2]:
            turned = values[:, pattern.transposed_order]
            with messages_in(ctx.message_type):
                to_dense = _WeightedProduct.apply(pattern.transposed, turned, gradient)  # type: ignore[no-untyped-call]
        return None, to_values, to_dense

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        pattern, values, dense = inputs
        if in_dims[1] is None and len(values) == 1:
            members_in_the_middle = dense.movedim(in_dims[2] or 0, -2).flatten(-2)  # of a batch of one
            product = _WeightedProduct.apply(pattern, values, members_in_the_middle)  # type: ignore[no-untyped-call]
            return product.unflatten(-1, (info.batch_size, -1)), 2
        by_member = (_members_first(info, *each).flatten(0, 1) for each in zip(inputs[1:], in_dims[1:], strict=True))
        product = _WeightedProduct.apply(pattern, *by_member)  # type: ignore[no-untyped-call]
        return product.unflatten(0, (info.batch_size, -1)), 0


class _OfEntries(torch.autograd.Function):
    """A function of a pattern and of numbers with one batch axis, to which members are added."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.pattern = inputs[0]

    @classmethod
    def _fold(cls, info: Any, in_dims: tuple[int | None, ...], pattern: SparseMatrix, numbers: Tensor) -> Any:
        members_first = numbers.movedim(in_dims[1] or 0, 0)  # what has no members is not under `vmap`
        result = cls.apply(pattern, members_first.flatten(0, 1))  # type: ignore[no-untyped-call]
        return result.unflatten(0, (info.batch_size, -1)), 0


@quick_to_call
class _RowSums(_OfEntries):
    """The sum of each row, given a pattern and values (batch, entries)."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        pattern, values = inputs
        blocks: SparseMatrix = pattern.copies(len(values))
        return blocks.product_with(values.flatten(), values.new_ones(blocks.shape[1], 1)).view(len(values), -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, _SpreadRows.apply(ctx.pattern, gradient)  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return _RowSums._fold(info, in_dims, *inputs)


@quick_to_call
class _SpreadRows(_OfEntries):
    """`rows_i` for each entry (i, j), given a pattern and numbers (batch, rows)."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        pattern, rows = inputs
        spread: Tensor = rows.index_select(1, pattern.rows)
        return spread

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, _RowSums.apply(ctx.pattern, gradient)  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return _SpreadRows._fold(info, in_dims, *inputs)


@quick_to_call
class _RowSoftmax(_OfEntries):
    """Softmax of each row, given a pattern and scores (batch, entries)."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        pattern, scores = inputs
        # Any constant per row gives the same weights. The largest score keeps the exponentials finite.
        largest = scores.new_full((len(scores), pattern.shape[0]), -torch.inf)
        largest = largest.scatter_reduce(1, pattern.rows.expand(scores.shape), scores, "amax")
        exponentials = torch.exp(scores - _SpreadRows.forward(pattern, largest))
        return exponentials / _SpreadRows.forward(pattern, _RowSums.forward(pattern, exponentials))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _OfEntries.setup_context(ctx, inputs, output)
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (weights,) = ctx.saved_tensors
        return None, weights * (gradient - spread_rows(ctx.pattern, row_sums(ctx.pattern, weights * gradient)))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return _RowSoftmax._fold(info, in_dims, *inputs)


@quick_to_call
class _RectifiedSums(torch.autograd.Function):
    """`S relu(D X)` and where `D X` is positive, given D, S and X."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        differences, sums, dense = inputs
        on_edges = differences @ dense
        is_positive = on_edges > 0
        return sums @ on_edges.relu_(), is_positive

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.differences, ctx.sums, ctx.message_type = *inputs[:2], message_type()
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        (is_positive,) = ctx.saved_tensors
        turned = ctx.sums.transposed, ctx.differences.transposed
        with messages_in(ctx.message_type):
            return None, None, _MaskedSums.apply(*turned, is_positive, gradient)  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        members_first = _members_first(info, inputs[2], in_dims[2])
        return _RectifiedSums.apply(*inputs[:2], members_first), (0, 0)  # type: ignore[no-untyped-call]


@quick_to_call
class _MaskedSums(torch.autograd.Function):
    """`S (m * (D X))`, given D, S, the mask m on edges, and X. Only X has a gradient."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        differences, sums, mask, dense = inputs
        product: Tensor = sums @ (differences @ dense).mul_(mask)
        return product

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.differences, ctx.sums, ctx.message_type = *inputs[:2], message_type()
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        turned = ctx.sums.transposed, ctx.differences.transposed
        with messages_in(ctx.message_type):
            return None, None, None, _MaskedSums.apply(*turned, mask, gradient)  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        mask, dense = (_members_first(info, *each) for each in zip(inputs[2:], in_dims[2:], strict=True))
        product: Tensor = _MaskedSums.apply(*inputs[:2], mask, dense)  # type: ignore[no-untyped-call]
        return product, 0


def _as_rows(numbers: Float[Tensor, "*batch entries"]) -> Float[Tensor, "rows entries"]:
    # Not `reshape(-1, ...)`: a graph may have no edges.
    return numbers.reshape(numbers.shape[:-1].numel(), numbers.shape[-1])


def _members_first(info: Any, values: Tensor, members_axis: int | None) -> Tensor:
    return values.expand(info.batch_size, *values.shape) if members_axis is None else values.movedim(members_axis, 0)
