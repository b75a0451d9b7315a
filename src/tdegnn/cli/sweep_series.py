"""The search of `tdegnn sweep` on series: the best settings of a forecaster, and the command that trains with them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tdegnn.cli.options import DeviceOption
from tdegnn.cli.output import OURS, number, print_json, print_notes, print_table, progress_stages, share
from tdegnn.cli.searched_options import SearchedOptions, SearchOptions, as_options, not_finished, words_of
from tdegnn.cli.series import TableOptions, read_features, read_series
from tdegnn.torchrun import read_launch

if TYPE_CHECKING:
    from tdegnn.experiments.forecaster_sweep import SeriesFinalist, SeriesSweepResult, SeriesTest

# The section of a recipe that holds the settings.
SECTION = "Forecaster"
# Names of settings in a table that should not be wider than a terminal.
SHORT = {
    "coefficients": "c",
    "num_layers": "L",
    "hidden_channels": "k",
    "identity_channels": "identity",
    "learning_rate": "rate",
}


def sweep_series(
    series: Path,
    tables: TableOptions,
    search: SearchOptions,
    settings: SearchedOptions,
    node_features: Path | None,
    seed: int,
    device: DeviceOption,
    *,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Search the settings of a forecaster by its loss on held-out steps, measure the best ones, and print them.

    Args:
        series: Your table, or the name of a benchmark.
        tables: How to read it, and the graph.
        search: How long the search is, and where it is kept.
        settings: Settings that are not searched.
        node_features: Table of features of the nodes, if any.
        seed: Seed of everything random.
        device: Where to compute.
        is_quiet: Whether to print only the verdict.
        as_json: Whether to print the result as JSON.
    """
    settings.check_parts()
    launch = read_launch()
    with progress_stages(is_quiet=is_quiet or as_json or not launch.is_first) as show:
        show("reading tables", 0, None)
        panel = read_series(series, tables)
        show("starting", 0, None)
        from tdegnn.experiments.forecaster_space import ForecasterSweepSettings, describe_series
        from tdegnn.experiments.forecaster_sweep import run_forecaster_sweep
        from tdegnn.experiments.recipe_files import write_sections
        from tdegnn.experiments.studies import open_study
        from tdegnn.training.processes import each_alone

        features = read_features(node_features, panel, tables)
        steps = {} if settings.steps is None else {"num_steps": settings.steps}
        searched = ForecasterSweepSettings(settings.arguments(), seed=seed, **steps)
        name = search.name_of(series.stem, settings)
        data = describe_series(panel, features)
        with each_alone(), closing(open_study(search.place_of(name), name, data, searched)) as opened:
            result = run_forecaster_sweep(
                panel,
                opened,
                searched,
                features,
                **search.for_process(launch),
                device=device.value,
                on_progress=lambda progress: show(*progress),
            )
    if not launch.is_first:
        return
    written, command = None, None
    if result.finalists:
        best = result.finalists[0]
        written = search.recipe_of(name)
        write_sections(written, {SECTION: best.to_record()["settings"] | {"seed": seed}})
        command = _command(best, series, tables, settings, node_features, seed)
    if as_json:
        print_json(_to_record(name, result, written, command) | {"notes": list(panel.notes)})
        return
    if result.test is None:
        typer.echo(not_finished(name, result.num_finished, result.num_running))
        return
    if not is_quiet:
        _print_finalists(result, searched.fixed)
        _print_test(result.test)
        print_notes(panel.notes)
    typer.echo(_verdict(name, result, result.test, written))
    typer.echo(command)


def _command(
    best: SeriesFinalist,
    series: Path,
    tables: TableOptions,
    settings: SearchedOptions,
    node_features: Path | None,
    seed: int,
) -> str:
    """Return the command that trains with the best settings."""
    drawn = {name: value for name, value in as_options(best.settings).items() if value is not None}
    given = settings.given
    # What was given is written as it was; a system, for example, is a rule for c.
    options = {name: value for name, value in drawn.items() if name not in {*given, "system"}} | given
    files = {} if node_features is None else {"node_features": node_features}
    words = words_of(tables.given | files | options | ({"seed": seed} if seed else {}))
    return shlex.join(["tdegnn", "fit", str(series), *words])


def _to_record(name: str, result: SeriesSweepResult, written: Path | None, command: str | None) -> dict[str, Any]:
    return {
        "study": name,
        "num_finished": result.num_finished,
        "num_running": result.num_running,
        "finalists": [finalist.to_record() for finalist in result.finalists],
        "test": None if result.test is None else vars(result.test),
        "command": command,
        "recipe": None if written is None else str(written),
    }


def _print_finalists(result: SeriesSweepResult, fixed: Mapping[str, Any]) -> None:
    drawn = (name for finalist in result.finalists for name in finalist.settings if name not in fixed)
    names = list(dict.fromkeys(drawn))
    rows = []
    for finalist in result.finalists:
        values = [str(finalist.settings.get(name, "-")) for name in names]
        rows.append([_label(finalist), number(finalist.loss), *values])
    title = "Best settings, chosen by the loss on held-out steps before the test part"
    print_table(title, ["trial", "loss", *(SHORT.get(name, name.replace("_", " ")) for name in names)], rows)


def _print_test(test: SeriesTest) -> None:
    rows = []
    for name, errors in test.means.items():
        shown = [number(errors[error]) for error in ("mae", "rmse", "mase")]
        difference = test.differences.get(name, {}).get("mae")
        rows.append([_method(name), *shown, share(errors["coverage"]), _interval(difference)])
    title = f"Errors of forecasts of {test.horizon} steps from {test.num_origins} origins, which chose nothing"
    print_table(title, ["", "MAE", "RMSE", "MASE", "in the interval", "MAE minus the best's (95 %)"], rows)


def _interval(difference: dict[str, float | None] | None) -> str:
    if difference is None or difference["difference"] is None:
        return "-"
    if difference["low"] is None:
        return f"{difference['difference']:+.3g}"
    return f"{difference['difference']:+.3g} ({difference['low']:+.3g} to {difference['high']:+.3g})"


def _label(finalist: SeriesFinalist) -> str:
    return "the default" if finalist.trial is None else str(finalist.trial)


def _method(name: str) -> str:
    return {OURS: "the best settings", "default settings": "the default settings"}.get(name, name)


def _verdict(name: str, result: SeriesSweepResult, test: SeriesTest, written: Path | None) -> str:
    best = result.finalists[0]
    maes = ", ".join(f"{_method(method)} {number(errors['mae'])}" for method, errors in test.means.items())
    chosen = (
        f"none of {result.num_finished} trials is better than the default settings"
        if best.trial is None
        else f"the best of {result.num_finished} trials is {best.trial}"
    )
    return (
        f"{name}: {chosen}, with a loss of {number(best.loss)} on held-out steps. MAE on the test part, which chose "
        f"nothing: {maes}. Recipe: {written}. Train with:"
    )
