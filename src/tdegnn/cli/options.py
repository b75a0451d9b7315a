"""Options that several commands share, and groups of options that are declared once, as the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from tdegnn.errors import InputError, suggest

if TYPE_CHECKING:
    from tdegnn.data.tables.csv_files import CsvFormat


class DeviceOption(StrEnum):
    """Where to compute."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class SystemOption(StrEnum):
    """The systems of the tables. Each is a short name for a rule for c."""

    FIXED = "DE-GNN"
    DIRECT = "TDE-GNN_D"
    ATTENTION = "TDE-GNN_A"
    STABLE = "TDE-GNN_S"


# The rules for c by name. A test compares them with `core/rules.py`, which would make `--help` wait for torch.
RULES = ("euler", "leapfrog", "direct", "attention", "gated-attention", "stable", "stable-attention", "mixed")
USUAL_RULE = SystemOption.DIRECT


def parse_rule(name: str) -> str:
    """Return the name of a system or of a rule for c."""
    known = (*SystemOption, *RULES)
    if name not in known:
        raise typer.BadParameter(f"Expected one of {', '.join(known)}, got {name!r}.{suggest(name, known)}")
    return name


def rule_argument(name: str | None) -> dict[str, Any]:
    """Return the argument of an estimator for a rule: `system`, `coefficients`, or nothing for its default."""
    if name is None:
        return {}
    return {"system": name} if name in tuple(SystemOption) else {"coefficients": name}


class DirectionOption(StrEnum):
    """Whose states a node receives."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


def parse_count_or_auto(given: str | int) -> int | str:
    """Return a whole number of at least 1, or `auto`. Typer also passes defaults, which are numbers."""
    text = str(given)
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"Expected a whole number of at least 1, or auto, got {text!r}.")
    return int(text)


def check_given(path: Path | None) -> Path | None:
    """Raise an `InputError` for a file that cannot be read, before the imports of its reader, which take seconds."""
    from tdegnn.data.tables.csv_files import check_file

    return None if path is None else check_file(path)


Rule = Annotated[
    str | None,
    typer.Option(
        "--coefficients",
        "--system",
        help="Rule for c. [bold]DE-GNN[/bold]: c = [1]; [bold]TDE-GNN_D[/bold]: a learned vector; "
        "[bold]TDE-GNN_A[/bold]: attention; [bold]TDE-GNN_S[/bold]: a learned vector that is always stable. Or: "
        f"{', '.join(RULES)}.",
        parser=parse_rule,
        metavar="NAME",
        show_default=USUAL_RULE.value,
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.", min=0, max=2**32 - 1)]
Device = Annotated[
    DeviceOption,
    typer.Option("--device", help="Where to compute. [bold]auto[/bold] uses a GPU if there is one."),
]
PRECISION_HELP = (
    "Bits of a number: 32, or 64; [bold]bf16-mixed[/bold] has 16 bits for what travels along edges, which is quicker "
    "on large graphs on a GPU."
)
Resume = Annotated[bool, typer.Option("--resume", help="Continue the training in --out.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the verdict.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
OutFolder = Annotated[Path, typer.Option("--out", "-o", help="Folder for pictures and result lines.", file_okay=False)]

# Options of commands that write result lines.
ResultLines = Annotated[
    Path, typer.Option("--out", "-o", help="File of result lines. Results that it already holds are not run again.")
]
Report = Annotated[bool, typer.Option("--report", help="Run nothing, only show the results in the file.")]
Picture = Annotated[Path | None, typer.Option(help="File for the figure. Default: next to the result lines.")]
Datasets = Annotated[
    list[str] | None, typer.Option("--dataset", help="Name of a dataset. Can be repeated. Default: all.")
]

# Options for the user's own files. Our own messages say whether a file can be read (readable=False).
FeaturesFile = Annotated[
    Path | None,
    typer.Option(
        "--features",
        help="CSV or Parquet: the node's name, then numbers; or npz with an array `features` (and `nodes`); "
        "or npy; or safetensors with a tensor `features`.",
        readable=False,
        callback=check_given,
    ),
]
EdgesFile = Annotated[
    Path | None,
    typer.Option(
        "--edges",
        help="CSV or Parquet: source, target[, weight][, time]; or an adjacency matrix (CSV, npz, npy); or, for "
        "nodes, graph.json of a stored graph.",
        readable=False,
        callback=check_given,
    ),
]
EdgeTimeColumn = Annotated[
    str | None,
    typer.Option(
        "--edge-time",
        help="Column of times in --edges, if edges change: those listed at a time hold until the next time.",
        show_default="time, timestamp, datetime or date, if there is one",
    ),
]
CoordinatesFile = Annotated[
    Path | None,
    typer.Option(
        "--coordinates",
        help="Instead of edges: node, latitude, longitude (or x, y). Neighbors are linked.",
        readable=False,
        callback=check_given,
    ),
]
Neighbors = Annotated[
    int | None,
    typer.Option(
        "--neighbors",
        help="With --coordinates: number of neighbors to which each node is linked.",
        min=1,
        show_default="5, or all if there are fewer",
    ),
]
NodeColumn = Annotated[str | None, typer.Option("--node", help="Column of nodes in a long table.")]
TimeColumn = Annotated[str | None, typer.Option("--time", help="Column of times.")]
ValueColumns = Annotated[
    list[str] | None, typer.Option("--value", help="Column of a long table to forecast. Can be repeated.")
]
ExogenousColumns = Annotated[
    list[str] | None,
    typer.Option("--exogenous", help="Column of a long table that is seen, not forecast. Can be repeated."),
]
TimeZone = Annotated[str | None, typer.Option("--time-zone", help="Time zone of the times, for example Europe/Berlin.")]
TimeFormat = Annotated[str | None, typer.Option("--time-format", help="How times are written, for example %d/%m/%Y.")]
DirectionChoice = Annotated[
    DirectionOption | None,
    typer.Option(
        "--direction",
        help="Whose states a node receives: those of the nodes it points to (out), that point to it (in), or both.",
        show_default="both",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option("--separator", help="Character between the columns of CSV files.", show_default="found in the file"),
]
Decimal = Annotated[
    str | None, typer.Option("--decimal", help="Decimal sign of CSV files: a point or a comma.", show_default=".")
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Encoding of CSV files.", show_default="utf-8")]


def make_csv_format(separator: str | None, decimal: str | None, encoding: str | None) -> CsvFormat:
    r"""Return how CSV files are written, according to the options. A tab is typed as `\t`."""
    from tdegnn.data.tables.csv_files import CsvFormat

    return CsvFormat(None if separator is None else separator.replace("\\t", "\t"), decimal or ".", encoding or "utf-8")


MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        help="Most memory that one input may take, for example 16GB.",
        show_default="TDEGNN_MEMORY_LIMIT, or 4GB",
    ),
]


def reads_files(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option `--memory-limit` to a command, and apply it before the command runs."""
    signature = inspect.signature(command)
    option = inspect.Parameter("memory_limit", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=MemoryLimit)
    hints = get_type_hints(command, include_extras=True)
    parameters = [each.replace(annotation=hints[name]) for name, each in signature.parameters.items()]

    @wraps(command)
    def limited(memory_limit: str | None = None, **given: Any) -> None:
        if memory_limit is not None:
            from tdegnn.files import set_memory_limit

            set_memory_limit(memory_limit)
        command(**given)

    return _with_parameters(limited, [*parameters, option])


Name = TypeVar("Name", bound=str)


def choose_names(asked: Sequence[str] | None, known: Sequence[Name], what: str) -> list[Name]:
    """Return the names that were given, or all known names if none was given."""
    unknown = [name for name in asked or () if name not in known]
    if unknown:
        raise InputError(f"Expected a {what} among {', '.join(known)}, got {unknown[0]!r}.{suggest(unknown[0], known)}")
    return [name for name in known if asked is None or name in asked]


def check_report(report: bool, out: Path) -> None:
    """Raise an `InputError` if a report is asked for and there are no result lines."""
    if report and not any(path.exists() for path in (out, out.with_suffix(".jsonl"), out.with_suffix(".parquet"))):
        raise InputError(f"Expected result lines in {out}, got no such file. Leave out --report to run.")


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command whose type is a dataclass by one option per field.

    A field is written like a parameter of a command, `Annotated[int, typer.Option(help=...)] = 4`. The help shows the
    fields of a dataclass together, under its `PANEL`. It shows `SHOWN_DEFAULTS`, by field, does not show `HIDDEN`
    fields, and shows `LAST` fields below all other options, if the dataclass has them. If the parameter has a default,
    this has the defaults of the fields.
    """
    own = inspect.signature(command).parameters
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hints[name] for name in own if is_dataclass(hints[name])}
    parameters = []
    for name, parameter in own.items():
        if name in groups:
            parameters += _options_of(groups[name], parameter.default)
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name]))
    last = {name for group in groups.values() for name in getattr(group, "LAST", ())}
    parameters.sort(key=lambda parameter: parameter.name in last)

    @wraps(command)
    def filled(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    return _with_parameters(filled, parameters)


def _with_parameters(command: Callable[..., None], parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """Let Typer see these parameters."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


# Several commands share a group, and `--help` waits for all of them.
@cache
def _hints_of(group: Any) -> dict[str, Any]:
    return get_type_hints(group, include_extras=True)


def _options_of(group: Any, defaults: Any) -> list[inspect.Parameter]:
    """Return one parameter per field. `defaults` is a group, or `inspect.Parameter.empty`."""
    hints = _hints_of(group)
    parameters = []
    for field in fields(group):
        kind, option = get_args(hints[field.name])
        option = copy(option)
        option.rich_help_panel = group.PANEL
        option.show_default = getattr(group, "SHOWN_DEFAULTS", {}).get(field.name, option.show_default)
        option.hidden = field.name in getattr(group, "HIDDEN", ())
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=getattr(defaults, field.name, field.default),
                annotation=Annotated[kind, option],
            )
        )
    return parameters
