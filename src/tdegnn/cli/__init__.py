"""The command line: one file a command, and one boundary where errors become one line.

Heavy imports (torch above all) happen inside the commands, so that `tdegnn --help` answers at once.
"""

from __future__ import annotations

import sys

import typer

from tdegnn.cli.backtest import backtest
from tdegnn.cli.check import check
from tdegnn.cli.classify import classify
from tdegnn.cli.data import data
from tdegnn.cli.demo import demo
from tdegnn.cli.explain import explain
from tdegnn.cli.fit import fit
from tdegnn.cli.order import order
from tdegnn.cli.predict import predict
from tdegnn.cli.reproduce.ablation import ablation
from tdegnn.cli.reproduce.coverage import coverage
from tdegnn.cli.reproduce.order_found import order_found
from tdegnn.cli.reproduce.pendulum import reproduce
from tdegnn.cli.reproduce.series_ablation import series_ablation
from tdegnn.cli.reproduce.stability import depth, stable_pendulum
from tdegnn.cli.reproduce.table1 import runtimes, table1
from tdegnn.cli.reproduce.table2 import table2
from tdegnn.cli.sweep import sweep
from tdegnn.errors import InputError, TdegnnError
from tdegnn.version import __version__

app = typer.Typer(
    name="tdegnn",
    help="Graph networks that learn the order of time.",
    epilog="Start with: [bold]tdegnn demo[/bold]",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command()(demo)
# A vector may start with a minus sign, which is no option.
app.command(context_settings={"ignore_unknown_options": True})(explain)
reproduce.command()(table1)
reproduce.command()(table2)
reproduce.command()(ablation)
reproduce.command()(series_ablation)
reproduce.command()(coverage)
reproduce.command()(stable_pendulum)
reproduce.command()(depth)
reproduce.command()(runtimes)
reproduce.command()(order_found)
app.command()(fit)
app.command()(predict)
app.command()(backtest)
app.command()(order)
app.command()(classify)
app.command()(sweep)
app.add_typer(reproduce, name="reproduce")
data.command()(check)
app.add_typer(data, name="data")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tdegnn {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
    ),
) -> None:
    """Graph networks that learn the order of time."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. A user's mistake prints one line and exits with 2, never a traceback."""
    try:
        code = app(args=arguments, prog_name="tdegnn", standalone_mode=False)
    except InputError as error:
        code = _complain(str(error), 2)
    except TdegnnError as error:
        code = _complain(str(error), 1)
    except typer.TyperException as error:
        message = error.format_message().rstrip(".").replace("Value error, ", "")
        stop = "" if message.endswith("?") else "."
        code = _complain(f"{message}{stop} Try: {_command_of(error)} --help", error.exit_code)
    except OSError as error:
        code = _complain(f"Could not use {error.filename or 'a file'}: {error.strerror or error}.", 2)
    except (KeyboardInterrupt, typer.Abort):
        code = _complain("Interrupted.", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _command_of(error: typer.TyperException) -> str:
    """The command whose help is of use; errors of parsing carry their context."""
    context = getattr(error, "ctx", None)
    return "tdegnn" if context is None else str(context.command_path)


def _complain(message: str, code: int) -> int:
    typer.echo(f"Error: {' '.join(message.split())}", err=True)
    return code
