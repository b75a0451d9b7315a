"""The sum `sum_p c_p F[l-p+1]`, and the same sum with attention scores computed on the way.

Both are written with their own backward pass. A training step reads and writes every state of the history in
every layer, so memory traffic decides its cost: plain autograd would write one gradient a state for the scores
and another for the sum, and then add them. Here each state gets its gradient in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.history import Coefficients, History, State
from tdegnn.core.normalization import normalized_values, pull_back
from tdegnn.functions import quick_to_call

# Numbers in a state: up to so many a call costs more than the copy of a history.
SMALL_STATE = 2**14


def weighted_sum(coefficients: Coefficients, history: History) -> State:
    """`sum_p c_p F[l-p+1]`, with one weight a state, or one a state and batch element."""
    combined: Tensor = _WeightedSum.apply(coefficients, *history)  # type: ignore[no-untyped-call]
    return combined


class Score(NamedTuple):
    """How alike the current state and a past one are: `(F[l] M + a) . F[l-p+1] + F[l] . b + d`, summed over nodes.

    It is `q . k_p` with `q = F[l] Wq^T + bq` and `k_p = F[l-p+1] Wk^T + bk`, the two projections as one: one product
    with F[l] in place of one for every state. Members that are trained together have scores of their own.
    """

    projection: Float[Tensor, "*members channels channels"]  # M = Wq^T Wk
    query_shift: Float[Tensor, "*members channels"]  # a = Wk^T bq
    offset: Float[Tensor, "*members channels"]  # b = Wq^T bk
    constant: Float[Tensor, "*members"]  # d = bq . bk


def join(query: nn.Linear, key: nn.Linear) -> Score:
    """Join the projections of an attention."""
    return Score(
        query.weight.mT @ key.weight,
        query.bias @ key.weight,
        key.bias @ query.weight,
        query.bias @ key.bias,
    )


def attend(score: Score, history: History) -> tuple[State, Float[Tensor, "order *batch"]]:
    """Weigh the history by its likeness to the current state; return the weighted sum and the weights c.

    `raw_p` is the mean over nodes of the score, divided by sqrt(channels), and `c = raw / sum(raw)`.
    """
    combined, coefficients, _, _ = _Attend.apply(*score, *history)  # type: ignore[no-untyped-call]
    return combined, coefficients


def mean_scores(score: Score, history: History) -> tuple[Float[Tensor, "order *batch"], State]:
    """The scores of the current state over the history, mean over nodes, divided by sqrt(channels); and `F[l] M + a`.

    Of states so large that their products overflow, the signs of the scores are left: they stay finite.
    """
    current, (num_nodes, channels) = history[0], history[0].shape[-2:]
    members = score.projection.shape[:-2]
    rows = _rows(current, members) @ score.projection + score.query_shift[..., None, :]
    query = rows.view(current.shape)
    shift = _rows(current.sum(dim=-2), members) @ score.offset[..., None] + score.constant[..., None, None] * num_nodes
    shift = shift.view(current.shape[:-2])
    return torch.nan_to_num((_inner_products(history, query) + shift) * _scale(num_nodes, channels)), query


def _rows(values: Float[Tensor, "*axes channels"], members: torch.Size) -> Float[Tensor, "*members rows channels"]:
    """All axes but those of members, which have scores of their own, as one: then one product does for all of them."""
    return values.reshape(*members, -1, values.shape[-1])


def _is_small(state: State) -> bool:
    """Whether calls cost more than what they compute: then the history is stacked, and one call does for all states."""
    return state.numel() <= SMALL_STATE


def _spread(weights: Coefficients, state: State) -> Float[Tensor, "order *batch_or_ones 1 1"]:
    """Weights with the axes of a stack of states, whether or not each batch element has its own."""
    return weights.view(*weights.shape, *[1] * (state.dim() + 1 - weights.dim()))


def _inner_products(history: History, state: State) -> Float[Tensor, "order *batch"]:
    """Inner product of each state of the history with `state`, over nodes and channels."""
    flat = state.flatten(-2)
    if _is_small(state):
        products: Tensor = torch.linalg.vecdot(torch.stack(history).flatten(-2), flat)
        return products
    inner_product: Callable[[Tensor, Tensor], Tensor]
    inner_product = torch.dot if flat.dim() == 1 else torch.linalg.vecdot
    return torch.stack([inner_product(past.flatten(-2), flat) for past in history])


def _accumulate(weights: Coefficients, history: History) -> State:
    if _is_small(history[0]):
        return (_spread(weights, history[0]) * torch.stack(history)).sum(dim=0)
    first, *others = weights[..., None, None].unbind(0)
    add_product = _product_adder()
    total = first * history[0]
    for weight, state in zip(others, history[1:], strict=True):
        total = add_product(total, weight, state)
    return total


def _sums_of_two(
    weights: Coefficients, first: State, more_weights: Coefficients, second: State
) -> Sequence[Float[Tensor, "*batch nodes channels"]]:
    """`w_p first + v_p second` for each p."""
    add_product = _product_adder()
    if _is_small(first):
        return add_product(_spread(weights, first) * first, _spread(more_weights, first), second).unbind(0)
    pairs = zip(weights[..., None, None].unbind(0), more_weights[..., None, None].unbind(0), strict=True)
    return [add_product(weight * first, more, second) for weight, more in pairs]


def _product_adder() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """What makes `total + weight * factor`: in place, except under the compiler and under `torch.func`.

    In place it saves an allocation, which costs more than the sum. The compiler fuses the sum anyway, and that of
    torch 2.11 loses the gradients of a function that writes in place. `vmap` has no rule for writing in place.
    """
    if torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None:
        return torch.addcmul
    return Tensor.addcmul_


@quick_to_call
class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(coefficients: Tensor, *history: Tensor) -> Tensor:
        return _accumulate(coefficients, history)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        coefficients, *history = ctx.saved_tensors
        to_coefficients = None
        if ctx.needs_input_grad[0]:
            inner = _inner_products(tuple(history), gradient)
            # One vector for the whole batch collects the gradient of every batch element.
            to_coefficients = inner if coefficients.dim() > 1 else inner.reshape(len(history), -1).sum(dim=1)
        if _is_small(gradient):
            return (to_coefficients, *(_spread(coefficients, gradient) * gradient).unbind(0))
        to_history = [
            weight * gradient if needed else None
            for weight, needed in zip(coefficients[..., None, None], ctx.needs_input_grad[1:], strict=True)
        ]
        return (to_coefficients, *to_history)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], coefficients: Tensor, *history: Tensor) -> tuple[Tensor, int]:
        """Members are one more batch axis, each with weights of its own."""
        states = _members_first(info.batch_size, in_dims[1:], history)
        weights = _members_first(info.batch_size, in_dims[:1], (coefficients,))[0].movedim(0, 1)
        batch = states[0].shape[:-2]
        weights = weights.view(*weights.shape, *[1] * (len(batch) + 1 - weights.dim())).expand(len(history), *batch)
        return _WeightedSum.apply(weights, *states), 0  # type: ignore[no-untyped-call]


def _members_first(num_members: int, axes: Sequence[int | None], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors with the axis of members in front; what all members share is repeated, without a copy."""
    return [
        tensor.expand(num_members, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
        for axis, tensor in zip(axes, tensors, strict=True)
    ]


@quick_to_call
class _Attend(torch.autograd.Function):
    """Members that have scores of their own are the first batch axes; the others share them."""

    @staticmethod
    def forward(
        projection: Tensor, query_shift: Tensor, offset: Tensor, constant: Tensor, *history: Tensor
    ) -> tuple[Tensor, ...]:
        raw, query = mean_scores(Score(projection, query_shift, offset, constant), history)
        coefficients = normalized_values(raw)
        return _accumulate(coefficients, history), coefficients, raw, query

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)
        _, coefficients, raw, query = output
        ctx.save_for_backward(coefficients, raw, query, *inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, ...]:
        coefficients, raw, query, projection, _, offset, _, *history = ctx.saved_tensors
        to_combined, to_coefficients, to_raw, to_query = gradients
        current, (num_nodes, channels) = history[0], history[0].shape[-2:]
        if to_combined is None:
            to_combined = torch.zeros_like(current)

        inner = _inner_products(tuple(history), to_combined)
        through_c = pull_back(raw, inner if to_coefficients is None else inner + to_coefficients)
        share = (through_c if to_raw is None else through_c + to_raw) * _scale(num_nodes, channels)
        through_raw = _accumulate(share, tuple(history))
        to_query = through_raw if to_query is None else through_raw + to_query
        to_shift = share.sum(dim=0)

        to_current, *to_past = _sums_of_two(coefficients, to_combined, share, query)
        # The current state is also seen through the query and through the shift of all scores.
        members = projection.shape[:-2]
        query_rows = _rows(to_query, members)
        through_query = (query_rows @ projection.mT).view(current.shape)
        through_shift = _rows(to_shift[..., None], members) @ offset[..., None, :]
        to_current = to_current + through_query + through_shift.view(*current.shape[:-2], 1, channels)

        return (
            _rows(current, members).mT @ query_rows,
            query_rows.sum(dim=-2),
            _rows(to_shift[..., None] * current.sum(dim=-2), members).sum(dim=-2),
            to_shift.reshape(*members, -1).sum(dim=-1) * num_nodes,
            to_current,
            *to_past,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Members are one more axis in front; that of c comes after the order."""
        return _Attend.apply(*_members_first(info.batch_size, in_dims, inputs)), (0, 1, 1, 0)  # type: ignore[no-untyped-call]


def _scale(num_nodes: int, channels: int) -> float:
    """Mean over nodes, and the customary 1 / sqrt(channels)."""
    return float(channels**-0.5 / num_nodes)
