"""What the JSON files of a run folder may hold, and messages that name the file and the entry that is wrong.

Types are strict: a whole number is not a truth value, and a number is finite. Counts are bounded, so that a single
number in a file cannot ask for all memory. Schemas of one kind of estimator lie next to its writer
(`forecasting/schema.py`, `nodes/schema.py`). Only reading a folder imports this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from tdegnn.errors import InputError
from tdegnn.files import RESTORE

# The largest size in a file: nodes, channels, layers, steps of a window.
MOST = 1_000_000
MOST_ORDER = 10_000
# Seeds are sums of small numbers and this, and torch takes 64 bits.
LARGEST = 2**62
# Settings that are sizes of a network. Other whole numbers, such as `num_steps`, cost nothing when a folder is read.
SIZES = {"window", "horizon", "hidden_channels", "num_layers", "num_members"}
LONGEST_SHOWN = 60


class Stored(BaseModel):
    """An object in a JSON file: strict types, finite numbers, no unknown entries."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class StoredWithOthers(Stored):
    """An object that may hold further entries, such as those of `source`."""

    model_config = ConfigDict(extra="allow")


Model = TypeVar("Model", bound=BaseModel)


def _check_distinct(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise ValueError("distinct names")
    return names


def _check_positive(numbers: list[float]) -> list[float]:
    if not all(number > 0 for number in numbers):
        raise ValueError("positive numbers")
    return numbers


Size = Annotated[int, Field(ge=1, le=MOST)]
Order = Annotated[int, Field(ge=1, le=MOST_ORDER)]
Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Names = Annotated[list[str], AfterValidator(_check_distinct)]
SomeNames = Annotated[Names, Field(min_length=1)]
Scales = Annotated[list[float], AfterValidator(_check_positive)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class NamedPart(Stored):
    """A part of the library, with settings."""

    name: str
    settings: dict[str, Any] = {}


class OwnPart(Stored):
    """A part of the user's own."""

    kind: str = Field(alias="class")
    settings: dict[str, Any] = {}
    is_object: bool = False


PartRecord = str | NamedPart | OwnPart


class Head(StoredWithOthers):
    """The entries of config.json that every kind of training has."""

    format: Whole
    versions: dict[str, str]
    sha256: Digest | None = None


class StoredOrder(Stored):
    """The order that was found by `order="auto"`."""

    order: Order
    reason: str
    details: dict[str, Any]


class EstimatorConfig(Stored):
    """The entries of config.json of any estimator. Settings are checked apart: derived classes may have more."""

    kind: str
    settings: dict[str, Any]
    chosen_order: StoredOrder | None = None


def check_chosen_order(found: EstimatorConfig, settings: dict[str, Any], file: Path) -> None:
    """Raise an `InputError` unless an order was chosen exactly if `order` is "auto"."""
    is_auto, order = settings["order"] == "auto", found.chosen_order
    if is_auto != (order is not None):
        text = "an order" if is_auto else 'no order, since settings.order is not "auto",'
        raise refusal(file, "chosen_order", text, None if order is None else order.order)


class MetricsLine(Stored):
    """One validation. Numbers that were not finite are null."""

    step: Whole
    loss: float | list[float | None] | None
    score: float | list[float | None] | None


class CheckpointHeader(Stored):
    """The plain values of a checkpoint."""

    step: Whole
    num_metrics: Whole
    values: dict[str, Any]
    config: Digest
    metrics: Digest


class SummaryHead(StoredWithOthers):
    """The entries of summary.json that every kind of training has, from format 3 on."""

    config_sha256: Digest
    files: dict[str, Digest]
    sha256: Digest


class _StatesSetting(StoredWithOthers):
    states: Literal["windows", "latent", "physical"] = "latent"


class ExplainedConfig(StoredWithOthers):
    """What `tdegnn explain` reads of the settings of any kind of training."""

    settings: _StatesSetting = _StatesSetting()
    chosen_order: StoredOrder | None = None


class StoredNetwork(Stored):
    """The network that was chosen."""

    name: str
    settings: dict[str, Any]
    num_starts: Size
    reason: str
    scores: dict[str, float | None]


class _ChosenFrames(StoredWithOthers):
    window: Size


class _Decisions(StoredWithOthers):
    frames: _ChosenFrames | None = None
    chosen_order: StoredOrder | None = None
    chosen_network: StoredNetwork | None = None
    trial_steps: dict[str, Whole] | None = None
    trial_scores: dict[str, float | None] | None = None
    planned_steps: Size | None = None
    needed_seconds: float | None = None


def check_decisions(config: Mapping[str, Any], file: Path) -> None:
    """Raise an `InputError` unless a configuration keeps what was decided before the training as it should."""
    checked(_Decisions, config, file)


# Schemas that were made, by the class of the estimator: making one takes longer than using it.
_made: WeakKeyDictionary[type, type[BaseModel]] = WeakKeyDictionary()


def config_schema(kind: type, parts: tuple[str, ...], **special: Any) -> type[BaseModel]:
    """Return the schema of a configuration with the settings of an estimator, made from the types of its arguments.

    Args:
        kind: The class of the estimator.
        parts: The settings that are exchangeable parts.
        special: Types of settings that are not stored as they are given.
    """
    if kind in _made:
        return _made[kind]
    # The types of the library's own classes: those of a user's class need not be known here.
    ours = [each for each in kind.__mro__ if each.__module__.startswith("tdegnn.")]
    hints = {name: hint for each in reversed(ours) for name, hint in get_type_hints(each).items()}
    fields: dict[str, Any] = {}
    for name in signature(kind).parameters:
        usual = PartRecord | None if name in parts else _stored_type(name, hints.get(name, Any))
        fields[name] = (special.get(name, usual), ...)
    settings = create_model("Settings", __base__=Stored, **fields)
    _made[kind] = create_model("Config", settings=(settings, ...))
    return _made[kind]


def _stored_type(name: str, hint: Any) -> Any:
    """Return the type that JSON gives back for a setting of this type."""
    if hint is int:
        return Order if name == "order" else Size if name in SIZES else Whole
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(_stored_type(name, each) for each in get_args(hint))]  # noqa: UP007
    return Names if get_origin(hint) is Sequence else hint


def checked(schema: type[Model], value: Any, file: Path, line: int | None = None) -> Model:
    """Return what a JSON file holds, as a value of the schema.

    Args:
        schema: What is expected.
        value: What was read.
        file: The file, for messages.
        line: The number of the line that holds the value, if the file has several.

    Raises:
        InputError: An entry is missing, unknown or of another type.
    """
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False)
    path = _path_in(value, found[0])
    entry = ".".join(map(_shown_key, path)) or "its top level"
    at = "" if line is None else f", line {line},"
    where = f"{file.name} of {file.parent}{at}"
    if found[0]["type"] == "missing":
        raise InputError(f"Expected {where} to have {entry}, got none. {RESTORE}")
    if found[0]["type"] == "extra_forbidden":
        raise InputError(f"Expected {where} to have entries that this version knows, got {entry}. {RESTORE}")
    # A union has an error for each of its members.
    same = [each for each in found if _path_in(value, each) == path and each["type"] in _WORDS]
    texts = dict.fromkeys(map(_in_words, same or found[:1]))
    raise refusal(file, entry, " or ".join(texts), found[0]["input"], at)


def refusal(file: Path, entry: str, expected: str, found: Any, at: str = "") -> InputError:
    """Return the error for an entry of a file that is not as expected."""
    text = repr(found)
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
    return InputError(
        f"Expected {file.name} of {file.parent}{at} to have {expected} in {entry}, got {shown}. {RESTORE}"
    )


def _path_in(value: Any, error: Any) -> tuple[Any, ...]:
    """Return where in the value an error is. Its location also names the members of unions, which are left out."""
    path: list[Any] = []
    for key in error["loc"]:
        if (isinstance(value, dict) and key in value) or (isinstance(value, list) and key in range(len(value))):
            path.append(key)
            value = value[key]
    return (*path, error["loc"][-1]) if error["type"] == "missing" else tuple(path)


def _shown_key(key: Any) -> str:
    text = str(key)
    return text if re.fullmatch(r"[\w -]{1,60}", text) else repr(text[:LONGEST_SHOWN])


_WORDS = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "int_type": "a whole number",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_type": "an object",
    "none_required": "null",
    "string_pattern_mismatch": "a SHA-256 digest",
    "string_type": "text",
    "too_long": "at most {max_length} entries",
    "too_short": "at least {min_length} entries",
    "value_error": "{error}",
}


def _in_words(error: Any) -> str:
    words = _WORDS.get(error["type"])
    return str(error["msg"]) if words is None else words.format(**error.get("ctx", {}))
