"""What the best network of a dataset is made of: rows with other rules for c, a nested gain, and an ablation.

The best finalist of `best_search.py` by mean validation accuracy over all splits is the backbone. Its rows have
c = [1], a learned vector, gated attention or a stable vector, each with and without the kernel skip. The best row by
validation is trained with five seeds, and with one ingredient removed at a time. Networks of one split and seed start
with the same weights wherever they have the same parts. What is to be trained is decided here; it is trained by
`best_cells.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from tdegnn.experiments.best_search import Runs, Training, seed_of
from tdegnn.experiments.gain import Gain
from tdegnn.experiments.node_results import Cell
from tdegnn.experiments.operator_rules import EULER, RULES, with_rule
from tdegnn.graph import Direction
from tdegnn.nodes.settings import FAMILIES, NodeConfig
from tdegnn.training.members import GroupDescent

SKIP = "kernel-ridge"
ROWS, ABLATION = "rows", "ablation"


class Row(NamedTuple):
    """A row of the table of a dataset.

    Attributes:
        rule: A name of `RULES`.
        has_skip: Whether it has the kernel skip.
    """

    rule: str
    has_skip: bool

    def __str__(self) -> str:
        return f"{self.rule}, with skip" if self.has_skip else self.rule


def row_configs(backbone: NodeConfig) -> dict[Row, NodeConfig]:
    """Return the configuration of each row on a backbone."""
    rules = {rule: replace(with_rule(backbone, rule), system=backbone.system) for rule in RULES}
    return {
        Row(rule, has_skip): replace(config, skip=(backbone.skip or SKIP) if has_skip else None)
        for rule, config in rules.items()
        for has_skip in (False, True)
    }


def best_row(rows: Mapping[Row, NodeConfig], splits: Sequence[int], runs: Runs) -> Row:
    """Return the row with the highest mean validation accuracy. Of several, the first."""
    return max(rows, key=lambda row: runs.validation(rows[row], splits))


def ablated(config: NodeConfig, *, is_directed: bool = True) -> dict[str, NodeConfig]:
    """Return the configuration with one ingredient removed at a time, for each ingredient that it has.

    Args:
        config: The configuration.
        is_directed: Whether the graph, as it is loaded, has a direction. Otherwise, there is no other direction.
    """
    # What the operator is without settings of its own.
    plain = FAMILIES["operator"].name_of(config.operator)
    other_direction: Direction | None = None if config.direction == "both" else "both"
    candidates = {
        "no skip": replace(config, skip=None),
        "readout of the last state": replace(config, readout="last"),
        "no state norm": replace(config, state_norm=None),
        "linear input map": replace(config, input_map="linear"),
        "the other direction": replace(config, direction=other_direction) if is_directed else config,
        "no self-loops": replace(config, self_loops=False),
        "no adjacency rows": replace(config, adjacency_features=False),
        "features as they are": replace(config, normalized_features=False),
        "operator as by default": replace(config, operator=plain),
        "Adam instead of AdamW": replace(config, optimizer="adam"),
        "step by accuracy": replace(config, select_by="accuracy"),
        EULER: replace(with_rule(config, EULER), system=config.system),
        "no decay": replace(
            config,
            embedding=_without_decay(config.embedding),
            temporal=_without_decay(config.temporal),
            spatial=_without_decay(config.spatial),
        ),
        "no dropout": replace(
            config,
            outer_dropout=0.0,
            hidden_dropout=0.0,
            readout_dropout=None if config.readout_dropout is None else 0.0,
        ),
        "half of the layers": replace(config, num_layers=max(1, config.num_layers // 2)),
    }
    return {name: other for name, other in candidates.items() if other.to_record() != config.to_record()}


def _without_decay(group: GroupDescent) -> GroupDescent:
    return replace(group, weight_decay=0.0)


def trainings_of(stage: str, configs: Mapping[str, NodeConfig], splits: Sequence[int]) -> Iterator[Training]:
    """Yield the trainings of configurations, by name, on splits."""
    for name, config in configs.items():
        for split in splits:
            yield Training(stage, name, config, split, seed_of(split))


@dataclass(frozen=True)
class NestedGain:
    """What learned time is worth, by rows that other splits chose.

    Attributes:
        gain: The gain on test over the row with c = [1] and the same skip, paired over all splits.
        chosen: The rows that each half of the splits chose for the other half.
    """

    gain: Gain
    chosen: tuple[Row, Row]


def nested_gain(cells: Mapping[Row, Cell]) -> NestedGain:
    """Choose a learned row by validation on one half of the splits, and measure it on test on the other; both ways.

    The interval so knows that a rule was chosen. The backbone was chosen by c = [1], on validation of all splits.
    """
    splits = sorted(next(iter(cells.values())).test_accuracies)
    halves = splits[: len(splits) // 2], splits[len(splits) // 2 :]
    learned = {row: cell for row, cell in cells.items() if row.rule != EULER}
    differences: dict[int, float] = {}
    chosen = []
    for seen, held_out in (halves, halves[::-1]):
        best = max(learned, key=lambda row: fmean(learned[row].validation_accuracies[split] for split in seen))
        fixed = cells[Row(EULER, best.has_skip)]
        for split in held_out:
            differences[split] = learned[best].test_accuracies[split] - fixed.test_accuracies[split]
        chosen.append(best)
    first, second = chosen
    return NestedGain(Gain.of([differences[split] for split in splits]), (first, second))
