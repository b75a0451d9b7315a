"""The zoo: every spatial term and every system of the tables, with equation, citation, settings and numbers.

Operators come from `operators/registry.py`, rivals from `rivals/nodes/registry.py`: what is registered is in the zoo.
Published numbers are in `paper.py`. Ours are in `measured.json` and
`measured_operators.json`, which are made from result lines.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError, suggest
from tdegnn.experiments.node_results import NODE_LINES, Cell
from tdegnn.experiments.operator_rules import EULER, RULE_LINES, summarize_rules
from tdegnn.experiments.paper import NODE_ACCURACY, PUBLISHED_ACCURACY, Accuracy
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.row_search import RowSearch, read_row_searches
from tdegnn.experiments.table1 import (
    BEST_FIXED,
    BEST_LEARNED,
    DATASETS,
    KERNEL_RIDGE,
    LINK_RIDGE,
    SYSTEMS,
    summarize,
)
from tdegnn.files import write_whole
from tdegnn.operators.diffusion import PAPER
from tdegnn.operators.edge_attention import MIXINGS
from tdegnn.operators.mixing_operator import MixingOperator
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import drawing_weights
from tdegnn.rivals.nodes.registry import NODE_NETWORKS

Kind = Literal["operator", "system"]

MEASURED = resources("tdegnn.experiments").joinpath("measured.json")
MEASURED_OPERATORS = resources("tdegnn.experiments").joinpath("measured_operators.json")
# Sizes with which any operator can be made, to ask for its equation.
SIZES = {
    "channels": 24,
    "hidden_channels": 24,
    "num_layers": 2,
    "step_size": 0.5,
    "order": 2,
    "num_nodes": 4,
    "num_outputs": 2,
}
# Systems that are neither an operator nor a rival network: ours, and what is solved in closed form.
OTHERS = {
    "DE-GNN": ("F[l+1] = F[l] + h s(F[l]; G)", PAPER),
    "TDE-GNN_D": ("F[l+1] = sum_p c_p F[l-p+1] + h s(F[l]; G), c learned", PAPER),
    "TDE-GNN_A": ("F[l+1] = sum_p c_p F[l-p+1] + h s(F[l]; G), c by attention over the past states", PAPER),
    "TDE-GNN_S": (
        "F[l+1] = sum_p c_p F[l-p+1] + h s(F[l]; G), c learned, all roots in the unit circle",
        "this library: docs/stability.md",
    ),
    BEST_FIXED: ("F[l+1] = F[l] + h s(F[l]; G), s chosen on validation", "this library: tdegnn reproduce best"),
    BEST_LEARNED: (
        "F[l+1] = sum_p c_p F[l-p+1] + h s(F[l]; G), s and the rule for c chosen on validation",
        "this library: tdegnn reproduce best",
    ),
    LINK_RIDGE: (
        "scores = A' W, W = argmin |A'_train W - Y_train|^2 + lambda |W|^2",
        "Zheleva & Getoor, 2009, To join or not to join (LINK), with a ridge",
    ),
    KERNEL_RIDGE: (
        "scores = K (K_tt + lambda m I)^-1 (Y_t - y) + y, K_ij = exp(g (mean cosine of link lists or features - 1))",
        "this library: a kernel ridge in closed form, no network",
    ),
}


class Measured(NamedTuple):
    """Mean and standard deviation of our test accuracy over splits, in percent."""

    mean: float
    deviation: float
    num_splits: int


class OperatorMeasured(NamedTuple):
    """Our test accuracy with an operator: the recipe of a row of Table 1, with c = [1] and with the best learned rule.

    Attributes:
        row: The row.
        fixed: With c = [1].
        rule: The learned rule with the highest validation accuracy.
        learned: With this rule.
    """

    row: str
    fixed: Measured
    rule: str
    learned: Measured

    def __str__(self) -> str:
        """Return both means: `71.7 / 73.1`."""
        return f"{self.fixed.mean:.1f} / {self.learned.mean:.1f}"


@dataclass(frozen=True)
class Setting:
    """A setting of an operator or of a rival.

    Attributes:
        name: Its name in Python and in `--set NAME=VALUE`.
        default: Its default.
        meaning: What it is, from the docstring.
        within: If it is a setting of a part of the operator, that setting and part, such as `"mixing=attention"`: it is
            given as `--set 'mixing={"name": "attention", "settings": {"num_heads": 2}}'`.
    """

    name: str
    default: Any
    meaning: str
    within: str = ""


@dataclass(frozen=True)
class ZooEntry:
    """An operator, or a system of the tables.

    Attributes:
        name: Its name.
        kind: `"operator"` or `"system"`.
        equation: The rate, or the network, in one line.
        citation: Where it was published.
        settings: What can be set, apart from sizes.
        deviations: Where we differ from the publication, from the docstring.
        see: The operators of a system, or the systems of an operator, by name.
        published: The published numbers of a system, by dataset: the paper's, or its authors'.
        measured: Our numbers of a system, by dataset.
        by_rule: Our numbers with an operator, by dataset.
    """

    name: str
    kind: Kind
    equation: str
    citation: str
    settings: tuple[Setting, ...]
    deviations: tuple[str, ...]
    see: tuple[str, ...]
    published: Mapping[str, Accuracy]
    measured: Mapping[str, Measured]
    by_rule: Mapping[str, OperatorMeasured] = field(default_factory=dict)

    @property
    def authors(self) -> str:
        """The citation up to its year, or all of it if it has none."""
        found = re.match(r".*?\b(?:19|20)\d\d\b", self.citation)
        return found.group() if found else self.citation

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets with numbers, in the order of Table 1."""
        numbers = {*self.published, *self.measured, *self.by_rule}
        return tuple(name for name in DATASETS if name in numbers)

    def to_record(self) -> dict[str, Any]:
        """Return the entry in types that JSON supports."""
        numbers = {
            "published": {name: each._asdict() for name, each in self.published.items()},
            "measured": {name: each._asdict() for name, each in self.measured.items()},
            "by_rule": {
                name: {**each._asdict(), "fixed": each.fixed._asdict(), "learned": each.learned._asdict()}
                for name, each in self.by_rule.items()
            },
        }
        return asdict(self) | numbers


def collect_zoo() -> list[ZooEntry]:
    """Return all operators, then all systems of the tables, ours included."""
    measured, by_rule = read_measured(), read_measured_operators()
    searches = read_row_searches()
    operators_of = {
        system: _operators_of(system, searches.get(system))
        for system in dict.fromkeys([*NODE_ACCURACY, *SYSTEMS, *searches, *measured])
    }
    operators = [
        _operator_entry(
            name, [system for system, names in operators_of.items() if name in names], by_rule.get(name, {})
        )
        for name in OPERATORS.names
    ]
    by_name = {entry.name: entry for entry in operators}
    systems = [
        _system_entry(system, [by_name[name] for name in names], measured.get(system, {}))
        for system, names in operators_of.items()
    ]
    return [*operators, *systems]


def tabulate_by_rule(entries: Sequence[ZooEntry]) -> tuple[list[list[str]], list[str]]:
    """Return our accuracies with operators, and the operators that were not trained on the benchmarks.

    Args:
        entries: Operators.

    Returns:
        A table with its header, one row per trained operator and one column per dataset; names of the others.
    """
    trained = [entry for entry in entries if entry.by_rule]
    datasets = [name for name in DATASETS if any(name in entry.by_rule for entry in trained)]
    rows = [[entry.name, *(str(entry.by_rule.get(name, "-")) for name in datasets)] for entry in trained]
    return [["operator", *datasets], *rows], [entry.name for entry in entries if not entry.by_rule]


def find_entries(name: str, entries: Sequence[ZooEntry]) -> list[ZooEntry]:
    """Return the entries of a name: an operator and the systems it belongs to, or a system. Case does not matter."""
    asked = [entry for entry in entries if entry.name.lower() == name.lower()]
    systems = {system for entry in asked if entry.kind == "operator" for system in entry.see}
    found = [entry for entry in entries if entry in asked or (entry.kind == "system" and entry.name in systems)]
    if not found:
        names = [entry.name for entry in entries]
        raise InputError(
            f"Expected the name of an operator or of a system, one of {', '.join(names)}, got {name!r}."
            f"{suggest(name, names)}"
        )
    return found


def read_measured() -> dict[str, dict[str, Measured]]:
    """Return our numbers that come with the library, by system and dataset."""
    stored = json.loads(MEASURED.read_text(encoding="utf-8"))
    by_system: dict[str, dict[str, Measured]] = {}
    for dataset, systems in stored.items():
        for system, numbers in systems.items():
            by_system.setdefault(system, {})[dataset] = Measured(*numbers)
    return by_system


def read_measured_operators() -> dict[str, dict[str, OperatorMeasured]]:
    """Return our numbers that come with the library, by operator and dataset."""
    stored = json.loads(MEASURED_OPERATORS.read_text(encoding="utf-8"))
    by_operator: dict[str, dict[str, OperatorMeasured]] = {}
    for dataset, operators in stored.items():
        for name, (row, fixed, rule, learned) in operators.items():
            by_operator.setdefault(name, {})[dataset] = OperatorMeasured(
                row, Measured(*fixed), rule, Measured(*learned)
            )
    return by_operator


def measure(path: Path) -> dict[str, dict[str, Measured]]:
    """Return our numbers in result lines of Table 1, by dataset and system.

    Args:
        path: The file of result lines.
    """
    found: dict[str, dict[str, Measured]] = {}
    for (dataset, system), cell in summarize(read_lines(path, NODE_LINES)).items():
        found.setdefault(dataset, {})[system] = _measured(cell)
    return found


def measure_operators(path: Path) -> dict[str, dict[str, OperatorMeasured]]:
    """Return our numbers by dataset and operator, from the lines of the table of operators by rules.

    Of two rows with the same operator, the one that is better on validation counts.
    """
    lines = read_lines(path, RULE_LINES)
    operators = {(line["dataset"], line["operator"]): _name_in(line["configuration"]["operator"]) for line in lines}
    found: dict[str, dict[str, OperatorMeasured]] = {}
    for (dataset, row), own in sorted(summarize_rules(lines).items(), key=lambda item: item[1].validation):
        rule = own.best_rule
        numbers = OperatorMeasured(row, _measured(own.cells[EULER]), rule, _measured(own.cells[rule]))
        found.setdefault(dataset, {})[operators[dataset, row]] = numbers
    return {dataset: dict(sorted(found[dataset].items())) for dataset in DATASETS if dataset in found}


def _measured(cell: Cell) -> Measured:
    # Enough digits that rounding twice is rounding once.
    return Measured(round(cell.mean, 6), round(cell.deviation, 6), len(cell.test_accuracies))


def _name_in(record: Any) -> str:
    """Return the name in the record of an operator."""
    return str(record if isinstance(record, str) else record["name"])


def write_measured(lines: Path, path: Path) -> None:
    """Write our numbers to `measured.json`: `{dataset: {system: [mean, deviation, number of splits]}}`.

    Args:
        lines: The file of result lines.
        path: The file to write.
    """
    _write_by_line(measure(lines), path)


def write_measured_operators(lines: Path, path: Path) -> None:
    """Write our numbers to `measured_operators.json`: `{dataset: {operator: [row, [c = [1]], rule, [learned]]}}`.

    Args:
        lines: The file of result lines.
        path: The file to write.
    """
    _write_by_line(measure_operators(lines), path)


def _write_by_line(found: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write numbers by dataset and name, one name per line."""
    sections = [
        f"{json.dumps(dataset)}: {{\n"
        + ",\n".join(f" {json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in own.items())
        + "\n}"
        for dataset, own in found.items()
    ]
    write_whole(path, ("{\n" + ",\n".join(sections) + "\n}\n").encode())


def _operators_of(system: str, search: RowSearch | None) -> tuple[str, ...]:
    """Return the operators of a system: those that its row of Table 1 may have, and those that are named after it."""
    configs = [] if search is None else [search.base, *search.shapes, *search.published.values()]
    records = [config["operator"] for config in configs if "operator" in config]
    names = [_name_in(record) for record in records]
    stem = system.lower()
    named = [name for name in OPERATORS.names if name.rstrip("*") == stem or name.startswith(f"{stem}-")]
    return tuple(name for name in dict.fromkeys([*names, *named]) if name in OPERATORS.names)


def _operator_entry(name: str, systems: Sequence[str], by_rule: Mapping[str, OperatorMeasured]) -> ZooEntry:
    with drawing_weights(0):
        made: SpatialOperator = OPERATORS.make(name, **SIZES)
    part = OPERATORS.resolve(name)
    assert not isinstance(part.kind, str)  # resolved
    return ZooEntry(
        name,
        "operator",
        made.equation,
        made.citation,
        (*_settings_of(part.kind, [part.kind, type(made)], part.settings), *_settings_of_mixing(made)),
        _deviations_of(inspect.unwrap(part.kind), type(made)),
        tuple(systems),
        {},
        {},
        by_rule,
    )


def _settings_of_mixing(operator: SpatialOperator) -> tuple[Setting, ...]:
    """Return the settings of the means that an operator can be given as `mixing`."""
    if not isinstance(operator, MixingOperator):
        return ()
    kinds = {name: MIXINGS.resolve(name).kind for name in MIXINGS.names}
    return tuple(
        replace(setting, within=f"mixing={name}")
        for name, kind in kinds.items()
        if isinstance(kind, type)
        for setting in _settings_of(kind, [kind], {})
    )


def _system_entry(name: str, operators: Sequence[ZooEntry], measured: Mapping[str, Measured]) -> ZooEntry:
    settings: tuple[Setting, ...] = ()
    deviations: tuple[str, ...] = ()
    if name in NODE_NETWORKS:
        network = NODE_NETWORKS[name]
        equation, citation = network.equation, network.citation
        settings = _settings_of(network._make_layers, [network], {})
        deviations = _deviations_of(network)
    elif name in OTHERS:
        equation, citation = OTHERS[name]
    else:
        equation, citation = (f"s = {operators[0].equation}", operators[0].citation) if operators else ("", "")
    return ZooEntry(
        name,
        "system",
        equation,
        citation,
        settings,
        deviations,
        tuple(operator.name for operator in operators),
        PUBLISHED_ACCURACY.get(name, {}),
        measured,
    )


def _settings_of(
    made_by: Callable[..., Any], documented: Sequence[object], given: Mapping[str, Any]
) -> tuple[Setting, ...]:
    """Return the settings of a class or function. Arguments without a default are sizes.

    Args:
        made_by: Whose arguments they are.
        documented: Where the docstrings are that say what the arguments mean.
        given: Values that the registry gives, in place of defaults.
    """
    meanings = _read_arguments(documented)
    settings = []
    for name, argument in inspect.signature(made_by).parameters.items():
        is_size = argument.default is argument.empty and name not in given
        if not is_size and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            default = given.get(name, argument.default)
            is_plain = isinstance(default, str | int | float | list | dict | None)
            settings.append(Setting(name, default if is_plain else str(default), meanings.get(name, "")))
    return tuple(settings)


def _deviations_of(*documented: object) -> tuple[str, ...]:
    """Return the notes that start with `Deviation:` in the docstrings of classes, their bases, and functions."""
    texts = [inspect.cleandoc(each.__doc__ or "") for each in _with_bases(documented)]
    notes = [note for text in texts for note in re.findall(r"Deviation: (.*?)(?=\n\n|\Z)", text, flags=re.DOTALL)]
    return tuple(dict.fromkeys(" ".join(note.split()) for note in notes))


def _read_arguments(documented: Sequence[object]) -> dict[str, str]:
    """Return what each argument means, from the part `Args:` of docstrings. A class has those of its bases too."""
    meanings: dict[str, str] = {}
    for each in _with_bases(documented):
        text = inspect.cleandoc(each.__doc__ or "")
        _, _, rest = text.partition("Args:\n")
        lines = rest.split("\n\n", maxsplit=1)[0]
        for name, meaning in re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", lines, flags=re.MULTILINE):
            meanings.setdefault(name, " ".join(meaning.split()))
    return meanings


def _with_bases(documented: Sequence[object]) -> list[object]:
    """Return classes, each followed by its bases, and functions."""
    return [kind for each in documented for kind in (each.__mro__ if isinstance(each, type) else (each,))]
