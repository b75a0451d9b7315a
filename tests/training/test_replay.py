"""Recorded steps on a CPU write what plain ones write, to the last bit, or are not recorded."""

import gc
import weakref

import numpy as np
import pytest
import torch

from tdegnn import Graph, Panel
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.nodes.settings import NodeConfig
from tdegnn.parts import Part
from tdegnn.rivals.nodes.config import RivalConfig
from tdegnn.training import replay
from tdegnn.training.node_training import NodeTraining
from tdegnn.training.replay import NUM_WARM_UP, RecordedStep, Replayed
from tests.node_datasets import make_dataset

CPU = torch.device("cpu")
NUM_STEPS = NUM_WARM_UP + 6
SMALL = dict(hidden_channels=4, num_layers=2)


class Weights:
    """Something that a step reads and writes."""

    def __init__(self, step=None):
        generator = torch.Generator().manual_seed(0)
        self.weights = torch.randn(4, 4, generator=generator)
        self.data = torch.randn(3, 4, generator=generator)
        self.loss = torch.zeros(())
        self.num_calls = 0
        self._step = step

    def step(self):
        self.num_calls += 1
        self._step(self)


def descend(self):
    weights = self.weights.detach().requires_grad_()
    loss = (torch.relu(self.data @ weights.mT) - 1.0).square().mean()
    (gradient,) = torch.autograd.grad(loss, weights)
    self.weights -= 0.1 * gradient
    self.loss.copy_(loss.detach())


def with_zeros(self):
    """Zeros that are written to must be zeros again; others need not be made again."""
    sums = torch.zeros(4)
    sums += self.weights.sum(dim=0)
    self.weights += torch.ones_like(self.weights) * 0.01 + torch.arange(4) * sums


def by_parts(self):
    top, bottom = self.weights.chunk(2)
    top.mul_(0.9)
    bottom.add_(top)
    self.weights[1, 2] = self.weights.sum()
    self.loss.copy_(self.weights.max(dim=0).values.sum())


def with_indices(self):
    places = self.weights.argsort(dim=0)
    self.weights.copy_(self.weights.gather(0, places).cumsum(dim=1) / 3)
    self.loss.copy_(torch.nn.functional.cross_entropy(self.weights, places[:, 0]))


def with_batch_norm(self):
    mean, variance = torch.zeros(4), torch.ones(4)
    normal = torch.nn.functional.batch_norm(self.weights, mean, variance, training=True)
    self.weights.copy_(normal + mean + 0.1 * variance)


@pytest.mark.parametrize("step", [descend, with_zeros, by_parts, with_indices, with_batch_norm])
def test_a_replayed_step_writes_what_the_plain_step_writes(step):
    plain, recorded = Weights(step), Weights(step)
    replayed = Replayed(recorded.step, CPU)
    for number in range(NUM_STEPS):
        for one in (plain, recorded):
            one.data += number  # changed in between, in place
        plain.step()
        replayed()
        assert torch.equal(plain.weights, recorded.weights)
        assert torch.equal(plain.loss, recorded.loss)
    assert recorded.num_calls == NUM_WARM_UP + 2  # recorded once and checked once


def ask_for_a_number(self):
    self.weights.add_(0.1 if float(self.weights.sum()) > 0 else -0.1)


def draw(self):
    self.weights.add_(torch.rand(4, 4))


def drop(self):
    self.weights.mul_(torch.nn.functional.dropout(self.data.new_ones(4, 4)))


def count(self):
    self.weights.add_(self.num_calls)


def select_by_mask(self):
    """The number of selected entries changes from call to call."""
    self.weights[0, 0] = self.num_calls % 3 - 1.0
    self.loss.copy_(self.weights[self.weights > 0].sum())


def count_nonzero_entries(self):
    self.weights.mul_(-1).relu_().add_(self.data.sum() * 0.1)
    self.loss.copy_(self.weights.nonzero().sum() + torch.masked_select(self.weights, self.weights > 0.1).sum())


def compare(self):
    self.weights.add_(0.1 if torch.equal(self.weights, self.data[:, :3]) else 0.2)


def turn(self):
    self.weights.t_()
    self.weights[0, 1] += 1


@pytest.mark.parametrize(
    "step", [ask_for_a_number, draw, drop, count, select_by_mask, count_nonzero_entries, compare, turn]
)
def test_what_is_not_the_same_every_time_runs_plainly(step):
    plain, recorded = Weights(step), Weights(step)
    torch.manual_seed(0)
    for _ in range(NUM_STEPS):
        plain.step()
    torch.manual_seed(0)
    replayed = Replayed(recorded.step, CPU)
    for _ in range(NUM_STEPS):
        replayed()
    assert torch.equal(plain.weights, recorded.weights)
    assert recorded.num_calls == NUM_STEPS


@pytest.mark.parametrize("mask", [lambda x: x > 0, lambda x: (x > 0).nonzero().flatten()])
def test_a_selection_by_value_gives_the_right_sum_on_every_call(mask):
    """The recording and its check see data of which 2 values are positive; later there are 4."""
    one = Weights(lambda self: self.loss.copy_(self.series[mask(self.series)].sum()))
    one.series = torch.tensor([1.0, 2.0, -3.0, -4.0])
    replayed = Replayed(one.step, CPU)
    for number in range(NUM_STEPS):
        if number > NUM_WARM_UP + 2:
            one.series.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        replayed()
        assert one.loss == one.series.clamp(min=0).sum()
    assert not replayed.is_replaying


def test_a_selection_by_position_is_replayed():
    one = Weights(lambda self: self.loss.copy_(self.weights[self.places].sum()))
    one.places = torch.tensor([0, 2])
    replayed = Replayed(one.step, CPU)
    for number in range(NUM_STEPS):
        one.weights += number
        one.places.copy_(torch.tensor([number % 4, 1]))
        replayed()
        assert one.loss == one.weights[one.places].sum()
    assert replayed.is_replaying


def test_a_step_that_writes_much_is_not_recorded():
    one = Weights(descend)
    assert RecordedStep.record(one.step, most_bytes=2**10) is not None
    assert RecordedStep.record(one.step, most_bytes=2**8) is None


def test_views_and_constants_are_not_made_again():
    one = Weights()

    def run():
        turned = one.weights.T.view(2, 2, 4).transpose(0, 1)
        one.weights.add_((turned[0] * (torch.ones(4) + 1)).sum())

    assert len(RecordedStep.record(run)) == 3  # times, sum, add


def test_a_record_does_not_keep_what_it_is_of():
    one = Weights(descend)
    one.replayed = Replayed(one.step, CPU)
    for _ in range(NUM_STEPS):
        one.replayed()
    seen = weakref.ref(one)
    gc.disable()
    try:
        del one
        assert seen() is None
    finally:
        gc.enable()


def plainly(monkeypatch):
    monkeypatch.setattr(replay, "NUM_WARM_UP", 10**9)


CONFIGS = {
    "fixed": NodeConfig("DE-GNN", order=1, **SMALL),
    "direct, batch norm": NodeConfig("TDE-GNN_D", order=3, operator=Part("diffusion", batch_norm=True), **SMALL),
    "attention": NodeConfig("TDE-GNN_A", order=3, **SMALL),
    "gated, averaged": NodeConfig("TDE-GNN_A", order=2, coefficients="gated-attention", averaging=0.9, **SMALL),
    "stable": NodeConfig("TDE-GNN_S", order=3, **SMALL),
    "maximum, unit length, AdamW": NodeConfig(readout="max", state_norm="unit-length", optimizer="adamw", **SMALL),
    "GAT": RivalConfig("GAT", hidden_channels=8),
    "GCNII": RivalConfig("GCNII", hidden_channels=4),
}


@pytest.mark.slow
@pytest.mark.parametrize("num_members", [1, 3])
@pytest.mark.parametrize("name", CONFIGS)
def test_networks_for_nodes_learn_the_same(name, num_members, monkeypatch):
    def train():
        config, dataset = CONFIGS[name], make_dataset(num_splits=3)
        networks = [config.build(dataset, seed) for seed in range(num_members)]
        training = NodeTraining(networks, [config.descent] * num_members, dataset, range(num_members))
        for number in range(NUM_STEPS):
            training.step()
            training.validate()
            if number == NUM_STEPS - 3:
                training.stop(torch.arange(num_members) == 0)  # members end at different steps
        return training

    recorded = train()
    assert recorded._step.is_replaying
    assert recorded._look.is_replaying
    plainly(monkeypatch)
    plain = train()
    assert not plain._step.is_replaying
    for name_of, tensor in plain.state().items():
        assert torch.equal(tensor, recorded.state()[name_of]), name_of


@pytest.mark.slow
@pytest.mark.parametrize("num_members", [1, 2])
@pytest.mark.parametrize("states", ["latent", "physical"])
@pytest.mark.parametrize("system", ["TDE-GNN_D", "TDE-GNN_A"])
def test_networks_for_series_learn_the_same(system, states, num_members, monkeypatch):
    values = np.random.default_rng(0).standard_normal((30, 5))
    panel = Panel.from_array(values, graph=Graph(np.array([[0, 1, 2, 3], [1, 2, 3, 4]]), 5))

    def train():
        config = SeriesConfig(system, 4, 2, 2, skip="none", states=states, dropout=0.0 if states == "physical" else 0.2)
        maker = FrameMaker.fit(panel, 2)
        windows = maker.windows(panel)
        networks = [config.build(maker.sizes(panel.num_nodes), seed) for seed in range(num_members)]
        training = SeriesTraining(
            networks, [config.descent] * num_members, panel.graph, windows, windows, batch_size=3, seed=1
        )
        for _ in range(NUM_STEPS):
            training.step()
        return training

    recorded = train()
    assert recorded._step.is_replaying
    plainly(monkeypatch)
    for name_of, tensor in train().state().items():
        assert torch.equal(tensor, recorded.state()[name_of]), name_of
