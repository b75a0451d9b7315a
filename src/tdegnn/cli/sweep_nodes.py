"""The search of `tdegnn sweep` on a benchmark of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tdegnn.cli.operator_options import operator_part
from tdegnn.cli.options import DeviceOption
from tdegnn.cli.output import number, print_json, print_table, progress_bar
from tdegnn.cli.searched_options import SearchedOptions, SearchOptions, not_finished
from tdegnn.torchrun import read_launch

if TYPE_CHECKING:
    from tdegnn.experiments.sweep import SweepResult


def sweep_nodes(
    dataset: str,
    search: SearchOptions,
    settings: SearchedOptions,
    others: Mapping[str, Any],
    device: DeviceOption,
    *,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Search the settings of a system by validation accuracy, and print the best.

    Args:
        dataset: Name of a benchmark of nodes.
        search: How long the search is, and where it is kept.
        settings: The operator and its settings, if given, and the system, for the name of the study.
        others: The other arguments of `SweepSettings`.
        device: Where to compute.
        is_quiet: Whether to print only the verdict.
        as_json: Whether to print the result as JSON.
    """
    from tdegnn.data.benchmarks.load import load_nodes
    from tdegnn.experiments.recipe_files import write_recipe
    from tdegnn.experiments.search_space import SweepSettings
    from tdegnn.experiments.studies import count_finished, open_study
    from tdegnn.experiments.sweep import run_sweep
    from tdegnn.training.devices import choose_placement
    from tdegnn.training.processes import each_alone

    launch = read_launch()
    part = operator_part(settings.operator, settings.operator_setting)
    name = search.name_of(dataset, settings)
    searched = SweepSettings(operator=part, **others)
    placement = choose_placement(device.value)
    nodes = load_nodes(dataset)
    searched.check_splits(nodes)
    with (
        each_alone(),
        closing(open_study(search.place_of(name), name, dataset, searched)) as opened,
        progress_bar(search.trials, f"sweep of {dataset}", is_quiet=is_quiet or as_json or not launch.is_first) as tick,
    ):
        for _ in range(min(count_finished(opened), search.trials)):
            tick()
        result = run_sweep(
            nodes,
            opened,
            searched,
            **search.for_process(launch),
            placement=placement,
            on_trial=tick,
        )
    if not launch.is_first:
        return
    written = None
    if result.finalists:
        written = search.recipe_of(name)
        write_recipe(written, result.finalists[0].config)
    if as_json:
        print_json(_to_record(name, result, written))
        return
    if result.finalists and not is_quiet:
        _print_finalists(dataset, result)
    typer.echo(_verdict(name, result, written))


def _to_record(name: str, result: SweepResult, written: Path | None) -> dict[str, Any]:
    return {
        "study": name,
        "num_finished": result.num_finished,
        "num_running": result.num_running,
        "finalists": [finalist.to_record() for finalist in result.finalists],
        "recipe": None if written is None else str(written),
    }


def _verdict(name: str, result: SweepResult, written: Path | None) -> str:
    if not result.finalists:
        return not_finished(name, result.num_finished, result.num_running)
    best = result.finalists[0]
    return (
        f"{name}: the best of {result.num_finished} trials is {best.trial}, with {best.validation_accuracy:.2%} on "
        f"validation and {best.test_accuracy:.2%} on test, over {len(best.test_accuracies)} splits. Recipe: {written}"
    )


def _print_finalists(dataset: str, result: SweepResult) -> None:
    rows = []
    for finalist in result.finalists:
        config = finalist.config
        rows.append(
            [
                str(finalist.trial),
                f"{finalist.validation_accuracy:.2%}",
                f"{finalist.test_accuracy:.2%}",
                str(config.hidden_channels),
                str(config.num_layers),
                str(config.operator),
                *map(number, (config.step_size, config.outer_dropout, config.hidden_dropout)),
                *map(number, (group.learning_rate for group in (config.embedding, config.temporal, config.spatial))),
            ]
        )
    header = ["trial", "validation", "test", "k", "L", "operator", "h", "outer dropout", "hidden dropout"]
    header += ["rate, embedding", "temporal", "spatial"]
    print_table(f"Best settings on {dataset}, chosen by validation, on all splits", header, rows)
