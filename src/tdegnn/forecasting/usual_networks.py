"""The networks that a forecaster chooses from on the held-out steps, if the user says nothing about its network.

Each is a set of settings, by name. All are trained for some steps. If edges make little difference by then, the
networks with and without them are trained for longer: what edges are worth shows late. The best network on the held-out
steps is trained to the end (`training/network_choice.py`), and notes say what was left out because it did not help.
A time budget may leave some of them out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isnan, nan
from typing import Any

from tdegnn.files import finite_or_null
from tdegnn.forecasting.settings import PLAIN
from tdegnn.training.network_choice import ChosenNetwork, choose_network

NO_IDENTITY = {"identity_channels": 0}
# Values are forecast, not changes from the last one: for series that return to a level, such as cases per week.
NO_SKIP = {"skip": "none"}
# Settings as JSON keeps them.
USUAL_NETWORKS: dict[str, dict[str, Any]] = {
    # The defaults of the estimator: windows, random walks along the edges, a vector of each node.
    "walks": {},
    "alone": {"operator": "alone"},
    "walks-unnamed": NO_IDENTITY,
    "alone-unnamed": {"operator": "alone", **NO_IDENTITY},
    "walks-levels": NO_SKIP,
    "alone-levels": {"operator": "alone", **NO_SKIP},
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
TRIAL_STEPS, LONGER_STEPS, MOST_TRIALS = 100, 400, 8
# Longer trials decide on edges if the losses of the networks with and without them differ by a smaller share. On a week
# of traffic they are equal after 100 steps; after 400, edges lower the loss by 0.8 %, after 600 by 1.1 %.
NEAR = 0.02


# The entries of a run folder's settings that keep how many steps a time budget leaves each trial, and scores. What
# follows the name of a network whose trial is a longer one.
TRIAL_STEPS_KEPT, SCORES_KEPT = "trial_steps", "trial_scores"
FOR_LONGER = " for longer"


@dataclass(frozen=True)
class Trials:
    """Scores of networks, by name. Higher is better.

    Attributes:
        scores: After a short training.
        longer: Of the networks with and without edges, after a longer training. Empty if the short one was enough.
        untried: Names of trials for which no time was left.
    """

    scores: dict[str, float]
    longer: dict[str, float] = field(default_factory=dict)
    untried: tuple[str, ...] = ()

    @property
    def candidates(self) -> dict[str, float]:
        """The scores without that of the network that has lost the longer trial."""
        worse = min(self.longer, key=lambda name: _as_number(self.longer[name]), default=None)
        return {name: score for name, score in self.scores.items() if name != worse}


@dataclass(frozen=True)
class TrialRecord:
    """What was decided about trials, by name. A run folder keeps it, so that a resumed fit tries the same.

    Attributes:
        keep: Called after each decision with the entries of the settings of a run folder.
        steps: Number of steps, as far as a time budget planned them. 0 if there was no time.
        scores: Scores of those that were finished.
    """

    keep: Callable[[dict[str, Any]], object]
    steps: dict[str, int] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)

    @classmethod
    def kept_in(cls, config: Mapping[str, Any], keep: Callable[[dict[str, Any]], object]) -> TrialRecord:
        """Return the decisions in the settings of a run folder."""
        scores = {name: nan if score is None else score for name, score in config.get(SCORES_KEPT, {}).items()}
        return cls(keep, dict(config.get(TRIAL_STEPS_KEPT, {})), scores)

    def plan(self, name: str, num_steps: int) -> None:
        """Keep the number of steps of a trial."""
        self.steps[name] = num_steps
        self.keep(self.to_config())

    def finish(self, name: str, score: float) -> None:
        """Keep the score of a trial."""
        self.scores[name] = score
        self.keep(self.to_config())

    def to_config(self) -> dict[str, Any]:
        """Return the entries of the settings of a run folder."""
        entries = {TRIAL_STEPS_KEPT: self.steps, SCORES_KEPT: finite_or_null(self.scores)}
        return {name: dict(entry) for name, entry in entries.items() if entry}


def count_trials(*, has_edges: bool, num_nodes: int) -> int:
    """Return how many trials there are at most."""
    if num_nodes == 1:
        return 2
    return MOST_TRIALS if has_edges else 4


def try_networks(
    score_of: Callable[[str, int], float | None], *, has_edges: bool, num_nodes: int, num_steps: int
) -> Trials:
    """Train networks for some steps.

    Vectors of nodes are left out of the better one of those with and without edges, to see whether they help, and the
    last value that is added out of both: what edges are worth depends on it.

    Args:
        score_of: Trains the network of a name for a number of steps and returns its score. None if there is no time.
        has_edges: Whether there are edges to walk along.
        num_nodes: Number of nodes. A single one needs no vector that tells it from others.
        num_steps: Number of steps of a whole training. No trial is longer: a learning rate that stays high for longer
            would judge another training.
    """
    short, long = min(num_steps, TRIAL_STEPS), min(num_steps, LONGER_STEPS)
    untried: list[str] = []

    def try_each(names: Iterable[str], num_steps: int, suffix: str = "") -> dict[str, float]:
        scores = {name: score_of(name, num_steps) for name in names}
        untried.extend(f"{name}{suffix}" for name, score in scores.items() if score is None)
        return {name: score for name, score in scores.items() if score is not None}

    if num_nodes == 1:
        return Trials(try_each(("alone-unnamed", "frames"), short), untried=tuple(untried))
    usual = ("walks", "alone") if has_edges else ("alone",)
    scores = try_each(usual, short)
    frames = try_each(("frames",), short)
    # If frames are ahead, edges do not matter.
    are_close = len(scores) > 1 and long > short and _are_near(*scores.values())
    is_decided = not are_close or max(scores.values()) < frames.get("frames", -inf)
    longer = {} if is_decided else try_each(scores, long, FOR_LONGER)
    if len(longer) == 1:  # it is compared with nothing
        longer = {}
    decisive = longer or scores
    better = sorted(decisive, key=lambda name: -_as_number(decisive[name]))[:1]
    unnamed = try_each((f"{name}-unnamed" for name in better), short)
    levels = try_each((f"{name}-levels" for name in usual), short) if better else {}
    return Trials({**scores, **unnamed, **levels, **frames}, longer, tuple(untried))


# What a reason says, before the losses of all networks that were tried in a short training.
CHOSEN_AFTER = "was chosen by its loss on the held-out steps, after a short training"


def choose_tried(networks: Mapping[str, dict[str, Any]], trials: Trials) -> ChosenNetwork:
    """Return the best network, with a reason that speaks of losses on held-out steps. If none was tried, the usual one.

    Args:
        networks: The settings of the networks, by name.
        trials: Their scores.
    """
    if not trials.candidates:
        usual = trials.untried[0]
        reason = f"The network {usual!r} was taken without a trial: the time budget left no time to try others."
        return ChosenNetwork(usual, networks[usual], reason=reason)
    chosen = choose_network(networks, trials.candidates)
    reason = f"The network {chosen.name!r} {CHOSEN_AFTER} ({_as_losses(trials.scores)})."
    if trials.longer:
        reason += f" A longer one decided on edges ({_as_losses(trials.longer)})."
    if trials.untried:
        reason += f" The time budget left no time to try {', '.join(trials.untried)}."
    return replace(chosen, reason=reason, scores=finite_or_null(trials.scores))


def tried_in(notes: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the networks that were tried, as the notes of a forecaster list them. Empty if none were."""
    for note in notes:
        listed = re.match(rf"The network '[\w-]+' {CHOSEN_AFTER} \((.*?)\)\.", note)
        if listed is not None:
            return tuple(entry.partition(": ")[0] for entry in listed[1].split(", "))
    return ()


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
    if choice.settings.get("skip") == "none":
        notes.append("Changes from the last value are harder to forecast on the held-out steps: values are forecast.")
    return notes
