from dataclasses import replace

import pytest
import torch
from torch.nn.utils import parameters_to_vector

from tdegnn import AttentionCoefficients, DirectCoefficients, FixedCoefficients, GatedAttention, InputError
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.nets.physical_series import PhysicalSeriesNetwork
from tdegnn.nets.series_network import SeriesSizes
from tdegnn.nets.temporal import TemporalNetwork
from tdegnn.rivals.series.config import SeriesRivalConfig
from tdegnn.rivals.series.registry import SERIES_NETWORKS
from tdegnn.training.members import GroupDescent

SIZES = SeriesSizes(window=4, horizon=2, num_nodes=5, num_channels=3, num_known=2)


@pytest.mark.parametrize(
    ("settings", "rule", "order"),
    [
        (dict(system="DE-GNN"), FixedCoefficients, 1),
        (dict(system="TDE-GNN_D", order=3), DirectCoefficients, 3),
        (dict(coefficients="attention", order=2), AttentionCoefficients, 2),
        (dict(system="TDE-GNN_A", order=4), GatedAttention, 4),
    ],
)
def test_a_system_is_its_rule(settings, rule, order):
    network = SeriesConfig(**settings).build(SIZES, seed=0)
    assert type(network.coefficients) is rule
    assert network.coefficients.order == order


@pytest.mark.parametrize(("states", "kind"), [("latent", TemporalNetwork), ("physical", PhysicalSeriesNetwork)])
def test_states_are_as_named(states, kind):
    assert type(SeriesConfig(states=states).build(SIZES, seed=0)) is kind


def test_a_skip_is_as_named():
    shapes = [SeriesConfig(skip=skip).build(SIZES, 0).skip for skip in ("none", "linear", "by-node")]
    assert shapes[0] is None
    assert [len(skip.by_node) for skip in shapes[1:]] == [0, SIZES.num_nodes]


def test_weights_follow_the_seed_and_rules_start_with_the_same():
    def weights(seed, **settings):
        network = SeriesConfig(**settings).build(SIZES, seed)
        return torch.cat(
            [part.flatten() for name, part in network.state_dict().items() if not name.startswith("coefficients")]
        )

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
    for system in ("DE-GNN", "TDE-GNN_A"):
        assert torch.equal(weights(1, system=system), weights(1))


def test_settings_reach_the_network_and_the_optimizer():
    config = SeriesConfig(step_size=0.25, dropout=0.4, temporal=GroupDescent(0.5, 0.6), spatial=GroupDescent(0.7))
    network = config.build(SIZES, seed=9)
    assert (network.step_size, network.operator.step_size, network.dropout, network.seed) == (0.25, 0.25, 0.4, 9)
    assert config.descent.group_of("coefficients.raw") == GroupDescent(0.5, 0.6)
    assert config.descent.group_of("operator.updates.0.weight") == GroupDescent(0.7)
    assert config.descent.group_of("readout.weight") == config.embedding
    # The skip is solved, and then stays, unless it is told to learn.
    assert config.descent.group_of("skip.shared.weight") == GroupDescent(0.0)
    assert replace(config, linear=GroupDescent(0.1)).descent.group_of("skip.by_node") == GroupDescent(0.1)
    assert replace(config, averaging=0.9).descent.averaging == 0.9
    assert config.to_record()["temporal"] == {"learning_rate": 0.5, "weight_decay": 0.6}


def test_configurations_of_one_shape_may_learn_differently():
    config = SeriesConfig()
    assert config.shape == replace(config, step_size=0.1, dropout=0.0, embedding=GroupDescent(1.0)).shape
    for change in (dict(order=2), dict(skip="none"), dict(hidden_channels=4), dict(batch_size=3), dict(num_steps=1)):
        assert config.shape != replace(config, **change).shape
    rival = SeriesRivalConfig("DCRNN")
    assert rival.shape == replace(rival, dropout=0.0).shape != replace(rival, hidden_channels=3).shape


@pytest.mark.parametrize("name", SERIES_NETWORKS)
def test_every_rival_is_built_from_its_seed(name):
    config = SeriesRivalConfig(name, hidden_channels=4, dropout=0.2)
    first, again, other = (parameters_to_vector(config.build(SIZES, seed).parameters()) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert config.descent.group_of("operator.weight") == config.embedding
    assert config.to_record()["system"] == name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(system="GCN"), "system to be one of DE-GNN, TDE-GNN_D, TDE-GNN_A, TDE-GNN_S, got 'GCN'"),
        (dict(skip="yes"), "skip to be one of none, last, season, linear, by-node, or a class of your own, got 'yes'"),
        (
            dict(coefficients="soft"),
            "coefficients to be one of euler, .*, or a class of your own, got 'soft'",
        ),
        (dict(order=5), "order of at most 4, the number of frames in the window, got 5"),
    ],
)
def test_wrong_settings_are_refused(monkeypatch, settings, message):
    # No checks of the test run come before the library's own.
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(InputError, match=message):
        SeriesConfig(**settings).build(SIZES, seed=0)


def test_an_unknown_rival_is_refused():
    with pytest.raises(InputError, match="a rival among .*DCRNN.*, got 'ARIMA'"):
        SeriesRivalConfig("ARIMA")
