"""The result for one order: what it explains of held-out data, and what that share says."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from tdegnn.analysis.order_limits import CLEARLY_LOWER, LACKS_A_TERM, NEARLY_ALL, NEARLY_NO_NOISE, SMOOTH_FROM
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH


def percent_reached(share: float, num_digits: int = 0) -> str:
    """Return a share in percent, rounded down so that a share below a threshold never appears to reach it.

    Args:
        share: The share.
        num_digits: Number of digits behind the point.
    """
    unit = 10**num_digits
    return f"{floor(100 * unit * share + 1e-9) / unit:.{num_digits}f} %"


@dataclass(frozen=True)
class OrderTrial:
    """The result for one order.

    Shares are those of the series without noise, from 0 (a fit that is no better than none) to 1.

    Attributes:
        order: The order m.
        explained_share: Share of the m-th difference that a fit explains on data it has not seen, at the scale where it
            is lowest, including fine scales that noise hides. Median over the resamples. `None` if hidden by noise.
        low: Lower end of the 95 % interval of `explained_share` over the resamples. `None` if hidden by noise.
        high: Upper end of this interval, as if the order explained what noise hides as well as what is visible.
        visible_share: Explained share of the changes that noise leaves visible, the most that the order may explain of
            all changes. Median over the resamples. `None` if hidden by noise.
        chosen: Share of the resamples that chose this order, among those able to judge.
        noise: Share of noise in the m-th difference, at the scale where it is lowest.
        half_widths: Half widths of the test sequences used, in steps.
    """

    order: int
    explained_share: float | None
    low: float | None
    high: float | None
    visible_share: float | None
    chosen: float
    noise: float
    half_widths: tuple[int, ...]

    @property
    def range(self) -> str:
        """The explained share in percent, with its interval."""
        if self.explained_share is None or self.low is None or self.high is None:
            return "hidden by noise"
        return f"{percent_reached(self.explained_share)} ({floor(100 * self.low)} to {percent_reached(self.high)})"


def is_enough(trial: OrderTrial) -> bool:
    """Return whether an order explains enough."""
    return (trial.explained_share or 0.0) >= EXPLAINED_ENOUGH


def is_ruled_out(trial: OrderTrial) -> bool:
    """Return whether an order explains clearly too little, even of what noise leaves visible."""
    return (trial.visible_share or 0.0) < CLEARLY_LOWER


def lacks_a_term(trial: OrderTrial) -> bool:
    """Return whether a low order explains nearly enough: so much that a term is likely to be missing."""
    return trial.order < SMOOTH_FROM and (trial.explained_share or 0.0) >= LACKS_A_TERM and not is_enough(trial)


def is_left_unexplained(trial: OrderTrial) -> bool:
    """Return whether some of the m-th difference is left unexplained and is not noise."""
    return trial.high is not None and trial.high < NEARLY_ALL and trial.noise < NEARLY_NO_NOISE


def may_be_smoothness(trial: OrderTrial) -> bool:
    """Return whether the explained share may come from smoothness alone, whatever the noise.

    The lower derivatives of a smooth series explain its higher ones, whatever the system behind it.
    """
    return trial.order >= SMOOTH_FROM and trial.high is not None and trial.high < NEARLY_ALL
