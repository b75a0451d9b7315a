"""Choose the length of the history from the data, for `order="auto"`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import inf, isnan
from typing import Any, Literal, TypeAlias

from tdegnn.analysis.order_limits import USUAL_MAX_ORDER
from tdegnn.analysis.order_search import find_order
from tdegnn.data.panel import Panel
from tdegnn.errors import InputError
from tdegnn.files import finite_or_null

Order: TypeAlias = int | Literal["auto"]
AUTO: Literal["auto"] = "auto"
# The orders that are tried, and the one that is taken if series cannot tell theirs: it contains the lower ones.
TRIED_ORDERS = range(1, USUAL_MAX_ORDER + 1)
USUAL_ORDER = USUAL_MAX_ORDER
# The entry of a run folder's settings that keeps the choice.
CHOSEN = "chosen_order"


@dataclass(frozen=True)
class ChosenOrder:
    """An order, and the reason for it.

    Attributes:
        order: Length of the history.
        reason: One sentence. Empty if the user chose.
        details: The numbers behind the choice, as stored in JSON.
    """

    order: int
    reason: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def kept_in(config: Mapping[str, Any]) -> ChosenOrder | None:
        """Return the choice in the settings of a run folder. None if the user chose the order.

        It is not searched for again: another machine may find the same order by slightly different numbers.
        """
        return ChosenOrder(**config[CHOSEN]) if CHOSEN in config else None

    def to_config(self) -> dict[str, Any]:
        """Return the settings together with the choice."""
        return {CHOSEN: asdict(self)}


def order_of_series(panel: Panel, window: int) -> ChosenOrder:
    """Find the order in time of the equation that series follow. If they do not show it, return the usual one.

    Args:
        panel: The series, without the steps that are held out.
        window: Number of steps that a forecast sees, and the highest order.
    """
    usual = min(USUAL_ORDER, window)
    try:
        found = find_order(panel, max_order=usual)
    except InputError as error:
        return ChosenOrder(usual, f"The order could not be searched for, so {usual} was taken. {error}", {})
    details: dict[str, Any] = finite_or_null(found.to_dict())
    if found.order is None:
        return ChosenOrder(usual, f"{found.verdict} The history has the usual length, {usual}.", details)
    return ChosenOrder(found.order, f"Order {found.order} was found: {found.verdict}", details)


def order_by_score(score_of: Callable[[int], float], orders: Iterable[int] = TRIED_ORDERS) -> ChosenOrder:
    """Find the order whose training has the highest validation score; of several, the smallest.

    Args:
        score_of: Trains with an order and returns its score.
        orders: The orders to try.
    """
    scores = {order: score_of(order) for order in orders}
    # A training whose score is not a number is worse than any other.
    best = max(scores, key=lambda order: (-inf if isnan(scores[order]) else scores[order], -order))
    texts = ", ".join(f"order {order}: {score:.4g}" for order, score in scores.items())
    reason = f"Order {best} was chosen by its score on validation ({texts})."
    if len(set(scores.values())) == 1:
        reason = f"All orders tried have the same score on validation, {scores[best]:.4g}: the smallest was taken."
    return ChosenOrder(
        best,
        reason,
        {"scores": {str(order): finite_or_null(score) for order, score in scores.items()}},
    )
