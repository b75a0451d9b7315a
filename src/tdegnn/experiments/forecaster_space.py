"""The search space of a sweep on series: settings of a `Forecaster` that trials draw, unless the user fixes them.

The loss is not searched: it says what a good forecast is, and so compares the trials. The window is not searched
either: a forecaster chooses it on the same held-out steps, in no time. Settings that the command line has no option for
are left as they are, so that a command can train the best ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tdegnn.data.panel import Panel
from tdegnn.data.tables.node_features import NodeFeatures
from tdegnn.errors import InputError, check_count
from tdegnn.experiments.drawn_configs import Range
from tdegnn.forecasting.fitted import describe_data
from tdegnn.forecasting.forecaster import Forecaster

CHOICES: dict[str, tuple[Any, ...]] = {
    "operator": ("walks", "alone", "learned-adjacency"),
    "states": ("windows", "latent"),
    "coefficients": ("euler", "direct", "gated-attention", "stable"),
    "order": (1, 2, 4),
    "num_layers": (1, 2, 3, 4),
    "hidden_channels": (32, 64, 128),
    "identity_channels": (0, 8, 16),
    "skip": ("last", "linear"),
}
RANGES: dict[str, Range] = {"learning_rate": (1e-3, 2e-2, True), "dropout": (0.0, 0.5, False)}
# Above this many nodes, a number for each pair of them makes trials slow.
MOST_LINKED = 500
# Settings that cannot be fixed, and why.
NOT_FIXED = {
    "network": "which draws the settings of networks itself",
    "time_budget": "whose time follows from the number of trials and of steps",
}


@dataclass(frozen=True)
class ForecasterSweepSettings:
    """The settings of a sweep on series.

    Attributes:
        fixed: Settings of `Forecaster` that all trials have, by name.
        num_steps: Optimizer steps in a trial that is not stopped by halving. The best trials are trained again, with
            as many steps as `fixed` says, or as is usual.
        seed: Seed of the trials, the weights and the dropout.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    num_steps: int = 300
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(num_steps=self.num_steps)
        for name, reason in NOT_FIXED.items():
            if self.fixed.get(name) is not None:
                option = name.replace("_", "-")
                raise InputError(f"Expected no --{option} in a search, {reason}. Leave it out.")
        if self.fixed.get("states") == "physical":
            raise InputError(
                "Expected windows or latent states to search on, got physical ones, which have little to search. Train "
                "them without a search."
            )

    def choices(self, panel: Panel) -> dict[str, tuple[Any, ...]]:
        """Return what trials choose from on this panel."""
        fixed = {"coefficients" if name == "system" else name for name in self.fixed}
        chosen = {name: choices for name, choices in CHOICES.items() if name not in fixed}
        if panel.num_nodes == 1:
            chosen |= {name: only for name, only in _ONE_NODE.items() if name in chosen}
        elif "operator" in chosen:
            is_small = panel.num_nodes <= MOST_LINKED
            left_out = {*(() if panel.has_edges else ("walks",)), *(() if is_small else ("learned-adjacency",))}
            chosen["operator"] = tuple(name for name in chosen["operator"] if name not in left_out)
        return chosen

    @property
    def ranges(self) -> dict[str, Range]:
        """The ranges of the numbers that trials draw."""
        return {name: limits for name, limits in RANGES.items() if name not in self.fixed}

    def settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a trial: what it drew, with numbers as people write them, and what is fixed."""
        drawn = {name: float(f"{value:.3g}") if name in RANGES else value for name, value in params.items()}
        return {**drawn, **self.fixed}

    def to_record(self) -> dict[str, Any]:
        """Return the settings as a study stores them."""
        record = Forecaster(**self.fixed).to_record()
        return {"steps": self.num_steps, "seed": self.seed} | {name: record[name] for name in sorted(self.fixed)}


# A single node has no neighbors, and needs no vector that tells it from others.
_ONE_NODE: dict[str, tuple[Any, ...]] = {"operator": ("alone",), "identity_channels": (0,)}


def describe_series(panel: Panel, features: NodeFeatures | None) -> str:
    """Return what a study keeps of its series, so that it is not continued on others."""
    data = describe_data(panel, features, {})
    size = f"{data['steps']} steps of {len(data['nodes'])} nodes, {data['edges']} edges ({data['direction']})"
    return f"{size}, checksum {data['sha256'][:12]}"
