import json
import re
from dataclasses import replace

import numpy as np
import pytest

from tdegnn import DiffusionOperator, InputError
from tdegnn.experiments import node_results, recipe_files, records, table1
from tdegnn.experiments.node_systems import train_together
from tdegnn.experiments.recipe_files import config_from_record, read_recipes, write_recipes
from tdegnn.nodes.settings import NodeConfig, upgrade_settings
from tdegnn.parts import Part
from tdegnn.rivals.nodes.config import RivalConfig
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tdegnn.training.devices import choose_placement
from tdegnn.training.members import GroupDescent
from tests.node_datasets import make_dataset

CPU = choose_placement("cpu")
SMALL = NodeConfig(
    hidden_channels=8,
    num_layers=2,
    order=2,
    num_steps=6,
    initial_states="newest-unmapped",
    temporal=GroupDescent(1e-3, 0.1),
)


@pytest.fixture
def made_up(monkeypatch):
    for module in (node_results, table1):
        monkeypatch.setattr(module, "load_nodes", lambda name: make_dataset())


def test_recipes_come_back(tmp_path):
    configs = {"DE-GNN": replace(SMALL, system="DE-GNN", order=1), "TDE-GNN_D": SMALL}
    write_recipes(tmp_path / "r.toml", configs)
    assert read_recipes("made up", tmp_path / "r.toml") == configs


def test_a_config_comes_back_from_a_result_line():
    own = replace(SMALL, coefficients=Part("stable", multiplicity=2), operator=Part("diffusion", batch_norm=True))
    for config in (SMALL, own):
        assert config_from_record(json.loads(json.dumps(config.to_record()))) == config


OLD = {
    "system": "TDE-GNN_A", "hidden_channels": 8, "num_layers": 2, "order": 2, "num_steps": 6,
    "initial_states": "newest unmapped", "temporal": {"learning_rate": 1e-3, "weight_decay": 0.1},
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ({}, {}),
        ({"attention": "plain", "layer_maps": "free", "batch_norm": False}, {}),
        ({"attention": "gated"}, {"coefficients": "gated-attention"}),
        ({"attention": "gated", "system": "TDE-GNN_D"}, {"system": "TDE-GNN_D"}),
        ({"layer_maps": "near identity"}, {"operator": "near-identity"}),
        ({"batch_norm": True}, {"operator": Part("diffusion", batch_norm=True)}),
        (
            {"batch_norm": True, "layer_maps": "near identity", "initial_states": "mapped"},
            {"operator": Part("near-identity", batch_norm=True), "initial_states": "mapped"},
        ),
    ],
)
def test_records_of_earlier_versions_are_read(tmp_path, words, parts):
    expected = replace(SMALL, **{"system": "TDE-GNN_A"} | parts)
    record = OLD | words
    assert config_from_record(record) == expected
    assert hash(config_from_record(record)) == hash(expected)
    assert upgrade_settings(upgrade_settings(record)) == upgrade_settings(record)
    section = [f"{name} = {json.dumps(value)}" for name, value in record.items() if name not in ("system", "temporal")]
    lines = [
        "[" + json.dumps(record["system"]) + "]",
        *section,
        "temporal = { learning_rate = 1e-3, weight_decay = 0.1 }",
    ]
    (tmp_path / "r.toml").write_text("\n".join(lines))
    assert read_recipes("cora", tmp_path / "r.toml") == {record["system"]: expected}


def test_what_an_earlier_version_trained_is_not_trained_again(made_up, tmp_path):
    path = tmp_path / "table1.jsonl"
    config = replace(SMALL, system="TDE-GNN_A")
    node_results.train_row("cora", config, path, placement=CPU)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all({"attention", "layer_maps", "batch_norm"}.isdisjoint(line["configuration"]) for line in lines)
    old = [line | {"configuration": OLD | {"attention": "plain", "batch_norm": False}} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    before = path.read_text()
    node_results.train_row("cora", config, path, placement=CPU)
    assert path.read_text() == before


def test_shapes_tell_parts_apart():
    shapes = {
        replace(SMALL, **part).shape
        for part in (
            dict(),
            dict(operator="near-identity"),
            dict(operator=Part("diffusion", batch_norm=True)),
            dict(operator=DiffusionOperator),
            dict(coefficients="stable"),
            dict(coefficients=Part("stable", multiplicity=2)),
            dict(initial_states="mapped"),
        )
    }
    assert len(shapes) == 7
    assert replace(SMALL, step_size=0.1, outer_dropout=0.1, hidden_dropout=0.9).shape == SMALL.shape


@pytest.mark.parametrize("dataset", table1.DATASETS)
def test_every_dataset_has_a_recipe_for_our_systems(dataset):
    found = read_recipes(dataset)
    assert set(found) >= {table1.FIXED, *table1.LEARNED}
    assert all(config.system == system for system, config in found.items())


def test_wrong_recipes_are_refused(tmp_path, as_a_user):
    with pytest.raises(InputError, match="a dataset with recipes, one of .*cora.* got 'coar'"):
        read_recipes("coar")
    path = tmp_path / "r.toml"
    path.write_text("[DE-GNN\n")
    with pytest.raises(InputError, match="a recipe in TOML in r.toml"):
        read_recipes("cora", path)
    for section, wrong in WRONG_SECTIONS.items():
        for line, message in wrong.items():
            path.write_text(f'["{section}"]\nnum_layers = 2\n{line}\n')
            with pytest.raises(InputError) as refusal:
                read_recipes("cora", path)
            assert re.match(rf"In the recipe r.toml, \[{section}\]: {message}", str(refusal.value)), refusal.value
            assert "\n" not in str(refusal.value)


WRONG_SECTIONS = {
    "DE-GNN": {
        "num_layres = 3": r"Expected settings among .*hidden_channels.*, got 'num_layres'.*Did you mean 'num_layers'\?",
        "operator = 3": "Expected operator to be one of diffusion, .*cde.*, got 3",
        "operator = [1]": r"Expected operator to be one of diffusion, .*, got \[1\]",
        'operator = { nam = "grand" }': "Expected operator to be one of diffusion, .*, got {'nam': 'grand'}",
        'operator = { name = "grand", setings = { } }': "Expected operator to .*, got 'setings'.* mean 'settings'",
        'operator = { name = "grand", settings = 3 }': "Expected settings of operator by name, got 3",
        'operator = "grund"': r"Expected operator to be one of diffusion, .*, got 'grund'. Did you mean 'grand'\?",
        'operator = { name = "grand", settings = { mixng = "constant" } }': (
            r"Expected settings of grand among .*mixing.*, got 'mixng'. Did you mean 'mixing'\?"
        ),
        'operator = { name = "grand", settings = { mixing = "atention" } }': (
            r"Expected mixing to be one of constant, attention, .*got 'atention'. Did you mean 'attention'\?"
        ),
        'operator = { name = "grand", settings = { mixing = { name = "attention", settings = { num_heads = 5 } } } }': (
            "Expected attention_channels to be a multiple of num_heads = 5, got 64"
        ),
        'operator = { name = "gcnii", settings = { alpha = 1.5 } }': "Expected alpha to be from 0 to 1, got 1.5",
        'operator = { name = "gat", settings = { num_heads = "two" } }': "Expected num_heads of gat to be a whole num",
        'operator = { name = "together", settings = { terms = 3 } }': "Expected terms of together to be a list of op",
        'operator = "past-diffusion"': "Expected an operator for nodes, such as diffusion, .*, got PastDiffusion",
        'coefficients = "stabel"': r"Expected coefficients to be .*, got 'stabel'. Did you mean 'stable'\?",
        'initial_states = "maped"': r"Expected initial_states to be .*, got 'maped'. Did you mean 'mapped'\?",
        'input_map = "afine"': r"Expected input_map to be one of linear, .*, got 'afine'. Did you mean 'affine'\?",
        'input_map = { name = "perceptron", settings = { num_layers = 4 } }': "Expected an input map of 1 to 3 layers",
        'input_map = { name = "linear", settings = { channels = -1 } }': "Expected parts that fit the network",
        'state_norm = "unit"': "Expected state_norm to be one of unit-length, layer-norm, .*, got 'unit'",
        'state_norm = { name = "layer-norm", settings = { eps = 1 } }': "Expected settings of layer-norm among chan",
        'readout = "maximum"': "Expected readout to be one of last, max, .*, got 'maximum'",
        'readout = { name = "complex", settings = { num_layers = 3 } }': "Expected a readout of 1 or 2 layers, got 3",
        'hidden_channels = 7\nreadout = "modulus"': "Expected an even number of channels, .*, got 7",
        'skip = "kernel-rige"': r"Expected skip to be one of kernel-ridge, .* Did you mean 'kernel-ridge'\?",
        'skip = { name = "kernel-ridge", settings = { num_fold = 3 } }': "Expected settings of .* mean 'num_folds'",
        "readout_dropout = true": "Expected readout_dropout to be a number, got True",
        "spatial = { learning_rat = 1 }": "Expected settings of spatial among learning_rate, .* mean 'learning_rate'",
        "spatial = { learning_rate = true }": "Expected learning_rate of spatial to be a number, got True",
        'layer_maps = "fre"': "Expected layer_maps to be one of free, near identity, got 'fre'",
    },
    "TDE-GNN_A": {'attention = "gatd"': "Expected attention to be one of plain, gated, got 'gatd'"},
    "GCNII": {
        "own_settings = 3": "Expected own_settings by name, got 3",
        "own_settings = { alpa = 0.1 }": r"Expected settings of GCNII among alpha, theta, .* Did you mean 'alpha'\?",
        'own_settings = { alpha = "small" }': "Expected alpha of GCNII to be a number, got 'small'",
        "own_settings = { alpha = 3 }": "Expected alpha to be from 0 to 1, got 3",
    },
}


@pytest.mark.parametrize("dataset", table1.DATASETS)
def test_recipes_of_the_library_are_checked_here(dataset, tmp_path):
    """They are not checked when they are read: that takes longer than reading."""
    (tmp_path / "r.toml").write_bytes(recipe_files.FOLDER.joinpath(f"{dataset}.toml").read_bytes())
    assert read_recipes(dataset, tmp_path / "r.toml") == read_recipes(dataset)


def test_a_class_of_ones_own_in_a_recipe_may_need_the_data_to_be_made(tmp_path):
    class Bound(DiffusionOperator):
        def __init__(self, channels, num_layers, num_nodes, scale=1.0):
            assert num_nodes == 2708
            super().__init__(channels, num_layers, 0.1)

    config = NodeConfig(operator=Part(Bound, scale=2.0))
    write_recipes(tmp_path / "r.toml", {"TDE-GNN_D": config})
    assert read_recipes("cora", tmp_path / "r.toml", operator=Bound) == {"TDE-GNN_D": config}
    write_recipes(tmp_path / "r.toml", {"TDE-GNN_D": NodeConfig(operator=Part(Bound, scales=2.0))})
    with pytest.raises(InputError, match=r"In the recipe r.toml, \[TDE-GNN_D\]: Expected settings of Bound .* 'scale'"):
        read_recipes("cora", tmp_path / "r.toml", operator=Bound)


@pytest.mark.slow
def test_a_row_is_trained_once_and_goes_on_where_it_was_cut(made_up, tmp_path):
    path = tmp_path / "table1.jsonl"
    node_results.train_row("cora", SMALL, path, placement=CPU)
    whole = path.read_text().splitlines()
    assert len(whole) == 3
    node_results.train_row("cora", SMALL, path, placement=CPU)
    assert path.read_text().splitlines() == whole
    path.write_text("\n".join(whole[:1]) + "\n")
    node_results.train_row("cora", SMALL, path, placement=CPU)
    again = [json.loads(line) for line in path.read_text().splitlines()]
    for line, expected in zip(again, map(json.loads, whole), strict=True):
        assert line == expected
    node_results.train_row("cora", replace(SMALL, step_size=0.1), path, placement=CPU)
    assert len(path.read_text().splitlines()) == 6


def test_kernel_ridge_has_one_setting_and_is_solved_once(made_up, monkeypatch, tmp_path):
    monkeypatch.setattr("tdegnn.kernel_ridge.SHARPNESSES", (1.0, 6.0))
    monkeypatch.setattr("tdegnn.kernel_ridge.RIDGES", (0.1, 1.0))
    path = tmp_path / "table1.jsonl"
    table1.solve_kernel_ridge("cora", path)
    lines = path.read_text().splitlines()
    first, *others = [json.loads(line)["configuration"] for line in lines]
    assert others == [first] * 2
    path.write_text("\n".join(lines[:2]) + "\n")
    for _ in range(2):
        table1.solve_kernel_ridge("cora", path)
        assert path.read_text().splitlines() == lines
    assert len(table1.summarize(records.read_lines(path))["cora", table1.KERNEL_RIDGE].test_accuracies) == 3


def test_link_ridge_is_solved_once(made_up, tmp_path):
    path = tmp_path / "table1.jsonl"
    table1.solve_link_ridge("cora", path)
    lines = path.read_text()
    table1.solve_link_ridge("cora", path)
    assert path.read_text() == lines
    assert len(lines.splitlines()) == 3
    assert len(table1.summarize(records.read_lines(path))["cora", table1.LINK_RIDGE].test_accuracies) == 3


@pytest.mark.parametrize("system", NODE_NETWORKS)
def test_rivals_are_trained_from_recipes_too(made_up, system, tmp_path):
    config = RivalConfig(system, hidden_channels=8, num_steps=3)
    write_recipes(tmp_path / "r.toml", {system: config})
    assert read_recipes("made up", tmp_path / "r.toml") == {system: config}
    node_results.train_row("cora", config, tmp_path / "table1.jsonl", placement=CPU)
    lines = records.read_lines(tmp_path / "table1.jsonl")
    assert [line["system"] for line in lines] == [system] * 3
    assert config_from_record(lines[0]["configuration"]) == config


def test_an_unknown_rival_is_refused():
    with pytest.raises(InputError, match=f"a rival among {', '.join(NODE_NETWORKS)}, got 'GPN'"):
        RivalConfig("GPN")


@pytest.mark.slow
def test_only_lines_of_the_recipe_count(made_up, tmp_path, monkeypatch):
    path = tmp_path / "table1.jsonl"
    for config in (SMALL, replace(SMALL, step_size=0.1)):
        node_results.train_row("cora", config, path, placement=CPU)
    monkeypatch.setattr(table1, "read_recipes", lambda name: {"TDE-GNN_D": SMALL})
    cells = table1.summarize(records.read_lines(path))
    assert set(cells) == {("cora", "TDE-GNN_D")}
    assert len(cells["cora", "TDE-GNN_D"].test_accuracies) == 3


def test_a_gain_is_paired_over_splits():
    fixed = node_results.Cell({0: 50.0, 1: 60.0, 2: 70.0}, {})
    learned = node_results.Cell({0: 51.0, 1: 61.5, 2: 71.0}, {})
    gain = node_results.paired_gain(learned, fixed)
    differences = np.array([1.0, 1.5, 1.0])
    half = 4.302652729911275 * differences.std(ddof=1) / np.sqrt(3)  # Student's t with two degrees of freedom
    assert gain.mean == pytest.approx(differences.mean())
    assert (gain.low, gain.high) == pytest.approx((differences.mean() - half, differences.mean() + half))
    assert str(gain).startswith("+1.17 (")


def test_a_float_may_be_written_without_its_point():
    config = config_from_record({"system": "DE-GNN", "step_size": 1, "embedding": {"learning_rate": 1}})
    assert (config.step_size, config.embedding) == (1.0, GroupDescent(1.0))
    assert isinstance(config.step_size, float)


@pytest.mark.slow
def test_rules_start_alike_and_a_frozen_rule_is_that_of_euler():
    """What a learned rule adds is then not the luck of its first weights."""
    dataset = make_dataset()
    fixed = replace(SMALL, system="DE-GNN", order=1, step_size=0.4)
    frozen = replace(fixed, system="TDE-GNN_D", order=2, temporal=GroupDescent(0.0))
    runs = [train_together(dataset, [config], [0, 1]) for config in (fixed, frozen)]
    for alone, learned in zip(*runs, strict=True):
        assert (alone.validation_accuracy, alone.test_accuracy) == (learned.validation_accuracy, learned.test_accuracy)
    networks = [replace(fixed, system=system, order=2).build(dataset, 3) for system in ("DE-GNN", *table1.LEARNED)]
    for part in ("embedding.weight", "operator.weight", "readout.weight"):
        first, *others = (network.get_parameter(part) for network in networks)
        assert all(first.equal(other) for other in others)


def test_configurations_of_different_shapes_are_not_trained_together():
    with pytest.raises(InputError, match="configurations of one shape, got several"):
        train_together(make_dataset(), [SMALL, replace(SMALL, num_layers=3)], [0])


def test_features_are_prepared_as_the_configuration_says():
    dataset = make_dataset()
    wide = replace(SMALL, adjacency_features=True, normalized_features=True)
    assert wide.prepare(dataset).num_features == dataset.num_features + dataset.num_nodes
    (run,) = train_together(dataset, [wide], [1])
    assert (run.split, run.seed) == (1, 1000)
    assert 0 <= run.test_accuracy <= 1


def test_the_recipes_folder_holds_nothing_else():
    assert {entry.name for entry in recipe_files.FOLDER.iterdir()} == {f"{name}.toml" for name in table1.DATASETS}
