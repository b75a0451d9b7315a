"""`tdegnn fit`: train a forecaster on the user's series, or on those of a benchmark, and keep the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.forecast_errors import compare_errors, print_errors
from tdegnn.cli.forecaster_options import ForecasterOptions, threads_for
from tdegnn.cli.option_groups import with_groups
from tdegnn.cli.options import AsJson, Device, DeviceOption, Quiet, Resume, Seed, SeriesFile
from tdegnn.cli.output import number, print_json, print_notes, print_table, progress_bar, vector
from tdegnn.cli.series import TableOptions, in_options, read_series

if TYPE_CHECKING:
    from tdegnn.estimators.forecaster import Forecaster
    from tdegnn.training.fit import Look


@with_groups
def fit(
    series: SeriesFile,
    tables: TableOptions,
    settings: ForecasterOptions,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Run folder: settings, metrics, weights, coefficients.", file_okay=False)
    ] = Path("runs/fit"),
    resume: Resume = False,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn to forecast series on a graph: your own tables, or a benchmark. Then: tdegnn predict."""
    panel = read_series(series, tables)
    model = settings.make(seed, device)
    num_looks = -(-settings.steps // model.validate_every)
    bar = progress_bar(num_looks, "training", is_quiet=quiet or as_json)
    with bar as tick, in_options(), threads_for(panel):

        def show(look: Look) -> None:
            tick(f"loss {float(look.losses.mean()):.3f}, held out {-float(look.scores.mean()):.3f}")

        model.fit(panel, run=out, resume=resume, source=tables.to_source(series), on_look=show)
    if as_json:
        print_json(_facts(model, out))
        return
    if not quiet:
        _print_result(model)
        print_notes(model.notes_)
    typer.echo(f"On held-out steps {compare_errors(_errors(model))}. Run folder: {out}/")


def _errors(model: Forecaster) -> dict[str, dict[str, float | None]]:
    """Held-out errors of the forecaster and of the naive forecasts."""
    return {name: errors for name, errors in model.summary_["held_out"].items() if name != "steps"}


def _facts(model: Forecaster, out: Path) -> dict[str, Any]:
    return {
        "run": str(out),
        "horizon": model.horizon,
        **model.summary_,
        "coefficients": model.coefficients_.mean(axis=0).tolist(),
        "verdict": model.explain().verdict,
    }


def _print_result(model: Forecaster) -> None:
    summary = model.summary_
    title = f"Errors of {summary['held_out']['steps']} held-out forecasts of {model.horizon} steps"
    print_errors(title, _errors(model))
    facts = [
        ["window", str(summary["window"])],
        ["best step", str(summary["best_step"])],
        ["c (mean over layers)", vector(model.coefficients_.mean(axis=0).tolist())],
        ["largest root", number(model.explain().max_root_modulus)],
    ]
    print_table(model.system, ["", "value"], facts)
