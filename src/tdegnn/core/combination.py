"""The sum `sum_p c_p F[l-p+1]`, and the same sum with attention scores computed on the way.

Both are written with their own backward pass. A training step reads and writes every state of the history in
every layer, so memory traffic decides its cost: plain autograd would write one gradient a state for the scores
and another for the sum, and then add them. Here each state gets its gradient in one go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.core.history import Coefficients, History, State
from tdegnn.core.normalization import normalized_values, pull_back


def weighted_sum(coefficients: Coefficients, history: History) -> State:
    """`sum_p c_p F[l-p+1]`, with one weight a state, or one a state and batch element."""
    combined: Tensor = _WeightedSum.apply(coefficients, *history)  # type: ignore[no-untyped-call]
    return combined


def attend(
    query_weight: Float[Tensor, "channels channels"],
    query_bias: Float[Tensor, " channels"],
    key_weight: Float[Tensor, "channels channels"],
    key_bias: Float[Tensor, " channels"],
    history: History,
) -> tuple[State, Float[Tensor, "order *batch"]]:
    """Weigh the history by its likeness to the current state; return the weighted sum and the weights c.

    With `q = F[l] Wq^T + bq` and `k_p = F[l-p+1] Wk^T + bk`, `raw_p` is the mean over nodes of
    `q . k_p / sqrt(channels)`, and `c = raw / sum(raw)`.
    """
    combined, coefficients, _, _ = _Attend.apply(query_weight, query_bias, key_weight, key_bias, *history)  # type: ignore[no-untyped-call]
    return combined, coefficients


def _inner_products(history: History, state: State) -> Float[Tensor, "order *batch"]:
    """Inner product of each state of the history with `state`, over nodes and channels."""
    flat = state.flatten(-2)
    inner_product: Callable[[Tensor, Tensor], Tensor]
    inner_product = torch.dot if flat.dim() == 1 else torch.linalg.vecdot
    return torch.stack([inner_product(past.flatten(-2), flat) for past in history])


def _accumulate(weights: Coefficients, history: History) -> State:
    first, *others = weights[..., None, None].unbind(0)
    total = first * history[0]
    for weight, state in zip(others, history[1:], strict=True):
        total = _add_product(total, weight, state)
    return total


def _add_product(total: State, weight: Tensor, factor: Tensor) -> State:
    """`total + weight * factor`, in place except under the compiler and under `torch.func`.

    In place it saves an allocation, which costs more than the sum. The compiler fuses the sum anyway, and that of
    torch 2.11 loses the gradients of a function that writes in place. `vmap` has no rule for writing in place.
    """
    if torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None:
        return torch.addcmul(total, weight, factor)
    return total.addcmul_(weight, factor)


class _WeightedSum(torch.autograd.Function):
    generate_vmap_rule = True

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
        to_history = [
            weight * gradient if needed else None
            for weight, needed in zip(coefficients[..., None, None], ctx.needs_input_grad[1:], strict=True)
        ]
        return (to_coefficients, *to_history)


class _Attend(torch.autograd.Function):
    """`attend`, with the two projections as one.

    The sum over nodes of `q . k_p` is that of `(F[l] M + a) . F[l-p+1] + F[l] . b + d`, with `M = Wq^T Wk`,
    `a = Wk^T bq`, `b = Wq^T bk` and `d = bq . bk`: one product with F[l] in place of one for every state.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        query_weight: Tensor, query_bias: Tensor, key_weight: Tensor, key_bias: Tensor, *history: Tensor
    ) -> tuple[Tensor, ...]:
        projection, query_offset = query_weight.mT @ key_weight, key_bias @ query_weight
        current, (num_nodes, channels) = history[0], history[0].shape[-2:]
        query = torch.nn.functional.linear(current, projection.mT, query_bias @ key_weight)
        shift = current.sum(dim=-2) @ query_offset + (query_bias @ key_bias) * num_nodes
        raw = (_inner_products(history, query) + shift) * _scale(num_nodes, channels)
        # Of states so large that their products overflow, the signs of the scores are left: c must stay finite.
        raw = torch.nan_to_num(raw)
        coefficients = normalized_values(raw)
        return _accumulate(coefficients, history), coefficients, raw, query

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)
        _, coefficients, raw, query = output
        ctx.save_for_backward(coefficients, raw, query, *inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, ...]:
        coefficients, raw, query, query_weight, query_bias, key_weight, key_bias, *history = ctx.saved_tensors
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

        weights, parts = coefficients[..., None, None], share[..., None, None]
        to_past = [_add_product(w * to_combined, part, query) for w, part in zip(weights[1:], parts[1:], strict=True)]
        # The current state is also seen through the query and through the shift of all scores.
        projection, query_offset = query_weight.mT @ key_weight, key_bias @ query_weight
        to_current = _add_product(to_query @ projection.mT, to_shift[..., None, None], query_offset)
        to_current = _add_product(to_current, weights[0], to_combined)
        to_current = _add_product(to_current, parts[0], query)

        query_rows = to_query.reshape(-1, channels)
        to_projection = current.reshape(-1, channels).mT @ query_rows
        to_key_offset = query_rows.sum(dim=0)
        to_query_offset = (to_shift[..., None] * current.sum(dim=-2)).reshape(-1, channels).sum(dim=0)
        to_constant = to_shift.sum() * num_nodes
        return (
            torch.addr(key_weight @ to_projection.mT, key_bias, to_query_offset),
            key_weight @ to_key_offset + key_bias * to_constant,
            torch.addr(query_weight @ to_projection, query_bias, to_key_offset),
            query_weight @ to_query_offset + query_bias * to_constant,
            to_current,
            *to_past,
        )


def _scale(num_nodes: int, channels: int) -> float:
    """Mean over nodes, and the customary 1 / sqrt(channels)."""
    return float(channels**-0.5 / num_nodes)
