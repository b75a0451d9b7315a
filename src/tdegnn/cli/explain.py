"""`tdegnn explain`: the meaning of a vector of coefficients, given or learned in a training."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE, LOOSE_TOLERANCE
from tdegnn.cli.options import AsJson, Quiet
from tdegnn.cli.output import print_json
from tdegnn.errors import InputError, list_some, shorten


def explain(
    coefficients: Annotated[
        str,
        typer.Argument(
            help="The vector c, newest state first, for example [bold]1.4,0.2,-0.6[/bold]; or a run folder."
        ),
    ],
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="How far outside the unit disc a root may lie, and up to which size a D_j counts as zero.",
            show_default=f"{DEFAULT_TOLERANCE:g}, for runs on physical states {LOOSE_TOLERANCE:g}",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for pictures of roots, stability region and consistency.", file_okay=False
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Explain temporal coefficients, given or learned in a run: their order, their roots, whether they are stable."""
    states = order_found = None
    # Not `Path.is_dir`, which raises an error for a vector that is too long for the name of a file.
    if os.path.isdir(coefficients):  # noqa: PTH112
        vector, states, order_found = _read_run(Path(coefficients))
    else:
        vector = _parse(coefficients)
    from tdegnn.analysis.report import explain as analyze

    usual = LOOSE_TOLERANCE if states == "physical" else DEFAULT_TOLERANCE
    report = replace(analyze(vector, usual if tolerance is None else tolerance), states=states)
    if out is not None:
        from tdegnn.analysis.plots import plot_consistency, plot_roots, plot_stability_regions, save_figure

        name = f"c = {list_some([f'{weight:.4g}' for weight in report.coefficients])}"
        save_figure(plot_roots({"c": report}), out / "roots.png")
        save_figure(plot_stability_regions({name: report.coefficients}, tolerance=report.tolerance), out / "region.png")
        save_figure(plot_consistency({name: report.coefficients}), out / "consistency.png")
    if as_json:
        print_json(report.to_dict() | {"order_found": order_found})
        return
    typer.echo(report.verdict if quiet else str(report))
    if order_found and not quiet:
        typer.echo(f"{'order':<18} {order_found}")
    if out is not None and not quiet:
        typer.echo(f"{'pictures':<18} {out}/")


def _read_run(path: Path) -> tuple[list[float], str, str | None]:
    """Return the mean of the learned coefficients over layers, the kind of states, and how the order was found."""
    from tdegnn.runs.run_folder import CONFIG, RunFolder
    from tdegnn.runs.schema import ExplainedConfig, checked

    run = RunFolder.open(path)
    config = checked(ExplainedConfig, run.config, path / CONFIG)
    coefficients = run.read_coefficients()["coefficients"]
    order_found = None if config.chosen_order is None else config.chosen_order.reason
    # Embedded windows are latent states too.
    states = "physical" if config.settings.states == "physical" else "latent"
    return [float(weight) for weight in coefficients.mean(axis=0)], states, order_found


def _parse(text: str) -> list[float]:
    try:
        return [float(weight) for weight in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"Expected numbers separated by commas, as in 1.4,0.2,-0.6, or a run folder, got {shorten(repr(text))}."
        ) from error
