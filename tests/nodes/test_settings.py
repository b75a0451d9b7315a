"""Configurations of node networks: what they share with those of rivals, what decides their shape, their records."""

import json
from dataclasses import fields, replace

import pytest

from tdegnn import InputError, Part
from tdegnn.experiments.node_systems import train_together
from tdegnn.experiments.recipe_files import config_from_record, read_recipes, write_recipes
from tdegnn.nodes.settings import NodeConfig
from tdegnn.rivals.nodes.config import RivalConfig
from tdegnn.training.members import GroupedAdam, GroupedAdamW
from tdegnn.training.node_training import TrainingRegime
from tests.node_datasets import make_dataset

REGIME = dict(
    num_steps=6, patience=3, optimizer="adamw", select_by="loss", direction="in", self_loops=True,
    normalized_features=True,
)  # fmt: skip
OURS = NodeConfig(
    hidden_channels=4, num_layers=2, order=2, readout="max", state_norm="unit-length", readout_dropout=0.25,
    input_map=Part("perceptron", num_layers=3), **REGIME,
)  # fmt: skip
RIVAL = RivalConfig("GCNII", hidden_channels=4, own_settings={"alpha": 0.5}, **REGIME)


@pytest.mark.parametrize("config", [OURS, RIVAL], ids=["ours", "rival"])
def test_records_and_recipes_hold_all_settings(tmp_path, config):
    assert config_from_record(json.loads(json.dumps(config.to_record()))) == config
    write_recipes(tmp_path / "r.toml", {config.system: config})
    assert read_recipes("made up", tmp_path / "r.toml") == {config.system: config}


def test_records_without_the_later_settings_have_their_defaults():
    later = {field.name for field in fields(TrainingRegime)} - {"num_steps", "normalized_features"}
    later |= {"input_map", "state_norm", "readout", "skip", "readout_dropout"}
    for config in (NodeConfig(num_layers=4), RivalConfig("GCN")):
        record = {name: value for name, value in config.to_record().items() if name not in later}
        assert config_from_record(record) == config


@pytest.mark.parametrize("config", [OURS, RIVAL], ids=["ours", "rival"])
def test_the_regime_decides_the_shape(config):
    for name in REGIME:
        default = getattr(TrainingRegime(), name)
        assert replace(config, **{name: default}).shape != config.shape
    assert replace(config, outer_dropout=0.1, hidden_dropout=0.2).shape == config.shape
    assert isinstance(config.descent, GroupedAdamW)
    assert type(replace(config, optimizer="adam").descent) is GroupedAdam


def test_parts_decide_the_shape_of_ours_and_whole_settings_that_of_rivals():
    for change in ({"readout": "last"}, {"state_norm": None}, {"input_map": "linear"}, {"readout_dropout": None}):
        assert replace(OURS, **change).shape != OURS.shape
    assert replace(OURS, readout_dropout=0.5).shape == OURS.shape
    assert replace(RIVAL, own_settings={"alpha": 0.1, "theta": 1.5}).shape == RIVAL.shape
    for value in (2, True, "mean", [1, 2]):
        assert replace(RIVAL, own_settings={"alpha": 0.5, "kind": value}).shape != RIVAL.shape


def test_nodes_are_prepared_as_the_regime_says():
    dataset = make_dataset()
    prepared = OURS.prepare(dataset)
    assert prepared.graph.direction == "in"
    assert (prepared.graph.received.diagonal() == 1).all()
    assert prepared.features.sum(axis=1).max() == pytest.approx(1.0)
    plain = NodeConfig().prepare(dataset)
    assert plain is dataset
    # A self-loop as a feature would only tell nodes apart.
    joined = replace(OURS, adjacency_features=True).prepare(dataset)
    assert not joined.features[:, dataset.num_features :].diagonal().any()


@pytest.mark.slow
@pytest.mark.parametrize("config", [OURS, RIVAL], ids=["ours", "rival"])
def test_a_regime_is_trained(config):
    runs = train_together(make_dataset(), [config, replace(config, outer_dropout=0.2)], [0, 1])
    assert len(runs) == 4
    assert all(0.0 <= run.validation_accuracy <= 1.0 for run in runs)  # not the loss, by which the step is chosen


def test_wrong_regimes_are_refused():
    for name, value in {"optimizer": "sgd", "select_by": "auc", "direction": "up"}.items():
        for kind in (NodeConfig, lambda **given: RivalConfig("GCN", **given)):
            with pytest.raises(InputError, match=f"Expected {name} to be one of .*, got '{value}'"):
                kind(**{name: value})


def test_parts_know_all_sizes():
    def readout(channels, num_layers, order, step_size, num_nodes, num_outputs, num_features):
        seen.update(locals())
        return Part  # refused, once the sizes were seen

    seen = {}
    with pytest.raises(InputError, match="readout to be a name .last, max, .*. or derived from Readout"):
        replace(OURS, readout=readout).build(make_dataset(), 0)
    expected = dict(channels=4, num_layers=2, order=2, step_size=0.5, num_nodes=40, num_outputs=3, num_features=12)
    assert {name: seen[name] for name in expected} == expected
