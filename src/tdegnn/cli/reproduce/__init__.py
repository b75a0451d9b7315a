"""`tdegnn reproduce`: the tables and figures of the paper, and ours. One file per command, registered here."""

from __future__ import annotations

import typer

from tdegnn.cli.reproduce.ablation import ablation
from tdegnn.cli.reproduce.as_published import as_published
from tdegnn.cli.reproduce.audit import audit
from tdegnn.cli.reproduce.best import best
from tdegnn.cli.reproduce.coefficients import coefficients
from tdegnn.cli.reproduce.coverage import coverage
from tdegnn.cli.reproduce.defaults import defaults
from tdegnn.cli.reproduce.direction import direction
from tdegnn.cli.reproduce.hourly_counts import hourly_counts
from tdegnn.cli.reproduce.known_orders import known_orders
from tdegnn.cli.reproduce.mini_batches import mini_batches
from tdegnn.cli.reproduce.operators import operators, rows
from tdegnn.cli.reproduce.order_found import order_found
from tdegnn.cli.reproduce.pendulum import pendulum
from tdegnn.cli.reproduce.series_ablation import series_ablation
from tdegnn.cli.reproduce.series_rows import series_rows
from tdegnn.cli.reproduce.sizes import sizes
from tdegnn.cli.reproduce.stability import depth, stable_pendulum
from tdegnn.cli.reproduce.table1 import runtimes, table1
from tdegnn.cli.reproduce.table2 import table2
from tdegnn.cli.reproduce.ten_graphs import ten_graphs
from tdegnn.cli.reproduce.traffic import traffic
from tdegnn.cli.reproduce.traffic_folds import traffic_folds
from tdegnn.cli.reproduce.without_rows import without_rows

reproduce = typer.Typer(help="Reproduce a table or figure of the paper, or one of ours.", no_args_is_help=True)
for command in (
    pendulum,
    coefficients,
    known_orders,
    table1,
    rows,
    operators,
    best,
    defaults,
    ten_graphs,
    mini_batches,
    table2,
    series_rows,
    traffic,
    traffic_folds,
    hourly_counts,
    sizes,
    ablation,
    series_ablation,
    coverage,
    stable_pendulum,
    depth,
    runtimes,
    order_found,
    direction,
    without_rows,
    as_published,
    audit,
):
    reproduce.command()(command)
