"""The run folder, which holds the settings, progress and result of one training.

`config.json` holds the settings. `metrics.jsonl` grows by one line per validation. `weights.safetensors` and
`coefficients.npz` hold the best weights and coefficients so far, `checkpoint.safetensors` holds the state to resume
from, and `summary.json` marks a finished training. A process killed at any moment leaves a folder that can be read and
resumed, and a resumed training writes the same files as an uninterrupted one. A lock keeps a second process from
writing.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import BaseFileLock, FileLock, Timeout
from numpy.typing import NDArray

from tdegnn.errors import InputError
from tdegnn.files import (
    UNFINISHED,
    append_whole,
    cut,
    explained,
    finite_or_null,
    from_json,
    read_arrays,
    read_tensors,
    read_whole,
    remove_unfinished,
    sync_folder,
    to_json,
    to_json_line,
    write_arrays,
    write_tensors,
    write_whole,
)
from tdegnn.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

# The format of new folders. Older formats can be read: estimators check `RunFolder.format` and upgrade the settings.
FORMAT = 2
PACKAGES = ("torch", "torch-geometric", "numpy", "scipy")
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
COEFFICIENTS = "coefficients.npz"
METRICS = "metrics.jsonl"
CHECKPOINT = "checkpoint.safetensors"
SUMMARY = "summary.json"
LOCK = ".lock"
# Entries of config.json that are not settings.
RESERVED = ("format", "versions")
ELSEWHERE = "Choose another folder."


@dataclass(frozen=True)
class Checkpoint:
    """The state from which a training continues as if it had not been interrupted.

    To keep one more tensor of a training, add it to the `state()` of the class that owns it: `Members`
    (`training/members.py`) for the optimizer, a trainee's `_numbers_to_resume` for its scores, `FitResult`
    (`training/loop.py`) for the loop. Nothing else needs to change: `load_state` copies by name. To keep one more plain
    value, pass it in `values` where `training/loop.py` writes the checkpoint, and read it in `resume` there.

    Attributes:
        step: Number of finished steps.
        tensors: Weights, moments and states of random generators.
        values: Plain values, stored as JSON: tuples come back as lists.
    """

    step: int
    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any] = field(default_factory=dict)


class RunFolder:
    """The folder of one training. `create` and `resume` return one to write to, `open` returns one to read.

    As a context manager it releases the lock at the end.

    Attributes:
        path: The path of the folder.
        config: The settings of the training, as stored in JSON.
        versions: Versions of the packages when the training was started.
        format: The format of the folder: `FORMAT`, or an older one that can only be read.
    """

    def __init__(
        self,
        path: Path,
        config: dict[str, Any],
        versions: dict[str, Any],
        *,
        written_format: int = FORMAT,
        lock: BaseFileLock | None = None,
    ) -> None:
        self.path, self.config, self.versions, self.format = path, config, versions, written_format
        self._lock = lock
        self._num_metrics = 0

    @classmethod
    def create(cls, path: Path | str, config: Mapping[str, Any]) -> RunFolder:
        """Begin a training in a new or empty folder.

        Args:
            path: The folder. It is created if it does not exist.
            config: Everything that determines the training: kind of model, settings, seed, checksum of the data.
        """
        path, config, versions = Path(path), _plain(config), describe_versions()
        _check_free(path)
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
        run = cls(path, config, versions, lock=_acquire(path))
        try:
            # Another process may have started and finished a training between the first check and the lock.
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
        """Resume the training in a folder if `resume` is set and there is one; otherwise begin a new one."""
        return cls.resume(path, config) if resume and cls.is_begun(path) else cls.create(path, config)

    @staticmethod
    def is_begun(path: Path | str) -> bool:
        """Return whether there is a training in the folder."""
        return (Path(path) / CONFIG).exists()

    @classmethod
    def check_free(cls, path: Path | str, *, resume: bool) -> None:
        """Raise an `InputError` if `begin` would. Call it before any long work."""
        if resume and cls.is_begun(path):
            _check_current(cls.open(path))
        else:
            _check_free(Path(path))

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Read the folder of a training, finished or not."""
        path = Path(path)
        config = _read_config(path)
        return cls(path, config, config.pop("versions"), written_format=config.pop("format"))

    @classmethod
    def open_finished(cls, path: Path, kind: str) -> RunFolder:
        """Read the folder of a finished training of one kind of estimator, in this format or an older one."""
        folder = cls.open(path)
        found = folder.config.get("kind")
        if found != kind:
            raise InputError(f"Expected the run folder of a {kind}, got {path}, that of a {found}. Choose another.")
        if not folder.is_finished:
            raise InputError(f"Expected a finished training, got an unfinished one in {path}. Continue with --resume.")
        return folder

    @classmethod
    def resume(cls, path: Path | str, config: Mapping[str, Any]) -> RunFolder:
        """Continue a training from its last checkpoint, or from the start if it has none.

        Metrics written after the checkpoint are removed. A finished training is not changed; see `is_finished`.

        Args:
            path: The folder.
            config: The settings with which the folder was created. Versions of packages may differ.

        Raises:
            InputError: The settings differ, another process is training there, or the folder has an older format.
        """
        run = cls.open(path)
        _check_current(run)
        _check_same(run.path, run.config, _plain(config))
        run._lock = _acquire(run.path)
        try:
            run._clean_up()
        except BaseException:
            run.close()
            raise
        return run

    def close(self) -> None:
        """Release the lock, so that others can write to the folder."""
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
        """Whether the training reached its end."""
        return _is_file(self.path / SUMMARY)

    def write_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Write the best weights."""
        self._check_writable()
        write_tensors(self.path / WEIGHTS, weights)

    def read_weights(self) -> dict[str, Tensor]:
        """Return the best weights, on the CPU."""
        return read_tensors(self._existing(WEIGHTS))[0]

    def write_coefficients(self, coefficients: NDArray[Any], **others: NDArray[Any]) -> None:
        """Write the learned coefficients, of shape (layers, order), together with other arrays."""
        self._check_writable()
        if coefficients.ndim != 2:
            raise InputError(f"Expected coefficients of shape (layers, order), got {coefficients.shape}.")
        write_arrays(self.path / COEFFICIENTS, {"coefficients": coefficients, **others})

    def read_coefficients(self) -> dict[str, NDArray[Any]]:
        """Return the learned coefficients and the arrays written with them, by name."""
        return read_arrays(self._existing(COEFFICIENTS))

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """Append the line of one validation. Numbers that are not finite become null."""
        self._check_writable()
        append_whole(self.path / METRICS, to_json_line(record))
        self._num_metrics += 1

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the records of the validations so far."""
        path = self.path / METRICS
        return [from_json(line, f"{path}, line {number}") for number, line in enumerate(self._metric_lines(), start=1)]

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write the state to resume from, and how many lines of metrics it includes."""
        self._check_writable()
        header = {"step": checkpoint.step, "num_metrics": self._num_metrics, "values": dict(checkpoint.values)}
        write_tensors(self.path / CHECKPOINT, checkpoint.tensors, header)

    def read_checkpoint(self) -> Checkpoint | None:
        """Return the last checkpoint; None before the first one and after the end of the training."""
        if not _is_file(self.path / CHECKPOINT):
            return None
        tensors, header = read_tensors(self.path / CHECKPOINT)
        return Checkpoint(header["step"], tensors, header["values"])

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, which marks the training as finished, and remove the checkpoint."""
        self._check_writable()
        text = to_json(finite_or_null(summary), indent=2)
        write_whole(self.path / SUMMARY, f"{text}\n".encode())
        self._remove_checkpoint()

    def read_summary(self) -> dict[str, Any]:
        """Return the summary of a finished training."""
        return _read_object(self._existing(SUMMARY))

    def _existing(self, name: str) -> Path:
        path = self.path / name
        if not _is_file(path) and not self.is_finished:
            raise InputError(
                f"Expected {name} in {self.path}, got a training that did not get that far. Continue with --resume."
            )
        return path

    def _metric_lines(self) -> list[bytes]:
        path = self.path / METRICS
        # A training killed before its first line may lack the file. A finished one must have it.
        if not self.is_finished and not _is_file(path):
            return []
        # A killed process may have left an incomplete last line.
        return read_whole(path).split(b"\n")[:-1]

    def _clean_up(self) -> None:
        """Go back to the last checkpoint."""
        remove_unfinished(self.path)
        if self.is_finished:
            self._remove_checkpoint()  # the process may have been killed after it wrote the summary
            return
        path = self.path / METRICS
        has_checkpoint = _is_file(self.path / CHECKPOINT)
        num_metrics = read_tensors(self.path / CHECKPOINT)[1]["num_metrics"] if has_checkpoint else 0
        lines = self._metric_lines()
        if len(lines) < num_metrics:
            raise InputError(
                f"Expected at least {num_metrics} lines in {path}, as in its checkpoint, got {len(lines)}. "
                "Restore it from a copy or train again in another folder."
            )
        append_whole(path, b"")  # creates the file if it does not exist
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
            raise InputError(f"Expected an unfinished training, got the finished one in {self.path}. {ELSEWHERE}")


def describe_versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the packages that compute."""
    packages = {package: version(package) for package in PACKAGES}
    return {"tdegnn": __version__, "python": platform.python_version(), **packages}


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as they will be read."""
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
    # A training killed before it had begun leaves its lock and perhaps an unfinished file.
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
                f"Expected no other process in {path}, got one that is training there. "
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
    """Return the content of config.json. Raise an `InputError` unless this version can read its format."""
    advice = "Choose the folder of a training."
    if not _is_file(path / CONFIG):
        what = f"{path} without {CONFIG}" if path.is_dir() else f"{path}, which is not a folder"
        raise InputError(f"Expected a run folder, got {what}. {advice}")
    config = _read_object(path / CONFIG)
    number, versions = config.get("format"), config.get("versions")
    if not isinstance(number, int) or not isinstance(versions, dict):
        raise InputError(f"Expected a run folder, got {path} with a {CONFIG} of another kind. {advice}")
    if number > FORMAT:
        raise InputError(
            f"Expected a run of format {FORMAT}, got {path}, written by tdegnn {versions.get('tdegnn')} with format "
            f"{number}, but this version reads formats up to {FORMAT}. Upgrade tdegnn."
        )
    return config


def _check_current(run: RunFolder) -> None:
    """Raise an `InputError` for a folder of an older format, whose settings cannot be compared."""
    if run.format < FORMAT:
        raise InputError(
            f"Expected a training of format {FORMAT}, got {run.path} of format {run.format}, written by tdegnn "
            f"{run.versions.get('tdegnn')}. {'Load it, or start' if run.is_finished else 'Start'} it again in another "
            "folder."
        )


def _check_same(path: Path, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    difference = _first_difference(kept, given)
    if difference is not None:
        name, was, now = difference
        raise InputError(
            f"Expected the settings that {path} was started with, got {name} = {now} instead of {was}. "
            "Use the same settings or choose another folder."
        )


def _first_difference(kept: Any, given: Any, name: str = "") -> tuple[str, str, str] | None:
    """Return the name of the first setting that differs, its old value and its new value."""
    if not (isinstance(kept, dict) and isinstance(given, dict)):
        return None if kept == given else (name, to_json(kept), to_json(given))
    for key in [*kept, *(key for key in given if key not in kept)]:
        full_name = f"{name}.{key}" if name else key
        if key not in kept or key not in given:
            texts = [to_json(side[key]) if key in side else "nothing" for side in (kept, given)]
            return full_name, texts[0], texts[1]
        difference = _first_difference(kept[key], given[key], full_name)
        if difference is not None:
            return difference
    return None
