"""`tdegnn fit`: train a forecaster on the user's series, or on those of a benchmark, and write a run folder."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.forecaster_options import ForecasterOptions
from tdegnn.cli.log_options import LogTo, make_callbacks
from tdegnn.cli.options import USUAL_RULE, AsJson, Device, DeviceOption, Quiet, Resume, Seed, reads_files, with_groups
from tdegnn.cli.output import (
    compare_errors,
    largest_root,
    print_errors,
    print_json,
    print_notes,
    print_table,
    progress_stages,
    vector,
    watchers,
)
from tdegnn.cli.series import NodeFeaturesFile, SeriesFile, TableOptions, read_features, read_series
from tdegnn.torchrun import read_launch

if TYPE_CHECKING:
    from tdegnn.forecasting.forecaster import Forecaster
    from tdegnn.training.loop import Look


@reads_files
@with_groups
def fit(
    series: SeriesFile,
    tables: TableOptions,
    settings: ForecasterOptions,
    node_features: NodeFeaturesFile = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Run folder: settings, metrics, weights, coefficients.", file_okay=False)
    ] = Path("runs/fit"),
    resume: Resume = False,
    log_to: LogTo = None,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn to forecast series on a graph: your own tables, or a benchmark. Then run `tdegnn predict`.

    Several processes train together: torchrun --nproc-per-node 2 -m tdegnn fit TABLE ...
    """
    settings.check(tables.given | {"node_features": node_features})
    from tdegnn.runs.run_folder import reserved_folder

    is_first = read_launch().is_first
    # Of several processes, the first one writes.
    reserved = reserved_folder(out, resume=resume) if is_first else nullcontext()
    with progress_stages(is_quiet=quiet or as_json or not is_first) as show, reserved:
        show("reading tables", 0, None)
        # Read tables first: importing the forecaster takes seconds.
        panel = read_series(series, tables)
        show("starting", 0, None)
        model = settings.make(seed, device)
        callbacks = make_callbacks(log_to) if log_to else ()
        features = read_features(node_features, panel, tables)
        watched = watchers(show, _describe)
        started = time.monotonic()
        model.fit(
            panel,
            node_features=features,
            run=out,
            resume=resume,
            source=tables.to_source(series, node_features),
            **watched._asdict(),
            callbacks=callbacks,
        )
        seconds = time.monotonic() - started
    if not is_first:
        return
    if as_json:
        print_json(_facts(model, out, seconds))
        return
    if not quiet:
        _print_result(model, settings.coefficients or USUAL_RULE)
        print_notes(model.notes_)
    where = "On held-out steps that chose nothing, " if _chose_nothing(model) else "On held-out steps "
    typer.echo(f"{where}{compare_errors(_errors(model))}. Run folder: {out}/")


def _describe(look: Look) -> str:
    """Return what a validation found."""
    return f"loss {float(look.losses.mean()):.3g}, held out {-float(look.scores.mean()):.3g}"


def _errors(model: Forecaster) -> dict[str, dict[str, float | None]]:
    """Return the held-out errors of the forecaster and of the naive forecasts."""
    facts = model.summary_["held_out"]
    return {name: errors for name, errors in facts.items() if name not in ("steps", "chose_nothing")}


def _chose_nothing(model: Forecaster) -> bool:
    """Return whether errors are those of steps that chose neither window, network nor step."""
    return bool(model.summary_["held_out"]["chose_nothing"])


def _role(model: Forecaster) -> str:
    """Return what the held-out steps chose whose errors are printed."""
    if _chose_nothing(model):
        return "which chose nothing"
    network = model.network_choice_
    chosen = ["window"] if model.window is None else []
    # Without scores it was named, or taken without a trial.
    chosen += ["network"] if network is not None and network.scores else []
    return f"which also chose {', '.join(chosen)} and step" if chosen else "which also chose the step"


def _facts(model: Forecaster, out: Path, seconds: float) -> dict[str, Any]:
    network = model.network_choice_
    return {
        "run": str(out),
        "horizon": model.horizon,
        **model.summary_,
        "settings": model.to_record(),
        "network": None if network is None else network.to_record(),
        "planned_steps": model.planned_steps_,
        "seconds": seconds,
        "coefficients": model.coefficients_.mean(axis=0).tolist(),
        "verdict": model.explain().verdict,
    }


def _print_result(model: Forecaster, rule: str) -> None:
    summary = model.summary_
    held_out = f"{summary['held_out']['steps']} held-out forecasts of {model.horizon} steps"
    print_errors(f"Errors of {held_out}, {_role(model)}", _errors(model))
    facts = [
        ["window", str(summary["window"])],
        ["order", str(model.order_)],
        ["best step", str(summary["best_step"])],
        ["c (mean over layers)", vector(model.coefficients_.mean(axis=0).tolist())],
        ["largest root", largest_root(model.explain())],
    ]
    intervals = summary.get("intervals")
    if intervals is not None:
        coverage = intervals["coverage"]
        held = "" if coverage is None else f"; {100 * coverage['reached']:.0f} % of the last held-out steps are in them"
        facts.append(["intervals", intervals["method"] + held])
    if model.states == "physical":
        facts.append(["what c says", model.explain().verdict])
    print_table(rule, ["", "value"], facts)
