"""Measure speed: `make bench`. Prints a table and writes `benchmarks/latest.json`.

Every number that has a goal is a ratio within this run, from medians of interleaved repetitions: machines are noisy.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import attention_cost, command_line, data_loading, node_training, series_training

MODULES = (attention_cost, command_line, data_loading, node_training, series_training)


@dataclass(frozen=True)
class Line:
    """One measured number; `goal` is the most it may be, where there is one."""

    name: str
    value: float
    unit: str
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met."""
        return None if self.goal is None else self.value <= self.goal


def main() -> None:
    """Run all benchmarks."""
    lines = [Line(*numbers) for module in MODULES for numbers in module.measure()]
    width = max(len(line.name) for line in lines)
    for line in lines:
        verdict = "" if line.goal is None else f"  goal {line.goal:g}  {'met' if line.met else 'MISSED'}"
        print(f"{line.name:<{width}}  {line.value:10.4g} {line.unit:<6}{verdict}")
    latest = Path(__file__).parent / "latest.json"
    latest.write_text(json.dumps([asdict(line) | {"met": line.met} for line in lines], indent=1) + "\n")
    print(f"\nWritten to {latest}")


if __name__ == "__main__":
    main()
