"""`tdegnn reproduce ablation`: accuracy of TDE-GNN by order, as a table and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tdegnn.cli.options import Picture, Seed, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions


@with_groups
def ablation(
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", help="Name of a dataset. Can be repeated. Default: Cora and Squirrel."),
    ] = None,
    run: ExperimentOptions = ExperimentOptions(Path("runs/ablation.jsonl")),
    picture: Picture = None,
    seed: Seed = 0,
) -> None:
    """Figure of orders: test accuracy of both learned rules on ten splits, for orders 1 to 8."""
    from tdegnn.analysis.plots import save_figure
    from tdegnn.experiments.ablation import DATASETS, ablation_configs, plot_orders, summarize_orders
    from tdegnn.experiments.node_results import NODE_LINES, paired_gain, train_row

    datasets = list(dict.fromkeys(dataset or DATASETS))
    run.compute(
        lambda name, config: train_row(name, config, run.out, placement=run.placement, seed=seed),
        [(name, config) for name in datasets for config in ablation_configs(name)],
        "orders",
        lambda name, config: f"{name} {config.system} {config.order}",
    )
    cells = summarize_orders(run.read(NODE_LINES, dataset=datasets))
    drawn = save_figure(plot_orders(cells), picture or run.out.with_suffix(".png"))
    records: list[dict[str, Any]] = [
        {
            "dataset": name,
            "system": system,
            "order": order,
            "test_accuracy": cell.mean,
            "deviation": cell.deviation,
            "over_order_1": str(paired_gain(cell, by_order[1])) if order > 1 and 1 in by_order else None,
        }
        for (name, system), by_order in cells.items()
        for order, cell in by_order.items()
    ]
    rows = [
        [
            record["dataset"],
            record["system"],
            str(record["order"]),
            f"{record['test_accuracy']:.2f} ± {record['deviation']:.2f}",
            record["over_order_1"] or "-",
        ]
        for record in records
    ]
    header = ["dataset", "system", "order", "test accuracy", "points over order 1 (95 % interval)"]
    run.show(
        {"orders": records, "picture": str(drawn)},
        [("Accuracy by order, mean over 10 splits, paired over the splits", header, rows)],
        f"{len(records)} rows of 10 splits in {run.out}, figure in {drawn}.",
    )
