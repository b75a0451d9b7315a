"""The sum `sum_p c_p F[l-p+1]`, and the same sum with attention scores computed on the way.

Both are written with their own backward pass. A training step reads and writes every state of the history in
every layer, so memory traffic decides its cost: plain autograd would write one gradient a state for the scores
and another for the sum, and then add them. Here each state gets its gradient in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.history import Coefficients, History, State
from tdegnn.core.normalization import Guarded, coefficients_of, guard, pull_back
from tdegnn.core.past import Score, make_past
from tdegnn.functions import quick_to_call


def weighted_sum(coefficients: Coefficients, history: History) -> State:
    """`sum_p c_p F[l-p+1]`, with one weight a state, or one a state and batch element."""
    combined: Tensor = _WeightedSum.apply(coefficients, *history)  # type: ignore[no-untyped-call]
    return combined


def join(query: nn.Linear, key: nn.Linear) -> Score:
    """Join the projections of an attention: `q . k_p` with `q = F[l] Wq^T + bq` and `k_p = F[l-p+1] Wk^T + bk`.

    As one matrix it costs one product with F[l] in place of one for every state.
    """
    extended_query, extended_key = (torch.cat([each.weight, each.bias[:, None]], dim=1) for each in (query, key))
    return extended_query.mT @ extended_key


def attend(score: Score, history: History) -> tuple[State, Float[Tensor, "order *batch"]]:
    """Weigh the history by its likeness to the current state; return the weighted sum and the weights c.

    `raw_p` is the sum over nodes of the score, and `c = raw / sum(raw)`, which does not depend on the scale of `raw`.
    """
    combined, coefficients, *_ = _Attend.apply(score, *history)  # type: ignore[no-untyped-call]
    return combined, coefficients


def mean_scores(score: Score, history: History) -> Float[Tensor, "order *batch"]:
    """The scores of the current state over the history, mean over nodes, divided by the customary sqrt(channels)."""
    num_nodes, channels = history[0].shape[-2:]
    return _finite(make_past(history).scores(score)[0] * float(channels**-0.5 / num_nodes))


def _finite(scores: Float[Tensor, "order *batch"]) -> Float[Tensor, "order *batch"]:
    """Of states so large that their products overflow, the signs of the scores are left."""
    return torch.nan_to_num(scores)


@quick_to_call
class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(coefficients: Tensor, *history: Tensor) -> Tensor:
        return make_past(history).weighted_sum(coefficients)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        coefficients, *history = ctx.saved_tensors
        to_coefficients = None
        if ctx.needs_input_grad[0]:
            inner = make_past(tuple(history)).inner_products(gradient)
            # One vector for the whole batch collects the gradient of every batch element.
            to_coefficients = inner if coefficients.dim() > 1 else inner.reshape(len(history), -1).sum(dim=1)
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
    def forward(score: Tensor, *history: Tensor) -> tuple[Tensor, ...]:
        past = make_past(history)
        scores, query = past.scores(score)
        raw = _finite(scores)
        guarded = guard(raw)
        coefficients = coefficients_of(guarded)
        return past.weighted_sum(coefficients), coefficients, raw, query, *guarded

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)
        _, coefficients, raw, query, *guarded = output
        ctx.mark_non_differentiable(*guarded)
        ctx.save_for_backward(coefficients, raw, query, *guarded, *inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, ...]:
        coefficients, raw, query, *guarded = ctx.saved_tensors[:7]
        score, *history = ctx.saved_tensors[7:]
        to_combined, to_coefficients, to_raw, to_query = gradients[:4]
        if to_combined is None:
            to_combined = torch.zeros_like(history[0])
        past = make_past(tuple(history))
        inner = past.inner_products(to_combined)
        # What was kept knows nothing of `raw`: to be differentiated once more, it is computed again.
        division = guard(raw) if torch.is_grad_enabled() else Guarded(*guarded)
        through_c = pull_back(division, inner if to_coefficients is None else inner + to_coefficients)
        to_scores = through_c if to_raw is None else through_c + to_raw
        # A query may have a channel that states do not have.
        to_current, *others = past.sums_of_two(
            coefficients, to_combined, to_scores, query[..., : to_combined.shape[-1]]
        )
        # The current state is also seen through the query.
        to_score, to_current = past.pull_back_scores(score, to_scores, to_query, to_current)
        return (to_score, to_current, *others)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Members are one more axis in front; that of c comes after the order."""
        axes = (0, 1, 1, 0, 1, 1, 1, 1)
        return _Attend.apply(*_members_first(info.batch_size, in_dims, inputs)), axes  # type: ignore[no-untyped-call]
