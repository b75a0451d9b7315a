"""`tdegnn sweep --space families`: the families of the search for the best network, for every system."""

from dataclasses import replace
from typing import get_args

import pytest

from tdegnn import InputError
from tdegnn.cli.sweep import SpaceOption
from tdegnn.experiments import family_space
from tdegnn.experiments.best_search import Family, read_families
from tdegnn.experiments.family_space import FAMILY, family_config, family_ranges, family_shapes
from tdegnn.experiments.node_systems import train_together
from tdegnn.experiments.recipe_files import read_recipes, write_recipe
from tdegnn.experiments.search_space import Space, SweepSettings
from tests.experiments.test_sweep import TINY, rigged, sweep

POSITIVE = replace(TINY, features=abs(TINY.features))
SETTINGS = SweepSettings("TDE-GNN_D", num_splits=2, num_steps=4, space="families")


def drawn(group, place, **changes):
    return {FAMILY: group, "self_loops": False, "state_norm": None, **dict.fromkeys(family_ranges(), place)} | changes


def test_trials_draw_all_families_within_their_ranges():
    families = {family.name: family for family in read_families()}
    groups = family_shapes(POSITIVE)[FAMILY]
    assert len(groups) == sum(len(family.shapes) for family in families.values())
    for group in groups:
        limits = families[group.rpartition(", shape")[0]].limits
        low, high = (family_config("DE-GNN", drawn(group, place)) for place in (0.0, 1.0))
        assert low.shape == high.shape
        rates = [config.embedding.learning_rate for config in (low, high)]
        assert rates == pytest.approx(limits["learning_rate"][:2])
        assert (low.order, low.coefficients, low.system) == (1, "euler", "DE-GNN")
    known = [family_config("TDE-GNN_A", drawn(group, 1.0)) for group in groups]
    assert max(config.num_layers for config in known) == 64
    assert {config.optimizer for config in known} == {"adam", "adamw"}
    assert {config.select_by for config in known} == {"accuracy", "loss"}
    assert max(config.embedding.weight_decay for config in known) >= 1
    assert {(config.order, config.coefficients) for config in known} == {(2, "gated-attention")}
    changed = family_config("DE-GNN", drawn(groups[0], 0.0, self_loops=True, state_norm="layer-norm"))
    assert (changed.self_loops, changed.state_norm) == (True, "layer-norm")


def test_the_command_knows_all_spaces():
    assert {option.value for option in SpaceOption} == {*get_args(Space)}


def test_features_below_zero_are_not_scaled_to_sum_to_one():
    configs = [family_config("DE-GNN", drawn(group, 0.5)) for group in family_shapes(TINY)[FAMILY]]
    assert 0 < len(configs) < len(family_shapes(POSITIVE)[FAMILY])
    assert not any(config.normalized_features for config in configs)


def test_a_batch_has_one_family_and_the_best_trial_is_a_recipe(tmp_path):
    batches = []

    def recording(dataset, configs, splits, **options):
        batches.append(configs)
        return rigged(dataset, configs, splits, **options)

    study, result = sweep(tmp_path / "study", trials=12, settings=SETTINGS, train=recording)
    assert len({trial.params[FAMILY] for trial in study.trials}) == 3
    assert {config.num_steps for configs in batches for config in configs} == {2, 4}
    config = result.finalists[0].config
    write_recipe(tmp_path / "recipe.toml", config)
    assert read_recipes("tiny", tmp_path / "recipe.toml") == {"TDE-GNN_D": config}
    with pytest.raises(InputError, match="no operator with the space families, .* got 'gcnii'. Leave out one"):
        replace(SETTINGS, operator="gcnii")


@pytest.mark.slow
def test_it_trains_real_networks_whose_operators_differ_in_fractions(tmp_path, monkeypatch):
    base = {"operator": "gcnii", "hidden_channels": 4, "num_layers": 2}
    small = (Family("gcnii", base, [{}], {"operator.alpha": [0.1, 0.5]}, [], 2),)
    monkeypatch.setattr(family_space, "read_families", lambda: small)
    for kept in (family_space._groups, family_ranges):
        monkeypatch.setattr(family_space, kept.__name__, kept.__wrapped__)
    study, result = sweep(tmp_path / "study", trials=3, settings=SETTINGS, train=train_together, num_finalists=1)
    assert result.num_finished == 3
    alphas = [SETTINGS.config(trial.params).operator.settings["alpha"] for trial in study.trials]
    assert 0.1 <= min(alphas) < max(alphas) <= 0.5
    assert result.finalists[0].config.operator.settings["alpha"] in alphas
