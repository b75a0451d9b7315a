"""Whether the settings of a part are of the types that its arguments have: a text is no number, true is no count.

The classes of the library check ranges themselves. A wrong type must not reach them: `"false"` would count as true.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import isfinite
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from tdegnn.errors import InputError

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "null", list: "a list"}


def check_types(owner: str, made_by: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Raise an `InputError` for the first setting that is not of the type of its argument.

    Arguments without a type, or with one that is not plain, are not checked.

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
    if not set(plain) <= set(WORDS):
        return
    # A list has no hash, and an array has no one truth: compare only text with choices.
    if not (any(_is_of(value, kind) for kind in plain) or (isinstance(value, str) and value in choices)):
        expected = [*(WORDS[kind] for kind in plain), *map(str, choices)]
        raise InputError(f"Expected {what} to be {' or '.join(expected)}, got {value!r}. Correct it.")
    if isinstance(value, Real) and not isfinite(value):
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
