"""What commands print: the version, tables, notes, JSON, the errors of forecasts, and how far a long work is.

On a terminal each stage of a work has a progress bar. Elsewhere, in a file or a pipe, a line is printed now and then.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite, isnan
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tdegnn.errors import Message
from tdegnn.version import __version__

if TYPE_CHECKING:
    from tdegnn.analysis.report import CoefficientReport
    from tdegnn.training import progress
    from tdegnn.training.loop import Look


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


# Seconds until the first line of progress if there is no terminal, and from one line to the next.
FIRST_LINE, NEXT_LINE = 3.0, 15.0


class Tick(Protocol):
    """Advances a progress bar by one and changes its description."""

    def __call__(self, text: str = "") -> None:
        """Advance."""


class ShowStage(Protocol):
    """Shows how far a stage of a work is."""

    def __call__(self, stage: str, done: int, total: int | None, text: str = "") -> None:
        """Show a stage, its finished steps and all of them (None: nobody knows), and a text in place of its name."""


@contextmanager
def progress_bar(total: int | None, description: str, *, is_quiet: bool) -> Iterator[Tick]:
    """Show the progress of a work of one stage on the error stream, unless `is_quiet` is set.

    If the total is None, nobody knows how much there is to do.
    """
    with progress_stages(is_quiet=is_quiet) as show:
        done, shown = 0, description
        show(description, done, total)

        def tick(text: str = "") -> None:
            nonlocal done, shown
            done, shown = done + 1, text or shown
            show(description, done, total, shown)

        yield tick


@contextmanager
def progress_stages(*, is_quiet: bool) -> Iterator[ShowStage]:
    """Show the stages of a work on the error stream, unless `is_quiet` is set: bars on a terminal, lines elsewhere."""
    console = Console(stderr=True)
    if is_quiet:
        yield lambda *_, **__: None
    elif console.is_terminal:
        columns = (TextColumn("{task.description:<20}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            yield _Bars(progress)
    else:
        with _Lines() as lines:
            yield lines


class Watchers(NamedTuple):
    """What a training calls, to show its stages.

    Attributes:
        on_look: Called with the result of each validation.
        on_progress: Called at the start of each stage, and after each of its steps.
    """

    on_look: Callable[[Look], None]
    on_progress: Callable[[progress.Progress], None]


def watchers(show: ShowStage, describe: Callable[[Look], str]) -> Watchers:
    """Return what shows the stages of a training.

    Args:
        show: Shows a stage.
        describe: What a validation found, in a few words. They stand beside the name of its stage.
    """
    stage = found = ""

    def on_look(look: Look) -> None:
        nonlocal found
        found = f": {describe(look)}"

    def on_progress(moment: progress.Progress) -> None:
        nonlocal stage, found
        if moment.stage != stage:
            stage, found = moment.stage, ""
        show(stage, moment.done, moment.total, f"{stage}{found}")

    return Watchers(on_look, on_progress)


class _Bars:
    """One bar per stage, below those of the stages before it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stage = ""
        self._task: TaskID | None = None

    def __call__(self, stage: str, done: int, total: int | None, text: str = "") -> None:
        if stage != self._stage or self._task is None:
            if self._task is not None:
                # It ended, however many steps were planned.
                self._progress.update(self._task, total=1, completed=1)
            self._stage, self._task = stage, self._progress.add_task(stage, total=total)
        self._progress.update(self._task, completed=done, total=total, description=text or stage)


class _Lines:
    """A line after a few seconds, then one now and then, also within a step that takes long."""

    def __init__(self) -> None:
        self._line, self._begun, self._is_over = "", time.monotonic(), Event()
        self._thread = Thread(target=self._print, daemon=True)

    def __call__(self, stage: str, done: int, total: int | None, text: str = "") -> None:
        steps = f", step {done}" if total is None and done else f", step {done} of {total}" if (total or 0) > 1 else ""
        self._line = f"{text or stage}{steps}"

    def __enter__(self) -> _Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _print(self) -> None:
        seconds = FIRST_LINE
        while not self._is_over.wait(seconds):
            seconds = NEXT_LINE
            if self._line and sys.stderr is not None:
                print(f"{self._line} ({time.monotonic() - self._begun:.0f} s)", file=sys.stderr, flush=True)


# A table: its title, its header and its rows.
TextTable: TypeAlias = tuple[str, Sequence[str], Sequence[Sequence[str]]]


# Names of up to this many characters, in the first column of a table, are not folded.
LONGEST_NAME = 20


def num_columns() -> int:
    """Return how many characters a line of a table may have."""
    return _console().width


def _console() -> Console:
    console = Console()
    # Do not fold the lines of a file to the default width of a terminal.
    return console if console.is_terminal else Console(width=160)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], num_texts: int = 1) -> None:
    """Print a table. The first `num_texts` columns are text, the others are numbers."""
    console = _console()
    table = Table(header_style="bold", box=None, pad_edge=False)
    for position, name in enumerate(header):
        justify: Literal["left", "right"] = "left" if position < num_texts else "right"
        # Names stay whole, if they are short: other columns fold.
        is_name = position == 0 and max((len(row[0]) for row in rows), default=0) <= LONGEST_NAME
        table.add_column(name, justify=justify, overflow="fold", no_wrap=is_name)
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
    if number(own) == number(finite[best]):
        return f"the forecaster is as good as {best}: MSE {number(own)}"
    compared = f"{best}: MSE {number(own)}, not {number(finite[best])}"
    if own >= finite[best]:
        return f"the forecaster is no better than {compared}"
    ratio = finite[best] / own if own else float("inf")
    better = f"{1 - own / finite[best]:.0%}" if ratio < MANY_TIMES else f"{ratio:,.0f} times"
    return f"the forecaster is {better} better than {compared}"
