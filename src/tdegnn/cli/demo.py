"""`tdegnn demo`: watch TDE-GNN find that a pendulum is of second order, and once more under noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tdegnn.cli.options import AsJson, Device, DeviceOption, OutFolder, Quiet, Seed
from tdegnn.cli.output import print_json
from tdegnn.cli.reproduce.pendulum import (
    Trained,
    notes_on_orders,
    print_tables,
    table_of_models,
    table_of_orders,
    train_pendulum,
)

if TYPE_CHECKING:
    from tdegnn.experiments.noisy_pendulum import NoisyPendulum

TITLE = "Which order has a pendulum?"
INTRODUCTION = (
    "A pendulum swings. Each model sees its last angles and predicts the next one. Each learns from the first 600 of "
    "1,000\nangles, is chosen by the next 200 and judged by the last 200. All are trained alike: 100 iterations, with "
    "every weight\nthat can be solved in closed form solved (tdegnn reproduce pendulum --optimizer adam is the paper's "
    "way).\n"
)


def demo(
    out: OutFolder = Path("tdegnn-demo"),
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Watch TDE-GNN find that a pendulum is of second order (less than a minute)."""
    from tdegnn.analysis.plots import save_figure
    from tdegnn.experiments.noisy_pendulum import observe_with_noise
    from tdegnn.experiments.pendulum import Effort, make_pendulum
    from tdegnn.experiments.pendulum_plots import plot_noisy
    from tdegnn.training.devices import choose_device

    if not (quiet or as_json):
        typer.echo(INTRODUCTION)
    data = make_pendulum(device=choose_device(device.value))
    trained = train_pendulum(data, Effort.projected(), seed, out, is_quiet=quiet or as_json)
    noisy = observe_with_noise(data, seed)
    picture = save_figure(plot_noisy(noisy, data.simulation.step_size), out / "noisy.png")
    page = _write_page(out / "index.html", trained, noisy, picture)
    if as_json:
        content = trained.to_dict()
        content["pictures"].append(str(picture))
        print_json(content | {"noisy": noisy.found.to_dict(), "page": str(page)})
        return
    if not quiet:
        print_tables(trained.result)
    typer.echo(f"{trained.result.verdict()}\n")
    typer.echo(f"{noisy.verdict()}\n")
    typer.echo(f"Open this page in a browser: {page.resolve()}")


def _write_page(path: Path, trained: Trained, noisy: NoisyPendulum, noisy_picture: Path) -> Path:
    from tdegnn.experiments.demo_page import PagePicture, PageSection, PageTable, write_page

    prediction, order, roots, consistency = trained.pictures
    models, orders = (
        PageTable(*table[1:]) for table in (table_of_models(trained.result), table_of_orders(trained.result))
    )
    sections = [
        PageSection(
            "The order",
            trained.result.verdict(),
            [
                PagePicture(
                    order, "The smallest history that explains its differences is the order. Right: the learned c."
                ),
                orders,
            ],
        ),
        PageSection(
            "Who can predict it?",
            "A model that sees one angle cannot know which way the pendulum swings. With two angles it can.",
            [
                PagePicture(
                    prediction, "From the first test step on, each model sees nothing but its own predictions."
                ),
                models,
            ],
        ),
        PageSection(
            "And with noise?",
            noisy.verdict(),
            [PagePicture(noisy_picture, "The order is found from the orange dots alone (tdegnn order).")],
        ),
        PageSection(
            "What the learned coefficients say",
            " ".join(notes_on_orders(trained.result)) or "All orders agree.",
            [
                PagePicture(roots, "The roots of c. All of them lie in the unit disc if the recursion is stable."),
                PagePicture(consistency, "c applied to one period of a sine: how much of it is a second derivative?"),
            ],
        ),
    ]
    footer = (
        "Made by tdegnn demo. On your own series: tdegnn order SERIES.csv finds the order, tdegnn fit SERIES.csv "
        "learns to forecast. All numbers are of steps that no model was trained on; pendulum.jsonl, next to this page, "
        "holds them."
    )
    return write_page(path, TITLE, sections, footer)
