"""`tdegnn reproduce series-ablation`: what the graph, learned coefficients and the order add to a forecast."""

from __future__ import annotations

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


def series_ablation(
    dataset: Datasets = None,
    window: Annotated[int, typer.Option(help="Number of steps that a forecast sees.", min=4)] = 4,
    seeds: Annotated[int, typer.Option(help="Number of seeds, trained together.", min=2)] = 10,
    out: ResultLines = Path("runs/series_ablation.jsonl"),
    report: Report = False,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The forecaster without edges, with attention and with shorter histories. Chosen on validation steps."""
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.series_ablation import VARIANT_LINES, summarize_variants, train_variant, variants
    from tdegnn.experiments.series_tasks import TASKS
    from tdegnn.training.devices import choose_placement

    datasets = choose_names(dataset, tuple(TASKS), "dataset")
    check_report(report, out)
    if not report:
        placement = choose_placement(device.value)
        jobs = [(name, variant) for name in datasets for variant in variants(name, window)]
        with progress_bar(len(jobs), "variants", is_quiet=quiet or as_json) as tick:
            for name, variant in jobs:
                train_variant(name, variant, window, out, placement=placement, seeds=range(seeds))
                tick(f"{name} {variant}")
    cells = summarize_variants(read_lines(out, VARIANT_LINES, dataset=datasets))
    records = [
        {"dataset": name, "window": size, "variant": variant, "test_mse": cell.mean, "worse": cell.worse.text(4)}
        for (name, size, variant), cell in cells.items()
    ]
    if as_json:
        print_json(records)
        return
    if not quiet:
        header = ["dataset", "window", "variant", "test error", "more than the full one (95 % interval)"]
        rows = [
            [name, str(size), variant, f"{cell.mean:.4f}", cell.worse.text(4)]
            for (name, size, variant), cell in cells.items()
        ]
        print_table("Forecasting one step ahead, mean squared error, paired over the seeds", header, rows)
    typer.echo(f"{len(cells)} rows in {out}.")
