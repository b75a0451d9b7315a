"""`tdegnn reproduce coefficients`: the paper's coefficients of the pendulum, analyzed."""

from __future__ import annotations

from pathlib import Path

import typer

from tdegnn.cli.options import AsJson, OutFolder, Quiet
from tdegnn.cli.output import print_json, print_table, vector


def coefficients(out: OutFolder = Path("runs/coefficients"), quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Tables of coefficients and roots, and the figure of consistency, from the numbers in the paper."""
    from tdegnn.experiments.coefficients import analyze_printed_coefficients, save_plots

    printed = analyze_printed_coefficients()
    pictures = save_plots(printed, out)
    if as_json:
        print_json(
            {
                "vectors": [entry.to_record() for entry in printed],
                "pictures": [str(path) for path in pictures],
            }
        )
        return
    if not quiet:
        rows = [
            [
                f"{entry.order}",
                vector(entry.report.coefficients),
                ", ".join(f"{abs(root):.3f}" for root in entry.report.roots),
                ", ".join(f"{modulus:g}" for modulus in entry.printed_moduli),
                f"{entry.report.second_derivative_share:.1%}",
                entry.stability,
            ]
            for entry in printed
        ]
        header = ["order", "printed c", "|roots|", "printed", "y'' on a sine", "verdict"]
        print_table("Coefficients the paper prints for the pendulum", header, rows)
        typer.echo(f"Pictures: {out}/")
        return
    typer.echo("; ".join(f"order {entry.order} {entry.stability}" for entry in printed))
