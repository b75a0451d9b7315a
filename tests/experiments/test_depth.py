import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from tdegnn import InputError, StableCoefficients, integrate
from tdegnn.experiments import depth
from tdegnn.experiments.depth import (
    CHAIN,
    HALF_CHAIN,
    PLAIN,
    SYSTEMS,
    DepthTask,
    chain_quarters,
    choose_lines,
    largest_root_modulus,
    make_chains,
    measure_norms,
    train_depth,
)
from tdegnn.experiments.depth_plots import plot_depth
from tdegnn.experiments.records import read_lines
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import choose_placement
from tdegnn.training.node_training import Classification
from tests.cli.test_commands import run
from tests.node_datasets import make_dataset

DOUBLE = choose_placement("cpu", "64-true")
TINY = replace(PLAIN, hidden_channels=4, num_layers=5, num_steps=4, order=3)
NODES = DepthTask("Nodes", partial(make_dataset, num_splits=2), TINY, (0.5,))
CHAINS = DepthTask("Chains", partial(make_chains, 6, 16, num_splits=2), TINY, (0.5,), "64-true", chain_quarters)


@pytest.fixture
def _tiny(monkeypatch):
    monkeypatch.setattr(depth, "LEARNING_RATES", (0.01, 0.03))
    for name in depth.TASKS:
        monkeypatch.setitem(depth.TASKS, name, CHAINS if name in (CHAIN, HALF_CHAIN) else NODES)


def parts_of(dataset, network):
    """What `measure_norms` needs, in float64."""
    mask = torch.as_tensor(dataset.training_masks[0])
    return network.double(), (torch.as_tensor(dataset.features).double(), dataset.graph), mask


def test_a_chain_asks_its_last_node_for_the_symbol_of_its_first():
    chains = make_chains(longest=9, num_chains=12, num_symbols=3, num_splits=2, seed=1)
    firsts, lasts = np.flatnonzero(chains.features.sum(axis=1)), np.flatnonzero(chains.labels >= 0)
    np.testing.assert_array_equal(chains.features[firsts].argmax(axis=1), chains.labels[lasts])
    lengths = lasts - firsts + 1
    assert (lengths.min(), lengths.max()) >= (2, 9)
    assert np.bincount(chains.labels[lasts]).tolist() == [4, 4, 4]
    received = chains.graph.received
    # Every node receives from the one before it, but for the first of each chain.
    assert sorted(received.row.tolist()) == sorted(set(range(chains.num_nodes)) - set(firsts.tolist()))
    assert (received.row - received.col == 1).all()


def test_chains_are_divided_by_their_last_nodes_and_made_by_the_seed():
    chains, same, other = (make_chains(9, 12, 3, 2, seed=seed) for seed in (1, 1, 2))
    masks = chains.training_masks, chains.validation_masks, chains.test_masks
    assert [mask.sum(axis=1).tolist() for mask in masks] == [[6, 6], [3, 3], [3, 3]]
    assert ((chains.labels >= 0) == np.any([mask[0] for mask in masks], axis=0)).all()
    assert (chains.training_masks[0] != chains.training_masks[1]).any()
    np.testing.assert_array_equal(chains.features, same.features)
    np.testing.assert_array_equal(chains.test_masks, same.test_masks)
    assert chains.features.shape != other.features.shape or (chains.features != other.features).any()


@pytest.mark.parametrize("system", ["DE-GNN", "TDE-GNN_D", "TDE-GNN_S"])
def test_a_symbol_needs_a_layer_for_each_edge(system):
    chains = make_chains(longest=6, num_chains=4, num_symbols=2, num_splits=1)
    first, last = 0, 5  # of the first chain, which is as long as any
    assert chains.labels[last] >= 0
    features = torch.as_tensor(chains.features).double()
    swapped = features.clone()
    swapped[first] = features[first].flip(0)
    for num_layers, arrives in ((4, False), (5, True)):
        config = replace(TINY, hidden_channels=16, system=system, num_layers=num_layers, step_size=1.0)
        network = config.build(chains, seed=0).double()
        states = [network.integrate(given, chains.graph).state[last] for given in (features, swapped)]
        assert torch.equal(*states) is not arrives


def test_quarters_are_those_of_the_lengths():
    chains = make_chains(longest=8, num_chains=16)
    lasts = np.flatnonzero(chains.labels >= 0)
    expected = [-(-length // 2) for length in np.diff(lasts, prepend=-1)]
    quarters = chain_quarters(chains)
    assert quarters[lasts].tolist() == expected
    assert quarters.max() == 4
    assert not np.delete(quarters, lasts).any()


@pytest.mark.parametrize("system", SYSTEMS)
def test_norms_are_those_of_the_states_and_of_their_gradients(system):
    """Against states of shorter integrations, and gradients of the loss by a first state that is a leaf."""
    dataset = make_chains(6, 8, num_splits=1)
    network, inputs, mask = parts_of(dataset, replace(TINY, system=system).build(dataset, seed=3))
    task = Classification(torch.as_tensor(dataset.labels))
    norms = measure_norms(network, inputs, task, mask)
    assert len(norms.states) == len(norms.gradients) == TINY.num_layers + 1

    embedded = torch.relu(network.embedding(inputs[0])).detach().requires_grad_()
    history = network.initial_states(embedded)  # of which the newest is the embedding itself
    states = [embedded]
    for num_layers in range(1, TINY.num_layers + 1):
        settings = dict(num_layers=num_layers, step_size=network.step_size)
        states.append(integrate(history, dataset.graph, network.coefficients, network.operator, **settings).state)
    assert norms.states == pytest.approx([float(state.detach().square().mean().sqrt()) for state in states], rel=1e-3)
    loss = task.losses(network.readout(states[-1])[None], mask[None]).sum()
    ends = torch.autograd.grad(loss, (embedded, states[-1]))
    assert (norms.gradients[0], norms.gradients[-1]) == pytest.approx([float(end.norm()) for end in ends], rel=1e-3)
    assert not network.operator._forward_pre_hooks
    assert not network.readout._forward_pre_hooks


def test_rules_start_as_the_same_network():
    """All but attention, which gives older states weight from the first step on."""
    dataset = make_chains(6, 8, num_splits=1)
    task = Classification(torch.as_tensor(dataset.labels))
    norms = {}
    for system in SYSTEMS:
        network, inputs, mask = parts_of(dataset, replace(TINY, system=system).build(dataset, seed=3))
        norms[system] = measure_norms(network, inputs, task, mask)
    assert norms["TDE-GNN_D"] == norms["TDE-GNN_S"] == norms["DE-GNN"]
    assert norms["TDE-GNN_A"] != norms["DE-GNN"]


def test_the_largest_root_is_that_of_any_layer():
    assert largest_root_modulus(torch.tensor([[1.0, 0.0], [2.5, -1.5], [1.0, 0.0]])) == pytest.approx(1.5)
    assert largest_root_modulus(torch.tensor([[1.0], [1.0]])) == 1.0
    assert np.isnan(largest_root_modulus(torch.tensor([[float("nan"), 1.0]])))


def test_the_stable_system_can_be_chosen_by_name():
    for config in (replace(TINY, system="TDE-GNN_S"), NodeConfig("TDE-GNN_S")):
        assert isinstance(config.build_network(3, 2, seed=0).coefficients, StableCoefficients)
    assert SeriesConfig(system="TDE-GNN_S").system == "TDE-GNN_S"


def test_every_rule_has_the_same_number_of_settings_to_choose_from():
    for task in depth.TASKS.values():
        assert {len(set(task.configs(system))) for system in SYSTEMS} == {8}
        assert all(config.num_layers in (64, 256) for config in task.configs("TDE-GNN_S"))
        assert {config.order for config in task.configs("DE-GNN")} == {1}


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny")
def test_what_has_a_line_is_not_trained_again(tmp_path):
    path = tmp_path / "depth.jsonl"
    config = depth.TASKS[CHAIN].configs("TDE-GNN_S")[1]
    train_depth(CHAIN, [config], path, placement=DOUBLE)
    lines = read_lines(path)
    assert [line["split"] for line in lines] == [0, 1]
    train_depth(CHAIN, [config], path, placement=DOUBLE)
    assert read_lines(path) == lines
    path.write_text(json.dumps(lines[0]) + "\n")
    train_depth(CHAIN, [config], path, placement=DOUBLE)  # split 1 alone gives the same as together with split 0
    again = read_lines(path)[1]
    assert again["trained"]["gradients"] == pytest.approx(lines[1]["trained"]["gradients"], rel=1e-2)
    assert again["test_accuracy"] == lines[1]["test_accuracy"]
    assert again["trained"] != again["untrained"]
    assert again["max_root_modulus"] == 1.0
    by_quarter = again["test_accuracy_by_quarter"]
    assert set(by_quarter) <= {"1", "2", "3", "4"}
    assert {"versions", "device", "protocol", "configuration", "is_diverged"} <= again.keys()


@pytest.mark.usefixtures("_tiny")
def test_settings_are_chosen_by_validation_and_never_by_test():
    configs = [config.to_record() for config in depth.TASKS["cora"].configs("TDE-GNN_D")]
    foreign = {**configs[0], "step_size": 0.123}
    accuracies = [(configs[0], 0.6, 0.9), (configs[1], 0.7, 0.5), (foreign, 0.99, 0.99)]
    lines = [
        dict(dataset="cora", system="TDE-GNN_D", split=split, configuration=config, validation_accuracy=validation,
             test_accuracy=test)
        for config, validation, test in accuracies
        for split in range(2)
    ]  # fmt: skip
    chosen = choose_lines(lines)
    assert list(chosen) == [("cora", "TDE-GNN_D")]
    assert [line["test_accuracy"] for line in chosen["cora", "TDE-GNN_D"]] == [0.5, 0.5]
    unfinished = choose_lines(lines[:3])  # one split of the better settings is no reason to prefer them
    assert [line["test_accuracy"] for line in unfinished["cora", "TDE-GNN_D"]] == [0.9, 0.9]


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny")
def test_the_command_trains_draws_and_does_not_train_again(capsys, tmp_path):
    path = tmp_path / "depth.jsonl"
    arguments = ("reproduce", "depth", "--out", str(path), "--device", "cpu")
    code, out, err = run(capsys, *arguments, "--task", "cora", "--task", "chain")
    assert (code, err) == (0, "")
    assert "8 rows in" in out
    lines = path.read_text()
    assert len(lines.splitlines()) == 2 * 4 * 2 * 2  # tasks, rules, learning rates, splits
    assert (tmp_path / "depth.png").stat().st_size > 50_000
    picture = tmp_path / "again.png"
    code, out, _ = run(capsys, *arguments, "--report", "--json", "--task", "chain", "--picture", str(picture))
    assert (path.read_text(), picture.exists()) == (lines, True)
    rows = json.loads(out)["rows"]
    assert [(row["task"], row["system"], row["splits"]) for row in rows] == [("chain", system, 2) for system in SYSTEMS]


@pytest.mark.usefixtures("_tiny")
def test_states_that_are_no_numbers_are_drawn_as_gaps(tmp_path):
    path = tmp_path / "depth.jsonl"
    train_depth("cora", depth.TASKS["cora"].configs("DE-GNN")[:1], path, placement=choose_placement("cpu"))
    chosen = choose_lines(read_lines(path))
    for line in chosen["cora", "DE-GNN"]:
        line["trained"]["states"][3:] = [None] * 3
    (_, states, _) = plot_depth(chosen).axes
    *_, trained = (line.get_ydata() for line in states.get_lines() if len(line.get_xdata()) == 6)
    assert np.isfinite(trained).tolist() == [True] * 3 + [False] * 3
    with pytest.raises(InputError, match="at least one task, got none"):
        plot_depth({})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "coar"], "Expected a task among cora, chameleon, chain, half-chain, got 'coar'"),
        (["--system", "GCN"], "Expected a system among DE-GNN, TDE-GNN_D, TDE-GNN_A, TDE-GNN_S"),
        (["--report", "--out", "nothing.jsonl"], "Expected result lines in nothing.jsonl"),
    ],
)
def test_mistakes_give_one_line(capsys, arguments, message):
    code, _, err = run(capsys, "reproduce", "depth", *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
