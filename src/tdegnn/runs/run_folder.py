"""The folder of a training: with which settings it runs, how far it is, what came out.

`config.json` says what is trained, `metrics.jsonl` grows by a line a validation, `weights.safetensors` and
`coefficients.npz` are the best so far, `checkpoint.safetensors` is what a resumed training needs, and `summary.json`
makes it a finished one. A process killed at any moment leaves a folder that can be read and resumed; the files of a
resumed training are those of an uninterrupted one. A lock keeps a second process from writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from filelock import BaseFileLock, FileLock, Timeout
from numpy.typing import NDArray
from torch import Tensor
from tdegnn.errors import InputError
from tdegnn.version import describe_versions
from tdegnn.runs.safe_files import finite_or_null
from tdegnn.runs.safe_files import UNFINISHED, append_whole, cut, explained, from_json, read_arrays, read_tensors, read_whole, remove_unfinished, sync_folder, to_json, write_arrays, write_tensors, write_whole


FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
COEFFICIENTS = "coefficients.npz"
METRICS = "metrics.jsonl"
CHECKPOINT = "checkpoint.safetensors"
SUMMARY = "summary.json"
LOCK = ".lock"
# What config.json says besides the settings.
RESERVED = ("format", "versions")
ELSEWHERE = "Choose another folder."


@dataclass(frozen=True)
class Checkpoint:
    """What a training needs to go on as if it had not been interrupted.

    Attributes:
        step: Number of finished steps.
        tensors: Weights, moments, states of random generators.
        values: Plain values, as JSON keeps them: tuples come back as lists.
    """

    step: int
    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any] = field(default_factory=dict)


class RunFolder:
    """The folder of one training; `create` and `resume` give one to write to, `open` one to read.

    As a context manager it gives the lock back at the end.

    Attributes:
        path: Where it is.
        config: What is trained, as JSON keeps it.
        versions: With which versions the training was started.
    """

    def __init__(
        self, path: Path, config: dict[str, Any], versions: dict[str, Any], lock: BaseFileLock | None = None
    ) -> None:
        self.path, self.config, self.versions = path, config, versions
        self._lock = lock
        self._num_metrics = 0

    @classmethod
    def create(cls, path: Path | str, config: Mapping[str, Any]) -> RunFolder:
        """Begin a training in a new or empty folder.

        Args:
            path: The folder; it is made where there is none.
            config: Everything that decides what is trained: kind of model, settings, seed, checksum of the data.
        """
        path, config, versions = Path(path), _plain(config), describe_versions()
        _check_free(path)
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
        run = cls(path, config, versions, _acquire(path))
        try:
            # Another process may have begun, and ended, between the first look and the lock.
            _check_free(path)
            remove_unfinished(path)
            content = {"format": FORMAT, "versions": versions, **config}
            write_whole(path / CONFIG, f"{to_json(content, indent=2)}\n".encode())
            append_whole(path / METRICS, b"")
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def begin(cls, path: Path | str, config: Mapping[str, Any], *, resume: bool) -> RunFolder:
        """Go on with the training in a folder, if that is wanted and there is one; else begin it."""
        return cls.resume(path, config) if resume and cls.is_begun(path) else cls.create(path, config)

    @staticmethod
    def is_begun(path: Path | str) -> bool:
        """Whether there is a training in the folder."""
        return (Path(path) / CONFIG).exists()

    @classmethod
    def check_free(cls, path: Path | str, *, resume: bool) -> None:
        """Raise an `InputError` where `begin` could not begin: before any long work."""
        if not (resume and cls.is_begun(path)):
            _check_free(Path(path))

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Read the folder of a training, finished or not."""
        path = Path(path)
        config = _read_config(path)
        versions = config.pop("versions")
        del config["format"]
        return cls(path, config, versions)

    @classmethod
    def open_finished(cls, path: Path, kind: str) -> RunFolder:
        """Read the folder of a finished training of one kind of estimator."""
        folder = cls.open(path)
        came = folder.config.get("kind")
        if came != kind:
            raise InputError(f"Expected the run folder of a {kind}, got {path} of a {came}. Choose another.")
        if not folder.is_finished:
            raise InputError(f"Expected a finished training, got {path}, which is not. Go on with --resume.")
        return folder

    @classmethod
    def resume(cls, path: Path | str, config: Mapping[str, Any]) -> RunFolder:
        """Go on with a training where its last checkpoint was written, or from the start where there is none.

        Metrics that came after the checkpoint are removed. A finished training stays as it is; see `is_finished`.

        Args:
            path: Its folder.
            config: The same as when it was created; versions may differ.
        """
        run = cls.open(path)
        _check_same(run.path, run.config, _plain(config))
        run._lock = _acquire(run.path)
        try:
            run._clean_up()
        except BaseException:
            run.close()
            raise
        return run

    def close(self) -> None:
        """Let others write to the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @property
    def is_finished(self) -> bool:
        """Whether the training came to its end."""
        return _is_file(self.path / SUMMARY)

    def write_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Keep these weights as the best."""
        self._check_writable()
        write_tensors(self.path / WEIGHTS, weights)

    def read_weights(self) -> dict[str, Tensor]:
        """The best weights, on the CPU."""
        return read_tensors(self._existing(WEIGHTS))[0]

    def write_coefficients(self, coefficients: NDArray[Any], **others: NDArray[Any]) -> None:
        """Keep the learned coefficients, layers x order, and other arrays beside them."""
        self._check_writable()
        if coefficients.ndim != 2:
            raise InputError(f"Expected coefficients of shape (layers, order), got {coefficients.shape}.")
        write_arrays(self.path / COEFFICIENTS, {"coefficients": coefficients, **others})

    def read_coefficients(self) -> dict[str, NDArray[Any]]:
        """The learned coefficients and the arrays beside them, by name."""
        return read_arrays(self._existing(COEFFICIENTS))

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """Add the line of a validation; what is not finite becomes null."""
        self._check_writable()
        append_whole(self.path / METRICS, f"{to_json(finite_or_null(record))}\n".encode())
        self._num_metrics += 1

    def read_metrics(self) -> list[dict[str, Any]]:
        """The records of the validations so far."""
        path = self.path / METRICS
        return [from_json(line, f"{path}, line {number}") for number, line in enumerate(self._metric_lines(), start=1)]

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep what is needed to go on from here; the metrics so far belong to it."""
        self._check_writable()
        header = {"step": checkpoint.step, "num_metrics": self._num_metrics, "values": dict(checkpoint.values)}
        write_tensors(self.path / CHECKPOINT, checkpoint.tensors, header)

    def read_checkpoint(self) -> Checkpoint | None:
        """The last checkpoint; None where there is none yet, or none any more."""
        if not _is_file(self.path / CHECKPOINT):
            return None
        tensors, header = read_tensors(self.path / CHECKPOINT)
        return Checkpoint(header["step"], tensors, header["values"])

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, which makes the training a finished one, and remove the checkpoint."""
        self._check_writable()
        text = to_json(finite_or_null(summary), indent=2)
        write_whole(self.path / SUMMARY, f"{text}\n".encode())
        self._remove_checkpoint()

    def read_summary(self) -> dict[str, Any]:
        """What the training came to, once it is finished."""
        return _read_object(self._existing(SUMMARY))

    def _existing(self, name: str) -> Path:
        path = self.path / name
        if not _is_file(path) and not self.is_finished:
            raise InputError(
                f"Expected {name} in {self.path}, got a training that did not get that far. Go on with --resume."
            )
        return path

    def _metric_lines(self) -> list[bytes]:
        path = self.path / METRICS
        # One that was killed before its first line may have no such file; a finished one has lost it.
        if not self.is_finished and not _is_file(path):
            return []
        # What follows the last line break was cut by a kill.
        return read_whole(path).split(b"\n")[:-1]

    def _clean_up(self) -> None:
        """Go back to the last checkpoint."""
        remove_unfinished(self.path)
        if self.is_finished:
            self._remove_checkpoint()  # a kill may have come between the summary and this
            return
        path = self.path / METRICS
        has_checkpoint = _is_file(self.path / CHECKPOINT)
        num_metrics = read_tensors(self.path / CHECKPOINT)[1]["num_metrics"] if has_checkpoint else 0
        lines = self._metric_lines()
        if len(lines) < num_metrics:
            raise InputError(
                f"Expected at least {num_metrics} lines in {path}, which its checkpoint has seen, got {len(lines)}. "
                "Restore it from a copy or train again in another folder."
            )
        append_whole(path, b"")  # it may not be there yet
        cut(path, sum(len(line) + 1 for line in lines[:num_metrics]))
        self._num_metrics = num_metrics

    def _remove_checkpoint(self) -> None:
        with explained(self.path):
            (self.path / CHECKPOINT).unlink(missing_ok=True)
            sync_folder(self.path)

    def _check_writable(self) -> None:
        if self._lock is None:
            raise InputError(f"Expected a run folder to write to, got {self.path} to read. Create or resume it.")
        if self.is_finished:
            raise InputError(f"Expected a training to go on with, got the finished one in {self.path}. {ELSEWHERE}")


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as they will be read again."""
    for name in RESERVED:
        if name in config:
            raise InputError(f"Expected settings of a training, got one named {name!r}. Rename it.")
    return from_json(to_json(dict(config)), "the settings")


def _check_free(path: Path) -> None:
    with explained(path):
        if path.exists() and not path.is_dir():
            raise InputError(f"Expected a folder for the run, got the file {path}. {ELSEWHERE}")
        names = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
    if CONFIG in names:
        what = "a finished" if SUMMARY in names else "an unfinished"
        raise InputError(
            f"Expected a new folder for the run, got {path} with {what} training. "
            "Add --resume or choose another folder."
        )
    # A training killed before it had begun leaves its lock and, hidden, a half-written file.
    others = [name for name in names if name != LOCK and not (name.startswith(".") and name.endswith(UNFINISHED))]
    if others:
        raise InputError(
            f"Expected an empty folder for the run, got {path}, which holds something else ({', '.join(others[:3])}). "
            f"{ELSEWHERE}"
        )


def _acquire(path: Path) -> BaseFileLock:
    lock = FileLock(path / LOCK, blocking=False, thread_local=False)
    with explained(path):
        try:
            lock.acquire()
        except Timeout as error:
            raise InputError(
                f"Expected to be alone in {path}, another process is training there. "
                "Wait for it or choose another folder."
            ) from error
    return lock


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise InputError(
            f"Expected a folder that can be read, got {path.parent} ({error.strerror}). Check it."
        ) from error


def _read_object(path: Path) -> dict[str, Any]:
    return from_json(read_whole(path), str(path))


def _read_config(path: Path) -> dict[str, Any]:
    """What config.json says, of a format that this version knows."""
    advice = "Choose the folder of a training."
    if not _is_file(path / CONFIG):
        what = f"{path} without {CONFIG}" if path.is_dir() else f"{path}, which is no folder"
        raise InputError(f"Expected a run folder, got {what}. {advice}")
    config = _read_object(path / CONFIG)
    number, versions = config.get("format"), config.get("versions")
    if not isinstance(number, int) or not isinstance(versions, dict):
        raise InputError(f"Expected a run folder, got {path} with the {CONFIG} of something else. {advice}")
    if number > FORMAT:
        raise InputError(
            f"Expected a run of format {FORMAT}, got {path}, written by tdegnn {versions.get('tdegnn')} with format "
            f"{number}, this version reads up to {FORMAT}. Upgrade tdegnn."
        )
    return config


def _check_same(path: Path, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    difference = _first_difference(kept, given)
    if difference is not None:
        name, was, now = difference
        raise InputError(
            f"Expected the settings that {path} was started with, got {name} = {now} in place of {was}. "
            "Use the same settings or choose another folder."
        )


def _first_difference(kept: Any, given: Any, name: str = "") -> tuple[str, str, str] | None:
    """The name of the first setting that differs, what it was and what it is."""
    if not (isinstance(kept, dict) and isinstance(given, dict)):
        return None if kept == given else (name, to_json(kept), to_json(given))
    for part in [*kept, *(part for part in given if part not in kept)]:
        full_name = f"{name}.{part}" if name else part
        if part not in kept or part not in given:
            texts = [to_json(side[part]) if part in side else "nothing" for side in (kept, given)]
            return full_name, texts[0], texts[1]
        difference = _first_difference(kept[part], given[part], full_name)
        if difference is not None:
            return difference
    return None
