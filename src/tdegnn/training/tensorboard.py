"""`TensorBoardCallback`: a training in the format of TensorBoard, which shows it with `tensorboard --logdir FOLDER`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tdegnn.errors import InputError
from tdegnn.training.callbacks import Callback, Outcome, flatten, scores_of
from tdegnn.training.loop import Look


class TensorBoardCallback(Callback):
    """Logs a training for TensorBoard. Needs the package of the extra `tensorboard`.

    It writes loss and validation score by step; at the end, the scores of the summary beside the settings (HParams),
    each entry of c by layer, what c means, and the notes.

    Args:
        folder: Folder for the log. Use a new one for each training that you want to compare.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(
                "Expected the package tensorboard, got none. Run: pip install 'tdegnn[tensorboard]'."
            ) from error
        self._folder, self._new_writer = Path(folder), SummaryWriter
        self._settings: dict[str, Any] = {}

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Write the settings as text."""
        self._settings = dict(flatten(settings))
        try:
            self._writer = self._new_writer(str(self._folder))
        except OSError as error:
            raise InputError(f"Expected a folder for the log of TensorBoard, got {self._folder}: {error}.") from error
        self._writer.add_text("settings", _as_code(self._settings))

    def on_look(self, look: Look) -> None:
        """Write loss and score."""
        for name, value in scores_of(look).items():
            self._writer.add_scalar(name, value, look.step)

    def on_end(self, outcome: Outcome | None) -> None:
        """Write what was learned, and close the files."""
        if outcome is not None:
            for layer, vector in enumerate(outcome.coefficients, start=1):
                for place, value in enumerate(vector, start=1):
                    self._writer.add_scalar(f"coefficients/c{place}", float(value), layer)
            self._writer.add_text("verdict", outcome.verdict)
            self._writer.add_text("notes", "\n\n".join(outcome.notes))
            plain = {
                name: value if isinstance(value, bool | int | float) else str(value)
                for name, value in self._settings.items()
            }
            scores = {f"scores/{name}": value for name, value in outcome.scores.items()}
            # Into the same folder: by default each call makes a run of its own.
            self._writer.add_hparams(plain, scores, run_name=".")
        self._writer.close()


def _as_code(settings: Mapping[str, Any]) -> str:
    """Return settings as a block of code: TensorBoard shows texts as Markdown."""
    return "\n".join(f"    {line}" for line in json.dumps(settings, indent=1, default=str).splitlines())
