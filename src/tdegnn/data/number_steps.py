"""Steps of numbers: whole ones exactly, others as far as they were written.

60 times a second is written 0.017, 0.033, 0.05: the step is found from all of them, and each may lie one last digit
from its place.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Shaped

# How far a time given as a number may lie from its place, as a part of the step: in any case, and at most.
NUMBER_TOLERANCE = 1e-3
LARGEST_NUMBER_TOLERANCE = 0.25
# Numbers with more decimals than this were computed, not written.
MOST_DECIMALS = 6
# Integers up to this size have differences that int64 holds.
LARGEST_INTEGER = 2**62


def most_common(differences: Int[np.ndarray, " differences"]) -> int:
    """The difference that occurs most often; the smallest of them."""
    values, counts = np.unique(differences, return_counts=True)
    return int(values[np.argmax(counts)])


def whole_steps(numbers: Int[np.ndarray, " given"], step: int) -> Int[np.ndarray, " given"] | None:
    """How many steps each number lies after the first; None where that is not whole for all, or not more each time."""
    if (np.diff(numbers) < 1).any():
        return None
    ranks, rest = np.divmod(numbers - numbers[0], step)
    return None if rest.any() else ranks.astype(np.int64)


def rank_numbers(numbers: Float[np.ndarray, " given"]) -> Int[np.ndarray, " given"] | None:
    """How many steps each number lies after the first; None where that is not whole for all."""
    differences = np.diff(numbers)
    usual = lower_median(differences)
    # 60 times a second is written as 0.017, 0.033, 0.05: no single difference is the step, their mean is.
    step = differences[(differences > usual / 2) & (differences < usual * 3 / 2)].mean()
    steps = np.rint(differences / step)
    if steps.min() < 1 or steps.sum() > LARGEST_INTEGER:
        return None
    ranks = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
    step = (numbers[-1] - numbers[0]) / ranks[-1]
    is_near = np.abs(numbers - numbers[0] - step * ranks) <= number_tolerance(numbers, step)
    return ranks if is_near.all() else None


def is_evenly_spaced(numbers: Float[np.ndarray, " given"]) -> bool:
    """Whether numbers in order, none missing, lie so near to their places that they may be part of a regular series.

    Of a part the first and the last lie elsewhere than those of the whole: it may be off by twice as much.
    """
    if len(numbers) < 2 or not (np.diff(numbers) > 0).all():
        return False
    places, step = np.linspace(numbers[0], numbers[-1], len(numbers), retstep=True)
    return bool((np.abs(numbers - places) <= 2 * number_tolerance(numbers, float(step))).all())


def number_tolerance(numbers: Float[np.ndarray, " given"], step: float) -> float:
    """How far a number may lie from its place between the first and the last.

    Where all are written with few decimals it is one of the last: half for the number itself, half for the ends.
    """
    decimals = decimals_of(numbers)
    # Whole numbers count something, they are not rounded.
    last_digit = 10.0**-decimals if decimals else 0.0
    return max(NUMBER_TOLERANCE * step, min(last_digit, LARGEST_NUMBER_TOLERANCE * step))


def decimals_of(numbers: Float[np.ndarray, " given"]) -> int | None:
    """How many decimals are enough to write all numbers; None where that would be too many."""
    candidates = range(MOST_DECIMALS + 1)
    return next((count for count in candidates if (np.round(numbers, count) == numbers).all()), None)


def lower_median(differences: Shaped[np.ndarray, " differences"]) -> float:
    """The median, or the smaller of the two in the middle: a difference that there is."""
    return float(np.quantile(differences, 0.5, method="lower"))
