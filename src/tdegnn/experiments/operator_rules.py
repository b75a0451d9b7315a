"""The table of operators by rules for c: what learned time is worth on each spatial term.

The recipe of each row whose spatial term is an operator is trained again with c = [1], a learned vector, attention, and
a vector that is stable whatever it learns. All else is the same, and networks of one split start with the same weights.
Learned rules have order 2 and one learning rate for c. Nothing is chosen: differences are paired over splits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.experiments.gain import Gain
from tdegnn.experiments.node_results import NODE_LINES, Cell, paired_gain
from tdegnn.experiments.node_systems import train_together
from tdegnn.experiments.recipe_files import read_recipes
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.experiments.row_search import read_row_searches
from tdegnn.nodes.settings import NodeConfig
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tdegnn.training.devices import Placement
from tdegnn.training.members import GroupDescent

EULER = "c = [1]"
# Attention behind a gate: the paper's attention cannot become c = [1].
RULES = {EULER: "euler", "learned vector": "direct", "attention": "gated-attention", "stable": "stable"}
ORDER = 2
# What the searches for TDE-GNN chose is between 1e-4 and 5e-3.
TEMPORAL_RATE = 3e-3
RULE_LINES = LineKind(
    "operators by rules",
    {**NODE_LINES.entries, "operator": str, "rule": str},
    identity=("dataset", "operator", "rule", "split", "seed", "configuration"),
)


def operator_rows() -> tuple[str, ...]:
    """Return the rows of Table 1 whose spatial term is an operator and whose c is [1]."""
    return ("DE-GNN", *(system for system in read_row_searches() if system not in NODE_NETWORKS))


def with_rule(recipe: NodeConfig, rule: str) -> NodeConfig:
    """Return the recipe of a row with another rule for c."""
    # The newest state is the embedding itself, so that networks with other rules contain the one with c = [1].
    fixed = replace(
        recipe, coefficients=RULES[rule], initial_states="newest-unmapped", system=f"{recipe.system}, {rule}"
    )
    if rule == EULER:
        return replace(fixed, order=1)
    return replace(fixed, order=ORDER, temporal=GroupDescent(TEMPORAL_RATE, 0.0))


def train_rules(dataset_name: str, row: str, path: Path, placement: Placement) -> None:
    """Train the recipe of one row with all rules on the splits of one dataset, and add the lines that `path` lacks."""
    recipe = read_recipes(dataset_name).get(row)
    if not isinstance(recipe, NodeConfig):
        return  # not searched for yet
    dataset, environment = load_nodes(dataset_name), describe_environment(placement.device)
    for rule in RULES:
        config = with_rule(recipe, rule)
        known = read_lines(path, RULE_LINES, dataset=[dataset_name], operator=[row], rule=[rule])
        if [line["configuration"] for line in known].count(config.to_record()) == dataset.num_splits:
            continue
        runs = train_together(dataset, [config], range(dataset.num_splits), placement=placement, validate_every=5)
        lines = [
            {"dataset": dataset_name, "operator": row, "rule": rule, **run.to_record(), **environment} for run in runs
        ]
        append_lines(path, lines, RULE_LINES)


@dataclass(frozen=True)
class RuleCells:
    """One operator on one dataset.

    Attributes:
        cells: The cell of each rule.
    """

    cells: Mapping[str, Cell]

    @property
    def validation(self) -> float:
        """Mean validation accuracy of c = [1], by which the best operator of a dataset is chosen."""
        return _validation(self.cells[EULER])

    def gain(self, rule: str) -> Gain:
        """Return what a rule adds over c = [1] on test, paired over the splits."""
        return paired_gain(self.cells[rule], self.cells[EULER])

    @property
    def best_rule(self) -> str:
        """The learned rule with the highest mean validation accuracy."""
        learned = {rule: cell for rule, cell in self.cells.items() if rule != EULER}
        return max(learned, key=lambda rule: _validation(learned[rule]))


def summarize_rules(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], RuleCells]:
    """Return the cells by dataset and operator. Operators without all rules are left out."""
    by_rule: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for line in lines:
        by_rule.setdefault((line["dataset"], line["operator"]), {}).setdefault(line["rule"], []).append(line)
    return {
        key: RuleCells({rule: Cell.from_lines(own[rule]) for rule in RULES})
        for key, own in by_rule.items()
        if set(own) == set(RULES)
    }


def complete_datasets(cells: Mapping[tuple[str, str], RuleCells], datasets: Sequence[str]) -> list[str]:
    """Return the datasets on which every operator that has a recipe is trained with all rules."""
    return [
        name
        for name in datasets
        if {row for dataset, row in cells if dataset == name} >= {*operator_rows()} & {*read_recipes(name)}
    ]


def _validation(cell: Cell) -> float:
    return fmean(cell.validation_accuracies.values())


def describe_best(cells: Mapping[tuple[str, str], RuleCells], dataset: str) -> str:
    """Return the sentence that says what learned time is worth on the best operator of a dataset."""
    own = {operator: each for (name, operator), each in cells.items() if name == dataset}
    best = max(own, key=lambda operator: own[operator].validation)
    found = own[best]
    rule = found.best_rule
    gain = found.gain(rule)
    doubt = ", which these splits do not tell from nothing" if gain.low <= 0 <= gain.high else ""
    return (
        f"{dataset}: on the best operator by validation, {best} ({found.cells[EULER].mean:.2f} on test), learned time "
        f"({rule}) is worth {gain} points{doubt}."
    )
