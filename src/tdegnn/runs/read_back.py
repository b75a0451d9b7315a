"""Reading a run folder back: what was written, as it was written, or an error that names the file.

`config.json` and `summary.json` hold the digest of everything else in them. Each other file holds the digest of the
configuration that it belongs to, and the summary of a finished training holds the SHA-256 of every other file: a
changed byte is noticed, and so is a file of another training. Folders of formats 1 and 2 have digests in
`weights.safetensors` and `coefficients.npz` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdegnn.errors import InputError
from tdegnn.files import RESTORE, damaged, digest_of, from_json, read_whole, to_json
from tdegnn.runs.run_folder import CONFIG, FORMAT, SAVING, SIGNED_FORMAT, SUMMARY, hash_file, is_file
from tdegnn.runs.schema import CheckpointHeader, Head, MetricsLine, SummaryHead, checked

CHOOSE = "Choose the folder of a training."


class StoredConfig(NamedTuple):
    """The content of config.json.

    Attributes:
        settings: The settings of the training.
        versions: Versions of the packages when the training was started.
        format: The format of the folder.
        digest: The digest of the configuration. None in formats 1 and 2.
    """

    settings: dict[str, Any]
    versions: dict[str, Any]
    format: int
    digest: str | None


def read_config(path: Path) -> StoredConfig:
    """Return the configuration of a training. Raise an `InputError` unless this version can read its format."""
    if not is_file(path / CONFIG):
        what = f"{path} without {CONFIG}" if path.is_dir() else f"{path}, which is not a folder"
        raise InputError(f"Expected a run folder, got {what}. {CHOOSE}")
    if is_file(path / SAVING):
        raise InputError(
            f"Expected a run folder, got {path}, where saving has not ended. Save again, there or elsewhere."
        )
    config = from_json(read_whole(path / CONFIG), str(path / CONFIG))
    number = config.get("format")
    if not isinstance(number, int) or not isinstance(config.get("versions"), dict):
        raise InputError(f"Expected a run folder, got {path} with a {CONFIG} of another kind. {CHOOSE}")
    if number > FORMAT:
        raise InputError(
            f"Expected a run of format {FORMAT}, got {path}, written by tdegnn {config['versions'].get('tdegnn')} with "
            f"format {number}, but this version reads formats up to {FORMAT}. Upgrade tdegnn."
        )
    head = checked(Head, config, path / CONFIG)
    digest = _check_digest(path / CONFIG, config, is_required=head.format >= SIGNED_FORMAT)
    others = {name: value for name, value in config.items() if name not in Head.model_fields}
    return StoredConfig(others, dict(head.versions), head.format, digest)


def read_summary(path: Path, written_format: int, config_digest: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the summary of a finished training, and the SHA-256 of its other files, none in formats 1 and 2."""
    file = path / SUMMARY
    summary = from_json(read_whole(file), str(file))
    if written_format < SIGNED_FORMAT and "sha256" not in summary:
        return summary, {}
    head = checked(SummaryHead, summary, file)
    _check_digest(file, summary, is_required=True)
    check_belongs(file, head.config_sha256, config_digest)
    return {name: value for name, value in summary.items() if name not in SummaryHead.model_fields}, head.files


def check_belongs(file: Path, found: Any, expected: str | None) -> None:
    """Raise an `InputError` if a file was written with another configuration than the one in its folder.

    Args:
        file: The file.
        found: The digest of the configuration that it was written with.
        expected: The digest of the configuration in the folder.
    """
    if found != expected:
        raise InputError(
            f"Expected {file.name} of the training that {CONFIG} in {file.parent} describes, got that of another "
            f"training. {RESTORE}"
        )


def check_listed(file: Path, files: Mapping[str, str]) -> None:
    """Raise an `InputError` if a file of a finished training is not the one in its summary."""
    if files.get(file.name) != hash_file(file):
        raise InputError(
            f"Expected {file.name} of {file.parent} as it was when {SUMMARY} was written, got another. {RESTORE}"
        )


def check_coefficients(arrays: Mapping[str, NDArray[Any]], file: Path) -> None:
    """Raise an `InputError` unless there are coefficients of shape (layers, order)."""
    found = arrays.get("coefficients", np.empty(0))
    if found.ndim != 2 or found.dtype.kind != "f" or 0 in found.shape:
        raise InputError(
            f"Expected coefficients of shape (layers, order) in {file}, got {found.dtype} of shape {found.shape}. "
            f"{RESTORE}"
        )


def check_metrics(records: list[dict[str, Any]], file: Path) -> None:
    """Raise an `InputError` unless the lines of metrics are those of a training by this library."""
    for number, record in enumerate(records, start=1):
        checked(MetricsLine, record, file, number)


def check_header(header: dict[str, Any], file: Path, config_digest: str | None) -> CheckpointHeader:
    """Return the plain values of a checkpoint of the training with this configuration."""
    found = checked(CheckpointHeader, header, file)
    check_belongs(file, found.config, config_digest)
    return found


def check_current(path: Path, written_format: int, versions: Mapping[str, Any], *, is_finished: bool) -> None:
    """Raise an `InputError` for a folder of an older format, whose settings cannot be compared."""
    if written_format < FORMAT:
        raise InputError(
            f"Expected a training of format {FORMAT}, got {path} of format {written_format}, written by tdegnn "
            f"{versions.get('tdegnn')}. {'Load it, or start' if is_finished else 'Start'} it again in another "
            "folder."
        )


def check_same(path: Path, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise an `InputError` that names the first setting that differs from the settings in a folder."""
    difference = _first_difference(kept, given)
    if difference is not None:
        name, was, now = difference
        raise InputError(
            f"Expected the settings that {path} was started with, got {name} = {now} instead of {was}. "
            "Use the same settings or choose another folder."
        )


def check_agree(path: Path, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise an `InputError` that names the first setting that a folder has too, with another value."""
    check_same(path, _limited(kept, given), _limited(given, kept))


def _limited(config: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings whose names are among others too, at the top and one level below."""
    both = {name: (value, other[name]) for name, value in config.items() if name in other}
    return {
        name: {key: value[key] for key in value if key in there}
        if isinstance(value, dict) and isinstance(there, dict)
        else value
        for name, (value, there) in both.items()
    }


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


def _check_digest(file: Path, content: dict[str, Any], *, is_required: bool) -> str | None:
    """Return the digest in a JSON file. Raise an `InputError` if it is not that of the rest of the file."""
    digest: str | None = content.get("sha256")
    if digest is None and not is_required:
        return None
    rest = {name: value for name, value in content.items() if name != "sha256"}
    try:
        is_right = digest_of(rest) == digest
    except RecursionError:
        is_right = False
    if not is_right:
        raise damaged(file)
    return digest
