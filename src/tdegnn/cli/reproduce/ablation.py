"""`tdegnn reproduce ablation`: accuracy of TDE-GNN by order, as a table and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tdegnn.cli.options import AsJson, Device, DeviceOption, Picture, Quiet, Report, ResultLines, Seed, check_report
from tdegnn.cli.output import print_json, print_table, progress_bar


def ablation(
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", help="Name of a dataset. Can be repeated. Default: Cora and Squirrel."),
    ] = None,
    out: ResultLines = Path("runs/ablation.jsonl"),
    picture: Picture = None,
    report: Report = False,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Figure of orders: test accuracy of both learned rules on ten splits, for orders 1 to 8."""
    from tdegnn.analysis.plots import save_figure
    from tdegnn.experiments.ablation import DATASETS, ablation_configs, plot_orders, summarize_orders
    from tdegnn.experiments.node_results import NODE_LINES, paired_gain, train_row
    from tdegnn.experiments.records import read_lines
    from tdegnn.training.devices import choose_placement

    check_report(report, out)
    datasets = list(dict.fromkeys(dataset or DATASETS))
    configs = [(name, config) for name in datasets for config in ablation_configs(name)]
    if not report:
        placement = choose_placement(device.value)
        with progress_bar(len(configs), "orders", is_quiet=quiet or as_json) as tick:
            for name, config in configs:
                train_row(name, config, out, placement=placement, seed=seed)
                tick(f"{name} {config.system} {config.order}")
    cells = summarize_orders(read_lines(out, NODE_LINES, dataset=datasets))
    drawn = save_figure(plot_orders(cells), picture or out.with_suffix(".png"))
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
    if as_json:
        print_json({"orders": records, "picture": str(drawn)})
        return
    if not quiet:
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
        print_table("Accuracy by order, mean over 10 splits, paired over the splits", header, rows)
    typer.echo(f"{len(records)} rows of 10 splits in {out}, figure in {drawn}.")
