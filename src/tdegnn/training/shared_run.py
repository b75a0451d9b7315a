"""The run folder of a training by several processes: the first one writes it, the others know what it holds.

So only the first process needs the disk, and a training that was begun by some processes is resumed by any number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from tdegnn.runs.run_folder import Checkpoint, RunFolder, begin_run
from tdegnn.training.processes import Processes


@dataclass(frozen=True, eq=False)
class _Content:
    """What a run folder holds when a training begins."""

    config: dict[str, Any]
    versions: dict[str, Any]
    digest: str | None
    is_finished: bool
    history: list[dict[str, Any]]
    checkpoint: Checkpoint | None

    @classmethod
    def of(cls, folder: RunFolder) -> _Content:
        history, checkpoint = folder.read_history(), folder.read_checkpoint()
        return cls(folder.config, folder.versions, folder.digest, folder.is_finished, history, checkpoint)


class FollowedRun(RunFolder):
    """The run folder of the first process, as the others see it: they write nothing.

    Args:
        path: Its path. A finished run is read from there.
        content: What the first process found in it.
    """

    def __init__(self, path: Path, content: _Content) -> None:
        super().__init__(path, content.config, content.versions, digest=content.digest)
        self._content = content

    @property
    def is_finished(self) -> bool:
        """Whether the training had reached its end when the first process opened the folder."""
        return self._content.is_finished

    def read_history(self) -> list[dict[str, Any]]:
        """Return the records of the validations so far."""
        return self._content.history

    def read_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint that the first process continues from."""
        return self._content.checkpoint

    def extend(self, config: Mapping[str, Any]) -> None:
        """Leave it to the first process to write what was decided."""

    def settle(self, config: Mapping[str, Any]) -> None:
        """Leave it to the first process to compare the settings."""

    def discard(self) -> None:
        """Leave it to the first process to remove the folder."""

    def write_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Write nothing."""

    def write_coefficients(self, coefficients: NDArray[Any], **others: NDArray[Any]) -> None:
        """Write nothing."""

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """Write nothing."""

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write nothing."""

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write nothing."""


@contextmanager
def begin_shared_run(
    path: Path | str | None, config: Mapping[str, Any], *, resume: bool, processes: Processes
) -> Iterator[RunFolder | None]:
    """Begin or resume a training in a folder, as `begin_run` does. Only the first process writes to it.

    Args:
        path: The folder, if any.
        config: The settings that are known so far.
        resume: Whether to resume a training.
        processes: Who trains.
    """
    if path is not None and not processes.is_first:
        yield FollowedRun(Path(path), processes.agree(_Content({}, {}, None, False, [], None)))
        return
    with begin_run(path, config, resume=resume) as folder:
        if folder is not None and processes.are_several:
            processes.agree(_Content.of(folder))
        yield folder
