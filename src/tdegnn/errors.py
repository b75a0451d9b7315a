"""The errors that this library raises, and checks that many modules share.

`InputError` is a mistake of the caller: its message says what was expected, what was given and what to do.
`TrainingError` is a computation that went wrong on valid input. The command line prints both as one line.
"""

from __future__ import annotations

import difflib
import inspect
import math
import operator
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Self, Union, get_args, get_origin

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


# Sums of squares of larger numbers may not fit into float64: values, features and weights may be at most this large.
LARGEST_VALUE = 1e100
# Squares of larger numbers do not fit into float32: scaled values may be at most this large.
LARGEST_SCALED = 1e18
# How alike a word and a known name must be for a hint: 'bax' and 'box' are, 'sales' and 'value' are not.
NEAR = 0.65
# The types of settings that are checked, in words.
PLAIN_TYPES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    NoneType: "null",
    list: "a list",
}


@dataclass(frozen=True)
class Argument:
    """An argument that a message mentions: `time_zone='UTC'` in Python, `--time-zone UTC` on the command line.

    Attributes:
        name: Its name in Python.
        value: The value to pass. If None, only the name is written: `known=`, `--known`. If True, the option has no
            value: `resume=True`, `--resume`.
        option: Its name on the command line. If None, that in Python.
    """

    name: str
    value: str | float | None = None
    option: str | None = None

    def __str__(self) -> str:
        return f"{self.name}=" if self.value is None else f"{self.name}={self.value!r}"

    def as_option(self) -> str:
        """Return the option of the command line."""
        option = f"--{(self.option or self.name).replace('_', '-')}"
        return option if self.value is None or self.value is True else f"{option} {_in_shell(self.value)}"


def _in_shell(value: str | float) -> str:
    """Return a value as it is typed, in quotes unless it is a number or a word: `,` would read as punctuation."""
    text = str(value)
    if not isinstance(value, str) or re.fullmatch(r"[\w/-]+", text, re.ASCII):
        return text
    quoted = shlex.quote(text)
    return quoted if quoted != text else f"'{text}'"


class Message(str):
    """A text for users that knows which of its words are arguments.

    As a string it shows arguments as in Python. The command line shows `as_options` instead. The names of a user's
    nodes, files and columns are never mistaken for arguments.

    Args:
        pieces: Texts and arguments, in order. A message among them keeps its own arguments.

    Example:
        >>> message = Message("Pass ", Argument("time_zone", "UTC"), ".")
        >>> str(message), message.as_options()
        ("Pass time_zone='UTC'.", 'Pass --time-zone UTC.')
    """

    pieces: tuple[str | Argument, ...]

    def __new__(cls, *pieces: str | Argument) -> Self:
        """Join the pieces."""
        flat = tuple(inner for piece in pieces for inner in (piece.pieces if isinstance(piece, Message) else (piece,)))
        made = super().__new__(cls, "".join(map(str, flat)))
        made.pieces = flat
        return made

    def as_options(self) -> str:
        """Return the text with its arguments as options of the command line."""
        return "".join(piece.as_option() if isinstance(piece, Argument) else str(piece) for piece in self.pieces)


class TdegnnError(Exception):
    """Base of all errors this library raises on purpose.

    Args:
        pieces: The message: texts, and the arguments that they mention.
    """

    def __init__(self, *pieces: str | Argument) -> None:
        self.message = Message(*pieces)
        super().__init__(self.message)

    def as_options(self) -> str:
        """Return the message as the command line shows it."""
        return self.message.as_options()


class InputError(TdegnnError, ValueError):
    """The input is not what the function expects."""


class DownloadError(InputError):
    """A file is not available: there is no network, the server does not have it, or its checksum is wrong."""


class TrainingError(TdegnnError, RuntimeError):
    """Training could not go on, for example because the loss is no longer finite."""


def name_kind(value: object) -> str:
    """Return the class of a value for a message, with its package if that is not Python: `networkx Graph`, `str`."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ if package == "builtins" else f"{package} {kind.__name__}"


def shorten(text: str, most: int = 200) -> str:
    """Return text for a message. Characters after the first `most` become three dots."""
    return text if len(text) <= most else f"{text[:most]}..."


def list_some(names: Sequence[str], most: int = 6) -> str:
    """Return names for a message, separated by commas. Names after the first `most` become three dots."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def list_nodes(chosen: Sequence[str], num_nodes: int) -> str:
    """Return some of the nodes for a message: `2 of 20 nodes: 'Paris', 'Rome'`."""
    return f"{len(chosen)} of {num_nodes} nodes: {list_some([repr(name) for name in chosen], 3)}"


def suggest(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'NAME'?` for the end of a message, or nothing if no known name is close to the word.

    Large and small letters count the same.
    """
    by_small = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_small, n=1, cutoff=NEAR)
    return f" Did you mean {by_small[near[0]]!r}?" if near else ""


def check_count(minimum: int = 1, **counts: Any) -> None:
    """Raise an `InputError` for the first of `counts` that is not a whole number of at least `minimum`."""
    for name, count in counts.items():
        try:
            is_enough = operator.index(count) >= minimum
        except TypeError as error:
            raise InputError(f"Expected {name} to be a whole number, got {count!r}.") from error
        if not is_enough:
            raise InputError(f"Expected {name} to be at least {minimum}, got {count}.")


def check_count_or_auto(**counts: Any) -> None:
    """Raise an `InputError` for the first of `counts` that is neither a whole number of at least 1 nor `"auto"`."""
    for name, count in counts.items():
        if isinstance(count, str) and count != "auto":
            raise InputError(f'Expected {name} to be a whole number of at least 1 or "auto", got {count!r}.')
        if count != "auto":
            check_count(**{name: count})


def check_choice(known: Iterable[str], **choices: Any) -> None:
    """Raise an `InputError` for the first of `choices` that is not among the known names."""
    names = list(known)
    for name, choice in choices.items():
        if choice not in names:
            raise InputError(f"Expected {name} to be one of {', '.join(names)}, got {choice!r}.")


def check_finite(**numbers: Any) -> None:
    """Raise an `InputError` for the first of `numbers` that is not a finite number."""
    for name, number in numbers.items():
        try:
            is_finite = math.isfinite(number)
        except TypeError as error:
            raise InputError(f"Expected {name} to be a number, got {number!r}.") from error
        if not is_finite:
            raise InputError(f"Expected {name} to be finite, got {number}.")


def check_truth(**truths: Any) -> None:
    """Raise an `InputError` for the first of `truths` that is neither True nor False: the text "no" is true."""
    for name, truth in truths.items():
        if not isinstance(truth, bool):
            raise InputError(f"Expected {name} to be True or False, got {truth!r}.")


def find_too_large(values: NDArray[Any], largest: float = LARGEST_VALUE) -> tuple[int, ...] | None:
    """Return the position of the first value that is infinite or larger in size than `largest`. None if none is."""
    import numpy as np

    if values.size == 0:
        return None
    # Without an array of the absolute values, which may need much memory. NaN does not count.
    low, high = (float(extreme.reduce(values, axis=None)) for extreme in (np.fmin, np.fmax))
    if (low >= -largest and high <= largest) or math.isnan(low):
        return None
    # As float64: `largest` may be more than float32 can hold.
    return tuple(int(index) for index in np.argwhere(np.abs(values) > np.float64(largest))[0])


def check_layer(layer: int, num_layers: int) -> None:
    """Raise an `InputError` unless a part was made for this layer."""
    if not 0 <= layer < num_layers:
        raise InputError(
            f"Expected a layer from 0 to {num_layers - 1}, for which this part was made, got layer {layer}."
        )


def check_fits(state: Tensor, parameter: Tensor, channels: int) -> None:
    """Raise an `InputError` unless `state` fits a part with this many channels and with this parameter."""
    if state.shape[-1] != channels:
        raise InputError(
            f"Expected states of {channels} channels, for which this part was made, got {state.shape[-1]}."
        )
    if (state.dtype, state.device) != (parameter.dtype, parameter.device):
        raise InputError(
            f"Expected states in {parameter.dtype} on {parameter.device}, as the parameters are, got {state.dtype} on "
            f"{state.device}. Convert one of them with .to(...)."
        )


def check_num_nodes(came: int, num_nodes: int) -> None:
    """Raise an `InputError` unless a graph has as many nodes as a part that keeps something for each of them."""
    if came != num_nodes:
        raise InputError(
            f"Expected a graph of {num_nodes} nodes, for each of which this part keeps numbers, got {came}. Make a "
            "part for this graph."
        )


def check_types(owner: str, made_by: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Raise an `InputError` for the first setting of a part that is not of the type of its argument.

    A wrong type must not reach the part: `"false"` would count as true. Arguments without a type, or with one that is
    not plain, are not checked.

    Args:
        owner: The name of the part, for the message.
        made_by: The class or function that takes the settings.
        settings: The settings, each an argument of it.
    """
    try:
        arguments = inspect.signature(made_by, eval_str=True).parameters
    except NameError:  # an annotation that only a type checker can read
        return
    for name, value in settings.items():
        if name in arguments and arguments[name].annotation is not inspect.Parameter.empty:
            _check_type(f"{name} of {owner}", value, arguments[name].annotation)


def _check_type(what: str, value: Any, hint: Any) -> None:
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    plain = [kind for kind in kinds if get_origin(kind) is not Literal]
    if not set(plain) <= set(PLAIN_TYPES):
        return
    # A list has no hash, and an array has no one truth: compare only text with choices.
    if not (any(_is_of(value, kind) for kind in plain) or (isinstance(value, str) and value in choices)):
        expected = [*(PLAIN_TYPES[kind] for kind in plain), *map(str, choices)]
        raise InputError(f"Expected {what} to be {' or '.join(expected)}, got {value!r}. Correct it.")
    if isinstance(value, Real) and not math.isfinite(value):
        raise InputError(f"Expected {what} to be finite, got {value}. Correct it.")


def _is_of(value: Any, kind: type[Any]) -> bool:
    """Return whether a value is of a plain type, or a NumPy number of that kind. True is no number."""
    # As NumPy's own truth values, which are no numbers either.
    is_truth = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if kind is bool:
        return is_truth
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not is_truth
    return isinstance(value, (list, tuple) if kind is list else kind)
