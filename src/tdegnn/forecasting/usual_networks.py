"""The networks that a forecaster chooses from on the held-out steps, if the user says nothing about its network.

Each is a set of settings, by name. All are trained for some steps. If edges make little difference by then, the
networks with and without them are trained for longer: what edges are worth shows late. The best network on the held-out
steps is trained to the end (`training/network_choice.py`), and notes say what was left out because it did not help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isnan
from typing import Any

from tdegnn.files import finite_or_null
from tdegnn.forecasting.settings import PLAIN
from tdegnn.training.network_choice import ChosenNetwork, choose_network

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
# Steps after which a trial ends, and a longer one; the number of trials at most.
TRIAL_STEPS, LONGER_STEPS, MOST_TRIALS = 100, 400, 6
# Longer trials decide on edges if the losses of the networks with and without them differ by a smaller share. On a week
# of traffic they are equal after 100 steps; after 400, edges lower the loss by 0.7 %, after 600 by 1.1 %.
NEAR = 0.02


@dataclass(frozen=True)
class Trials:
    """Scores of networks, by name. Higher is better.

    Attributes:
        scores: After a short training.
        longer: Of the networks with and without edges, after a longer training. Empty if the short one was enough.
    """

    scores: dict[str, float]
    longer: dict[str, float] = field(default_factory=dict)

    @property
    def candidates(self) -> dict[str, float]:
        """The scores without that of the network that has lost the longer trial."""
        worse = min(self.longer, key=lambda name: _as_number(self.longer[name]), default=None)
        return {name: score for name, score in self.scores.items() if name != worse}


def try_networks(score_of: Callable[[str, int], float], *, has_edges: bool, num_nodes: int, num_steps: int) -> Trials:
    """Train networks for some steps.

    Vectors of nodes are left out of the better one of those with and without edges, to see whether they help.

    Args:
        score_of: Trains the network of a name for a number of steps and returns its score.
        has_edges: Whether there are edges to walk along.
        num_nodes: Number of nodes. A single one needs no vector that tells it from others.
        num_steps: Number of steps of a whole training. No trial is longer.
    """
    short, long = min(num_steps, TRIAL_STEPS), min(num_steps, LONGER_STEPS)
    if num_nodes == 1:
        return Trials({name: score_of(name, short) for name in ("alone-unnamed", "frames")})
    scores = {name: score_of(name, short) for name in (("walks", "alone") if has_edges else ("alone",))}
    frames = score_of("frames", short)
    # If frames are ahead, edges do not matter.
    are_close = has_edges and long > short and _are_near(*scores.values()) and max(scores.values()) >= frames
    longer = {name: score_of(name, long) for name in scores} if are_close else {}
    decisive = longer or scores
    better = f"{max(decisive, key=lambda name: _as_number(decisive[name]))}-unnamed"
    return Trials({**scores, better: score_of(better, short), "frames": frames}, longer)


def choose_tried(networks: Mapping[str, dict[str, Any]], trials: Trials) -> ChosenNetwork:
    """Return the best network, with a reason that speaks of losses on held-out steps."""
    chosen = choose_network(networks, trials.candidates)
    reason = f"The network {chosen.name!r} was chosen by its loss on the held-out steps, after a short training"
    reason = f"{reason} ({_as_losses(trials.scores)})."
    if trials.longer:
        reason += f" A longer one decided on edges ({_as_losses(trials.longer)})."
    return replace(chosen, reason=reason, scores=finite_or_null(trials.scores))


def _as_number(score: float) -> float:
    return -inf if isnan(score) else score


def _are_near(one: float, other: float) -> bool:
    return abs(one - other) <= NEAR * max(abs(one), abs(other))


def _as_losses(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name}: {inf if isnan(score) else -score:.4g}" for name, score in scores.items())


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
