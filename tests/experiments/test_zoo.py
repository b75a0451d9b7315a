"""The zoo says what the registries, the paper and the result lines say."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tdegnn.errors import InputError
from tdegnn.experiments.paper import NODE_ACCURACY
from tdegnn.experiments.table1 import DATASETS, SYSTEMS
from tdegnn.experiments.zoo import (
    MEASURED,
    MEASURED_OPERATORS,
    Setting,
    collect_zoo,
    find_entries,
    measure,
    measure_operators,
    write_measured,
)
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Part
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tests import zoo
from tests.core.checkers import Repulsion


@pytest.fixture(scope="module")
def entries():
    return collect_zoo()


def test_everything_registered_is_in_it_with_equation_and_citation(entries):
    assert [entry.name for entry in entries if entry.kind == "operator"] == list(OPERATORS.names)
    systems = {entry.name for entry in entries if entry.kind == "system"}
    assert systems >= {*SYSTEMS, *NODE_ACCURACY, *NODE_NETWORKS}
    for entry in entries:
        if entry.kind == "operator" or entry.name in SYSTEMS or entry.see:
            check_entry(entry)


def check_entry(entry):
    assert entry.equation, entry.name
    assert entry.authors, entry.name
    assert "\n" not in entry.equation + entry.citation
    assert all(setting.meaning for setting in entry.settings), entry.name


def test_the_paper_has_all_21_systems():
    assert len(NODE_ACCURACY) == 21
    missing = {(name, dataset) for name, row in NODE_ACCURACY.items() for dataset in DATASETS[:6] if dataset not in row}
    assert missing == {("PDE-GCN", "squirrel"), ("PDE-GCN", "film")}
    assert NODE_ACCURACY["GREAD"]["cora"] == (88.57, 0.66)


@pytest.mark.slow
def test_the_packaged_numbers_are_those_of_the_result_lines(entries, tmp_path):
    found = json.loads(MEASURED.read_text())
    assert found == json.loads(json.dumps(measure(zoo.LINES))), "run `make zoo`"
    write_measured(zoo.LINES, tmp_path / "measured.json")
    assert (tmp_path / "measured.json").read_text() == Path(str(MEASURED)).read_text()
    (entry,) = [entry for entry in entries if (entry.name, entry.kind) == ("GCN", "system")]
    assert list(entry.measured["cora"]) == found["cora"]["GCN"]
    assert entry.measured["cora"].num_splits == 10
    assert entry.published["cora"].mean == 85.77


@pytest.mark.slow
def test_the_packaged_numbers_of_operators_are_those_of_the_result_lines(entries):
    found = measure_operators(zoo.RULES_LINES)
    assert json.loads(MEASURED_OPERATORS.read_text()) == json.loads(json.dumps(found)), "run `make zoo`"
    by_name = {entry.name: entry for entry in entries if entry.kind == "operator"}
    assert {(name, dataset) for name, entry in by_name.items() for dataset in entry.by_rule} == {
        (name, dataset) for dataset, own in found.items() for name in own
    }
    dir_gnn = by_name["dir-gnn"].by_rule["squirrel"]
    page = (zoo.ROOT / "results" / "README.md").read_text()
    assert f"| Squirrel | {dir_gnn.row} | {dir_gnn.fixed.mean:.2f} ± {dir_gnn.fixed.deviation:.2f} |" in page


def test_an_operator_has_the_deviations_of_its_bases(entries):
    deviations = {entry.name: " ".join(entry.deviations) for entry in entries if entry.kind == "operator"}
    for name in ("sheaf-diagonal", "sheaf-bundle"):
        assert "published graphs are undirected and unweighted" in deviations[name]
    for name in ("acmii", "acm+", "acmii+"):
        assert "the published network has two layers" in deviations[name]
    assert [name for name in ("graff", "walks", "directed-diffusion", "past-diffusion") if not deviations[name]] == []


def test_settings_of_attention_are_listed_within_the_mixing(entries):
    (grand,) = [entry for entry in entries if (entry.name, entry.kind) == ("grand", "operator")]
    within = {setting.name: setting.default for setting in grand.settings if setting.within == "mixing=attention"}
    assert within == {"num_heads": 4, "attention_channels": 64, "normalization": "softmax"}


def test_the_page_has_the_systems_of_the_zoo():
    page = zoo.PAGE.read_text()
    assert zoo.renew(page) == page, "run `make zoo`"


def test_settings_are_those_of_the_signature_with_what_the_docstring_says(entries):
    settings = {entry.name: entry.settings for entry in entries}
    meaning = "Whether to normalize channels over nodes (and batch) before the relu."
    assert settings["diffusion"] == (Setting("batch_norm", False, meaning),)
    assert [setting.name for setting in settings["GCNII"]] == ["alpha", "theta"]


def test_a_setting_of_the_registry_is_shown_as_the_default(monkeypatch):
    monkeypatch.setitem(OPERATORS._members, "normal", Part(OPERATORS.resolve("diffusion").kind, batch_norm=True))
    (entry,) = find_entries("normal", collect_zoo())
    assert [setting.default for setting in entry.settings] == [True]


@pytest.mark.parametrize(
    ("operator", "systems"),
    [
        ("gread-bs", ["GREAD"]),
        ("gread-own", ["GREAD"]),
        ("gcnii*", ["GCNII"]),
        ("gcnii", ["GCNII", "GCNII rate"]),
        ("sheaf-bundle", ["NSD"]),
        ("acmii+", ["ACMII rate"]),
        ("own", []),
    ],
)
def test_an_operator_comes_with_its_systems(monkeypatch, operator, systems):
    monkeypatch.setitem(OPERATORS._members, operator, Part(Repulsion))
    entry, *others = find_entries(operator, collect_zoo())
    assert (entry.kind, entry.see) == ("operator", tuple(systems))
    assert [(other.kind, other.name) for other in others] == [("system", system) for system in systems]
    assert all(operator in other.see for other in others)


def test_names_are_found_in_any_case_and_near_ones_are_suggested(entries):
    twins = [*entries, replace(entries[0], name="gcn")]
    assert {entry.kind for entry in find_entries("gcn", twins)} == {"operator", "system"}
    with pytest.raises(InputError, match="one of diffusion, .*, got 'GRAED'. Did you mean 'GREAD'?"):
        find_entries("GRAED", entries)
