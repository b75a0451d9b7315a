"""Splits in time: a model never trains on steps after its test steps.

A window is identified by the step it predicts. The last 10 % of the windows are the test subset, exactly that of the
paper's 90 / 10 split. Of the 90 % before them, the last ninth is the validation subset, by which everything is chosen.
`rolling_origins` splits a series several times, as if it had ended earlier.
"""

from __future__ import annotations

from dataclasses import dataclass

from tdegnn.errors import InputError, check_count

# With fewer windows, the validation subset would be empty.
FEWEST_WINDOWS = 6


@dataclass(frozen=True)
class ChronologicalSplit:
    """Indices of the predicted steps, from 0, in three consecutive subsets.

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
        """Training and validation steps together: the training steps of the paper's 90 / 10 split."""
        return range(self.training.start, self.validation.stop)

    def count_windows(self, horizon: int) -> tuple[int, int, int]:
        """Return the number of windows per subset whose `horizon` targets all lie in it."""
        check_count(horizon=horizon)
        training, validation, test = (
            max(0, len(subset) - horizon + 1) for subset in (self.training, self.validation, self.test)
        )
        return training, validation, test


def split_chronologically(num_steps: int, window: int) -> ChronologicalSplit:
    """Split the windows of a series of `num_steps` steps 80 / 10 / 10 in time.

    Args:
        num_steps: Number of observed steps.
        window: Number of steps that a prediction sees. The first predicted step is the one after them.
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


@dataclass(frozen=True)
class Fold:
    """Steps, from 0, of one fold of a backtest.

    Attributes:
        training: Steps that are known when the forecast is made.
        test: Steps to forecast, right after them.
    """

    training: range
    test: range


def rolling_origins(
    num_steps: int,
    horizon: int,
    num_folds: int,
    *,
    stride: int | None = None,
    window: int = 1,
    max_training: int | None = None,
) -> tuple[Fold, ...]:
    """Split a series several times: train on the steps before an origin, test on the `horizon` steps after it.

    The origins move by `stride`, and the last test steps are the end of the series. A later fold may train on the test
    steps of an earlier one: by then they are known. A leak is anything that looks past the origin: a scaler or a
    filling fitted to the whole series, training windows with targets among the test steps (use
    `SlidingWindows.predicting(fold.training)`), or a choice of epochs or settings by the test errors that are then
    reported. Fit everything anew in each fold, and choose by the last training steps.

    Args:
        num_steps: Number of observed steps.
        horizon: Number of test steps per fold.
        num_folds: Number of folds.
        stride: Steps from one origin to the next. Default: the horizon, so that each test step is in one fold.
        window: Number of steps that a forecast sees. The shortest training range holds one window and its targets.
        max_training: Maximum number of training steps before the origin. Default: all of them.
    """
    stride = horizon if stride is None else stride
    check_count(num_steps=num_steps, horizon=horizon, num_folds=num_folds, stride=stride, window=window)
    shortest = window + horizon
    if max_training is not None:
        check_count(shortest, max_training=max_training)
    needed = shortest + (num_folds - 1) * stride + horizon
    if num_steps < needed:
        raise InputError(
            f"Expected at least {needed} steps for {num_folds} folds with a window of {window}, a horizon of {horizon} "
            f"and a stride of {stride}, got {num_steps}. Take fewer folds, a shorter window or a shorter horizon."
        )
    longest = num_steps if max_training is None else max_training
    last_origin = num_steps - horizon
    origins = range(last_origin - (num_folds - 1) * stride, last_origin + 1, stride)
    return tuple(Fold(range(max(0, origin - longest), origin), range(origin, origin + horizon)) for origin in origins)
