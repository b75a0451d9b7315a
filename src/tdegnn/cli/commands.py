"""All commands, put together. Importing it takes a while, so `main` prepares for an interruption before it does."""

from __future__ import annotations

import typer

from tdegnn.cli.backtest import backtest
from tdegnn.cli.check import check
from tdegnn.cli.classify import classify
from tdegnn.cli.data import data
from tdegnn.cli.demo import demo
from tdegnn.cli.explain import explain
from tdegnn.cli.fit import fit
from tdegnn.cli.order import order
from tdegnn.cli.output import root
from tdegnn.cli.predict import predict
from tdegnn.cli.report import report
from tdegnn.cli.reproduce import reproduce as reproduce_commands
from tdegnn.cli.sweep import sweep
from tdegnn.cli.update import update
from tdegnn.cli.zoo import zoo

app = typer.Typer(
    name="tdegnn",
    help="Graph networks that learn the order of time.",
    epilog="Start with: [bold]tdegnn demo[/bold]",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.callback()(root)
app.command()(demo)
# A vector may start with a minus sign, which is not an option.
app.command(context_settings={"ignore_unknown_options": True})(explain)
app.command()(fit)
app.command()(predict)
app.command()(report)
app.command()(update)
app.command()(backtest)
app.command()(order)
app.command()(classify)
app.command()(sweep)
app.command()(zoo)
app.add_typer(reproduce_commands, name="reproduce")
data.command()(check)
app.add_typer(data, name="data")
