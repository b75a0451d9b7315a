"""A layer history as sums and scores over it need it: stacked where states are small, as it is where they are large.

A small state costs more to call about than to copy, so that one call should do for all states. A large one costs what
is read and written of it, so that no state should be copied. Both give the same numbers, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.core.history import Coefficients, History, State

# Numbers in a state that is small.
SMALL_STATE = 2**14

# How alike the current state and a past one are, as a matrix S: `[F[l], 1] S . [F[l-p+1], 1]`, summed over nodes.
# Members that are trained together have scores of their own.
Score: TypeAlias = Float[Tensor, "*members channels_and_one channels_and_one"]


def make_past(history: History) -> StackedPast | ListedPast:
    """The form that suits the size of the states."""
    return StackedPast(history) if history[0].numel() <= SMALL_STATE else ListedPast(history)


class StackedPast:
    """Small states as one tensor."""

    def __init__(self, history: History) -> None:
        self._states = torch.stack(history, dim=-3)

    def inner_products(self, state: State) -> Float[Tensor, "order *batch"]:
        """Inner product of each state with `state`, over nodes and channels."""
        return _inner_products(self._states, state)

    def weighted_sum(self, weights: Coefficients) -> State:
        """`sum_p w_p F[l-p+1]`."""
        return _weighted_sum(weights, self._states)

    def sums_of_two(
        self, weights: Coefficients, first: State, more_weights: Coefficients, second: State
    ) -> list[Float[Tensor, "*batch nodes channels"]]:
        """`w_p first + v_p second` for each p."""
        many, more = (each.view(*each.shape, *[1] * (first.dim() + 1 - each.dim())) for each in (weights, more_weights))
        return list(product_adder()(many * first, more, second).unbind(0))

    def scores(self, score: Score) -> tuple[Float[Tensor, "order *batch"], Float[Tensor, "*batch nodes any"]]:
        """The score of each state, and the query, with one channel more than a state."""
        states = self._with_ones()
        current = states[..., 0, :, :]
        query = (_rows(current, score) @ score).view(current.shape)
        return _inner_products(states, query), query

    def pull_back_scores(
        self, score: Score, to_scores: Float[Tensor, "order *batch"], to_query: Tensor | None, to_current: State
    ) -> tuple[Score, State]:
        """The gradients of `score` and, added to `to_current`, of the current state through the query."""
        states = self._with_ones()
        through_scores = _weighted_sum(to_scores, states)
        query_rows = _rows(through_scores if to_query is None else through_scores + to_query, score)
        # Not of the channel of ones, which is no state.
        through_query = (query_rows @ score[..., :-1, :].mT).view(to_current.shape)
        return _rows(states[..., 0, :, :], score).mT @ query_rows, to_current + through_query

    def _with_ones(self) -> Float[Tensor, "*batch order nodes channels_and_one"]:
        return torch.cat([self._states, torch.ones_like(self._states[..., :1])], dim=-1)


class ListedPast:
    """Large states as they are."""

    def __init__(self, history: History) -> None:
        self._history = history

    def inner_products(self, state: State) -> Float[Tensor, "order *batch"]:
        """Inner product of each state with `state`, over nodes and channels."""
        flat = state.flatten(-2)
        inner_product: Callable[[Tensor, Tensor], Tensor]
        inner_product = torch.dot if flat.dim() == 1 else torch.linalg.vecdot
        return torch.stack([inner_product(past.flatten(-2), flat) for past in self._history])

    def weighted_sum(self, weights: Coefficients) -> State:
        """`sum_p w_p F[l-p+1]`."""
        first, *others = weights[..., None, None].unbind(0)
        add_product = product_adder()
        total = first * self._history[0]
        for weight, state in zip(others, self._history[1:], strict=True):
            total = add_product(total, weight, state)
        return total

    def sums_of_two(
        self, weights: Coefficients, first: State, more_weights: Coefficients, second: State
    ) -> list[Float[Tensor, "*batch nodes channels"]]:
        """`w_p first + v_p second` for each p."""
        add_product = product_adder()
        pairs = zip(weights[..., None, None].unbind(0), more_weights[..., None, None].unbind(0), strict=True)
        return [add_product(weight * first, more, second) for weight, more in pairs]

    def scores(self, score: Score) -> tuple[Float[Tensor, "order *batch"], Float[Tensor, "*batch nodes any"]]:
        """The score of each state, and the query."""
        current = self._history[0]
        # The ones that states have in `Score` are left out of the products, and made up for.
        query = _add_product(score[..., -1:, :-1], _rows(current, score), score[..., :-1, :-1]).view(current.shape)
        sums = _rows(current.sum(dim=-2), score)
        shift = _add_product(score[..., -1:, -1:] * current.shape[-2], sums, score[..., :-1, -1:])
        return self.inner_products(query) + shift.view(current.shape[:-2]), query

    def pull_back_scores(
        self, score: Score, to_scores: Float[Tensor, "order *batch"], to_query: Tensor | None, to_current: State
    ) -> tuple[Score, State]:
        """The gradients of `score` and, added to `to_current`, of the current state through the query."""
        current, num_nodes = self._history[0], self._history[0].shape[-2]
        through_scores = self.weighted_sum(to_scores)
        query_rows = _rows(through_scores if to_query is None else through_scores + to_query, score)
        to_shift = _rows(to_scores.sum(dim=0)[..., None], score)
        to_ones = (to_shift * num_nodes).sum(dim=-2, keepdim=True)
        to_score = torch.cat(
            [
                torch.cat([_rows(current, score).mT @ query_rows, _rows(current.sum(dim=-2), score).mT @ to_shift], -1),
                torch.cat([query_rows.sum(dim=-2, keepdim=True), to_ones], -1),
            ],
            dim=-2,
        )
        summed = _add_product(_rows(to_current, score), query_rows, score[..., :-1, :-1].mT).view(current.shape)
        through_shift = to_shift @ score[..., :-1, -1:].mT
        return to_score, summed + through_shift.view(*current.shape[:-2], 1, -1)


def product_adder() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """What makes `total + weight * factor`: in place, except under the compiler and under `torch.func`.

    In place it saves an allocation, which costs more than the sum. The compiler fuses the sum anyway, and that of
    torch 2.11 loses the gradients of a function that writes in place. `vmap` has no rule for writing in place.
    """
    if torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None:
        return torch.addcmul
    return Tensor.addcmul_


def _rows(values: Float[Tensor, "*axes channels"], score: Score) -> Float[Tensor, "*members rows channels"]:
    """All axes but those of members, which have scores of their own, as one: then one product does for all of them."""
    return values.reshape(*score.shape[:-2], -1, values.shape[-1])


def _add_product(
    summand: Float[Tensor, "*members #rows #channels"],
    rows: Float[Tensor, "*members rows inner"],
    matrix: Float[Tensor, "*members inner channels"],
) -> Float[Tensor, "*members rows channels"]:
    """`summand + rows @ matrix`, read and written once."""
    if rows.dim() > 3:
        return summand + rows @ matrix
    return (torch.addmm if rows.dim() == 2 else torch.baddbmm)(summand, rows, matrix)


def _inner_products(
    states: Float[Tensor, "*batch order nodes channels"], state: State
) -> Float[Tensor, "order *batch"]:
    return (states.flatten(-2) @ state.flatten(-2)[..., None]).squeeze(-1).movedim(-1, 0)


def _weighted_sum(weights: Coefficients, states: Float[Tensor, "*batch order nodes channels"]) -> State:
    by_batch = weights.to(states.dtype).movedim(0, -1)[..., None, :]
    total: Tensor = (by_batch @ states.flatten(-2)).squeeze(-2).unflatten(-1, states.shape[-2:])
    return total
