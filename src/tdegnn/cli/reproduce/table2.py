"""`tdegnn reproduce table2`: forecasting under two protocols, next to the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import (
    AsJson,
    Datasets,
    Device,
    DeviceOption,
    Quiet,
    Report,
    ResultLines,
    check_report,
    choose_names,
)
from tdegnn.cli.output import print_json, print_table, progress_bar

SeriesSystems = Annotated[
    list[str] | None,
    typer.Option("--system", help="A row, for example TDE-GNN_D or GConvGRU. Can be repeated. Default: all."),
]
Window = Annotated[int, typer.Option(help="Number of steps that a forecast sees. The paper has 4.", min=1)]


def table2(
    dataset: Datasets = None,
    system: SeriesSystems = None,
    protocol: Annotated[list[str] | None, typer.Option("--protocol", help="honest or paper. Default: both.")] = None,
    window: Window = 4,
    seeds: Annotated[int, typer.Option(help="Number of seeds, trained together.", min=1)] = 10,
    out: ResultLines = Path("runs/table2.jsonl"),
    report: Report = False,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Table 2: mean squared errors one step ahead, for our systems, rivals and classical forecasts."""
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.series_rows import SERIES_LINES
    from tdegnn.experiments.series_tasks import CLASSICAL, SYSTEMS, TASKS
    from tdegnn.experiments.table2 import PROTOCOLS, solve_classical, summarize, train_row
    from tdegnn.training.devices import choose_placement

    datasets = choose_names(dataset, tuple(TASKS), "dataset")
    systems = choose_names(system, SYSTEMS, "system")
    protocols = choose_names(protocol, PROTOCOLS, "protocol")
    check_report(report, out)
    if not report:
        placement = choose_placement(device.value)
        with progress_bar(len(datasets) * len(systems) * len(protocols), "table 2", is_quiet=quiet or as_json) as tick:
            for name in datasets:
                if set(systems) & set(CLASSICAL):
                    solve_classical(name, out, window=window)
                for row in systems:
                    for kind in protocols:
                        if row not in CLASSICAL:
                            config = TASKS[name].config(row, window)
                            train_row(
                                name, config, out, placement=placement, window=window, protocol=kind, seeds=range(seeds)
                            )
                        tick(f"{name} {row}")
    cells = summarize(read_lines(out, SERIES_LINES, dataset=datasets, system=systems, protocol=protocols))
    if as_json:
        print_json(
            [
                dict(zip(("dataset", "system", "protocol", "window"), key, strict=True))
                | dict(zip(("test_mse", "deviation", "seeds"), cell, strict=True))
                for key, cell in cells.items()
            ]
        )
        return
    if not quiet:
        _print_errors(cells, datasets, systems)
    typer.echo(f"{len(cells)} rows in {out}. Honest: chosen on validation. Paper: the lowest test error, as published.")


def _print_errors(
    cells: Mapping[tuple[str, str, str, int], tuple[float, float, int]], datasets: list[str], systems: list[str]
) -> None:
    from tdegnn.experiments.paper import FORECAST_ERRORS

    rows = []
    for name in datasets:
        for row in systems:
            for window in sorted({key[3] for key in cells if key[:2] == (name, row)}):
                honest, published = (cells.get((name, row, kind, window)) for kind in ("honest", "paper"))
                printed = FORECAST_ERRORS.get(row, {}).get(name)
                texts = [
                    "-" if cell is None else f"{cell[0]:.3f}" + (f" ± {cell[1]:.3f}" if cell[2] > 1 else "")
                    for cell in (honest, published)
                ]
                rows.append([name, row, str(window), *texts, "-" if printed is None else f"{printed:g}"])
    header = ["dataset", "system", "window", "honest", "paper's protocol", "paper's number"]
    print_table("Forecasting one step ahead, mean squared error on the test steps", header, rows)
