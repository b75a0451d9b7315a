"""`tdegnn update`: continue the training of a forecaster with newer series, and write a new run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import (
    AsJson,
    Decimal,
    Device,
    DeviceOption,
    Encoding,
    Quiet,
    Separator,
    check_given,
    reads_files,
)
from tdegnn.cli.output import print_json, print_notes, progress_stages
from tdegnn.cli.predict_series import check_edges_change, tables_of_training
from tdegnn.cli.series import TableOptions, check_series, read_edges, read_series

NUM_STEPS = 30


@reads_files
def update(
    run: Annotated[Path, typer.Argument(help="Run folder of `tdegnn fit`. It does not change.", readable=False)],
    series: Annotated[
        Path,
        typer.Argument(
            help="The series up to now: those of the training, which may begin later, and the new times after them.",
            readable=False,
            callback=check_series,
        ),
    ],
    edges: Annotated[
        Path | None,
        typer.Option(
            help="Edges with times up to now, if the training had such edges.", readable=False, callback=check_given
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="New run folder.", file_okay=False)] = Path("runs/update"),
    steps: Annotated[int, typer.Option(help="Number of optimizer steps.", min=1)] = NUM_STEPS,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn from newer series too, from the weights of a run on. Scales, window and intervals stay as they are."""
    with progress_stages(is_quiet=quiet or as_json) as show:
        show("starting", 0, None)
        from tdegnn.data.times.times import show_time
        from tdegnn.forecasting.forecaster import Forecaster
        from tdegnn.forecasting.inputs import arrange_nodes
        from tdegnn.runs.run_folder import check_free

        check_free(out, is_saved=True)
        model = Forecaster.load(run)
        data = model.fitted_.config["data"]
        given = TableOptions(edges=edges, separator=separator, decimal=decimal, encoding=encoding)
        tables = tables_of_training(data, given, run)
        show("reading tables", 0, None)
        panel = arrange_nodes(read_series(series, tables.without_graph()), data["nodes"])
        if edges is not None:
            check_edges_change(data, run)
            panel = read_edges(panel, tables)
        before, known = model.fitted_.tail.times[-1], model.notes_
        model.set_params(device=device.value)
        model.update(panel, num_steps=steps, on_progress=lambda moment: show(*moment))
        model.save(out)
    notes = [*panel.notes, *(note for note in model.notes_ if note not in known)]
    num_new, last = int((panel.times > before).sum()), show_time(panel.times[-1])
    if as_json:
        facts = {"run": str(out), "steps": steps, "new_times": num_new, "to": last}
        coefficients = model.coefficients_.mean(axis=0).tolist()
        print_json(facts | {"coefficients": coefficients, "notes": notes})
        return
    if not quiet:
        print_notes(notes)
    times = f"{num_new} new time{'' if num_new == 1 else 's'}"
    typer.echo(
        f"Trained {steps} more step{'' if steps == 1 else 's'} on series with {times}, up to {last}. Run folder: {out}/"
    )
