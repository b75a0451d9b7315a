"""`--operator` and `--set`: a spatial term by name, with settings of its own.

The names and settings are those of `operators/registry.py`, which imports torch. So the help refers to `tdegnn zoo`,
and a name is checked when a command runs.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Union, get_args, get_origin

import typer

from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.parts import PartLike

OPERATOR_HELP = "Spatial term: a name from `tdegnn zoo`."
OperatorSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A setting of the spatial term, as in batch_norm=true. `tdegnn zoo NAME` lists them. Can be repeated.",
        metavar="NAME=VALUE",
    ),
]
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "null", list: "a list"}


def operator_option(shown_default: str) -> Any:
    """Return the declaration of `--operator`, for a command with this default."""
    return typer.Option("--operator", help=OPERATOR_HELP, metavar="NAME", show_default=shown_default)


def operator_part(name: str | None, settings: Sequence[str] | None, **usual: Any) -> PartLike:
    """Return the spatial term that was asked for, checked. None if none was.

    Args:
        name: Its name, if one was given.
        settings: Its settings, as in `batch_norm=true`.
        usual: Settings that this command gives the operator, unless the user says something else.
    """
    from tdegnn.operators.registry import OPERATORS
    from tdegnn.parts import Part

    given = parse_settings(settings or ())
    if name is None:
        if given:
            raise InputError("Expected --operator with --set, got none. Add it.")
        return None
    part = Part(name, **usual | given)
    made_by = OPERATORS.resolve(part).kind
    assert not isinstance(made_by, str)  # resolved
    part.check_settings(made_by)
    hints = _hints_of(made_by)
    for setting, value in given.items():
        if setting in hints:
            _check_value(name, setting, value, hints[setting])
    return part if part.settings else name


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """Return settings, given as `NAME=VALUE`. A value is a number, true, false or null as in JSON; all else is text."""
    settings = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not (sign and name.isidentifier()):
            raise InputError(f"Expected --set NAME=VALUE, as in batch_norm=true, got {word!r}.")
        settings[name] = _parse_value(text)
    return settings


def _parse_value(text: str) -> Any:
    def refuse(word: str) -> NoReturn:
        raise ValueError(word)

    try:
        return json.loads(text, parse_constant=refuse)  # NaN is no JSON, and could not be stored
    except (ValueError, RecursionError):
        return text


def _hints_of(made_by: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of arguments, as far as they are known."""
    try:
        arguments = inspect.signature(made_by, eval_str=True).parameters
    except NameError:  # an annotation that only a type checker can read
        return {}
    return {name: each.annotation for name, each in arguments.items() if each.annotation is not each.empty}


def _check_value(operator: str, setting: str, value: Any, hint: Any) -> None:
    """Raise an `InputError` for a value that cannot be one of this type. Types that are not plain are not checked."""
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    plain = [kind for kind in kinds if get_origin(kind) is not Literal]
    if not set(plain) <= set(WORDS):
        return
    # Not `isinstance`: true is no number. A float may be written as 1.
    is_right = type(value) in plain or (float in plain and type(value) is int) or value in choices
    if not is_right:
        expected = [*(WORDS[kind] for kind in plain), *map(str, choices)]
        raise InputError(f"Expected {setting} of {operator} to be {' or '.join(expected)}, got {value!r}. Correct it.")
