"""`tdegnn reproduce series-ablation`: what the graph, learned coefficients and the order add to a forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import Datasets, choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions


@with_groups
def series_ablation(
    dataset: Datasets = None,
    window: Annotated[int, typer.Option(help="Number of steps that a forecast sees.", min=4)] = 4,
    seeds: Annotated[int, typer.Option(help="Number of seeds, trained together.", min=2)] = 10,
    run: ExperimentOptions = ExperimentOptions(Path("runs/series_ablation.jsonl")),
) -> None:
    """The forecaster without edges, with attention and with shorter histories. Chosen on validation steps."""
    from tdegnn.experiments.series_ablation import VARIANT_LINES, summarize_variants, train_variant, variants
    from tdegnn.experiments.series_rows import shown_names
    from tdegnn.experiments.series_tasks import TASKS

    def train(name: str, variant: str) -> None:
        train_variant(name, variant, window, run.out, placement=run.placement, seeds=range(seeds))

    datasets = choose_names(dataset, tuple(TASKS), "dataset")
    run.compute(train, ((name, variant) for name in datasets for variant in variants(name, window)), "variants")
    lines = run.read(VARIANT_LINES, dataset=datasets)
    cells, shown = summarize_variants(lines), shown_names(lines)
    records = [
        {
            "dataset": name,
            "panel": shown[name],
            "window": size,
            "variant": variant,
            "test_mse": cell.mean,
            "worse": cell.worse.text(4),
        }
        for (name, size, variant), cell in cells.items()
    ]
    header = ["dataset", "window", "variant", "test error", "more than the full one (95 % interval)"]
    rows = [
        [shown[name], str(size), variant, f"{cell.mean:.4f}", cell.worse.text(4)]
        for (name, size, variant), cell in cells.items()
    ]
    title = "Forecasting one step ahead, mean squared error, paired over the seeds"
    run.show(records, [(title, header, rows)], f"{len(cells)} rows in {run.out}.")
