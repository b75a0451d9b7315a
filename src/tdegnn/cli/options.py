"""Options that go together: declared once, as the fields of a dataclass, and given to every command that takes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.data.tables.csv_files import CsvFormat


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


class DeviceOption(StrEnum):
    """Where to compute."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class SystemOption(StrEnum):
    """Which rule gives c."""

    FIXED = "DE-GNN"
    DIRECT = "TDE-GNN_D"
    ATTENTION = "TDE-GNN_A"
    STABLE = "TDE-GNN_S"


class DirectionOption(StrEnum):
    """Whose states a node receives."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


def parse_order(given: str | int) -> int | str:
    """A length of the history, or `auto`; defaults come as numbers."""
    text = str(given)
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"Expected a whole number from 1 on, or auto, got {text!r}.")
    return int(text)


Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.", min=0, max=2**32 - 1)]
Device = Annotated[
    DeviceOption,
    typer.Option("--device", help="Where to compute; [bold]auto[/bold] takes a GPU if there is one."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the training in --out.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
OutFolder = Annotated[Path, typer.Option("--out", "-o", help="Folder for pictures and result lines.", file_okay=False)]

# What commands that write result lines share.
ResultLines = Annotated[Path, typer.Option("--out", "-o", help="File of result lines; what is in it is not run again.")]
Report = Annotated[bool, typer.Option("--report", help="Run nothing; show what the file holds.")]
Picture = Annotated[Path | None, typer.Option(help="Where to write the figure; beside the result lines without it.")]
Datasets = Annotated[
    list[str] | None, typer.Option("--dataset", help="Name of a dataset; may be given several times. All without.")
]


def check_given(path: Path | None) -> Path | None:
    """Say at once that a file cannot be read, before the imports of what reads it, which take seconds."""
    from tdegnn.data.tables.csv_files import check_file

    return None if path is None else check_file(path)


# What a user may say about files of their own. Whether they can be read is said in our words (readable=False).
FeaturesFile = Annotated[
    Path | None,
    typer.Option(
        "--features",
        help="CSV or Parquet: the node's name, then numbers; or npz (features, nodes).",
        readable=False,
        callback=check_given,
    ),
]
EdgesFile = Annotated[
    Path | None,
    typer.Option(
        "--edges",
        help="CSV or Parquet: source, target[, weight]; or an adjacency matrix (CSV, npz, npy).",
        readable=False,
        callback=check_given,
    ),
]
CoordinatesFile = Annotated[
    Path | None,
    typer.Option(
        "--coordinates",
        help="In place of edges: node, latitude, longitude (or x, y); neighbors are linked.",
        readable=False,
        callback=check_given,
    ),
]
Neighbors = Annotated[
    int | None,
    typer.Option(
        "--neighbors", help="How many neighbors to link by coordinates; 5, or all where there are fewer.", min=1
    ),
]
NodeColumn = Annotated[str | None, typer.Option("--node", help="Column of nodes, for a long table.")]
TimeColumn = Annotated[str | None, typer.Option("--time", help="Column of times.")]
ValueColumns = Annotated[
    list[str] | None, typer.Option("--value", help="Column to forecast, for a long table; may be given several times.")
]
ExogenousColumns = Annotated[
    list[str] | None, typer.Option("--exogenous", help="Column that only helps; may be given several times.")
]
TimeZone = Annotated[str | None, typer.Option("--time-zone", help="Time zone of the times, as in Europe/Berlin.")]
TimeFormat = Annotated[str | None, typer.Option("--time-format", help="How times are written, as in %d/%m/%Y.")]
DirectionChoice = Annotated[
    DirectionOption | None,
    typer.Option("--direction", help="Whose states a node receives: of nodes it points to, that point to it, or both."),
]
Separator = Annotated[str | None, typer.Option("--separator", help="What separates the columns of CSV files.")]
Decimal = Annotated[
    str | None, typer.Option("--decimal", help="Decimal sign of CSV files: a point or a comma.", show_default=".")
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Encoding of CSV files.", show_default="utf-8")]


def make_csv_format(separator: str | None, decimal: str | None, encoding: str | None) -> CsvFormat:
    """How CSV files are written, as the options say. A tab is typed as a backslash and a t."""
    from tdegnn.data.tables.csv_files import CsvFormat

    return CsvFormat(None if separator is None else separator.replace("\\t", "\t"), decimal or ".", encoding or "utf-8")


Name = TypeVar("Name", bound=str)


def choose_names(asked: Sequence[str] | None, known: Sequence[Name], what: str) -> list[Name]:
    """Those of the known names that were asked for; all where none was."""
    unknown = [name for name in asked or () if name not in known]
    if unknown:
        raise InputError(f"Expected a {what} among {', '.join(known)}, got {unknown[0]!r}.")
    return [name for name in known if asked is None or name in asked]


def check_report(report: bool, out: Path) -> None:
    """Raise an `InputError` where a report is asked for of lines that are not there."""
    if report and not any(path.exists() for path in (out, out.with_suffix(".jsonl"), out.with_suffix(".parquet"))):
        raise InputError(f"Expected result lines in {out}, there is no such file. Leave out --report to run.")
