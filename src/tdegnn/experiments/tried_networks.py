"""From which usual networks a result line of `Forecaster()` was chosen: its notes list them, with their losses.

What a forecaster does without a word changes with the list of usual networks, while its settings stay the same. So a
line that was chosen from other networks than today's does not count as done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tdegnn.forecasting.usual_networks import USUAL_NETWORKS, tried_in


def is_chosen_today(line: Mapping[str, Any]) -> bool:
    """Return whether the notes of a line list the networks that are tried today: on edges, with several nodes."""
    return _kinds(tried_in(line["notes"])) == _kinds(USUAL_NETWORKS)


def is_outdated(line: Mapping[str, Any]) -> bool:
    """Return whether a line was chosen from other networks than today's. If nothing was tried, it was not."""
    return bool(tried_in(line.get("notes", []))) and not is_chosen_today(line)


def newest_by_seed(lines: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the last line of each seed: a seed that was outdated is run again."""
    return list({line["seed"]: line for line in lines}.values())


def _kinds(names: Iterable[str]) -> set[str]:
    """Return names without the two of networks without vectors of nodes: only the better one of them is tried."""
    return {"unnamed" if name.endswith("-unnamed") else name for name in names}
