"""`--operator` and `--set`: a spatial term by name, with settings of its own.

The names and settings are those of `operators/registry.py`, which imports torch. So the help refers to `tdegnn zoo`,
and a name is checked when a command runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

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
    OPERATORS.check_settings(part)
    return part if part.settings else name


def parse_settings(words: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Return settings, given as `NAME=VALUE`. A value is a number, true, false or null as in JSON; all else is text.

    Args:
        words: What was given.
        option: The option that takes them, for messages.
    """
    settings = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not (sign and name.isidentifier()):
            raise InputError(f"Expected {option} NAME=VALUE, as in batch_norm=true, got {word!r}.")
        settings[name] = _parse_value(text)
    return settings


def _parse_value(text: str) -> Any:
    def refuse(word: str) -> NoReturn:
        raise ValueError(word)

    try:
        return json.loads(text, parse_constant=refuse)  # NaN is no JSON, and could not be stored
    except (ValueError, RecursionError):
        return text
