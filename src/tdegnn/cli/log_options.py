"""The option `--log-to` of commands that train: logs for TensorBoard and MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tdegnn.training.callbacks import Callback

KINDS = ("tensorboard", "mlflow")


def parse_log(text: str) -> str:
    """Return where to log, as it was given. Raise an error if it is neither `tensorboard:FOLDER` nor `mlflow[:URI]`."""
    kind, _, place = text.partition(":")
    if kind not in KINDS or (kind == "tensorboard" and not place):
        raise typer.BadParameter(f"Expected tensorboard:FOLDER, mlflow:URI or mlflow, got {text!r}.")
    return text


LogTo = Annotated[
    list[str] | None,
    typer.Option(
        "--log-to",
        help="Also log the training: [bold]tensorboard:FOLDER[/bold], [bold]mlflow:URI[/bold], or [bold]mlflow[/bold] "
        "as it is configured. Can be repeated.",
        parser=parse_log,
        metavar="KIND:PLACE",
        show_default="none",
    ),
]


def make_callbacks(given: Sequence[str]) -> list[Callback]:
    """Return a callback for each place. Raise an `InputError` if its package is missing."""
    return [_make_callback(*text.partition(":")[::2]) for text in given]


def _make_callback(kind: str, place: str) -> Callback:
    from tdegnn.training.mlflow import MLflowCallback
    from tdegnn.training.tensorboard import TensorBoardCallback

    return TensorBoardCallback(place) if kind == "tensorboard" else MLflowCallback(place or None)
