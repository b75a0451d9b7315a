"""`tdegnn sweep`: search settings, of a forecaster on your own series, or of a system on a benchmark of nodes.

Several processes may share a search. `sweep_series.py` and `sweep_nodes.py` run it.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tdegnn.cli.options import AsJson, Device, DeviceOption, Quiet, Seed, SystemOption, reads_files, with_groups
from tdegnn.cli.searched_options import SearchedOptions, SearchOptions
from tdegnn.cli.series import NodeFeaturesFile, TableOptions, check_source
from tdegnn.errors import InputError

# Options of a forecaster that also say something about a system for nodes.
OF_NODES = ("coefficients", "operator", "operator_setting", "steps")


class SpaceOption(StrEnum):
    """Which settings are searched on a benchmark of nodes."""

    PAPER = "paper"
    WIDE = "wide"
    FAMILIES = "families"


def check_searched(source: Path | None) -> Path | None:
    """Raise an `InputError` if there is neither a file nor a benchmark of that name."""
    from tdegnn.data.benchmarks.catalogue import CATALOGUE

    return check_source(source, list(CATALOGUE))


@reads_files
@with_groups
def sweep(
    dataset: Annotated[
        Path,
        typer.Argument(
            help="Your series, as for `tdegnn fit`: CSV or Parquet, with --edges. Or the name of a benchmark, with "
            "series or with nodes to classify, as in `tdegnn data list`.",
            metavar="TABLE|NAME",
            show_default=False,
            readable=False,
            callback=check_searched,
        ),
    ],
    tables: TableOptions,
    search: SearchOptions,
    settings: SearchedOptions,
    node_features: NodeFeaturesFile = None,
    splits: Annotated[
        int | None,
        typer.Option(help="On nodes: number of splits on which a trial is evaluated.", min=1, show_default="3"),
    ] = None,
    space: Annotated[
        SpaceOption | None,
        typer.Option(
            help="On nodes: the paper's ranges; or wider: also layers, features, initial states and maps; or families "
            "of networks, as [bold]tdegnn reproduce best[/bold] searches them: operators, readouts, norms, skips, "
            "input maps, up to 64 layers. A batch has one family, so small batches try more of them.",
            show_default="paper",
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search settings by validation: on your own series, or on a benchmark. Run it again to continue.

    The last fifth of the series chooses nothing: on it the best settings, the default ones and naive forecasts are
    measured. Processes may share a study, on one machine or, with --storage postgresql://..., on several.
    """
    from tdegnn.data.benchmarks.catalogue import CATALOGUE

    shown = {"is_quiet": quiet, "as_json": as_json}
    of_nodes = {"splits": splits, "space": space}
    if dataset.exists() or CATALOGUE[str(dataset)].kind == "series":
        from tdegnn.cli.sweep_series import sweep_series

        _refuse(of_nodes, "series, which have one split and one space")
        sweep_series(dataset, tables, search, settings, node_features, seed, device, **shown)
        return
    from tdegnn.cli.sweep_nodes import sweep_nodes

    of_series = {name: value for name, value in settings.given.items() if name not in OF_NODES}
    _refuse(
        tables.given | {"node_features": node_features} | of_series, f"the benchmark {dataset}, whose nodes have none"
    )
    if settings.coefficients not in tuple(SystemOption):
        raise InputError(
            f"Expected --system for the benchmark {dataset}, one of {', '.join(SystemOption)}, got "
            f"{'none' if settings.coefficients is None else repr(settings.coefficients)}."
        )
    others = {
        "system": settings.coefficients,
        "num_splits": splits or 3,
        "num_steps": settings.steps or 300,
        "space": (space or SpaceOption.PAPER).value,
        "seed": seed,
    }
    sweep_nodes(str(dataset), search, settings, others, device, **shown)


def _refuse(options: dict[str, Any], what: str) -> None:
    """Raise an `InputError` for an option that was given and does not apply."""
    given = next((name for name, value in options.items() if value is not None), None)
    if given is not None:
        raise InputError(f"Expected no --{given.replace('_', '-')} for {what}. Leave it out.")
