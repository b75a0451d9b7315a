"""Time contestants in turns, so that noise affects all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved_medians(
    contestants: Mapping[str, Callable[[], object]], repetitions: int, warm_up: int = 5
) -> dict[str, float]:
    """Return the median time of each contestant, in seconds."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for repetition in range(warm_up + repetitions):
        for name, run in contestants.items():
            started = time.perf_counter()
            run()
            if repetition >= warm_up:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}
