"""Measure speed: `make bench`. Prints a table and writes `benchmarks/latest.json`.

Contestants are compared by ratios within this run, from medians of interleaved repetitions, because machines are noisy.
`python -m benchmarks series_training node_training` runs only these two benchmarks.
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
    "attention_cost",
    "command_line",
    "data_loading",
    "graph_assembly",
    "killed_fit",
    "large_graphs",
    "large_panels",
    "node_training",
    "operators",
    "processes",
    "recorded_step",
    "series_training",
)


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
    """Run the named benchmarks, print their table and write `latest.json`."""
    modules = [importlib.import_module(f"benchmarks.{name}") for name in names]
    lines = [Line(*numbers) for module in modules for numbers in module.measure()]
    width = max(len(line.name) for line in lines)
    for line in lines:
        verdict = "" if line.goal is None else f"  goal {line.goal:g}  {'met' if line.met else 'MISSED'}"
        print(f"{line.name:<{width}}  {line.value:10.4g} {line.unit:<6}{verdict}")
    latest = Path(__file__).parent / "latest.json"
    environment = describe_environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    measured = environment | {"lines": [asdict(line) | {"met": line.met} for line in lines]}
    latest.write_text(json.dumps(measured, indent=1) + "\n")
    print(f"\nWritten to {latest}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"Among {', '.join(MODULES)}. Default: all.")
    chosen = parser.parse_args().names
    if unknown := set(chosen).difference(MODULES):
        parser.error(f"Expected names among {', '.join(MODULES)}, got {', '.join(sorted(unknown))}.")
    main(chosen or MODULES)
