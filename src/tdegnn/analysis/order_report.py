"""What the search for the order of data found: as numbers, as text, and in one sentence."""

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
    """Rounded down: what is not enough must not look like enough."""
    return f"{floor(100 * share + 1e-9)} %"


@dataclass(frozen=True)
class OrderTrial:
    """One order that was tried.

    Attributes:
        order: m.
        explained_share: Share of the m-th difference that a fit explains on data it has not seen, less what noise must
            leave unexplained (so it may pass 1 a little); median over the resamples. `None` where noise hides it.
        low: Lower end of its 95 % interval over the resamples.
        high: Upper end.
        chosen: Share of the resamples, of those that were able to judge, of which this is the order.
        noise: Share of noise in what is to be explained, at the scale where it is lowest.
        half_widths: Half widths, in steps, of the test sequences that were used.
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
        """A share as it is shown: beyond 0 and 1 it is noise that was subtracted, or a fit that is worse than none."""
        return min(max(share, 0.0), 1.0)


def in_doubt(trials: Sequence[OrderTrial], order: int) -> list[OrderTrial]:
    """Lower orders that do not explain clearly less than what is enough."""
    return [trial for trial in trials if trial.order < order and (trial.explained_share or 0.0) >= CLEARLY_LOWER]


def is_left_unexplained(trial: OrderTrial) -> bool:
    """Whether something remains of what is to be explained, and it is not noise."""
    return trial.high is not None and trial.high < NEARLY_ALL and trial.noise < NEARLY_NO_NOISE


def may_be_smoothness(trial: OrderTrial) -> bool:
    """Whether a share that is enough may come from smoothness alone, which explains high derivatives by lower ones."""
    return trial.order >= SMOOTH_FROM and is_left_unexplained(trial)


@dataclass(frozen=True)
class LowerDerivative:
    """The weight of a lower derivative beside that of the m-th one.

    Attributes:
        order: j.
        weight: `D_j`, where `D_m` is 1, as in `D_1 h F' + ... + D_m h^m F^(m) = h s`.
        low: Lower end of its interval: 95 % over the resamples, and a bound on what differences are of derivatives.
        high: Upper end.
        rate: The same in the equation `F^(m) + ... + rate F^(j) + ... = s`, in units of time and not of steps.
        size: How large the term is beside the m-th one, as standard deviations.
    """

    order: int
    weight: float
    low: float
    high: float
    rate: float
    size: float

    @property
    def takes_part(self) -> bool:
        """Whether it is neither zero, by its interval, nor too small to matter."""
        return not self.low <= 0 <= self.high and self.size >= SMALLEST_PART

    @property
    def meaning(self) -> str:
        """The same in words."""
        if self.takes_part:
            return f"takes part, {self.size:.2g} times the size of the leading derivative"
        if self.low <= 0 <= self.high:
            return "may be zero"
        return f"not zero, but too small to matter, {self.size:.1%} of the leading derivative"


@dataclass(frozen=True)
class OrderFound:
    """The order of data, and how sure it is.

    Attributes:
        order: The order; `None` where the data cannot tell.
        trials: Every order that was tried.
        derivatives: Weights of the lower derivatives; none where the data cannot tell.
        has_graph: Whether nodes saw others; else the order is that of each node by itself.
        noise_share: Standard deviation of the noise, over that of the series without it.
        num_pieces: Number of pieces the data were cut into.
        num_resamples: How often they were drawn.
        able: Share of the resamples that were able to judge; the others had noise only, to learn from or to judge by.
        step_size: Time between two observations.
        notes: What was done to the data, and should be known.
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
        """Share of the resamples that agree on the order, or on the one that is chosen most."""
        return max(trial.chosen for trial in self.trials)

    @property
    def shares(self) -> dict[int, float | None]:
        """Explained share by order."""
        return {trial.order: trial.explained_share for trial in self.trials}

    @property
    def reason(self) -> str | None:
        """Why the data cannot tell; `None` where they can."""
        if self.order is not None:
            return None
        # Nothing is said about orders above one that noise hides.
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
            f"and {noise} hides the higher ones" if is_hidden else "so chance, or what is not in the data, is at work"
        )
        return f"no order up to {seen[-1].order} {little}, {rest}"

    @property
    def _doubt(self) -> str:
        """Why the order on which the resamples agree is not believed."""
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
        """One sentence."""
        if self.order is None:
            return f"The data cannot tell their order: {self.reason}."
        alone = "" if self.has_graph else ", each node by itself"
        return (
            f"{ordinal(self.order).capitalize()} order{alone}, in {percent_reached(self.agreement)} of the resamples."
        )

    @property
    def equation(self) -> str | None:
        """The equation with the lower derivatives that take part, in units of time; `None` where there is no order."""
        if self.order is None:
            return None
        terms = [f"F{primes(self.order)}"]
        for derivative in reversed(self.derivatives):
            if derivative.takes_part:
                sign = "-" if derivative.rate < 0 else "+"
                terms.append(f"{sign} {abs(derivative.rate):.3g} F{primes(derivative.order)}")
        return f"{' '.join(terms)} = {'s(F; G)' if self.has_graph else 's(F)'}"

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, the verdict and the reason in types that JSON knows."""
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
        """Return `to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), indent=2)
