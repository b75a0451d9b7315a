"""Report the result of the search for the order of data: as numbers, as text, and in one sentence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from math import floor, isfinite
from typing import Any

from tdegnn.analysis.order_limits import (
    ABLE_ENOUGH,
    AGREED_ENOUGH,
    CLEARLY_LOWER,
    NEARLY_ALL,
    NEARLY_NO_NOISE,
    SMALLEST_PART,
    SMOOTH_FROM,
)
from tdegnn.analysis.report import ordinal, primes
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH


def percent_reached(share: float) -> str:
    """Return a share in percent, rounded down so that a share below a threshold never appears to reach it."""
    return f"{floor(100 * share + 1e-9)} %"


@dataclass(frozen=True)
class OrderTrial:
    """The result for one order.

    Attributes:
        order: The order m.
        explained_share: Share of the m-th difference that a fit explains on data it has not seen, not counting what
            noise must leave unexplained (so it may slightly exceed 1). Median over the resamples. `None` if hidden by
            noise.
        low: Lower end of the 95 % interval of `explained_share` over the resamples. `None` if hidden by noise.
        high: Upper end of this interval.
        chosen: Share of the resamples that chose this order, among those able to judge.
        noise: Share of noise in the m-th difference, at the scale where it is lowest.
        half_widths: Half widths of the test sequences used, in steps.
    """

    order: int
    explained_share: float | None
    low: float | None
    high: float | None
    chosen: float
    noise: float
    half_widths: tuple[int, ...]

    @staticmethod
    def clamped(share: float) -> float:
        """Return a share limited to [0, 1], as it is shown.

        Shares above 1 come from subtracting the noise. Shares below 0 mean that the fit is worse than none.
        """
        return min(max(share, 0.0), 1.0)


def in_doubt(trials: Sequence[OrderTrial], order: int) -> list[OrderTrial]:
    """Return the lower orders that explain nearly enough and so cast doubt on `order`."""
    return [trial for trial in trials if trial.order < order and (trial.explained_share or 0.0) >= CLEARLY_LOWER]


def is_left_unexplained(trial: OrderTrial) -> bool:
    """Return whether some of the m-th difference is left unexplained and is not noise."""
    return trial.high is not None and trial.high < NEARLY_ALL and trial.noise < NEARLY_NO_NOISE


def may_be_smoothness(trial: OrderTrial) -> bool:
    """Return whether the explained share may come from smoothness alone.

    The lower derivatives of a smooth series explain its higher ones, whatever the system behind it.
    """
    return trial.order >= SMOOTH_FROM and is_left_unexplained(trial)


@dataclass(frozen=True)
class LowerDerivative:
    """The weight of a lower derivative, relative to that of the m-th one.

    Attributes:
        order: The order j of the derivative.
        weight: `D_j` of `D_1 h F' + ... + D_m h^m F^(m) = h s`, scaled so that `D_m` is 1.
        low: Lower end of the interval of `weight`: the 95 % interval over the resamples, widened by a bound on the
            error of taking differences for derivatives.
        high: Upper end of this interval.
        rate: The weight in the equation `F^(m) + ... + rate F^(j) + ... = s`, in units of time instead of steps.
        size: Standard deviation of this term, divided by that of the m-th term.
    """

    order: int
    weight: float
    low: float
    high: float
    rate: float
    size: float

    @property
    def takes_part(self) -> bool:
        """Whether the interval excludes zero and the term is large enough to matter."""
        return not self.low <= 0 <= self.high and self.size >= SMALLEST_PART

    @property
    def meaning(self) -> str:
        """The weight in words."""
        if self.takes_part:
            return f"takes part, {self.size:.2g} times the size of the leading derivative"
        if self.low <= 0 <= self.high:
            return "may be zero"
        return f"not zero, but too small to matter, {self.size:.1%} of the leading derivative"


@dataclass(frozen=True)
class OrderFound:
    """The order of data, and how certain it is.

    Attributes:
        order: The order. `None` if the data cannot tell.
        trials: The result for every order that was tried.
        derivatives: Weights of the lower derivatives. Empty if the data cannot tell their order.
        has_graph: Whether nodes see their neighbors. If not, the order is that of each node by itself.
        noise_share: Standard deviation of the noise, divided by that of the series without noise.
        num_pieces: Number of pieces the data were cut into.
        num_resamples: Number of resamples of these pieces.
        able: Share of the resamples that were able to judge. The others had nothing but noise to fit or to judge by.
        step_size: Time between two observations.
        notes: Remarks on the data and on how they were prepared.
    """

    order: int | None
    trials: tuple[OrderTrial, ...]
    derivatives: tuple[LowerDerivative, ...]
    has_graph: bool
    noise_share: float
    num_pieces: int
    num_resamples: int
    able: float
    step_size: float
    notes: tuple[str, ...]

    def __str__(self) -> str:
        shares = ", ".join(
            f"order {order} {'hidden by noise' if share is None else f'{max(share, 0.0):.1%}'}"
            for order, share in self.shares.items()
        )
        equation = [] if self.order is None else [f"Equation: {self.equation}"]
        return "\n".join([self.verdict, *equation, f"Explained of held-out data: {shares}", *self.notes])

    @property
    def agreement(self) -> float:
        """Share of the resamples that chose the most frequent order."""
        return max(trial.chosen for trial in self.trials)

    @property
    def shares(self) -> dict[int, float | None]:
        """Explained share by order."""
        return {trial.order: trial.explained_share for trial in self.trials}

    @property
    def reason(self) -> str | None:
        """Why the data cannot tell their order. `None` if they can."""
        if self.order is not None:
            return None
        # If noise hides an order, the orders above it are not judged either.
        seen = list(takewhile(lambda trial: trial.explained_share is not None, self.trials))
        is_hidden = len(seen) < len(self.trials)
        undecided = [
            f"order {trial.order} in {percent_reached(trial.chosen)}" for trial in self.trials if trial.chosen >= 0.05
        ]
        noise = f"noise ({self.noise_share:.0%} of the signal)" if self.noise_share < 10 else "noise"
        if self.able < ABLE_ENOUGH and seen:
            return f"only {percent_reached(self.able)} of the resamples could judge, the others saw little but {noise}"
        if self.agreement >= AGREED_ENOUGH:
            return self._doubt
        if undecided:
            return f"the resamples disagree: {', '.join(undecided)}, none or another in the rest"
        if not seen:
            return f"{noise} hides even the first differences"
        best = max(seen, key=lambda trial: trial.explained_share or 0.0)
        share = percent_reached(best.clamped(best.explained_share or 0.0))
        little = f"explains enough, at most {share} (order {best.order}) where {EXPLAINED_ENOUGH:.0%} are needed"
        rest = (
            f"and {noise} hides the higher ones" if is_hidden else "so chance, or something not in the data, is at work"
        )
        return f"no order up to {seen[-1].order} {little}, {rest}"

    @property
    def _doubt(self) -> str:
        """Why the order is rejected although the resamples agree on it."""
        agreed = max(self.trials, key=lambda trial: trial.chosen)
        doubtful = in_doubt(self.trials, agreed.order)
        if doubtful:
            share = percent_reached(doubtful[0].explained_share or 0.0)
            return f"order {doubtful[0].order} explains {share}, neither enough nor clearly less than enough"
        share = percent_reached(agreed.explained_share or 0.0)
        return (
            f"order {agreed.order} explains {share}, and what is left is not noise: filtered chance looks like this too"
        )

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.order is None:
            return f"The data cannot tell their order: {self.reason}."
        alone = "" if self.has_graph else ", each node by itself"
        return (
            f"{ordinal(self.order).capitalize()} order{alone}, in {percent_reached(self.agreement)} of the resamples."
        )

    @property
    def equation(self) -> str | None:
        """The equation with the lower derivatives that take part, in units of time. `None` if no order was found."""
        if self.order is None:
            return None
        terms = [f"F{primes(self.order)}"]
        for derivative in reversed(self.derivatives):
            if derivative.takes_part:
                sign = "-" if derivative.rate < 0 else "+"
                terms.append(f"{sign} {abs(derivative.rate):.3g} F{primes(derivative.order)}")
        return f"{' '.join(terms)} = {'s(F; G)' if self.has_graph else 's(F)'}"

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, the verdict and the reason in types that JSON supports."""
        return {
            "order": self.order,
            "agreement": self.agreement,
            "verdict": self.verdict,
            "reason": self.reason,
            "equation": self.equation,
            "has_graph": self.has_graph,
            "noise_share": self.noise_share if isfinite(self.noise_share) else None,
            "trials": [asdict(trial) for trial in self.trials],
            "derivatives": [asdict(entry) | {"takes_part": entry.takes_part} for entry in self.derivatives],
            "num_pieces": self.num_pieces,
            "num_resamples": self.num_resamples,
            "able": self.able,
            "step_size": self.step_size,
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """Return `to_dict()` as JSON text."""
        return json.dumps(self.to_dict(), indent=2)
