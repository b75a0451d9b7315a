"""Check the series that a trained forecaster gets: newer series to continue from, and channels known ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.data.times.times import describe_step, show_time
from tdegnn.errors import LARGEST_VALUE, Argument, InputError, TrainingError
from tdegnn.forecasting.held_out import check_is_panel


def check_goes_on(panel: Panel, training: Panel) -> None:
    """Raise an `InputError` if the series end before those of the training."""
    came, trained = panel.times[-1], training.times[-1]
    if came < trained:
        raise InputError(
            f"Expected series that go as far as those of the training, to {show_time(trained)}, got an end at "
            f"{show_time(came)}. Give old and new steps together."
        )


def check_seen(panel: Panel, training: Panel, window: int) -> Panel:
    """Return newer series, counted in the steps of the training. Refuse those of other nodes, and too short ones.

    Args:
        panel: The series up to now.
        training: The series of the training, or their end.
        window: Number of steps a forecast sees.
    """
    check_is_panel(panel)
    if panel.nodes != training.nodes:
        missing = [node for node in training.nodes if node not in panel.nodes]
        named = f"{missing[0]!r} is missing" if missing else "their order differs, or there are others"
        raise InputError(f"Expected the {len(training.nodes)} nodes of the training; {named}.")
    if panel.num_steps < window:
        raise InputError(f"Expected at least {window} steps, the window of the training, got {panel.num_steps}.")
    return in_steps_of(panel, training)


def in_steps_of(panel: Panel, training: Panel) -> Panel:
    """Return the panel, its times counted in the steps of the training. Refuse a panel with other steps.

    A few times may fit several steps: five days in a row fit days and business days. Then the training decides.
    """
    wanted, came = describe_step(training.times), describe_step(panel.times)
    are_dates = [isinstance(times, pd.DatetimeIndex) for times in (panel.times, training.times)]
    if wanted == came or (panel.num_steps == 1 and not any(are_dates)):
        return panel
    if all(are_dates):
        try:
            return replace(panel, times=pd.DatetimeIndex(panel.times, freq=training.times.freq))
        except ValueError:
            pass  # pandas raises this for a step that does not fit
    raise InputError(f"Expected steps of {wanted}, as in the training, got {came}. Bring the series to these steps.")


def cover_blocks(future: Panel, known: Sequence[str], asked: pd.Index, whole: pd.Index) -> Panel:
    """Return the channels known ahead in whole blocks of steps. Only the steps to forecast must be given.

    A network forecasts a block at once, and sees the future of all of it. Missing values are NaN, and filled later.

    Args:
        future: The channels known ahead.
        known: Names of the channels it must have.
        asked: The steps to forecast.
        whole: All steps of the blocks.
    """
    check_is_panel(future)
    missing = [name for name in known if name not in future.channels]
    if missing:
        raise InputError(
            f"Expected future values of {missing[0]!r}, got none. Give them, or train without ", Argument("known"), "."
        )
    rows = future.times.get_indexer(whole)
    is_given = rows >= 0
    if not is_given[: len(asked)].all():
        first = show_time(asked[int(np.argmin(is_given))])
        raise InputError(
            f"Expected future values of {len(asked)} steps from {show_time(asked[0])} on, got none at {first}. Give "
            "them, or forecast fewer steps."
        )
    values = np.full((len(whole), future.num_nodes, future.num_channels), np.nan)
    values[is_given] = future.values[rows[is_given]]
    return replace(future, values=values, times=whole)


def extend_panel(panel: Panel, forecast: Float[np.ndarray, "steps nodes targets"], future: Panel | None) -> Panel:
    """Return the panel with forecasts as if they had been observed, and with the channels known in these steps.

    Raises:
        TrainingError: A forecast is not a number, or too large for a panel.
    """
    times = panel.future_times(len(forecast))
    is_wrong = ~(np.abs(forecast) <= LARGEST_VALUE)
    if is_wrong.any():
        step, node, channel = np.argwhere(is_wrong)[0]
        raise TrainingError(
            f"Expected numbers of at most {LARGEST_VALUE:g} as forecasts, got {forecast[step, node, channel]:g} for "
            f"node {panel.nodes[node]!r}, forecast for {show_time(times[step])}. Forecast fewer steps, or train with a "
            "lower learning rate or step size."
        )
    after = np.full((len(forecast), panel.num_nodes, panel.num_channels), np.nan)
    after[..., : panel.num_targets] = forecast
    if future is not None:
        rows = future.times.get_indexer(times)
        # Not the targets, though a future may hold what was observed later: they are forecast.
        for channel, name in list(enumerate(panel.channels))[panel.num_targets :]:
            if name in future.channels and (rows >= 0).all():
                after[..., channel] = future.values[rows][..., future.channels.index(name)]
    values = np.concatenate([panel.values, after])
    # Unlike `append`, a union still knows the step.
    return replace(panel, values=values, times=panel.times.union(times), notes=())
