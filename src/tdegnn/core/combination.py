"""The sum `sum_p c_p F[l-p+1]`, its weights divided by their sum, and attention scores on the way.

Both sums, plain and with attention, have a backward pass of their own. A training step reads and writes every state of
the history in every layer, so memory traffic decides its cost. Plain autograd would write one gradient per state for
the scores and another for the sum, and then add them. Here each state gets its gradient in one pass.

From top to bottom: what rules for c call, the differentiable functions behind it, the history in the layout that suits
its size, the division of scores by their sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tdegnn.graph import State
from tdegnn.kernels.usable import MOST_STATES, runs_kernels
from tdegnn.torch_internals import quick_to_call, transform_level

History: TypeAlias = tuple[Float[Tensor, "*batch nodes channels"], ...]
# One weight per state, or one per state and batch element.
Coefficients: TypeAlias = Float[Tensor, " order"] | Float[Tensor, "order *batch"]
# How alike the current state and a past one are, as a matrix S: `[F[l], 1] S . [F[l-p+1], 1]`, summed over nodes.
# Members that are trained together have one matrix each.
Score: TypeAlias = Float[Tensor, "*members channels_and_one channels_and_one"]

# States of up to this many numbers are stacked: for them, calls cost more than copies. A GPU copies faster.
SMALL_STATE = {"cpu": 2**14, "cuda": 2**19}
# A sum of scores is held away from zero: its size is at least this share of the sum of their sizes.
RELATIVE_FLOOR = 1e-2


def weighted_sum(coefficients: Coefficients, history: History) -> State:
    """Return `sum_p c_p F[l-p+1]`."""
    combined: Tensor = _WeightedSum.apply(coefficients, *history)  # type: ignore[no-untyped-call]
    return combined


def map_by_each(state: State, maps: Float[Tensor, "order channels channels"]) -> History:
    """Return the state mapped by each of the matrices. On a GPU, small states are mapped by one call."""
    if state.is_cuda and _is_small(state) and state.dim() == 2 and len(maps) and transform_level() is None:
        return (state @ maps).unbind(0)
    return tuple(state @ each for each in maps)


def join(query: nn.Linear, key: nn.Linear) -> Score:
    """Join the projections of an attention, `q = F[l] Wq^T + bq` and `k_p = F[l-p+1] Wk^T + bk`, into one matrix.

    Then `q . k_p` costs one product with F[l] instead of one with every state.
    """
    extended_query, extended_key = (torch.cat([each.weight, each.bias[:, None]], dim=1) for each in (query, key))
    return extended_query.mT @ extended_key


def attend(score: Score, history: History) -> tuple[State, Float[Tensor, order * batch]]:
    """Weigh the history by its likeness to the current state. Return the weighted sum and the weights c.

    `raw_p` is the score summed over nodes, and `c = raw / sum(raw)`, which does not depend on the scale of `raw`.
    """
    combined, coefficients, *_ = _Attend.apply(score, *history)  # type: ignore[no-untyped-call]
    return combined, coefficients


def mean_scores(score: Score, history: History) -> Float[Tensor, order * batch]:
    """Return the scores of the current state over the history: means over nodes, divided by sqrt(channels)."""
    num_nodes, channels = history[0].shape[-2:]
    return _finite(lay_out(history).scores(score)[0] * float(channels**-0.5 / num_nodes))


def normalize_sum(raw: Float[Tensor, order * batch]) -> Float[Tensor, order * batch]:
    """Scale `raw` along its first axis to sum to one. Values and gradient are finite for every finite input."""
    coefficients: Tensor = _NormalizeSum.apply(raw)  # type: ignore[no-untyped-call]
    return coefficients


def members_first(num_members: int, axes: Sequence[int | None], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Move the axis of members to the front. Repeat what all members share, without copying it."""
    return [
        tensor.expand(num_members, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
        for axis, tensor in zip(axes, tensors, strict=True)
    ]


@quick_to_call
class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(coefficients: Tensor, *history: Tensor) -> Tensor:
        return lay_out(history, coefficients).weighted_sum(coefficients)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        coefficients, *history = ctx.saved_tensors
        states = lay_out(tuple(history), coefficients, gradient)
        to_coefficients = None
        if ctx.needs_input_grad[0]:
            inner = states.inner_products(gradient)
            # If the whole batch shares one vector, its gradient is the sum over batch elements.
            to_coefficients = inner if coefficients.dim() > 1 else inner.reshape(len(history), -1).sum(dim=1)
        return (to_coefficients, *states.products(coefficients, gradient, ctx.needs_input_grad[1:]))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], coefficients: Tensor, *history: Tensor) -> tuple[Tensor, int]:
        """Treat members as one more batch axis, each with its own weights."""
        states = members_first(info.batch_size, in_dims[1:], history)
        weights = members_first(info.batch_size, in_dims[:1], (coefficients,))[0].movedim(0, 1)
        batch = states[0].shape[:-2]
        weights = weights.view(*weights.shape, *[1] * (len(batch) + 1 - weights.dim())).expand(len(history), *batch)
        return _WeightedSum.apply(weights, *states), 0  # type: ignore[no-untyped-call]


@quick_to_call
class _Attend(torch.autograd.Function):
    """The weighted sum with attention. Leading axes of `score` are members, which the states have in front too."""

    @staticmethod
    def forward(score: Tensor, *history: Tensor) -> tuple[Tensor, ...]:
        states = lay_out(history, score)
        raw, coefficients, guarded, query = states.divided_scores(score)
        return states.weighted_sum(coefficients), coefficients, raw, query, *guarded

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)
        _, coefficients, raw, query, *guarded = output
        ctx.mark_non_differentiable(*guarded)
        ctx.save_for_backward(coefficients, raw, query, *guarded, *inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, ...]:
        saved = ctx.saved_tensors  # read once: tensors that are computed again (`core/segments.py`) come only once
        coefficients, raw, query, *guarded = saved[:7]
        score, *history = saved[7:]
        to_combined, to_coefficients, to_raw, to_query = gradients[:4]
        if to_combined is None:
            to_combined = torch.zeros_like(history[0])
        # The saved division has no graph to `raw`. For second derivatives it is computed again.
        division = guard(raw) if torch.is_grad_enabled() else Guarded(*guarded)
        # Of stacked states, the query has one channel more than a state.
        attended = Attended(score, coefficients, division, query[..., : to_combined.shape[-1]])
        states = lay_out(tuple(history), score, to_combined)
        to_score, to_states = states.pull_back(attended, to_combined, to_coefficients, to_raw, to_query)
        return (to_score, *to_states)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Treat members as one more axis in front. In c it comes after the order."""
        axes = (0, 1, 1, 0, 1, 1, 1, 1)
        return _Attend.apply(*members_first(info.batch_size, in_dims, inputs)), axes  # type: ignore[no-untyped-call]


@quick_to_call
class _NormalizeSum(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(raw: Tensor) -> Tensor:
        return coefficients_of(guard(raw))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (raw,) = ctx.saved_tensors
        return pull_back(guard(raw), gradient)


def lay_out(history: History, *others: Tensor) -> HistoryLayout:
    """Lay out the history as suits the size of its states, and what `others` it meets.

    Kernels are taken where autograd need not see into them.
    """
    if (
        1 < len(history) <= MOST_STATES
        and not torch.is_grad_enabled()
        and all(_has_kernel(each) for each in (*history, *others))
        and all(each.is_contiguous() for each in history)
    ):
        from tdegnn.core.kernel_history import KernelHistory

        return KernelHistory(history)
    return StackedHistory(history) if _is_small(history[0]) and len(history) > 1 else ListedHistory(history)


def _is_small(state: State) -> bool:
    return state.numel() <= SMALL_STATE.get(state.device.type, 0)


class Attended(NamedTuple):
    """What an attention has computed from a history.

    Attributes:
        score: How alike states are, as a matrix.
        coefficients: c.
        division: How c was computed.
        query: The current state, extended by ones and multiplied by `score`, without its last channel.
    """

    score: Score
    coefficients: Coefficients
    division: Guarded
    query: State


class HistoryLayout(ABC):
    """The history as it lies in memory, and the sums over it."""

    @abstractmethod
    def inner_products(self, state: State) -> Float[Tensor, order * batch]:
        """Return the inner product of each state with `state`, over nodes and channels."""

    @abstractmethod
    def weighted_sum(self, weights: Coefficients) -> State:
        """Return `sum_p w_p F[l-p+1]`."""

    def products(self, weights: Coefficients, state: State, needed: Sequence[bool]) -> list[Tensor | None]:
        """Return `w_p state` for each p, or None where it is not needed."""
        return [
            weight * state if is_needed else None
            for weight, is_needed in zip(weights[..., None, None], needed, strict=True)
        ]

    @abstractmethod
    def sums_of_two(
        self, weights: Coefficients, first: State, more_weights: Coefficients, second: State
    ) -> list[Float[Tensor, "*batch nodes channels"]]:
        """Return `w_p first + v_p second` for each p."""

    @abstractmethod
    def scores(self, score: Score) -> tuple[Float[Tensor, order * batch], Float[Tensor, "*batch nodes any"]]:
        """Return the score of each state, and the query."""

    @abstractmethod
    def pull_back_scores(
        self, score: Score, to_scores: Float[Tensor, order * batch], to_query: Tensor | None, to_current: State
    ) -> tuple[Score, State]:
        """Return the gradient of `score`, and `to_current` plus that of the current state through the query."""

    def divided_scores(
        self, score: Score
    ) -> tuple[Float[Tensor, order * batch], Float[Tensor, order * batch], Guarded, Float[Tensor, "*batch nodes any"]]:
        """Return the scores, made finite, c, how it was computed, and the query."""
        scores, query = self.scores(score)
        return *divide(scores), query

    def pull_back(
        self,
        attended: Attended,
        to_combined: State,
        to_coefficients: Float[Tensor, order * batch] | None,
        to_raw: Float[Tensor, order * batch] | None,
        to_query: Float[Tensor, "*batch nodes any"] | None,
    ) -> tuple[Score, Sequence[State]]:
        """Return the gradients of `score` and of the states, given those of what `_Attend` returns."""
        inner = self.inner_products(to_combined)
        through_c = pull_back(attended.division, inner if to_coefficients is None else inner + to_coefficients)
        to_scores = through_c if to_raw is None else through_c + to_raw
        to_current, *others = self.sums_of_two(attended.coefficients, to_combined, to_scores, attended.query)
        # The current state also acts through the query.
        to_score, to_current = self.pull_back_scores(attended.score, to_scores, to_query, to_current)
        return to_score, [to_current, *others]


class StackedHistory(HistoryLayout):
    """Small states, stacked into one tensor: few calls."""

    def __init__(self, history: History) -> None:
        self._states = torch.stack(history, dim=-3)

    def inner_products(self, state: State) -> Float[Tensor, order * batch]:
        """Return the inner product of each state with `state`, over nodes and channels."""
        return _inner_products(self._states, state)

    def weighted_sum(self, weights: Coefficients) -> State:
        """Return `sum_p w_p F[l-p+1]`."""
        return _weighted_sum(weights, self._states)

    def sums_of_two(
        self, weights: Coefficients, first: State, more_weights: Coefficients, second: State
    ) -> list[Float[Tensor, "*batch nodes channels"]]:
        """Return `w_p first + v_p second` for each p."""
        many, more = (each.view(*each.shape, *[1] * (first.dim() + 1 - each.dim())) for each in (weights, more_weights))
        return list(product_adder()(many * first, more, second).unbind(0))

    def scores(self, score: Score) -> tuple[Float[Tensor, order * batch], Float[Tensor, "*batch nodes any"]]:
        """Return the score of each state, and the query, which has one channel more than a state."""
        states = self._with_ones()
        current = states[..., 0, :, :]
        query = (rows_of(current, score) @ score).view(current.shape)
        return _inner_products(states, query), query

    def pull_back_scores(
        self, score: Score, to_scores: Float[Tensor, order * batch], to_query: Tensor | None, to_current: State
    ) -> tuple[Score, State]:
        """Return the gradient of `score`, and `to_current` plus that of the current state through the query."""
        states = self._with_ones()
        through_scores = _weighted_sum(to_scores, states)
        query_rows = rows_of(through_scores if to_query is None else through_scores + to_query, score)
        # The channel of ones belongs to no state and gets no gradient.
        through_query = (query_rows @ score[..., :-1, :].mT).view(to_current.shape)
        return rows_of(states[..., 0, :, :], score).mT @ query_rows, to_current + through_query

    def _with_ones(self) -> Float[Tensor, "*batch order nodes channels_and_one"]:
        return torch.cat([self._states, torch.ones_like(self._states[..., :1])], dim=-1)


class ListedHistory(HistoryLayout):
    """Large states, each a tensor of its own: no copies."""

    def __init__(self, history: History) -> None:
        self._history = history

    def inner_products(self, state: State) -> Float[Tensor, order * batch]:
        """Return the inner product of each state with `state`, over nodes and channels."""
        flat = state.flatten(-2)
        inner_product: Callable[[Tensor, Tensor], Tensor]
        inner_product = torch.dot if flat.dim() == 1 else torch.linalg.vecdot
        return torch.stack([inner_product(each.flatten(-2), flat) for each in self._history])

    def weighted_sum(self, weights: Coefficients) -> State:
        """Return `sum_p w_p F[l-p+1]`."""
        first, *others = weights[..., None, None].unbind(0)
        add_product = product_adder()
        total = first * self._history[0]
        for weight, state in zip(others, self._history[1:], strict=True):
            total = add_product(total, weight, state)
        return total

    def sums_of_two(
        self, weights: Coefficients, first: State, more_weights: Coefficients, second: State
    ) -> list[Float[Tensor, "*batch nodes channels"]]:
        """Return `w_p first + v_p second` for each p."""
        add_product = product_adder()
        pairs = zip(weights[..., None, None].unbind(0), more_weights[..., None, None].unbind(0), strict=True)
        return [add_product(weight * first, more, second) for weight, more in pairs]

    def scores(self, score: Score) -> tuple[Float[Tensor, order * batch], Float[Tensor, "*batch nodes any"]]:
        """Return the score of each state, and the query."""
        current = self._history[0]
        query = self._query(score)
        sums = rows_of(current.sum(dim=-2), score)
        shift = _add_product(score[..., -1:, -1:] * current.shape[-2], sums, score[..., :-1, -1:])
        return self.inner_products(query) + shift.view(current.shape[:-2]), query

    def _query(self, score: Score) -> State:
        # The ones that `Score` appends to states are not stored: their terms are added separately.
        current = self._history[0]
        # A vector as the summand costs nothing, a matrix with one row a copy.
        summand = score[-1, :-1] if score.dim() == 2 else score[..., -1:, :-1]
        return _add_product(summand, rows_of(current, score), score[..., :-1, :-1]).view(current.shape)

    def pull_back_scores(
        self, score: Score, to_scores: Float[Tensor, order * batch], to_query: Tensor | None, to_current: State
    ) -> tuple[Score, State]:
        """Return the gradient of `score`, and `to_current` plus that of the current state through the query."""
        current, num_nodes = self._history[0], self._history[0].shape[-2]
        through_scores = self.weighted_sum(to_scores)
        query_rows = rows_of(through_scores if to_query is None else through_scores + to_query, score)
        to_shift = rows_of(to_scores.sum(dim=0)[..., None], score)
        to_ones = (to_shift * num_nodes).sum(dim=-2, keepdim=True)
        to_score = torch.cat(
            [
                torch.cat(
                    [rows_of(current, score).mT @ query_rows, rows_of(current.sum(dim=-2), score).mT @ to_shift], -1
                ),
                torch.cat([query_rows.sum(dim=-2, keepdim=True), to_ones], -1),
            ],
            dim=-2,
        )
        summed = _add_product(rows_of(to_current, score), query_rows, score[..., :-1, :-1].mT).view(current.shape)
        through_shift = to_shift @ score[..., :-1, -1:].mT
        return to_score, summed + through_shift.view(*current.shape[:-2], 1, -1)


def product_adder() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a function that computes `total + weight * factor`, in place unless compiled or under `torch.func`.

    In place it saves an allocation, which costs more than the sum. The compiler fuses the sum anyway, and the one of
    torch 2.11 loses the gradients of a function that writes in place. `vmap` has no rule for writing in place.
    """
    if torch.compiler.is_compiling() or transform_level() is not None:
        return torch.addcmul
    return Tensor.addcmul_


def rows_of(values: Float[Tensor, "*axes channels"], score: Score) -> Float[Tensor, "*members rows channels"]:
    """Flatten all axes but those of members and the last one, so that one product per member is enough."""
    return values.reshape(*score.shape[:-2], -1, values.shape[-1])


def _add_product(
    summand: Float[Tensor, "*members #rows #channels"] | Float[Tensor, " channels"],
    rows: Float[Tensor, "*members rows inner"],
    matrix: Float[Tensor, "*members inner channels"],
) -> Float[Tensor, "*members rows channels"]:
    """Return `summand + rows @ matrix`, in one pass over memory."""
    if rows.dim() > 3:
        return summand + rows @ matrix
    return (torch.addmm if rows.dim() == 2 else torch.baddbmm)(summand, rows, matrix)


def _inner_products(states: Float[Tensor, "*batch order nodes channels"], state: State) -> Float[Tensor, order * batch]:
    return (states.flatten(-2) @ state.flatten(-2)[..., None]).squeeze(-1).movedim(-1, 0)


def _weighted_sum(weights: Coefficients, states: Float[Tensor, "*batch order nodes channels"]) -> State:
    by_batch = weights.to(states.dtype).movedim(0, -1)[..., None, :]
    total: Tensor = (by_batch @ states.flatten(-2)).squeeze(-2).unflatten(-1, states.shape[-2:])
    return total


class Guarded(NamedTuple):
    """A raw vector divided by its sum, which is held away from zero.

    Attributes:
        quotient: `raw / sum(raw)`, or `raw` divided by the smallest allowed sum.
        scale: The largest entry of `raw` by size, which is taken out first.
        divisor: The sum of `raw / scale`, held away from zero.
        is_free: Whether the divisor is that sum, not held.
    """

    quotient: Float[Tensor, order * batch]
    scale: Float[Tensor, 1 * batch]
    divisor: Float[Tensor, 1 * batch]
    is_free: Bool[Tensor, 1 * batch]


def divide(
    scores: Float[Tensor, order * batch],
) -> tuple[Float[Tensor, order * batch], Float[Tensor, order * batch], Guarded]:
    """Return the scores, made finite, c, and how it was computed."""
    if _has_kernel(scores):
        from tdegnn.kernels import division

        raw, coefficients, *division_parts = division.divide(scores[..., None], smallest_scale(scores), RELATIVE_FLOOR)
        return raw, coefficients, Guarded(*division_parts)
    raw = _finite(scores)
    guarded = guard(raw)
    return raw, coefficients_of(guarded), guarded


def guard(raw: Float[Tensor, order * batch]) -> Guarded:
    """Divide `raw` by its sum, or by the smallest allowed sum if it is nearer to zero."""
    # c does not depend on the scale of raw, so the gradient may treat the scale as a constant. Taking it out keeps huge
    # values from overflowing. Its own floor keeps 1 / scale, a factor of the gradient, finite.
    scale = torch.linalg.vector_norm(raw.detach(), torch.inf, dim=0, keepdim=True).clamp(min=smallest_scale(raw))
    scaled = raw / scale
    total = scaled.sum(dim=0, keepdim=True)
    size = total.abs()
    # The largest entry of `scaled` is 1 unless raw is below the smallest scale. From there on c goes to Euler smoothly.
    floor = RELATIVE_FLOOR * torch.linalg.vector_norm(scaled, 1, dim=0, keepdim=True).clamp(min=1.0)
    divisor = torch.copysign(torch.maximum(size, floor), total)
    return Guarded(scaled / divisor, scale, divisor, size >= floor)


def coefficients_of(guarded: Guarded) -> Float[Tensor, order * batch]:
    """Return c. Its first entry is one minus the others, so that the sum is one to rounding."""
    older = guarded.quotient[1:]
    return torch.cat([1.0 - older.sum(dim=0, keepdim=True), older])


def pull_back(guarded: Guarded, gradient: Float[Tensor, order * batch]) -> Float[Tensor, order * batch]:
    """Return the gradient with respect to `raw`, given the one with respect to c.

    For second derivatives, `guarded` must have been computed under autograd.
    """
    if _has_kernel(gradient) and not torch.is_grad_enabled():
        from tdegnn.kernels.division import pull_back_division

        return pull_back_division(guarded, gradient[..., None], RELATIVE_FLOOR)
    quotient, scale, divisor, is_free = guarded
    # The derivative of the divisor by each entry: that of the sum, or that of the floor if the sum is held.
    slope = (RELATIVE_FLOOR * torch.sign(quotient)).masked_fill(is_free, 1.0)
    # The first coefficient is one minus the others.
    to_quotient = gradient - gradient[:1]
    to_divisor = (to_quotient * quotient).sum(dim=0, keepdim=True)
    return torch.addcmul(to_quotient, to_divisor, slope, value=-1) / divisor / scale


def smallest_scale(raw: Tensor) -> float:
    """Return the smallest scale that is taken out of a raw vector."""
    return torch.finfo(raw.dtype).tiny * 1e8


def _has_kernel(tensor: Tensor) -> bool:
    """Return whether kernels of `tdegnn.kernels` take this tensor."""
    return tensor.dtype == torch.float32 and runs_kernels(tensor) and transform_level() is None


def _finite(scores: Float[Tensor, order * batch]) -> Float[Tensor, order * batch]:
    """Make scores that have overflowed finite. Their signs stay."""
    return torch.nan_to_num(scores)
