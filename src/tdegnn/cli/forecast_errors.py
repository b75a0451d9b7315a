"""What `tdegnn fit` and `tdegnn backtest` say of errors: those of the forecaster beside those of naive forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from tdegnn.cli.output import number, print_table, share

# By method: `mse`, `mae` and, where intervals were looked at, `coverage`. None, or NaN, where nothing was observed.
Errors = Mapping[str, Mapping[str, float | None]]
OURS = "forecaster"
# From here on a percentage of what is saved says little.
MANY_TIMES = 10


def print_errors(title: str, errors: Errors) -> None:
    """Print a table with a row for each method."""
    has_coverage = any("coverage" in row for row in errors.values())
    header = ["", "MSE", "MAE"] + (["in the interval"] if has_coverage else [])
    rows = []
    for name, row in errors.items():
        coverage = [share(row["coverage"])] if has_coverage else []
        rows.append([f"the {name}" if name == OURS else name, number(row["mse"]), number(row["mae"]), *coverage])
    print_table(title, header, rows)


def compare_errors(errors: Errors) -> str:
    """Say in one sentence whether the forecaster is better than the best naive forecast."""
    finite = {name: row["mse"] for name, row in errors.items() if row["mse"] is not None and isfinite(row["mse"])}
    own = finite.pop(OURS, None)
    if own is None or not finite:
        return "there is nothing to compare"
    best = min(finite, key=lambda name: finite[name])
    compared = f"{best}: MSE {number(own)}, not {number(finite[best])}"
    if own >= finite[best]:
        return f"the forecaster is no better than {compared}"
    ratio = finite[best] / own if own else float("inf")
    better = f"{1 - own / finite[best]:.0%}" if ratio < MANY_TIMES else f"{ratio:,.0f} times"
    return f"the forecaster is {better} better than {compared}"
