"""The sum `sum_p c_p F[l-p+1]`, and the same sum with attention scores computed on the way.

Both are written with their own backward pass. A training step reads and writes every state of the history in
every layer, so memory traffic decides its cost: plain autograd would write one gradient a state for the scores
and another for the sum, and then add them. Here each state gets its gradient in one go.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.core.history import Coefficients, History, State
from tdegnn.core.normalization import normalized, pull_back


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


def _inner(first: State, second: State) -> Float[Tensor, "*batch"]:
    """Inner product over nodes and channels."""
    product: Tensor = torch.linalg.vecdot(first.flatten(-2), second.flatten(-2))
    return product


def _accumulate(weights: Coefficients, history: History) -> State:
    spread = weights[..., None, None]
    total = spread[0] * history[0]
    for weight, state in zip(spread[1:], history[1:], strict=True):
        total.addcmul_(weight, state)
    return total


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
            inner = torch.stack([_inner(state, gradient) for state in history])
            # One vector for the whole batch collects the gradient of every batch element.
            to_coefficients = inner if coefficients.dim() > 1 else inner.reshape(len(history), -1).sum(dim=1)
        to_history = [
            weight * gradient if needed else None
            for weight, needed in zip(coefficients[..., None, None], ctx.needs_input_grad[1:], strict=True)
        ]
        return (to_coefficients, *to_history)


class _Attend(torch.autograd.Function):
    """`attend`, with the two projections as one bilinear form.

    With a state extended by a channel of ones, F', the mean over nodes of `q . k_p` is that of `F'[l] B . F'[l-p+1]`
    for `B = [Wq bq]^T [Wk bk]`. Its parts M, a, b and d below give `(F[l] M + a) . F[l-p+1] + F[l] . b + d`:
    one product with F[l] in place of one for every state.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        query_weight: Tensor, query_bias: Tensor, key_weight: Tensor, key_bias: Tensor, *history: Tensor
    ) -> tuple[Tensor, ...]:
        bilinear = _extend(query_weight, query_bias).mT @ _extend(key_weight, key_bias)
        projection, key_offset = bilinear[:-1, :-1], bilinear[-1, :-1]
        query_offset, constant = bilinear[:-1, -1], bilinear[-1, -1]
        current, (num_nodes, channels) = history[0], history[0].shape[-2:]
        query = torch.nn.functional.linear(current, projection.mT, key_offset)
        shift = current.sum(dim=-2) @ query_offset + num_nodes * constant
        raw = (torch.stack([_inner(state, query) for state in history]) + shift) * _scale(num_nodes, channels)
        coefficients = normalized(raw)
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

        inner = torch.stack([_inner(state, to_combined) for state in history])
        through_c = pull_back(raw, inner if to_coefficients is None else inner + to_coefficients)
        share = (through_c if to_raw is None else through_c + to_raw) * _scale(num_nodes, channels)
        through_raw = _accumulate(share, tuple(history))
        to_query = through_raw if to_query is None else through_raw + to_query
        to_history = [
            (weight * to_combined).addcmul_(part, query)
            for weight, part in zip(coefficients[..., None, None], share[..., None, None], strict=True)
        ]

        extended_query, extended_key = _extend(query_weight, query_bias), _extend(key_weight, key_bias)
        bilinear = extended_query.mT @ extended_key
        projection, query_offset = bilinear[:-1, :-1], bilinear[:-1, -1]
        to_shift = share.sum(dim=0)
        rows, query_rows = current.reshape(-1, channels), to_query.reshape(-1, channels)
        to_history[0].view(-1, channels).addmm_(query_rows, projection.mT)
        to_history[0].add_(to_shift[..., None, None] * query_offset)

        to_query_offset = (to_shift[..., None] * current.sum(dim=-2)).reshape(-1, channels).sum(dim=0)
        to_bilinear = torch.cat(
            [
                torch.cat([rows.mT @ query_rows, to_query_offset[:, None]], dim=1),
                torch.cat([query_rows.sum(dim=0), to_shift.sum()[None] * num_nodes])[None],
            ]
        )
        to_extended_query = extended_key @ to_bilinear.mT
        to_extended_key = extended_query @ to_bilinear
        return (
            to_extended_query[:, :-1],
            to_extended_query[:, -1],
            to_extended_key[:, :-1],
            to_extended_key[:, -1],
            *to_history,
        )


def _extend(weight: Tensor, bias: Tensor) -> Tensor:
    return torch.cat([weight, bias[:, None]], dim=1)


def _scale(num_nodes: int, channels: int) -> float:
    """Mean over nodes, and the customary 1 / sqrt(channels)."""
    return float(channels**-0.5 / num_nodes)
