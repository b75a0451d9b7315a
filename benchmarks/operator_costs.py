"""What the steps of operators cost, as a sum over what they do: fitted to measured times of all of them.

`time = sum of cost x amount` over `AMOUNTS`, with no cost below zero, by least squares of the relative errors. The
counts are those of `operator_work.py`. Where the sum is close to the measured time, its largest part bounds the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from benchmarks.operator_work import DENSE, INDEXED, KINDS, OTHER, SPARSE, Work

EVERY = "every operation"
BYTES = "bytes"
ARITHMETIC = f"arithmetic of {DENSE}"
# What is paid for, by its name. Products with the graph and operations by index are paid for as every operation, too.
AMOUNTS: dict[str, Callable[[Mapping[str, Work]], float]] = {
    EVERY: lambda work: sum(work[kind].operations for kind in KINDS),
    BYTES: lambda work: (work[DENSE].num_bytes + work[OTHER].num_bytes) / 1e6,
    ARITHMETIC: lambda work: work[DENSE].arithmetic / 1e9,
    SPARSE: lambda work: work[SPARSE].operations,
    INDEXED: lambda work: work[INDEXED].operations,
}
UNITS = {EVERY: "operation", BYTES: "MB", ARITHMETIC: "GFLOP", SPARSE: "product", INDEXED: "operation"}


@dataclass(frozen=True)
class Costs:
    """The cost of each amount.

    Attributes:
        each: Time per unit, by the name of what is paid for.
    """

    each: Mapping[str, float]

    @classmethod
    def fit(cls, times: Sequence[float], works: Sequence[Mapping[str, Work]]) -> Costs:
        """Fit costs to the times of steps."""
        amounts = np.array([[amount(work) for amount in AMOUNTS.values()] for work in works], dtype=float)
        costs, _ = scipy.optimize.nnls(amounts / np.array(times)[:, None], np.ones(len(times)))
        return cls(dict(zip(AMOUNTS, costs.tolist(), strict=True)))

    def parts(self, work: Mapping[str, Work]) -> dict[str, float]:
        """Return the time of each part of a step. Their sum is the time that the costs predict."""
        return {name: self.each[name] * amount(work) for name, amount in AMOUNTS.items()}
