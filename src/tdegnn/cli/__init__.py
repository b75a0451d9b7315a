"""The command line: one file per command, and one place where errors become one line.

Commands import what they need when they run, so that `tdegnn --help` does not wait for torch.
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
from tdegnn.cli.reproduce import reproduce as reproduce_commands
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
# A vector may start with a minus sign, which is not an option.
app.command(context_settings={"ignore_unknown_options": True})(explain)
app.command()(fit)
app.command()(predict)
app.command()(backtest)
app.command()(order)
app.command()(classify)
app.command()(sweep)
app.add_typer(reproduce_commands, name="reproduce")
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
    """Run the command line. For a mistake of the user, print one line and exit with 2, never a traceback."""
    try:
        code = app(args=arguments, prog_name="tdegnn", standalone_mode=False)
    except InputError as error:
        code = _complain(error.as_options(), 2)
    except TdegnnError as error:
        code = _complain(error.as_options(), 1)
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
    """Return the command whose help to read. Errors of parsing know it."""
    context = getattr(error, "ctx", None)
    return "tdegnn" if context is None else str(context.command_path)


def _complain(message: str, code: int) -> int:
    typer.echo(f"Error: {' '.join(message.split())}", err=True)
    return code
