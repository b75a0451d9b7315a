"""Sums over a history on a CUDA device, where kernels read the states in one pass: a layout as in `combination.py`.

It is imported only there, since the kernels need Triton.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.core.combination import (
    RELATIVE_FLOOR,
    Attended,
    Coefficients,
    Guarded,
    ListedHistory,
    Score,
    rows_of,
    smallest_scale,
)
from tdegnn.graph import State
from tdegnn.kernels import division, history


class KernelHistory(ListedHistory):
    """States on a CUDA device, each a tensor of its own: kernels read them in one pass."""

    def inner_products(self, state: State) -> Float[Tensor, order * batch]:
        """Return the inner product of each state with `state`, over nodes and channels."""
        return history.inner_products(self._history, state.contiguous()).sum(dim=-1)

    def weighted_sum(self, weights: Coefficients) -> State:
        """Return `sum_p w_p F[l-p+1]`."""
        return history.add_weighted(weights, self._history)

    def products(self, weights: Coefficients, state: State, needed: Sequence[bool]) -> list[Tensor | None]:
        """Return `w_p state` for each p, or None where it is not needed."""
        if not all(needed):
            return super().products(weights, state, needed)
        return [*history.products(weights, state.contiguous())]

    def divided_scores(
        self, score: Score
    ) -> tuple[Float[Tensor, order * batch], Float[Tensor, order * batch], Guarded, Float[Tensor, "*batch nodes any"]]:
        """Return the scores, made finite, c, how it was computed, and the query."""
        query = self._query(score)
        sums = history.inner_products(self._history, query, score)
        raw, coefficients, *division_parts = division.divide(sums, smallest_scale(sums), RELATIVE_FLOOR)
        return raw, coefficients, Guarded(*division_parts), query

    def pull_back(
        self,
        attended: Attended,
        to_combined: State,
        to_coefficients: Float[Tensor, order * batch] | None,
        to_raw: Float[Tensor, order * batch] | None,
        to_query: Float[Tensor, "*batch nodes any"] | None,
    ) -> tuple[Score, Sequence[State]]:
        """Return the gradients of `score` and of the states, given those of what `_Attend` returns."""
        score, to_combined = attended.score, to_combined.contiguous()
        sums = history.inner_products(self._history, to_combined)
        if to_coefficients is not None:
            sums = torch.cat([sums, to_coefficients[..., None]], dim=-1)
        through_c = division.pull_back_division(attended.division, sums, RELATIVE_FLOOR)
        to_scores = through_c if to_raw is None else through_c + to_raw
        to_states, through_scores, current = history.pull_back_attention(
            self._history, attended.coefficients, to_combined, to_scores, attended.query.contiguous()
        )
        if to_query is not None:
            through_scores[..., : to_query.shape[-1]] += to_query
        query_rows, current_rows = rows_of(through_scores, score), rows_of(current, score)
        # The current state also acts through the query.
        _add_product_to(rows_of(to_states[0], score), query_rows, score[..., :-1, :].mT)
        return current_rows.mT @ query_rows, to_states


def _add_product_to(
    total: Float[Tensor, "*members rows channels"],
    rows: Float[Tensor, "*members rows inner"],
    matrix: Float[Tensor, "*members inner channels"],
) -> None:
    """Add `rows @ matrix` to `total`, in one pass over memory."""
    if rows.dim() > 3:
        total += rows @ matrix
    else:
        (total.addmm_ if rows.dim() == 2 else total.baddbmm_)(rows, matrix)
