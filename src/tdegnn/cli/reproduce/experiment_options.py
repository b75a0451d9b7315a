"""What the commands of experiments share: options, and the way from cells through result lines to tables.

A command says which cells there are and which tables they make. `ExperimentOptions` does the rest: it computes what the
file of result lines lacks, shows the progress, reads the lines, and prints JSON, or tables and a last sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from tdegnn.cli.options import AsJson, Device, DeviceOption, Quiet, Report, ResultLines, check_report
from tdegnn.cli.output import TextTable, Tick, print_json, print_table, progress_bar

if TYPE_CHECKING:
    from tdegnn.experiments.records import LineKind
    from tdegnn.training.devices import Placement

Workers = Annotated[int, typer.Option(min=1, help="Number of processes that share the device.")]


def first_two(*cell: Any) -> str:
    """Return the first two entries of a cell, usually a dataset and a system."""
    return " ".join(map(str, cell[:2]))


@dataclass(frozen=True)
class ExperimentOptions:
    """The options of an experiment that adds lines to a file. A command gives the default of `out`."""

    PANEL: ClassVar[None] = None
    LAST: ClassVar[tuple[str, ...]] = ("device", "quiet", "as_json")

    out: ResultLines
    report: Report = False
    device: Device = DeviceOption.AUTO
    quiet: Quiet = False
    as_json: AsJson = False

    @cached_property
    def placement(self) -> Placement:
        """Device and type of numbers of a training. A report does not need the device."""
        from tdegnn.training.devices import choose_placement

        return choose_placement(self.device.value)

    def must_compute(self) -> bool:
        """Return whether to compute. If only a report is asked for, check that there are result lines."""
        check_report(self.report, self.out)
        return not self.report

    def progress(self, total: int | None, title: str) -> AbstractContextManager[Tick]:
        """Return a progress bar, which nobody sees with `--quiet` and `--json`."""
        return progress_bar(total, title, is_quiet=self.quiet or self.as_json)

    def compute(
        self,
        function: Callable[..., None],
        cells: Iterable[tuple[Any, ...]],
        title: str,
        describe: Callable[..., str] = first_two,
        num_workers: int = 1,
    ) -> None:
        """Call `function(*cell)` for each cell, unless only a report is asked for.

        Args:
            function: Adds the lines of a cell to the file, unless it has them. With several workers, it must be a
                function of a module, which a new process can import.
            cells: The arguments of each call. A generator is not started for a report.
            title: Name of the progress bar.
            describe: Returns what the bar says about a cell that is done, from the same arguments.
            num_workers: Number of processes.
        """
        from tdegnn.experiments.side_by_side import compute_cells

        if self.must_compute():
            asked = list(cells)
            with self.progress(len(asked), title) as tick:
                compute_cells(function, asked, num_workers, lambda cell: tick(describe(*cell)))

    def read(self, kind: LineKind, **asked: Collection[Any]) -> list[dict[str, Any]]:
        """Return the result lines with the asked values, as in `dataset=["cora"]`."""
        from tdegnn.experiments.records import read_lines

        return read_lines(self.out, kind, **asked)

    def show(self, record: Any, tables: Iterable[TextTable], verdict: str) -> None:
        """Print a record as JSON, or tables and a sentence, or only the sentence, as the options say.

        Args:
            record: What `--json` prints.
            tables: What is printed without `--json` and `--quiet`. A generator is only started then.
            verdict: The last sentence.
        """
        if self.as_json:
            print_json(record)
            return
        if not self.quiet:
            for table in tables:
                print_table(*table)
        typer.echo(verdict)
