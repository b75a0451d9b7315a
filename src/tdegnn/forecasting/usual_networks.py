"""The networks that a forecaster chooses from on the held-out steps, if the user says nothing about its network.

Each is a set of settings, by name. All are trained for some steps. The best one on the held-out steps is trained to the
end (`training/network_choice.py`), and notes say what was left out because it did not help.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, isnan
from typing import Any

from tdegnn.forecasting.settings import PLAIN
from tdegnn.training.network_choice import ChosenNetwork

NO_IDENTITY = {"identity_channels": 0}
# Settings as JSON keeps them.
USUAL_NETWORKS: dict[str, dict[str, Any]] = {
    # The defaults of the estimator: windows, random walks along the edges, a vector of each node.
    "walks": {},
    "alone": {"operator": "alone"},
    "walks-unnamed": NO_IDENTITY,
    "alone-unnamed": {"operator": "alone", **NO_IDENTITY},
    # The paper's states, and a linear forecast that is solved: for short series.
    "frames": {
        **{setting: value for setting, value in PLAIN.items() if setting not in ("network", "loss")},
        "states": "latent",
        "num_members": 3,
    },
}
# A user who changes one of these settings of a forecaster says something about its network.
NETWORK_SETTINGS = (
    "operator",
    "state_norm",
    "readout",
    "skip",
    "states",
    "hidden_channels",
    "identity_channels",
    "num_layers",
    "step_size",
    "dropout",
    "optimizer",
    "schedule",
    "learning_rate",
    "weight_decay",
)
# Steps after which a trial ends, and the number of trials at most.
TRIAL_STEPS, MOST_TRIALS = 100, 4


def try_networks(score_of: Callable[[str], float], *, has_edges: bool, num_nodes: int) -> dict[str, float]:
    """Return the scores of the networks that are tried, by name. Higher is better.

    Vectors of nodes are left out of the better one of those with and without edges, to see whether they help.

    Args:
        score_of: Trains the network of a name for some steps and returns its score.
        has_edges: Whether there are edges to walk along.
        num_nodes: Number of nodes. A single one needs no vector that tells it from others.
    """
    if num_nodes == 1:
        return {name: score_of(name) for name in ("alone-unnamed", "frames")}
    scores = {name: score_of(name) for name in (("walks", "alone") if has_edges else ("alone",))}
    better = max(scores, key=lambda name: -inf if isnan(scores[name]) else scores[name])
    return scores | {name: score_of(name) for name in (f"{better}-unnamed", "frames")}


def explain_choice(network: ChosenNetwork) -> ChosenNetwork:
    """Return a choice with a reason that speaks of errors on held-out steps."""
    texts = ", ".join(f"{name}: {inf if score is None else -score:.4g}" for name, score in network.scores.items())
    reason = f"The network {network.name!r} was chosen by its loss on the held-out steps, after a short training"
    return replace(network, reason=f"{reason} ({texts}).")


def notes_of_choice(choice: ChosenNetwork | None, *, has_edges: bool) -> list[str]:
    """Return notes for the user on what a chosen network leaves out."""
    if choice is None or not choice.reason:
        return []
    notes = [choice.reason]
    if choice.name == "frames":
        return [*notes, "A linear forecast and small layers do better on the held-out steps than large layers."]
    if choice.settings.get("operator") == "alone" and has_edges:
        notes.append("Edges do not help on the held-out steps: they are left out.")
    if choice.settings.get("identity_channels") == 0:
        notes.append("Learned vectors of nodes do not help on the held-out steps: they are left out.")
    return notes
