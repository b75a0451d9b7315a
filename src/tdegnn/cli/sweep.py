"""`tdegnn sweep`: search the settings of a system on a benchmark. Several processes may share a search."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.operator_options import OperatorSettings, operator_option, operator_part
from tdegnn.cli.options import AsJson, Device, DeviceOption, Quiet, Seed, SystemOption
from tdegnn.cli.output import number, print_json, print_table, progress_bar
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.experiments.sweep import SweepResult

FOLDER = Path("runs/sweeps")


class SpaceOption(StrEnum):
    """Which settings are searched."""

    PAPER = "paper"
    WIDE = "wide"
    FAMILIES = "families"


Operator = Annotated[str | None, operator_option("chosen by the sweep")]


def sweep(
    dataset: Annotated[str, typer.Argument(help="Name of a benchmark with nodes to classify.", show_default=False)],
    system: Annotated[SystemOption, typer.Option(help="The system whose settings are searched.")],
    operator: Operator = None,
    operator_setting: OperatorSettings = None,
    trials: Annotated[int, typer.Option(help="Number of trials of the study, including earlier ones.", min=1)] = 64,
    batch: Annotated[int, typer.Option(help="Number of trials that are trained together.", min=1)] = 16,
    storage: Annotated[
        str | None,
        typer.Option(
            help="Where the study is stored: a file, or postgresql://... or sqlite://...",
            show_default=f"{FOLDER}/STUDY.journal",
        ),
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="Name of the study.", show_default="DATASET-SYSTEM-OPERATOR")
    ] = None,
    splits: Annotated[int, typer.Option(help="Number of splits on which a trial is evaluated.", min=1)] = 3,
    steps: Annotated[int, typer.Option(help="Number of optimizer steps per trial.", min=1)] = 300,
    space: Annotated[
        SpaceOption,
        typer.Option(
            help="The paper's ranges; or wider: also layers, features, initial states and maps; or families of "
            "networks, as [bold]tdegnn reproduce best[/bold] searches them: operators, readouts, norms, skips, input "
            "maps, up to 64 layers. A batch has one family, so small batches try more of them."
        ),
    ] = SpaceOption.PAPER,
    finalists: Annotated[int, typer.Option(help="Number of best trials that are trained on all splits.", min=1)] = 4,
    recipe: Annotated[
        Path | None, typer.Option(help="File for the best settings.", show_default=f"{FOLDER}/STUDY.toml")
    ] = None,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search the settings of a system by validation accuracy. Run it again to continue; processes may share a study."""
    from tdegnn.data.benchmarks.load import load_nodes
    from tdegnn.experiments.recipe_files import write_recipe
    from tdegnn.experiments.search_space import SweepSettings
    from tdegnn.experiments.studies import count_finished, open_study
    from tdegnn.experiments.sweep import run_sweep
    from tdegnn.training.devices import choose_placement

    part = operator_part(operator, operator_setting)
    # No file name may have a star on Windows.
    name = study or "-".join([dataset, system.value, *([operator.replace("*", "-star")] if operator else [])])
    if not study and Path(name).name != name:
        raise InputError(f"Expected the name of a benchmark, got {dataset!r}. See: tdegnn data list")
    settings = SweepSettings(system.value, splits, steps, space.value, seed, operator=part)
    placement = choose_placement(device.value)
    nodes = load_nodes(dataset)
    settings.check_splits(nodes)
    with (
        closing(open_study(storage or FOLDER / f"{name}.journal", name, dataset, settings)) as opened,
        progress_bar(trials, f"sweep of {dataset}", is_quiet=quiet or as_json) as tick,
    ):
        for _ in range(min(count_finished(opened), trials)):
            tick()
        result = run_sweep(
            nodes,
            opened,
            settings,
            num_trials=trials,
            batch_size=batch,
            num_finalists=finalists,
            placement=placement,
            on_trial=tick,
        )
    written = None
    if result.finalists:
        written = recipe or FOLDER / f"{name}.toml"
        write_recipe(written, result.finalists[0].config)
    if as_json:
        print_json(_to_record(name, result, written))
        return
    if result.finalists and not quiet:
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
        return (
            f"{name}: {result.num_finished} trials finished, other processes run {result.num_running} more. "
            "The last process to finish reports the result. Or run this command again."
        )
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
