"""Measure speed: `make bench`. Prints a table and writes `benchmarks/latest.json`.

Contestants are compared by ratios within this run, from medians of interleaved repetitions, because machines are noisy.
`python -m benchmarks series_training node_training` runs only these two, and `killed_fit.large` a part of a benchmark.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from tdegnn.experiments.records import describe_environment

MODULES = (
    "against_pyg",
    "attention_cost",
    "command_line",
    "data_loading",
    "deep_networks",
    "graph_assembly",
    "killed_fit",
    "large_graphs",
    "large_panels",
    "node_training",
    "operators",
    "processes",
    "recorded_step",
    "roofline",
    "series_training",
    "small_steps",
    "time_budget",
)
# Parts of benchmarks that can be run alone: `NAME.PART` is the function `measure_PART`.
PARTS = (
    "killed_fit.large",
    "killed_fit.small",
    "node_training.many",
    "operators.kernels",
    "operators.memory",
    "operators.profile",
    "operators.work",
)
# Columns of a name. Lines are printed as they are measured, when the longest name is not known yet.
WIDTH = 80


@dataclass(frozen=True)
class Line:
    """One measured number. `goal` is its upper limit, or `None` if it has no goal."""

    name: str
    value: float
    unit: str
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met. `None` if there is no goal."""
        return None if self.goal is None else self.value <= self.goal


def main(names: Sequence[str]) -> None:
    """Run the named benchmarks, print each line as it is measured, and write `latest.json`."""
    lines: list[Line] = []
    for name in names:
        module_name, _, part = name.partition(".")
        module = importlib.import_module(f"benchmarks.{module_name}")
        for numbers in getattr(module, f"measure_{part}" if part else "measure")():
            lines.append(Line(*numbers))
            _print(lines[-1])
    latest = Path(__file__).parent / "latest.json"
    environment = describe_environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    measured = environment | {"lines": [asdict(line) | {"met": line.met} for line in lines]}
    latest.write_text(json.dumps(measured, indent=1) + "\n")
    print(f"\nWritten to {latest}")


def _print(line: Line) -> None:
    verdict = "" if line.goal is None else f"  goal {line.goal:g}  {'met' if line.met else 'MISSED'}"
    # At once: a benchmark may take an hour, and its output may go to a file.
    print(f"{line.name:<{WIDTH}}  {line.value:10.4g} {line.unit:<6}{verdict}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"Among {', '.join(MODULES + PARTS)}. Default: all.")
    chosen = parser.parse_args().names
    if unknown := set(chosen).difference(MODULES, PARTS):
        parser.error(f"Expected names among {', '.join(MODULES + PARTS)}, got {', '.join(sorted(unknown))}.")
    main(chosen or MODULES)
