"""Options that go together: declared once, as the fields of a dataclass, and given to every command that takes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let the command line fill parameters whose type is a dataclass, by one option for each of its fields.

    A field is written as a parameter of a command is, `Annotated[int, typer.Option(help=...)] = 4`. In the help, the
    fields of a dataclass stand together under its `PANEL`.
    """
    own = inspect.signature(command).parameters
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hints[name] for name in own if is_dataclass(hints[name])}
    parameters = []
    for name, parameter in own.items():
        if name in groups:
            parameters += _options_of(groups[name])
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def filled(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    filled.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    filled.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return filled


def _options_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    parameters = []
    for field in fields(group):
        kind, option = get_args(hints[field.name])
        option = copy(option)
        option.rich_help_panel = group.PANEL
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[kind, option],
            )
        )
    return parameters
