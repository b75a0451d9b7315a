import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from tdegnn import (
    AttentionCoefficients,
    DiffusionOperator,
    DirectCoefficients,
    FixedCoefficients,
    GatedAttention,
    InputError,
)
from tdegnn.data.nodes import NodeDataset
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.training.devices import choose_placement
from tdegnn.training.loop import fit
from tdegnn.training.members import GroupDescent, GroupedAdam, GroupedAdamW, Members
from tdegnn.training.node_training import NodeTraining
from tests.node_datasets import make_dataset

NODES, FEATURES, CLASSES, CHANNELS, LAYERS = 40, 12, 3, 8, 3
RULES = {
    "fixed": lambda: FixedCoefficients([1.0]),
    "direct": lambda: DirectCoefficients(3),
    "attention": lambda: AttentionCoefficients(3, CHANNELS),
    "gated attention": lambda: GatedAttention(3, CHANNELS),
}
SLOW = GroupedAdam(GroupDescent(0.003, 1e-3), GroupDescent(0.001, 0.1), GroupDescent(0.002, 1e-2), averaging=0.5)
FAST = GroupedAdam(GroupDescent(0.03), GroupDescent(0.01), GroupDescent(0.02))


def make_network(rule, seed, step_size=0.3, dropout=0.4, batch_norm=False):
    torch.manual_seed(seed)
    operator = DiffusionOperator(CHANNELS, LAYERS, step_size, batch_norm=batch_norm)
    return StationaryNetwork(
        FEATURES, CLASSES, CHANNELS, LAYERS, RULES[rule](), operator,
        step_size=step_size, outer_dropout=dropout, hidden_dropout=dropout / 2, seed=seed,
    )  # fmt: skip


def train(networks, descents, splits, num_steps=12, placement=None, **options):
    training = NodeTraining(networks, descents, make_dataset(), splits, placement)
    return training, fit(training, num_steps=num_steps, validate_every=3, **options)


@pytest.mark.slow
@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_a_member_gets_what_it_gets_alone(rule, batch_norm, device):
    """The other members have other step sizes, dropout rates, learning rates, decays, seeds and splits."""
    settings = [(0, 0.1, 0.0, SLOW), (1, 0.5, 0.6, FAST), (2, 1.0, 0.3, SLOW)]
    networks = [make_network(rule, seed, h, dropout, batch_norm) for seed, h, dropout, _ in settings]
    descents = [descent for *_, descent in settings]
    together, _ = train(networks, descents, [0, 1, 2], placement=choose_placement(device.type))
    for member, network in enumerate(networks):
        alone, _ = train([network], [descents[member]], [member], placement=choose_placement(device.type))
        torch.testing.assert_close(together.members.weights[member], alone.members.weights[0], atol=2e-5, rtol=1e-4)
        assert together.validation_accuracy[member] == alone.validation_accuracy[0]
        assert together.test_accuracy[member] == alone.test_accuracy[0]


@pytest.mark.parametrize(
    ("kind", "peer"), [(GroupedAdam, torch.optim.Adam), (GroupedAdamW, torch.optim.AdamW)], ids=["adam", "adamw"]
)
def test_steps_are_those_of_adam(kind, peer):
    network = make_network("direct", 0, dropout=0.0)
    twin = copy.deepcopy(network).train()
    dataset = make_dataset()
    training = NodeTraining([network], [kind(*[GroupDescent(0.01, 0.05)] * 3)], dataset, [0])
    optimizer = peer(twin.parameters(), lr=0.01, weight_decay=0.05)
    raw, euler = twin.coefficients.raw, torch.tensor([[1.0, 0.0, 0.0]])
    mask, labels = torch.as_tensor(dataset.training_masks[0]), torch.as_tensor(dataset.labels)
    features = torch.as_tensor(dataset.features.toarray())
    for _ in range(5):
        training.step()
        optimizer.zero_grad()
        nn.functional.cross_entropy(twin(features, dataset.graph)[mask], labels[mask]).backward()
        # Its decay pulls toward Euler.
        if kind is GroupedAdam:
            raw.grad -= 0.05 * euler
        optimizer.step()
        if kind is GroupedAdamW:
            raw.data += 0.01 * 0.05 * euler
    for name, parameter in training.members.network(0).named_parameters():
        torch.testing.assert_close(parameter, dict(twin.named_parameters())[name], atol=1e-5, rtol=1e-4)


def test_decoupled_decay_is_apart_from_the_gradient_and_stops_with_its_member():
    still = GroupedAdamW(*[GroupDescent(0.1, 0.5)] * 3)
    members = Members([make_network("fixed", seed) for seed in (0, 1)], [still, still])
    before = members.weights.clone()
    members.is_active[1] = False
    members._descend(torch.zeros_like(before))
    torch.testing.assert_close(members.weights[0], 0.95 * before[0])
    assert torch.equal(members.weights[1], before[1])


def test_one_kind_of_optimizer_is_wanted():
    with pytest.raises(InputError, match="one kind of optimizer for networks that are trained together, got several"):
        Members([make_network("fixed", 0)] * 2, [GroupedAdam(), GroupedAdamW()])


@pytest.mark.slow
def test_the_step_may_be_chosen_by_the_loss():
    networks = [make_network("direct", seed) for seed in (0, 1)]
    looks = []

    def train_by(select_by):
        training = NodeTraining(networks, [FAST, FAST], make_dataset(), [0, 1], select_by=select_by)
        looks.clear()

        def look(_):
            outputs = training.members.evaluate(*training._inputs)
            losses = training._task.losses(outputs, training._validation)
            looks.append((losses, training._scores.clone(), training._test_scores.clone()))

        return training, fit(training, num_steps=30, validate_every=3, on_look=look)

    training, result = train_by("loss")
    losses, scores, test_scores = map(torch.stack, zip(*looks, strict=True))
    best = losses.argmin(dim=0)
    assert result.best_steps.tolist() == (3 * (best + 1)).tolist()
    torch.testing.assert_close(result.best_scores, -losses.amin(dim=0))
    # What is reported is the accuracy at that step.
    torch.testing.assert_close(training.validation_accuracy, scores.gather(0, best[None])[0])
    torch.testing.assert_close(training.test_accuracy, test_scores.gather(0, best[None])[0])
    _, by_accuracy = train_by("accuracy")
    assert (by_accuracy.best_scores >= training.validation_accuracy).all()


@pytest.mark.slow
def test_networks_answer_with_the_running_mean_of_their_weights():
    networks = [make_network("direct", seed, batch_norm=True) for seed in (0, 1)]
    training = NodeTraining(networks, [replace(FAST, averaging=0.4), FAST], make_dataset(), [0, 1])
    members = training.members
    mean, norm = members.weights.clone(), members.buffers["operator.norms.0.running_mean"].clone()
    for step in range(1, 8):
        training.step()
        kept = torch.tensor([min(0.4, (1 + step) / (10 + step)), 0.0])[:, None]
        mean = kept * mean + (1 - kept) * members.weights
        norm = kept * norm + (1 - kept) * members.buffers["operator.norms.0.running_mean"]
    torch.testing.assert_close(members.averaged_weights, mean)
    torch.testing.assert_close(members.averaged_weights[1], members.weights[1])
    torch.testing.assert_close(members.averaged_buffers["operator.norms.0.running_mean"], norm)
    answers = members.evaluate(*training._inputs)
    members.restore(
        members.averaged_weights.clone(), {name: part.clone() for name, part in members.averaged_buffers.items()}
    )
    torch.testing.assert_close(members.network(0)(*training._inputs), answers[0])


def test_a_mean_of_nothing_but_the_past_is_refused():
    with pytest.raises(InputError, match="averaging to be at least 0 and below 1, got 1.0"):
        GroupedAdam(averaging=1.0)


@pytest.mark.slow
def test_a_member_that_diverges_does_not_touch_the_others():
    networks = [make_network("direct", 0), make_network("direct", 1)]
    with torch.no_grad():
        networks[1].embedding.weight.fill_(float("inf"))
    together, result = train(networks, [FAST, FAST], [0, 1])
    alone, _ = train(networks[:1], [FAST], [0])
    assert result.is_diverged.tolist() == [False, True]
    torch.testing.assert_close(together.members.weights[0], alone.members.weights[0])


@pytest.mark.slow
def test_a_loss_that_explodes_is_noticed():
    wild = GroupedAdam(GroupDescent(1e3), GroupDescent(0.0), GroupDescent(1e3))
    _, result = train([make_network("fixed", 2), make_network("fixed", 1)], [wild, FAST], [0, 1], 60)
    assert result.is_diverged.tolist() == [True, False]
    assert result.scores[-1].isfinite().all()  # its scores are numbers to the end


def test_a_member_that_is_finished_stays_as_it_is():
    training = NodeTraining([make_network("direct", 0)] * 2, [FAST, FAST], make_dataset(), [0, 1])
    training.stop(torch.tensor([True, False]))
    before = training.members.weights.clone()
    training.step()
    assert torch.equal(training.members.weights[0], before[0])
    assert not torch.equal(training.members.weights[1], before[1])


def test_patience_ends_the_training():
    _, result = train([make_network("fixed", 0)], [GroupedAdam(*[GroupDescent(0.0)] * 3)], [0], 300, patience=6)
    assert result.steps[-1] == 9  # best at the first look, after step 3, and nothing since


@pytest.mark.slow
def test_the_best_weights_are_given_back():
    training, result = train([make_network("direct", 0), make_network("direct", 1)], [FAST, FAST], [0, 1], 60)
    training._measure()
    torch.testing.assert_close(training._scores, result.best_scores)
    torch.testing.assert_close(training._test_scores, training.test_accuracy)


def test_dense_features_give_what_sparse_ones_give():
    dataset = make_dataset()
    dense = NodeDataset("dense", dataset.features.toarray(), dataset.graph, dataset.labels,
                        dataset.training_masks, dataset.validation_masks, dataset.test_masks)  # fmt: skip
    weights = []
    for data in (dataset, dense):
        training = NodeTraining([make_network("direct", 0, dropout=0.0)], [FAST], data, [0])
        training.step()
        weights.append(training.members.weights)
    torch.testing.assert_close(weights[0], weights[1], atol=1e-5, rtol=1e-4)


def test_as_many_descents_as_networks_are_wanted():
    with pytest.raises(InputError, match="one descent per network, got 2 for 1"):
        Members([make_network("fixed", 0)], [FAST, FAST])
