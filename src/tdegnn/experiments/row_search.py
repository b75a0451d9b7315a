"""The settings behind the rows of Table 1 for published systems: the same small search for each of them.

`row_searches.toml` says what is searched. Per dataset and system, six configurations are drawn of each shape, of which
there are two or more, and trained on the first two splits. The best of each shape by validation, and the published
settings if there are any (`published` by the authors, `rerun` by others), are then trained on all splits. The best of
these by mean validation accuracy is the recipe of the row. Test accuracy is recorded and chooses nothing. `adopt_rows`
writes recipes and result lines; rows without shapes were searched for elsewhere and keep their recipes. A shape, or
published settings, that are added later are trained alone. Where published numbers were missed by more than 1.5 points,
six configurations more are drawn near each of some settings (`near`).
"""

from __future__ import annotations

import time
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files as resources
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.errors import check_choice
from tdegnn.experiments.drawn_configs import RANGES, Range, config_of, draw, draw_near, read_ranges
from tdegnn.experiments.node_results import NODE_LINES
from tdegnn.experiments.node_systems import AnyConfig, NodeRun, PreparedNodes, train_members
from tdegnn.experiments.recipe_files import config_from_record, write_recipe
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tdegnn.training.devices import Placement

CONFIGS_PER_SHAPE, SEARCH_SPLITS = 6, (0, 1)
# Standard deviation of numbers drawn near others, as a share of their range.
NEAR = 0.15
NUM_STEPS, PATIENCE = 300, 100
RANDOM, FINAL = "row search", "row search, all splits"
RIVAL_RANGES: dict[str, Range] = {**RANGES, "hidden_dropout": (0.0, 0.8, False)}
TRIAL_LINES = LineKind(
    "the search for rows",
    {
        "dataset": str,
        "system": str,
        "stage": str,
        "validation_accuracy": float,
        "test_accuracy": float,
        "configuration": dict,
    },
    identity=("dataset", "system", "stage", "seed", "configuration"),
)


@dataclass(frozen=True)
class RowSearch:
    """What is searched for one system.

    Attributes:
        system: Its name.
        base: Settings of all configurations.
        shapes: Sets of settings. `CONFIGS_PER_SHAPE` configurations have each of them.
        ranges: Ranges of numbers, in addition to the common ones.
        published: The settings that its authors committed, by dataset.
        rerun: The settings that others committed, whose runs the printed numbers are, by dataset.
        near: Sets of settings, by dataset. `CONFIGS_PER_SHAPE` configurations are drawn near each.
    """

    system: str
    base: Mapping[str, Any]
    shapes: Sequence[Mapping[str, Any]]
    ranges: Mapping[str, Sequence[Any]]
    published: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rerun: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    near: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def drawn(self, dataset: str) -> list[list[AnyConfig]]:
        """Return the configurations that are tried on a dataset, those of each shape together."""
        # Each has a generator of its own, so that new shapes leave what is near as it is.
        random, other = (
            np.random.default_rng(zlib.crc32(f"{self.system}/{dataset}{suffix}".encode())) for suffix in ("", "/near")
        )
        anywhere = [
            [self._config({**shape, **draw(random, self._all_ranges)}) for _ in range(CONFIGS_PER_SHAPE)]
            for shape in self.shapes
        ]
        near = [
            [self._config({**center, **self._draw_near(other, center)}) for _ in range(CONFIGS_PER_SHAPE)]
            for center in self.near.get(dataset, ())
        ]
        return anywhere + near

    def known(self, dataset: str) -> list[AnyConfig]:
        """Return the configurations with the published settings for this dataset, as far as there are any."""
        return [self._config(settings[dataset]) for settings in (self.published, self.rerun) if dataset in settings]

    def _draw_near(self, random: np.random.Generator, center: Mapping[str, Any]) -> dict[str, float]:
        numbers = {name: float(center[name]) for name in self._all_ranges}
        return draw_near(random, self._all_ranges, numbers, NEAR)

    @property
    def _all_ranges(self) -> dict[str, Range]:
        common = RIVAL_RANGES if self.system in NODE_NETWORKS else RANGES
        return common | read_ranges(self.ranges)

    def _config(self, settings: Mapping[str, Any]) -> AnyConfig:
        usual: dict[str, Any] = {"num_steps": NUM_STEPS, "patience": PATIENCE}
        if self.system not in NODE_NETWORKS:
            usual |= {"coefficients": "euler", "order": 1, "initial_states": "newest-unmapped"}
        return config_of(self.system, {**usual, **self.base, **settings})


def read_row_searches() -> dict[str, RowSearch]:
    """Return what is searched, by system."""
    text = resources("tdegnn.experiments").joinpath("row_searches.toml").read_text()
    return {system: RowSearch(system, **each) for system, each in tomllib.loads(text).items()}


def search_row(dataset_name: str, system: str, trials: Path, runs: Path, placement: Placement) -> None:
    """Search the settings of one system on one dataset, unless `trials` has them already.

    Args:
        dataset_name: Name of a benchmark.
        system: A section of `row_searches.toml`.
        trials: File that gets one line per configuration.
        runs: File that gets one line per split of the finalists.
        placement: Where to compute.
    """
    searches = read_row_searches()
    check_choice(searches, system=system)
    search = searches[system]
    known = read_lines(trials, TRIAL_LINES, dataset=[dataset_name], system=[system])
    tried = [line["configuration"] for line in known]
    # A shape is written whole.
    by_shape = [configs for configs in search.drawn(dataset_name) if configs[0].to_record() not in tried]
    finalists = [config for config in search.known(dataset_name) if config.to_record() not in tried]
    if not by_shape and not finalists:
        return
    prepared = PreparedNodes(load_nodes(dataset_name))
    environment, start = describe_environment(placement.device), time.perf_counter()
    lines = []
    for configs in by_shape:
        by_config = _train(prepared, configs, SEARCH_SPLITS, placement)
        lines += [_trial_line(RANDOM, own) for own in by_config]
        finalists.append(max(by_config, key=_validation)[0].config)
    final_runs = [own for config in finalists for own in _train(prepared, [config], prepared.splits, placement)]
    lines += [_trial_line(FINAL, own) for own in final_runs]
    spent = {"dataset": dataset_name, "seconds_of_the_search": time.perf_counter() - start, **environment}
    append_lines(
        runs,
        [{**run.to_record(), "dataset": dataset_name, **environment} for own in final_runs for run in own],
        NODE_LINES,
    )
    append_lines(trials, [{**line, **spent} for line in lines], TRIAL_LINES)


def adopt_rows(trials: Path, runs: Path, recipes: Path, table: Path) -> list[tuple[str, str]]:
    """Make the best finalist of each dataset and system with shapes its recipe, and add its runs to Table 1.

    Args:
        trials: The configurations, as `search_row` writes them.
        runs: The runs of finalists, likewise.
        recipes: The folder of recipes.
        table: The result lines of Table 1.

    Returns:
        Dataset and system of each recipe.
    """
    best: dict[tuple[str, str], dict[str, Any]] = {}
    searched = [system for system, search in read_row_searches().items() if search.shapes]
    for line in read_lines(trials, TRIAL_LINES, stage=[FINAL], system=searched):
        key = (line["dataset"], line["system"])
        if key not in best or line["validation_accuracy"] > best[key]["validation_accuracy"]:
            best[key] = line
    lines = read_lines(runs, NODE_LINES)
    for (dataset, system), line in best.items():
        write_recipe(recipes / f"{dataset}.toml", config_from_record(line["configuration"]))
        chosen = [
            run
            for run in lines
            if (run["dataset"], run["system"], run["configuration"]) == (dataset, system, line["configuration"])
        ]
        append_lines(table, chosen, NODE_LINES)
    return list(best)


def _train(
    prepared: PreparedNodes, configs: Sequence[AnyConfig], splits: Sequence[int], placement: Placement
) -> list[list[NodeRun]]:
    """Return the runs of each configuration. Those on one split start with the same seed."""
    members = [(config, split, 1000 * split) for config in configs for split in splits]
    runs = train_members(prepared.for_config(configs[0]), members, placement=placement, validate_every=2)[1]
    return [runs[start : start + len(splits)] for start in range(0, len(runs), len(splits))]


def _validation(runs: Sequence[NodeRun]) -> float:
    return fmean(run.validation_accuracy for run in runs)


def _trial_line(stage: str, runs: Sequence[NodeRun]) -> dict[str, Any]:
    return {
        "system": runs[0].config.system,
        "stage": stage,
        "num_splits": len(runs),
        "seed": runs[0].seed,
        "protocol": "honest",
        "validation_accuracy": _validation(runs),
        "test_accuracy": fmean(run.test_accuracy for run in runs),
        "configuration": runs[0].config.to_record(),
        "epochs": [run.best_step for run in runs],
    }
