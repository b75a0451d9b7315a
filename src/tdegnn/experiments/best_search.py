"""The search for the best network of a dataset: one space for all datasets, in three rungs, chosen by validation.

`best_searches.toml` has the families of networks. Rung 1 tries a few configurations of every shape of every family for
a few steps. The best families go on with their best shape: in rung 2 they are tried near their best configurations, for
more steps and on more splits. Rung 3 trains the best three on all splits to the end. Each dataset gets the same number
of trainings and of steps (`most_steps`); a training may end sooner, by its patience. Families whose networks are too
large for the graph are left out (`fitting_families`). This file decides what is to be
trained next from what is in the results already. Choices see validation accuracies only. Nothing is trained here.
"""

from __future__ import annotations

import json
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files as resources
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from tdegnn.experiments.drawn_configs import RANGES, config_of, draw, draw_near, read_ranges
from tdegnn.nodes.settings import NodeConfig

# The name of all configurations here. `adopt_best` gives the best of them the name of a row of Table 1.
SYSTEM = "TDE-GNN"
USUAL: dict[str, Any] = {
    "coefficients": "euler",
    "order": 1,
    "initial_states": "newest-unmapped",
    "step_size": 1.0,
    "hidden_dropout": 0.0,
    "num_steps": 2000,
    "patience": 200,
}
NUM_CONFIGS = 5
# How many families enter rung 2, and what is tried of each: its best, others near the best, and others at random.
NUM_FAMILIES, NUM_KEPT, NUM_NEAR, NUM_NEW = 4, 2, 4, 2
# Standard deviation of "near", as a share of the range.
WIDTH = 0.15
NUM_FINALISTS, MOST_OF_A_FAMILY = 3, 2
# Numbers in the states of one network, after all layers. One training of twice as many takes minutes of an H200.
MOST_NETWORK_VALUES = 2**26


class Rung(NamedTuple):
    """A part of the search.

    Attributes:
        name: Its name in result lines.
        num_splits: Number of splits, the first ones. If None, all.
        num_steps: Maximum number of optimizer steps.
        num_deep_steps: That of networks with many layers. If None, `num_steps`.
    """

    name: str
    num_splits: int | None
    num_steps: int
    num_deep_steps: int | None = None

    def steps_of(self, settings: Mapping[str, Any]) -> int:
        """Return the maximum number of steps of a network, given its settings."""
        if self.num_deep_steps is None or settings["num_layers"] < DEEP:
            return self.num_steps
        return self.num_deep_steps


# Networks with many layers learn slowly at first. On one split of Cora, the best validation accuracy so far of two of
# GCNII's with 64 layers rose by 0.5 and 1.3 points between steps 150 and 225, as much as families differ. That of
# shallow ones rose by at most 0.4 between steps 75 and 150.
DEEP = 16
RUNGS = RUNG_1, RUNG_2, RUNG_3 = Rung("rung 1", 2, 150, 300), Rung("rung 2", 3, 500), Rung("rung 3", None, 2000)


class Training(NamedTuple):
    """One training that is wanted.

    Attributes:
        stage: For which part of the results.
        group: Trainings of one stage and one group have networks of one shape, and can be trained together.
        config: The configuration.
        split: The split.
        seed: Seed of weights and dropout.
    """

    stage: str
    group: str
    config: NodeConfig
    split: int
    seed: int


class Runs:
    """What is trained already on one dataset, as choices see it: with validation accuracies only.

    Args:
        lines: Result lines of the dataset.
    """

    def __init__(self, lines: Iterable[Mapping[str, Any]]) -> None:
        self._validation = {
            (_key(line["configuration"]), line["split"], line["seed"]): line["validation_accuracy"] for line in lines
        }

    def __contains__(self, training: Training) -> bool:
        return (_key_of(training.config), training.split, training.seed) in self._validation

    def validation(self, config: NodeConfig, splits: Iterable[int]) -> float:
        """Return the mean validation accuracy over splits, of the first seed."""
        key = _key_of(config)
        return fmean(self._validation[key, split, seed_of(split)] for split in splits)

    def missing(self, trainings: Iterable[Training]) -> list[Training]:
        """Return the trainings that are not done."""
        return [training for training in trainings if training not in self]


def seed_of(split: int, number: int = 0) -> int:
    """Return the seed of a training on a split. All configurations have the same, as in Table 1."""
    return number + 1000 * split


def _key(configuration: Mapping[str, Any]) -> str:
    return json.dumps(configuration, sort_keys=True)


@cache
def _key_of(config: NodeConfig) -> str:
    return _key(config.to_record())


@dataclass(frozen=True, eq=False)
class Candidate:
    """A configuration of a family.

    Attributes:
        family: The family.
        shape: The number of its shape.
        numbers: The numbers that were drawn.
    """

    family: Family
    shape: int
    numbers: Mapping[str, float]

    @property
    def group(self) -> str:
        """The name of its family and shape: what networks share that are trained together."""
        return f"{self.family.name}, shape {self.shape}"

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, written flat."""
        return {**USUAL, **self.family.base, **self.family.shapes[self.shape], **self.numbers}

    @cache  # noqa: B019 (candidates of rung 1 live as long as the process)
    def config(self, rung: Rung) -> NodeConfig:
        """Return the configuration as it is trained in a rung."""
        config = config_of(SYSTEM, self.settings)
        assert isinstance(config, NodeConfig)  # no rival has this name
        return replace(config, num_steps=min(config.num_steps, rung.steps_of(self.settings)))

    def trainings(self, rung: Rung, num_splits: int) -> Iterator[Training]:
        """Yield the trainings of a rung."""
        config = self.config(rung)
        for split in splits_of(rung, num_splits):
            yield Training(rung.name, self.group, config, split, seed_of(split))


def splits_of(rung: Rung, num_splits: int) -> range:
    """Return the splits of a rung, given their number in the dataset."""
    return range(num_splits if rung.num_splits is None else min(rung.num_splits, num_splits))


@dataclass(frozen=True, eq=False)
class Family:
    """A section of `best_searches.toml`.

    Attributes:
        name: Its name.
        base: Settings of all configurations.
        shapes: Settings of each shape.
        ranges: The ranges of numbers, as written.
        known: Numbers to begin with.
        num_configs: Configurations per shape in rung 1.
    """

    name: str
    base: Mapping[str, Any]
    shapes: Sequence[Mapping[str, Any]]
    ranges: Mapping[str, Sequence[Any]]
    known: Sequence[Mapping[str, float]]
    num_configs: int = NUM_CONFIGS

    @property
    def limits(self) -> dict[str, tuple[float, float, bool]]:
        """The ranges of numbers, the common ones included."""
        return {name: limits for name, limits in (RANGES | read_ranges(self.ranges)).items() if name not in self.base}

    @cache  # noqa: B019 (families live as long as the process)
    def candidates(self, shape: int) -> Sequence[Candidate]:
        """Return the configurations of a shape in rung 1. All shapes, and all datasets, have the same numbers."""
        random = self._random("first")
        drawn = [draw(random, self.limits) for _ in range(max(0, self.num_configs - len(self.known)))]
        return [Candidate(self, shape, numbers) for numbers in [*self.known, *drawn][: self.num_configs]]

    def refined(self, ranked: Sequence[Candidate]) -> list[Candidate]:
        """Return the configurations of rung 2, given those of one shape in rung 1, the best first."""
        random, best = self._random("second"), ranked[0]
        near = [draw_near(random, self.limits, best.numbers, WIDTH) for _ in range(NUM_NEAR)]
        new = [draw(random, self.limits) for _ in range(NUM_NEW)]
        return [*ranked[:NUM_KEPT], *(Candidate(self, best.shape, numbers) for numbers in (*near, *new))]

    def _random(self, what: str) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(f"{self.name}/{what}".encode()))


@cache
def read_families() -> tuple[Family, ...]:
    """Return what is searched."""
    text = resources("tdegnn.experiments").joinpath("best_searches.toml").read_text()
    return tuple(Family(name, **section) for name, section in tomllib.loads(text).items())


def fitting_families(families: Sequence[Family], num_nodes: int) -> list[Family]:
    """Return the families all of whose networks are small enough for a graph of this many nodes."""

    def num_values(family: Family) -> int:
        settings = [{**family.base, **shape} for shape in family.shapes]
        largest: int = max(each["num_layers"] * each["hidden_channels"] for each in settings)
        return num_nodes * largest

    return [family for family in families if num_values(family) <= MOST_NETWORK_VALUES]


def most_steps(families: Sequence[Family], num_splits: int) -> int:
    """Return the budget of a dataset: the most steps, over all trainings, that its search takes."""
    candidates = [Candidate(family, shape, {}) for family in families for shape in range(len(family.shapes))]
    first = sum(each.family.num_configs * RUNG_1.steps_of(each.settings) for each in candidates)
    rung_2 = min(NUM_FAMILIES, len(families)) * (NUM_KEPT + NUM_NEAR + NUM_NEW)
    rest = ((RUNG_2, rung_2), (RUNG_3, NUM_FINALISTS))
    return first * len(splits_of(RUNG_1, num_splits)) + sum(
        number * len(splits_of(rung, num_splits)) * rung.num_steps for rung, number in rest
    )


@dataclass(frozen=True)
class SearchState:
    """How far the search on a dataset is.

    Attributes:
        trainings: All trainings of the first rung that is not complete. Empty if the search is done.
        finalists: The configurations of rung 3, the best first. Empty unless the search is done.
    """

    trainings: Sequence[Training] = ()
    finalists: Sequence[NodeConfig] = ()


def follow_search(families: Sequence[Family], num_splits: int, runs: Runs) -> SearchState:
    """Return what is to be trained next on a dataset, or the result of the search."""
    candidates: list[Candidate] = [
        each for family in families for shape in range(len(family.shapes)) for each in family.candidates(shape)
    ]
    for rung, choose in zip(RUNGS, (_enter_rung_2, _enter_rung_3, None), strict=True):
        trainings = [training for each in candidates for training in each.trainings(rung, num_splits)]
        if runs.missing(trainings):
            return SearchState(trainings)
        candidates = _ranked(candidates, rung, num_splits, runs)
        candidates = candidates if choose is None else choose(candidates)
    return SearchState(finalists=[each.config(RUNG_3) for each in candidates])


def _ranked(candidates: Iterable[Candidate], rung: Rung, num_splits: int, runs: Runs) -> list[Candidate]:
    """Return the candidates, the best on validation first. Of several, the first."""
    splits = splits_of(rung, num_splits)
    return sorted(candidates, key=lambda each: -runs.validation(each.config(rung), splits))


def _enter_rung_2(ranked: Sequence[Candidate]) -> list[Candidate]:
    # A family has the rank of its best configuration, whose shape it keeps. A dictionary keeps the order.
    best = {each.family: each for each in reversed(ranked)}
    families = sorted(best, key=lambda family: ranked.index(best[family]))[:NUM_FAMILIES]
    return [
        each
        for family in families
        for each in family.refined([own for own in ranked if (own.family, own.shape) == (family, best[family].shape)])
    ]


def _enter_rung_3(ranked: Sequence[Candidate]) -> list[Candidate]:
    chosen: list[Candidate] = []
    for each in ranked:
        if len(chosen) < NUM_FINALISTS and sum(other.family is each.family for other in chosen) < MOST_OF_A_FAMILY:
            chosen.append(each)
    return chosen
