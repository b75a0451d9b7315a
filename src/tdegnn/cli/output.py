"""What commands print: the version, tables, notes, JSON, the errors of forecasts, and a progress bar on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tdegnn.errors import Message
from tdegnn.version import __version__

if TYPE_CHECKING:
    from tdegnn.analysis.report import CoefficientReport


def print_version(is_asked: bool) -> None:
    """Print the version and exit, if that is asked for."""
    if is_asked:
        typer.echo(f"tdegnn {__version__}")
        raise typer.Exit


def root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=print_version, is_eager=True
    ),
) -> None:
    """Graph networks that learn the order of time."""


class Tick(Protocol):
    """Advances a progress bar by one and changes its description."""

    def __call__(self, description: str = "") -> None:
        """Advance."""


@contextmanager
def progress_bar(total: int | None, description: str, *, is_quiet: bool) -> Iterator[Tick]:
    """Show a progress bar on the error stream, unless it is not a terminal or `is_quiet` is set.

    If the total is None, nobody knows how much there is to do.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<20}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    is_disabled = is_quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=is_disabled) as progress:
        task = progress.add_task(description, total=total)

        def tick(description: str = "") -> None:
            progress.update(task, advance=1, description=description or None)

        yield tick


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], num_texts: int = 1) -> None:
    """Print a table. The first `num_texts` columns are text, the others are numbers."""
    console = Console()
    if not console.is_terminal:
        # Do not fold the lines of a file to the default width of a terminal.
        console = Console(width=160)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for position, name in enumerate(header):
        table.add_column(name, justify="left" if position < num_texts else "right", overflow="fold")
    for row in rows:
        # As it is: brackets in a cell are no markup.
        table.add_row(*map(Text, row))
    # Not the title of `Table`, which is folded to the width of the table.
    console.print(Text(title, style="bold"))
    console.print(table)
    console.print()


def print_json(value: Any) -> None:
    """Print a value as JSON, with null for infinite numbers and NaN, and with arguments in messages as options."""
    from tdegnn.files import finite_or_null

    typer.echo(json.dumps(_for_terminal(finite_or_null(value)), indent=2, allow_nan=False))


def _for_terminal(value: Any) -> Any:
    """Return a value whose messages speak of options."""
    if isinstance(value, dict):
        return {name: _for_terminal(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_for_terminal(entry) for entry in value]
    return value.as_options() if isinstance(value, Message) else value


def print_notes(notes: Iterable[str]) -> None:
    """Print notes, one line each, with their arguments as options."""
    for note in notes:
        typer.echo(f"Note: {_for_terminal(note)}")


def number(value: float | None) -> str:
    """Return a number with three significant digits, or a dash for None and NaN."""
    return "-" if value is None or isnan(value) else f"{value:.3g}"


def share(value: float | None) -> str:
    """Return a percentage, or a dash for None and NaN."""
    return "-" if value is None or isnan(value) else f"{value:.1%}"


def largest_root(report: CoefficientReport) -> str:
    """Return the largest modulus of a root of c, and what it means if latent states are unstable."""
    is_on_layers = report.states == "latent" and not report.is_stable
    return number(report.max_root_modulus) + (" (of states over the layers, not of outputs)" if is_on_layers else "")


def vector(values: Sequence[float]) -> str:
    """Return coefficients in brackets."""
    return "[" + ", ".join(f"{value:.4g}" for value in values) + "]"


# By method: `mse`, `mae` and, if intervals were evaluated, `coverage`. None or NaN if nothing was observed.
Errors = Mapping[str, Mapping[str, float | None]]
OURS = "forecaster"
# From this ratio on, print how many times better, instead of a percentage.
MANY_TIMES = 10


def print_errors(title: str, errors: Errors) -> None:
    """Print the errors of forecasts, one row per method."""
    has_coverage = any("coverage" in row for row in errors.values())
    header = ["", "MSE", "MAE"] + (["in the interval"] if has_coverage else [])
    rows = []
    for name, row in errors.items():
        coverage = [share(row["coverage"])] if has_coverage else []
        rows.append([f"the {name}" if name == OURS else name, number(row["mse"]), number(row["mae"]), *coverage])
    print_table(title, header, rows)


def compare_errors(errors: Errors) -> str:
    """Return whether the forecaster is better than the best naive forecast, in one sentence."""
    finite = {name: row["mse"] for name, row in errors.items() if row["mse"] is not None and isfinite(row["mse"])}
    own = finite.pop(OURS, None)
    if own is None or not finite:
        return "there is nothing to compare"
    best = min(finite, key=lambda name: finite[name])
    compared = f"{best}: MSE {number(own)}, not {number(finite[best])}"
    if own >= finite[best]:
        return f"the forecaster is no better than {compared}"
    ratio = finite[best] / own if own else float("inf")
    better = f"{1 - own / finite[best]:.0%}" if ratio < MANY_TIMES else f"{ratio:,.0f} times"
    return f"the forecaster is {better} better than {compared}"
