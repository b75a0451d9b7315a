"""Splits in time: what comes later is never trained on.

A window is named by the step it predicts. The last 10 % of the windows are the test part, exactly those of the paper's
90 / 10 split; of the 90 % before them the last ninth is the validation part, by which everything is chosen.
`rolling_origins` asks the same question several times, as if the end of the series had come earlier.
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


@dataclass(frozen=True)
class Fold:
    """Steps, from 0, of one trial of a backtest.

    Attributes:
        training: What is known when the forecast is made.
        test: What is forecast, right after it.
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
    """Split a series several times: train on what comes before an origin, test on the `horizon` steps after it.

    The origins move on by `stride`, and the last test part ends with the series. That a later fold trains on what an
    earlier one was tested on is no leak: by then it is known. What leaks is whatever looks past the origin: a scaler
    or a filling fitted to the whole series, training windows with targets in the test part (take
    `SlidingWindows.predicting(fold.training)`), and a choice (of epochs, of hyperparameters) made by the test parts
    that are then reported. Fit everything anew in each fold, and choose by the end of its training part.

    Args:
        num_steps: Number of observed steps.
        horizon: Number of steps in each test part.
        num_folds: Number of folds.
        stride: Steps from one origin to the next. Without it the horizon: each test step is then in one fold.
        window: Number of steps a forecast sees. The shortest training part holds one window and its targets.
        max_training: Train on so many steps before the origin. Without it, on all of them.
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
