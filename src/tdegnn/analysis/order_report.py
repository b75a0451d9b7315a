"""Report the result of the search for the order of data: as numbers, as text, and in one sentence."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from tdegnn.analysis.order_limits import SMALLEST_PART
from tdegnn.analysis.order_reason import find_reason
from tdegnn.analysis.order_trials import OrderTrial, percent_reached
from tdegnn.analysis.report import ordinal, primes


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
            f"order {order} {'hidden by noise' if share is None else percent_reached(share, 1)}"
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
        return find_reason(self.trials, noise_share=self.noise_share, able=self.able)

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
