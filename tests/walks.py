"""Which modules of the library three walks through it cross: `python -m tests.walks WALK` prints them as JSON.

A module is crossed if one of its functions is called while the walk runs, as `sys.setprofile` sees it. Everything is
imported, and the walk taken once, before counting starts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import tdegnn
from tests.everything import import_everything

SOURCE = Path(tdegnn.__file__).parent
EXAMPLES = Path(__file__).parent.parent / "examples"
Walk = Callable[[], None]


def command(*arguments: str) -> None:
    """Run a command of the command line; it must succeed."""
    from tdegnn.cli import main

    try:
        main([*arguments])
    except SystemExit as end:
        assert end.code == 0, arguments  # noqa: PT017


def csv_to_forecast() -> None:
    """My CSV to a forecast: `tdegnn fit`."""
    tables = [str(EXAMPLES / "cases.csv"), "--edges", str(EXAMPLES / "borders.csv")]
    command("fit", *tables, "--steps", "12", "--out", str(Path(tempfile.mkdtemp()) / "run"))


def graph_to_labels() -> None:
    """My graph to labels: `tdegnn classify`."""
    folder = Path(tempfile.mkdtemp())
    rows = {
        "features": ["node,a,b", *(f"n{node},{node % 7},{node % 3}" for node in range(30))],
        "labels": ["node,label", *(f"n{node},{'even' if node % 2 else 'odd'}" for node in range(30))],
        "edges": ["source,target", *(f"n{node},n{(node + 2) % 30}" for node in range(30))],
    }
    for name, lines in rows.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    options = [word for name in rows for word in (f"--{name}", str(folder / f"{name}.csv"))]
    command("classify", *options, "--steps", "12", "--out", str(folder / "run"))


def one_layer() -> Walk:
    """One layer forward and backward, on a graph of 100 nodes."""
    import torch

    from tdegnn import DiffusionOperator, DirectCoefficients, Graph, integrate

    graph = Graph([list(range(99)), list(range(1, 100))])
    rule, operator = DirectCoefficients(2), DiffusionOperator(4, 1, step_size=0.1)
    history = torch.ones(2, 100, 4, requires_grad=True)
    return lambda: integrate(history, graph, rule, operator, num_layers=1, step_size=0.1).state.sum().backward()


def crossed(walk: Walk) -> list[str]:
    """The modules whose functions a walk calls, as paths below the package."""
    import_everything()
    walk()
    files: set[str] = set()
    sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename) if event == "call" else None)
    try:
        walk()
    finally:
        sys.setprofile(None)
    return sorted(str(Path(file).relative_to(SOURCE)) for file in files if Path(file).is_relative_to(SOURCE))


if __name__ == "__main__":
    walks = {"csv_to_forecast": csv_to_forecast, "graph_to_labels": graph_to_labels, "one_layer": one_layer()}
    found = crossed(walks[sys.argv[1]])
    print("\n" + json.dumps(found))
