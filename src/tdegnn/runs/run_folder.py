"""The run folder, which holds the settings, progress and result of one training.

`config.json` holds the settings. It exists before any long work, and grows by what is decided until the training
begins: a window, a network, a number of steps. `metrics.jsonl` grows by one line per validation. `weights.safetensors`
and `coefficients.npz` hold the best weights and coefficients so far, `checkpoint.safetensors` holds the state to resume
from, `README.md` is the model card (`runs/model_card.py`), and `summary.json` marks a finished training. A process
killed at any moment leaves a folder that can be read and resumed, and a resumed training writes the same files as an
uninterrupted one. A lock keeps a second process from writing. `save` of an estimator writes the same files; one that is
interrupted leaves a folder that counts as free.

Every file holds the digest of the configuration, and the summary holds the SHA-256 of every other file. They are
compared when a folder is read (`runs/read_back.py`).
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import BaseFileLock, FileLock, Timeout
from numpy.typing import NDArray

from tdegnn.errors import Argument, InputError
from tdegnn.files import (
    UNFINISHED,
    append_whole,
    cut,
    digest_of,
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

    from tdegnn.runs.schema import CheckpointHeader

# The format of new folders. Older formats can be read: estimators check `RunFolder.format` and upgrade the settings.
FORMAT = 3
# From this format on, all files have digests.
SIGNED_FORMAT = 3
PACKAGES = ("torch", "torch-geometric", "numpy", "scipy")
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
COEFFICIENTS = "coefficients.npz"
METRICS = "metrics.jsonl"
CHECKPOINT = "checkpoint.safetensors"
SUMMARY = "summary.json"
CARD = "README.md"
LOCK = ".lock"
# Exists while an estimator is saved. If it is left behind, saving was interrupted, and nothing else is of use.
SAVING = ".saving"
FILES = (CONFIG, WEIGHTS, COEFFICIENTS, METRICS, CHECKPOINT, CARD, SUMMARY)
# Entries of config.json and summary.json that are not settings or results.
RESERVED = ("format", "versions", "sha256", "config_sha256", "files")
ELSEWHERE = "Choose another folder."
RESUME = (Argument("resume", value=True), ".")


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
        digest: The digest of the configuration. None in folders of formats 1 and 2.
    """

    def __init__(
        self,
        path: Path,
        config: dict[str, Any],
        versions: dict[str, Any],
        *,
        digest: str | None,
        written_format: int = FORMAT,
        lock: BaseFileLock | None = None,
    ) -> None:
        self.path, self.config, self.versions, self.format = path, config, versions, written_format
        self.digest = digest
        self._lock = lock
        self._num_metrics, self._metrics_hash = 0, hashlib.sha256()
        # Folders that were made for this training. None if it was begun before.
        self._made: list[Path] | None = None

    @classmethod
    def create(cls, path: Path | str, config: Mapping[str, Any], *, is_saved: bool = False) -> RunFolder:
        """Begin a training in a new or empty folder, or in one where saving was interrupted.

        Args:
            path: The folder. It is created if it does not exist.
            config: Everything that determines the training: kind of model, settings, seed, checksum of the data.
            is_saved: Whether a finished training is saved. If this is interrupted, it must begin again. Default: False.
        """
        path, config, versions = Path(path), _plain(config, "settings of a training"), describe_versions()
        check_free(path, is_saved=is_saved)
        with explained(path):
            made = [folder for folder in (path, *path.parents) if not folder.exists()]
            path.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "versions": versions, **config}
        run = cls(path, config, versions, digest=digest_of(content), lock=_acquire(path))
        try:
            # Another process may have started and finished a training between the first check and the lock.
            check_free(path, is_saved=is_saved)
            remove_unfinished(path)
            _remove_interrupted(path)
            if is_saved:
                write_whole(path / SAVING, b"")
            _write_signed(path / CONFIG, content)
            append_whole(path / METRICS, b"")
        except BaseException:
            run.close()
            raise
        run._made = made
        return run

    @classmethod
    def begin(cls, path: Path | str, config: Mapping[str, Any], *, resume: bool) -> RunFolder:
        """Begin a training, before any long work. If `resume` is set and there is one in the folder, resume that.

        Args:
            path: The folder.
            config: The settings that are known so far. The folder may have more: what was decided before the training
                was interrupted is in `config` of the result, and need not be decided again. `extend` adds the others.
            resume: Whether to resume a training.
        """
        if not (resume and cls.is_begun(path)):
            return cls.create(path, config)
        from tdegnn.runs.read_back import check_agree
        from tdegnn.runs.schema import check_decisions

        kept = cls.open(path)
        kept._check_current()
        check_agree(kept.path, kept.config, _plain(config, "settings of a training"))
        check_decisions(kept.config, kept.path / CONFIG)
        return cls.resume(path, kept.config)

    @staticmethod
    def is_begun(path: Path | str) -> bool:
        """Return whether there is a training in the folder."""
        return (Path(path) / CONFIG).exists() and not (Path(path) / SAVING).exists()

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Read the folder of a training, finished or not."""
        from tdegnn.runs.read_back import read_config

        found = read_config(Path(path))
        return cls(Path(path), found.settings, found.versions, digest=found.digest, written_format=found.format)

    @classmethod
    def open_finished(cls, path: Path, kind: str) -> RunFolder:
        """Read the folder of a finished training of one kind of estimator, in this format or an older one."""
        folder = cls.open(path)
        found = folder.config.get("kind")
        if found != kind:
            raise InputError(f"Expected the run folder of a {kind}, got {path}, that of a {found!s:.60}. {ELSEWHERE}")
        if not folder.is_finished:
            raise InputError(f"Expected a finished training, got an unfinished one in {path}. Continue with ", *RESUME)
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
        from tdegnn.runs.read_back import check_same

        run = cls.open(path)
        run._check_current()
        check_same(run.path, run.config, _plain(config, "settings of a training"))
        run._lock = _acquire(run.path)
        try:
            run._clean_up()
        except BaseException:
            run.close()
            raise
        return run

    def extend(self, config: Mapping[str, Any]) -> None:
        """Add what was decided to the settings in the folder, at once. What is there already must be the same.

        Once the training has written anything else, its settings stay as they are.
        """
        given = _plain(config, "settings of a training")
        if self._made is None:
            from tdegnn.runs.read_back import check_agree

            check_agree(self.path, self.config, given)
        merged = {
            name: {**self.config.get(name, {}), **value} if isinstance(value, dict) else value
            for name, value in {**self.config, **given}.items()
        }
        if merged == self.config or self._has_results:
            return
        self._check_writable()
        content = {"format": FORMAT, "versions": self.versions, **merged}
        _write_signed(self.path / CONFIG, content)
        self.config, self.digest = merged, digest_of(content)

    def settle(self, config: Mapping[str, Any]) -> None:
        """Raise an `InputError` unless the folder has exactly these settings. From now on they stay as they are."""
        given = _plain(config, "settings of a training")
        if given != self.config:
            from tdegnn.runs.read_back import check_same

            check_same(self.path, self.config, given)

    def discard(self) -> None:
        """Remove a folder that this process made, unless the training has written anything but its settings."""
        if self._made is None or self._num_metrics or self._has_results:
            return
        # The settings last: without them, the other file would be one of somebody else.
        with suppress(OSError):
            for name in (METRICS, CONFIG):
                (self.path / name).unlink(missing_ok=True)
            self.close()
            (self.path / LOCK).unlink(missing_ok=True)
            for folder in self._made:
                folder.rmdir()

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
        return is_file(self.path / SUMMARY)

    @property
    def _has_results(self) -> bool:
        return any(is_file(self.path / name) for name in (CHECKPOINT, WEIGHTS, SUMMARY))

    def write_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Write the best weights."""
        self._check_writable()
        write_tensors(self.path / WEIGHTS, weights, {"config": self.digest})

    def read_weights(self) -> dict[str, Tensor]:
        """Return the best weights, on the CPU."""
        tensors, header = read_tensors(self._existing(WEIGHTS))
        self._check_own(WEIGHTS, header)
        return tensors

    def write_coefficients(self, coefficients: NDArray[Any], **others: NDArray[Any]) -> None:
        """Write the learned coefficients, of shape (layers, order), together with other arrays."""
        self._check_writable()
        if coefficients.ndim != 2:
            raise InputError(f"Expected coefficients of shape (layers, order), got {coefficients.shape}.")
        arrays = {"coefficients": coefficients, **others}
        write_arrays(self.path / COEFFICIENTS, arrays, {"config": self.digest})

    def read_coefficients(self) -> dict[str, NDArray[Any]]:
        """Return the learned coefficients and the arrays written with them, by name."""
        from tdegnn.runs.read_back import check_coefficients

        arrays, header = read_arrays(self._existing(COEFFICIENTS))
        self._check_own(COEFFICIENTS, header)
        check_coefficients(arrays, self.path / COEFFICIENTS)
        return arrays

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """Append the line of one validation. Numbers that are not finite become null."""
        self._check_writable()
        line = to_json_line(record)
        append_whole(self.path / METRICS, line)
        self._num_metrics += 1
        self._metrics_hash.update(line)

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the records of the validations so far."""
        path = self.path / METRICS
        lines = self._metric_lines()
        if self.is_finished:
            self._check_listed(METRICS)
        return [from_json(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]

    def read_history(self) -> list[dict[str, Any]]:
        """Return the records of the validations so far, as the training loop wrote them: step, loss and score."""
        records = self.read_metrics()
        if records:
            from tdegnn.runs.read_back import check_metrics

            check_metrics(records, self.path / METRICS)
        return records

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write the state to resume from, and how many lines of metrics it includes."""
        self._check_writable()
        header = {
            "step": checkpoint.step,
            "num_metrics": self._num_metrics,
            "values": dict(checkpoint.values),
            "config": self.digest,
            "metrics": self._metrics_hash.hexdigest(),
        }
        write_tensors(self.path / CHECKPOINT, checkpoint.tensors, header)

    def read_checkpoint(self) -> Checkpoint | None:
        """Return the last checkpoint; None before the first one and after the end of the training."""
        found = self._read_checkpoint()
        return None if found is None else Checkpoint(found[1].step, found[0], found[1].values)

    def keep_value(self, name: str, value: Any) -> None:
        """Add a plain value to the last checkpoint, if there is one."""
        found = self.read_checkpoint()
        if found is not None:
            self.write_checkpoint(Checkpoint(found.step, found.tensors, {**found.values, name: value}))

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the model card and the summary, which marks the training as finished. Remove the checkpoint."""
        from tdegnn.runs.model_card import describe_run

        self._check_writable()
        content = _plain(finite_or_null(summary), "results of a training")
        write_whole(self.path / CARD, describe_run(self.config, self.versions, content).encode())
        files = {name: hash_file(self.path / name) for name in (METRICS, WEIGHTS, COEFFICIENTS, CARD)}
        listed = {name: digest for name, digest in files.items() if digest is not None}
        _write_signed(self.path / SUMMARY, {**content, "config_sha256": self.digest, "files": listed})
        self._remove(CHECKPOINT)
        if is_file(self.path / SAVING):
            self._remove(SAVING)

    def read_summary(self) -> dict[str, Any]:
        """Return the summary of a finished training."""
        return self._read_summary()[0]

    @property
    def has_own_card(self) -> bool:
        """Whether the model card is the one that the training wrote. It may be edited, and older folders have none."""
        digest = hash_file(self.path / CARD)
        return digest is not None and self._read_summary()[1].get(CARD) == digest

    def _read_summary(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the summary, and the SHA-256 of the other files."""
        from tdegnn.runs.read_back import read_summary

        return read_summary(self._existing(SUMMARY).parent, self.format, self.digest)

    def _read_checkpoint(self) -> tuple[dict[str, Tensor], CheckpointHeader] | None:
        if not is_file(self.path / CHECKPOINT):
            return None
        from tdegnn.runs.read_back import check_header

        tensors, header = read_tensors(self.path / CHECKPOINT)
        return tensors, check_header(header, self.path / CHECKPOINT, self.digest)

    def _check_own(self, name: str, header: Mapping[str, Any]) -> None:
        """Raise an `InputError` for a file of another training, or of another moment of this one."""
        from tdegnn.runs.read_back import check_belongs

        check_belongs(self.path / name, header.get("config"), self.digest)
        if self.is_finished:
            self._check_listed(name)

    def _check_listed(self, name: str) -> None:
        from tdegnn.runs.read_back import check_listed

        if self.format >= SIGNED_FORMAT:
            check_listed(self.path / name, self._read_summary()[1])

    def _check_current(self) -> None:
        from tdegnn.runs.read_back import check_current

        check_current(self.path, self.format, self.versions, is_finished=self.is_finished)

    def _existing(self, name: str) -> Path:
        path = self.path / name
        if not is_file(path) and not self.is_finished:
            raise InputError(
                f"Expected {name} in {self.path}, got a training that did not get that far. Continue with ", *RESUME
            )
        return path

    def _metric_lines(self) -> list[bytes]:
        path = self.path / METRICS
        # A training killed before its first line may lack the file. A finished one must have it.
        if not self.is_finished and not is_file(path):
            return []
        # A killed process may have left an incomplete last line.
        return read_whole(path).split(b"\n")[:-1]

    def _clean_up(self) -> None:
        """Go back to the last checkpoint."""
        remove_unfinished(self.path)
        if self.is_finished:
            self._remove(CHECKPOINT)  # the process may have been killed after it wrote the summary
            return
        path, found = self.path / METRICS, self._read_checkpoint()
        num_metrics = 0 if found is None else found[1].num_metrics
        lines = self._metric_lines()
        if len(lines) < num_metrics:
            raise InputError(
                f"Expected at least {num_metrics} lines in {path}, as in its checkpoint, got {len(lines)}. "
                "Restore it from a copy or train again in another folder."
            )
        kept = b"".join(line + b"\n" for line in lines[:num_metrics])
        seen = hashlib.sha256(kept)
        if found is not None and seen.hexdigest() != found[1].metrics:
            raise InputError(
                f"Expected {path} as it was when {CHECKPOINT} was written, got another. "
                "Restore it from a copy or train again in another folder."
            )
        append_whole(path, b"")  # creates the file if it does not exist
        cut(path, len(kept))
        self._num_metrics, self._metrics_hash = num_metrics, seen

    def _remove(self, name: str) -> None:
        with explained(self.path):
            (self.path / name).unlink(missing_ok=True)
            sync_folder(self.path)

    def _check_writable(self) -> None:
        if self._lock is None:
            raise InputError(f"Expected a run folder to write to, got {self.path} to read. Create or resume it.")
        if self.is_finished:
            raise InputError(f"Expected an unfinished training, got the finished one in {self.path}. {ELSEWHERE}")


@contextmanager
def reserved_folder(path: Path, *, resume: bool) -> Iterator[None]:
    """Make the folder of a run before its data are read, and say at once if it cannot be written to.

    If the data turn out to be wrong, the folder is removed, as long as it is empty. A process that is killed meanwhile
    leaves an empty folder, in which the next one begins.

    Args:
        path: The folder.
        resume: Whether a training in it may be resumed.
    """
    if not (resume and RunFolder.is_begun(path)):
        check_free(path)
    with explained(path):
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # a training has begun there
            for folder in made:
                folder.rmdir()
        raise


@contextmanager
def begin_run(path: Path | str | None, config: Mapping[str, Any], *, resume: bool) -> Iterator[RunFolder | None]:
    """Begin or resume a training in a folder, before any long work. If there is no folder, yield None.

    A mistake that is noticed before the training has begun leaves no new folder behind.

    Args:
        path: The folder, if any.
        config: The settings that are known so far.
        resume: Whether to resume a training.
    """
    if path is None:
        yield None
        return
    with RunFolder.begin(path, config, resume=resume) as folder:
        try:
            yield folder
        except InputError as error:
            # A full disk is no mistake: given space, the training is resumed.
            if not isinstance(error.__cause__, OSError):
                folder.discard()
            raise


def keep_decisions(folder: RunFolder | None, config: Mapping[str, Any]) -> None:
    """Add what was decided to the settings in a run folder, if there is one."""
    if folder is not None:
        folder.extend(config)


def describe_versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the packages that compute."""
    packages = {package: version(package) for package in PACKAGES}
    return {"tdegnn": __version__, "python": platform.python_version(), **packages}


def _plain(values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return plain values as they will be read."""
    for name in RESERVED:
        if name in values:
            raise InputError(f"Expected {what}, got one named {name!r}. Rename it.")
    return from_json(to_json(dict(values)), f"the {what}")


def _write_signed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file that holds the digest of everything else in it."""
    write_whole(path, f"{to_json({**content, 'sha256': digest_of(content)}, indent=2)}\n".encode())


def hash_file(path: Path) -> str | None:
    """Return the SHA-256 of a file. None if it does not exist."""
    if not is_file(path):
        return None
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_free(path: Path, *, is_saved: bool = False) -> None:
    """Raise an `InputError` unless a new run can be written to a folder.

    Args:
        path: The folder. It need not exist.
        is_saved: Whether a finished run is saved, which has nothing to resume. Default: False.
    """
    with explained(path):
        if path.exists() and not path.is_dir():
            raise InputError(f"Expected a folder for the run, got the file {path}. {ELSEWHERE}")
        names = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
    ours = {LOCK, SAVING, *(FILES if SAVING in names else ())}
    if CONFIG in names and SAVING not in names:
        what = "a finished" if SUMMARY in names else "an unfinished"
        message = f"Expected a new folder for the run, got {path} with {what} training. "
        # Saving has nothing to resume.
        raise InputError(message, *((ELSEWHERE,) if is_saved else ("Add ", RESUME[0], " or choose another folder.")))
    # A training killed before it had begun leaves its lock and perhaps an unfinished file.
    others = [name for name in names if name not in ours and not (name.startswith(".") and name.endswith(UNFINISHED))]
    if others:
        raise InputError(
            f"Expected an empty folder for the run, got {path}, which holds something else ({', '.join(others[:3])}). "
            f"{ELSEWHERE}"
        )


def _remove_interrupted(path: Path) -> None:
    """Remove what an interrupted `save` left, the mark of it last."""
    if is_file(path / SAVING):
        with explained(path):
            for name in (*FILES, SAVING):
                (path / name).unlink(missing_ok=True)
                sync_folder(path)


def _acquire(path: Path) -> BaseFileLock:
    lock = FileLock(path / LOCK, blocking=False, thread_local=False)
    with explained(path):
        try:
            lock.acquire()
        except Timeout as error:
            raise InputError(
                f"Expected no other process in {path}, got one that is writing there. "
                "Wait for it or choose another folder."
            ) from error
    return lock


def is_file(path: Path) -> bool:
    """Return whether there is such a file. Raise an `InputError` if its folder cannot be read."""
    try:
        return path.is_file()
    except OSError as error:
        raise InputError(
            f"Expected a folder that can be read, got {path.parent} ({error.strerror}). Check it."
        ) from error
