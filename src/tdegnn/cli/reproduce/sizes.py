"""`tdegnn reproduce sizes`: held-out losses of forecasters of other sizes than the usual one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions


@with_groups
def sizes(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="Name of a series. Can be repeated. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds.", min=1)] = 2,
    run: ExperimentOptions = ExperimentOptions(Path("runs/sizes.jsonl")),
) -> None:
    """Held-out losses of forecasters with other channels and layers: would a choice of size help?"""
    from tdegnn.experiments.sizes import HORIZONS, SIZE_LINES, SIZES, summarize_sizes, try_size

    datasets = choose_names(dataset, tuple(HORIZONS), "dataset")
    asked = (
        (name, size, seed, run.out, run.device.value) for name in datasets for seed in range(seeds) for size in SIZES
    )
    run.compute(try_size, asked, "sizes")
    cells = summarize_sizes(run.read(SIZE_LINES, dataset=datasets))
    records = [
        {"dataset": name, "size": size, "losses": list(cell.losses.values()), "percent": cell.percent}
        for (name, size), cell in cells.items()
    ]
    rows = [
        [name, size, f"{cell.percent:+.1f} %", f"{cell.seconds:.0f} s", str(len(cell.losses))]
        for (name, size), cell in cells.items()
    ]
    header = ["dataset", "size", "loss over that of the usual size", "time", "seeds"]
    run.show(records, [("Held-out losses by size", header, rows)], f"{len(rows)} cells in {run.out}.")
