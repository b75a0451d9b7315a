"""Series that a forecaster is given, checked before a network sees them: to learn from, and to forecast from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tdegnn.data.panel import Panel
from tdegnn.data.times.times import describe_step, show_time
from tdegnn.errors import InputError
from tdegnn.forecasting.held_out import HELD_OUT


def check_is_panel(panel: object) -> None:
    """Raise an `InputError` for anything that is no panel."""
    if not isinstance(panel, Panel):
        raise InputError(f"Expected a Panel, got {type(panel).__name__}. Make one with read_panel.")


def check_to_learn_from(panel: Panel, lowest: float | None) -> None:
    """Raise an `InputError` where values go below the lowest, or so much of the end is empty that none is held out."""
    observed = panel.values[..., : panel.num_targets]
    if lowest is not None and (observed < lowest).any():
        raise InputError(
            f"Expected nothing below lowest={lowest:g}, got {np.nanmin(observed):g}. Lower it or leave it out."
        )
    is_empty = np.isnan(observed).reshape(panel.num_steps, -1).all(axis=1)
    num_empty = panel.num_steps if is_empty.all() else int(np.argmin(is_empty[::-1]))
    if num_empty >= HELD_OUT * panel.num_steps:
        raise InputError(
            f"Expected something observed at the end of the series, got {num_empty} steps without anything of "
            f"{panel.num_steps}. Remove them: what comes after the last observed step is what is forecast."
        )


def check_goes_on(panel: Panel, training: Panel) -> None:
    """Raise an `InputError` where series to go on with end before those of the training."""
    came, trained = panel.times[-1], training.times[-1]
    if came < trained:
        raise InputError(
            f"Expected series that go as far as those of the training, to {show_time(trained)}, got an end at "
            f"{show_time(came)}. Give old and new steps together."
        )


def check_seen(panel: Panel, training: Panel, window: int) -> Panel:
    """Return newer series, counted in the steps of the training; refuse those of other nodes, or too short ones.

    Args:
        panel: The series as far as they are known.
        training: What was trained on, or the end of it.
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
    """Return the panel, its times counted in the steps of the training; refuse one whose steps are others.

    A few times may fit several steps, as five days in a row fit days and business days. Then the training decides.
    """
    wanted, came = describe_step(training.times), describe_step(panel.times)
    are_dates = [isinstance(times, pd.DatetimeIndex) for times in (panel.times, training.times)]
    if wanted == came or (panel.num_steps == 1 and not any(are_dates)):
        return panel
    if all(are_dates):
        try:
            return replace(panel, times=pd.DatetimeIndex(panel.times, freq=training.times.freq))
        except ValueError:
            pass  # what pandas says of a step that does not fit
    raise InputError(f"Expected steps of {wanted}, as in the training, got {came}. Bring the series to these steps.")


def cover_blocks(future: Panel, known: Sequence[str], asked: pd.Index, whole: pd.Index) -> Panel:
    """Return what is known of whole blocks of steps, of which only those that are asked for must be given.

    A network forecasts a block at once, and sees the future of all of it. What is not given is NaN, and filled later.

    Args:
        future: What is known.
        known: Names of the channels it must have.
        asked: The steps asked for.
        whole: These, and those that fill up the last block.
    """
    check_is_panel(future)
    missing = [name for name in known if name not in future.channels]
    if missing:
        raise InputError(f"Expected future values of {missing[0]!r}, got none. Give them, or train without known=.")
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
