"""Callbacks: objects that `fit` tells what happens, for example to log it elsewhere.

`fit` calls each of them when it starts, after each validation of the training, and when it ends, also by an error.
`TensorBoardCallback` and `MLflowCallback` are two. Networks that are tried before the training are not reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from tdegnn.errors import InputError
from tdegnn.training.loop import Look

OnLook: TypeAlias = Callable[[Look], object]


@dataclass(frozen=True)
class Outcome:
    """The result of a fit.

    Attributes:
        summary: The scores and notes of the estimator, as in `summary_`.
        coefficients: The learned c of each layer, newest state first.
        verdict: What c means, in a sentence.
    """

    summary: Mapping[str, Any]
    coefficients: Float[np.ndarray, "layers order"]
    verdict: str

    @property
    def scores(self) -> dict[str, float]:
        """All numbers of the summary by name, for example `held_out/network/mae`."""
        return {name: float(value) for name, value in flatten(self.summary) if _is_number(value)}

    @property
    def notes(self) -> list[str]:
        """Remarks for the user."""
        return [str(note) for note in self.summary.get("notes", ())]


class Callback:
    """Base class of callbacks. Its methods do nothing: override those that you need.

    An error that a callback raises ends the fit. With a run folder, the fit can then be resumed.
    """

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Take the settings of the fit, in types that JSON supports: `estimator`, and each argument by its name."""

    def on_look(self, look: Look) -> None:
        """Take the result of a validation."""

    def on_end(self, outcome: Outcome | None) -> None:
        """Take the result of the fit. It is None if the fit failed or was interrupted."""


class Followers:
    """The callbacks of one fit.

    Args:
        callbacks: The callbacks.
        on_look: Called before them with the result of each validation.
    """

    def __init__(self, callbacks: Sequence[Callback], on_look: OnLook) -> None:
        self._callbacks, self._on_look = callbacks, on_look
        self.outcome: Outcome | None = None

    def end(self, callback: Callback) -> None:
        """Tell a callback that the fit has ended."""
        callback.on_end(self.outcome)

    def on_look(self, look: Look) -> None:
        """Pass on the result of a validation."""
        self._on_look(look)
        for callback in self._callbacks:
            callback.on_look(look)


@contextmanager
def following(
    callbacks: Sequence[Callback], kind: str, settings: Mapping[str, Any], on_look: OnLook = lambda _: None
) -> Iterator[Followers]:
    """Tell callbacks that a fit starts, and when this context ends, that it has ended.

    Args:
        callbacks: The callbacks.
        kind: Name of the estimator's class.
        settings: Its settings, in types that JSON supports.
        on_look: Called with the result of each validation, before the callbacks.
    """
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise InputError(
                f"Expected callbacks to be objects of classes derived from tdegnn.Callback, got {callback!r}."
            )
    followers = Followers(callbacks, on_look)
    with ExitStack() as ends:
        for callback in callbacks:
            callback.on_start({"estimator": kind, **settings})
            # All of them are told, even if one raises an error.
            ends.callback(followers.end, callback)
        yield followers


def scores_of(look: Look) -> dict[str, float]:
    """Return loss and score of a validation by name. Several networks are numbered from 1: `validation/score/2`."""
    columns = {"training/loss": look.losses.tolist(), "validation/score": look.scores.tolist()}
    return {
        name if len(values) == 1 else f"{name}/{number}": float(value)
        for name, values in columns.items()
        for number, value in enumerate(values, start=1)
    }


def flatten(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the entries of nested mappings, with names that are joined by slashes."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}/{inner}", each) for inner, each in flatten(value))
        else:
            yield name, value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
