"""Splits in time: what comes later is never trained on.

A window is named by the step it predicts. The last 10 % of the windows are the test part, exactly those of the paper's
90 / 10 split; of the 90 % before them the last ninth is the validation part, by which everything is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from tdegnn.errors import InputError, check_count

# With fewer the validation part would be empty.
FEWEST_WINDOWS = 6


@dataclass(frozen=True)
class ChronologicalSplit:
    """Indices of the predicted steps, from 0, in three parts that follow each other.

    Attributes:
        training: The first 80 %.
        validation: The next 10 %.
        test: The last 10 %.
    """

    training: range
    validation: range
    test: range

    @property
    def training_of_the_paper(self) -> range:
        """Training and validation part together: what the paper's 90 / 10 split trains on."""
        return range(self.training.start, self.validation.stop)


def split_chronologically(num_steps: int, window: int) -> ChronologicalSplit:
    """Split the windows of a series of `num_steps` steps 80 / 10 / 10 in time.

    Args:
        num_steps: Number of observed steps.
        window: Number of steps a prediction sees; the first predicted step is the one after them.
    """
    check_count(num_steps=num_steps, window=window)
    num_windows = num_steps - window
    first, second = num_windows * 8 // 10, num_windows * 9 // 10
    if num_windows < FEWEST_WINDOWS:
        raise InputError(
            f"Expected at least {window + FEWEST_WINDOWS} steps to split for a window of {window}, got {num_steps}. "
            "Take a shorter window or a longer series."
        )
    return ChronologicalSplit(
        range(window, window + first), range(window + first, window + second), range(window + second, num_steps)
    )
