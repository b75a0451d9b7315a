"""`tdegnn reproduce table2`: forecasting under two protocols, next to the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import Datasets, choose_names, with_groups
from tdegnn.cli.output import TextTable
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions

SeriesSystems = Annotated[
    list[str] | None,
    typer.Option("--system", help="A row, for example TDE-GNN_D or GConvGRU. Can be repeated. Default: all."),
]
Window = Annotated[int, typer.Option(help="Number of steps that a forecast sees. The paper has 4.", min=1)]


@with_groups
def table2(
    dataset: Datasets = None,
    system: SeriesSystems = None,
    protocol: Annotated[list[str] | None, typer.Option("--protocol", help="honest or paper. Default: both.")] = None,
    window: Window = 4,
    seeds: Annotated[int, typer.Option(help="Number of seeds, trained together.", min=1)] = 10,
    run: ExperimentOptions = ExperimentOptions(Path("runs/table2.jsonl")),
) -> None:
    """Table 2: mean squared errors one step ahead, for our systems, rivals and classical forecasts."""
    from tdegnn.experiments.series_rows import SERIES_LINES, shown_names
    from tdegnn.experiments.series_tasks import CLASSICAL, SYSTEMS, TASKS
    from tdegnn.experiments.table2 import PROTOCOLS, solve_classical, summarize, train_row

    datasets = choose_names(dataset, tuple(TASKS), "dataset")
    systems = choose_names(system, SYSTEMS, "system")
    protocols = choose_names(protocol, PROTOCOLS, "protocol")
    if run.must_compute():
        train = partial(train_row, placement=run.placement, window=window, seeds=range(seeds))
        with run.progress(len(datasets) * len(systems) * len(protocols), "table 2") as tick:
            for name in datasets:
                if set(systems) & set(CLASSICAL):
                    solve_classical(name, run.out, window=window)
                for row in systems:
                    for kind in protocols:
                        if row not in CLASSICAL:
                            train(name, TASKS[name].config(row, window), run.out, protocol=kind)
                        tick(f"{name} {row}")
    lines = run.read(SERIES_LINES, dataset=datasets, system=systems, protocol=protocols)
    cells, shown = summarize(lines), shown_names(lines)
    records = [
        dict(zip(("dataset", "system", "protocol", "window"), key, strict=True))
        | {"panel": shown[key[0]]}
        | dict(zip(("test_mse", "deviation", "seeds"), cell, strict=True))
        for key, cell in cells.items()
    ]
    meaning = "Honest: chosen on validation. Paper: the lowest test error, as published."
    run.show(records, [_table_of_errors(cells, shown, systems)], f"{len(cells)} rows in {run.out}. {meaning}")


def _table_of_errors(
    cells: Mapping[tuple[str, str, str, int], tuple[float, float, int]], shown: Mapping[str, str], systems: list[str]
) -> TextTable:
    from tdegnn.experiments.paper import FORECAST_ERRORS

    rows = []
    for name, panel in shown.items():
        for row in systems:
            for window in sorted({key[3] for key in cells if key[:2] == (name, row)}):
                honest, published = (cells.get((name, row, kind, window)) for kind in ("honest", "paper"))
                printed = FORECAST_ERRORS.get(row, {}).get(name)
                texts = [
                    "-" if cell is None else f"{cell[0]:.3f}" + (f" ± {cell[1]:.3f}" if cell[2] > 1 else "")
                    for cell in (honest, published)
                ]
                rows.append([panel, row, str(window), *texts, "-" if printed is None else f"{printed:g}"])
    header = ["dataset", "system", "window", "honest", "paper's protocol", "paper's number"]
    return "Forecasting one step ahead, mean squared error on the test steps", header, rows
