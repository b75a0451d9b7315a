import copy
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from tdegnn import Graph, InputError
from tdegnn.data.panel import Panel
from tdegnn.data.splits import split_chronologically
from tdegnn.forecasting import series_training
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.runs.run_folder import CHECKPOINT, METRICS, WEIGHTS, RunFolder
from tdegnn.training.devices import choose_placement, single_thread
from tdegnn.training.loop import fit
from tdegnn.training.members import GroupDescent, GroupedAdam

STEPS, NODES, WINDOW, HORIZON = 44, 4, 3, 2
GRAPH = Graph([[0, 1, 2], [1, 2, 3]], NODES)
CONFIG = {"kind": "test"}
LEARNING = GroupedAdam(*[GroupDescent(0.02, 1e-3)] * 3, skip=GroupDescent(0.02, 1e-3))
SMALL = SeriesConfig(hidden_channels=4, order=2, dropout=0.3)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


def make_panel(missing=0.0):
    draw = np.random.default_rng(0)
    values = np.zeros((STEPS, NODES))
    for step in range(1, STEPS):
        values[step] = 0.8 * np.roll(values[step - 1], 1) + draw.normal(size=NODES)
    values[draw.random(values.shape) < missing] = np.nan
    # Nodes of other sizes, so that units matter.
    return Panel.from_array(values * np.array([1.0, 10.0, 100.0, 0.1]), graph=GRAPH)


def make_parts(missing=0.0, device="cpu"):
    """Scales, and the windows of the training, validation and test part."""
    panel, split = make_panel(missing), split_chronologically(STEPS, WINDOW)
    maker = FrameMaker.fit(panel[: split.training.stop], WINDOW, HORIZON)
    windows = maker.windows(panel, device=torch.device(device))
    return maker, [windows.predicting(part) for part in (split.training, split.validation, split.test)]


def make_networks(seeds=(0,), **options):
    sizes = make_parts()[0].sizes(NODES)
    return [replace(SMALL, **options).build(sizes, seed) for seed in seeds]


def make_training(seeds=(0,), *, missing=0.0, descent=LEARNING, dropout=0.3, skip="linear", **options):
    _, parts = make_parts(missing)
    networks = make_networks(seeds, dropout=dropout, skip=skip)
    if missing:
        networks = [replace(SMALL, dropout=dropout).build(make_parts(missing)[0].sizes(NODES), seed) for seed in seeds]
    return SeriesTraining(networks, [descent] * len(seeds), GRAPH, *parts, **options)


# What is learned from.


def test_targets_that_were_not_observed_do_not_count():
    training = make_training(missing=0.2, dropout=0.0)
    windows = make_parts(missing=0.2)[1][0]
    assert windows.targets.isnan().any()
    twin = copy.deepcopy(training.members.network(0)).train()
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.02)
    frames, targets = windows.batch()
    is_observed = ~targets.isnan()
    plain = SeriesTraining(
        [twin], [GroupedAdam(*[GroupDescent(0.02)] * 3, skip=GroupDescent(0.02))], GRAPH, windows, windows
    )
    for _ in range(3):
        optimizer.zero_grad()
        loss = (twin(frames, GRAPH) - targets)[is_observed].square().mean()
        loss.backward()
        optimizer.step()
        plain.step()
        torch.testing.assert_close(plain.last_losses()[0], loss.detach())
    for name, parameter in plain.members.network(0).named_parameters():
        torch.testing.assert_close(parameter, dict(twin.named_parameters())[name], atol=1e-5, rtol=1e-4)


def test_what_stands_where_nothing_was_observed_changes_nothing():
    """Neither in the loss nor in the gradient: a target that is not there could be anything."""
    weights = []
    for part in (slice(None), slice(None, -4)):
        windows = make_parts()[1][0]
        targets = windows.targets.clone()
        targets[-4:] = torch.nan
        hidden = replace(windows, targets=targets)
        kept = WindowSet(
            hidden.inputs[part], hidden.future[part], hidden.targets[part], hidden.first_target_steps[part]
        )
        training = SeriesTraining(make_networks(dropout=0.0), [LEARNING], GRAPH, kept, windows)
        for _ in range(3):
            training.step()
        weights.append(training.members.weights)
    torch.testing.assert_close(weights[0], weights[1])


@dataclass(frozen=True, eq=False)
class SeenWindows(WindowSet):
    """Windows that remember which of them each step asked for."""

    seen: list = field(default_factory=list)

    def batch(self, numbers=slice(None)):
        self.seen.append(torch.arange(len(self))[numbers].tolist())
        return super().batch(numbers)


def seen_in(num_steps, num_windows=24, **options):
    """The numbers of the windows that each step saw, and the steps an epoch."""
    _, (windows, validation, _) = make_parts()
    first = windows.predicting(range(WINDOW, WINDOW + num_windows + HORIZON - 1))
    recorded = SeenWindows(first.inputs, first.future, first.targets, first.first_target_steps)
    training = SeriesTraining(make_networks(), [LEARNING], GRAPH, recorded, validation, **options)
    training.members.step = lambda losses, frames, graph: training.last_losses()  # nothing is learned
    recorded.seen.clear()
    for _ in range(num_steps):
        training.step()
    return recorded.seen, training.steps_an_epoch


def joined(batches):
    return [number for batch in batches for number in batch]


@pytest.mark.parametrize("batch_size", [1, 4, 8])
def test_every_window_is_seen_once_an_epoch(batch_size):
    steps_an_epoch = 24 // batch_size
    seen, found = seen_in(2 * steps_an_epoch, batch_size=batch_size)
    assert found == steps_an_epoch
    epochs = joined(seen[:steps_an_epoch]), joined(seen[steps_an_epoch:])
    for epoch in epochs:
        assert sorted(epoch) == list(range(24))
    assert epochs[0] != epochs[1]  # in another order each time
    assert all(len(batch) == batch_size for batch in seen)


def test_windows_that_fill_no_batch_wait_for_another_epoch():
    seen, steps_an_epoch = seen_in(30, batch_size=7)
    assert steps_an_epoch == 3
    for epoch in range(10):
        assert len(set(joined(seen[3 * epoch : 3 * epoch + 3]))) == 21
    assert set(joined(seen)) == set(range(24))


def test_without_shuffling_windows_come_in_the_order_of_time():
    """One window a step: the paper's incremental training."""
    seen, _ = seen_in(60, batch_size=1, is_shuffled=False)
    assert joined(seen) == [step % 24 for step in range(60)]


def test_the_order_of_windows_follows_the_seed():
    orders = [seen_in(8, batch_size=4, seed=seed)[0] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_a_batch_is_what_the_network_sees():
    """A step on some windows is the step of a training that has no others."""
    windows = make_parts()[1][0]
    training = make_training(dropout=0.0, batch_size=1, is_shuffled=False)
    training.step()
    alone = windows.predicting(range(WINDOW, WINDOW + HORIZON))
    assert len(alone) == 1
    single = SeriesTraining(make_networks(dropout=0.0), [LEARNING], GRAPH, alone, windows)
    single.step()
    torch.testing.assert_close(training.members.weights, single.members.weights)


def test_a_batch_larger_than_the_training_part_is_all_of_it():
    one, other = make_training(batch_size=10_000), make_training()
    for _ in range(3):
        one.step()
        other.step()
    assert torch.equal(one.members.weights, other.members.weights)
    assert one.steps_an_epoch == 1


# How errors are measured.


def test_errors_are_measured_in_units():
    maker, parts = make_parts(missing=0.1)
    training = make_training((0, 1), missing=0.1, units=maker.target_scales)
    for windows in parts:
        forecasts = maker.to_units(training.forecast(windows).double().numpy())
        observed = maker.to_units(windows.targets.double().numpy())
        expected = np.nanmean((forecasts - observed) ** 2, axis=(1, 2, 3, 4))
        np.testing.assert_allclose(training.measure(windows), expected, rtol=1e-4)
    torch.testing.assert_close(training.validate(), -training.measure(parts[1]))


def test_without_units_all_nodes_count_the_same():
    training, windows = make_training((0, 1)), make_parts()[1][1]
    expected = (training.forecast(windows) - windows.targets).square().mean(dim=(1, 2, 3, 4))
    torch.testing.assert_close(training.measure(windows), expected)


def test_forecasts_are_those_of_each_network_and_may_come_in_parts(monkeypatch):
    training, windows = make_training((0, 1)), make_parts()[1][0]
    whole = training.forecast(windows)
    frames, _ = windows.batch()
    for member in range(2):
        torch.testing.assert_close(whole[member], training.members.network(member)(frames, GRAPH))
    monkeypatch.setattr(series_training, "ROWS_AT_ONCE", 5 * NODES * 2)
    torch.testing.assert_close(training.forecast(windows), whole)


@pytest.mark.slow
def test_the_step_is_chosen_by_validation():
    maker, parts = make_parts()
    training = make_training((0, 1, 2), units=maker.target_scales, skip="none")
    looks = []
    result = fit(
        training,
        num_steps=24,
        validate_every=2,
        on_look=lambda look: looks.append((look.scores.clone(), training.test_errors.clone())),
    )
    scores, tests = (torch.stack(column) for column in zip(*looks, strict=True))
    best = scores.argmax(dim=0)
    assert torch.equal(training.best_errors, -scores.max(dim=0).values)
    assert torch.equal(training.best_errors, -result.best_scores)
    assert torch.equal(training.best_test_errors, tests.gather(0, best[None])[0])
    # The networks have the weights of that look.
    torch.testing.assert_close(training.measure(parts[1]), training.best_errors)
    torch.testing.assert_close(training.measure(parts[2]), training.best_test_errors)
    assert len(set(best.tolist())) > 1, "members should not all be best at the same look, or this shows little"


@pytest.mark.slow
def test_the_lowest_test_error_is_the_minimum_over_the_looks_and_chooses_nothing():
    tests = []
    training = make_training((0, 1))
    fit(training, num_steps=16, validate_every=2, on_look=lambda _: tests.append(training.test_errors.clone()))
    assert torch.equal(training.lowest_test_errors, torch.stack(tests).min(dim=0).values)
    assert (training.lowest_test_errors <= training.best_test_errors).all()
    _, (windows, validation, _) = make_parts()
    blind = SeriesTraining(make_networks((0, 1)), [LEARNING] * 2, GRAPH, windows, validation)
    fit(blind, num_steps=16, validate_every=2)
    assert torch.equal(blind.members.weights, training.members.weights)


# Members.


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 5])
def test_members_get_what_they_get_alone(batch_size):
    placement = choose_placement("cpu", "64-true")
    panel, split = make_panel(), split_chronologically(STEPS, WINDOW)
    maker = FrameMaker.fit(panel[: split.training.stop], WINDOW, HORIZON)
    windows = maker.windows(panel, dtype=torch.float64)
    parts = [windows.predicting(part) for part in (split.training, split.validation)]
    descents = [LEARNING, GroupedAdam(*[GroupDescent(0.003, 0.1)] * 3), GroupedAdam(*[GroupDescent(0.1)] * 3)]
    networks = make_networks((3, 4, 5))

    def train(members):
        chosen = [networks[member] for member in members], [descents[member] for member in members]
        training = SeriesTraining(*chosen, GRAPH, *parts, batch_size=batch_size, placement=placement)
        fit(training, num_steps=6, validate_every=2)
        return training

    together = train([0, 1, 2])
    for member in range(3):
        alone = train([member])
        torch.testing.assert_close(together.members.weights[[member]], alone.members.weights)
        torch.testing.assert_close(together.best_errors[[member]], alone.best_errors)


@pytest.mark.slow
def test_a_member_that_diverges_leaves_the_others_alone():
    networks = make_networks((0, 1))
    with torch.no_grad():
        networks[1].readout.weight.fill_(float("inf"))
    _, parts = make_parts()
    together = SeriesTraining(networks, [LEARNING] * 2, GRAPH, *parts, batch_size=8)
    result = fit(together, num_steps=8, validate_every=2)
    alone = SeriesTraining(networks[:1], [LEARNING], GRAPH, *parts, batch_size=8)
    fit(alone, num_steps=8, validate_every=2)
    assert result.is_diverged.tolist() == [False, True]
    assert together.validate()[1].isnan()
    torch.testing.assert_close(together.members.weights[0], alone.members.weights[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(together.best_test_errors[0], alone.best_test_errors[0], atol=1e-5, rtol=1e-4)


def test_a_member_that_is_stopped_stays_as_it_is():
    training = make_training((0, 1))
    training.stop(torch.tensor([True, False]))
    before = training.members.weights.clone()
    training.step()
    assert torch.equal(training.members.weights[0], before[0])
    assert not torch.equal(training.members.weights[1], before[1])


@pytest.mark.slow
def test_it_trains_on_any_device_as_on_the_cpu(device):
    """On a CUDA device steps are recorded: the batches must be read from where they were."""
    results = []
    for kind in ("cpu", device.type):
        _, parts = make_parts(device=kind)
        training = SeriesTraining(
            make_networks((0, 1)), [LEARNING] * 2, GRAPH, *parts, batch_size=8, placement=choose_placement(kind)
        )
        fit(training, num_steps=12, validate_every=3)
        results.append((training.members.weights.cpu(), training.best_errors.cpu()))
    torch.testing.assert_close(results[0][0], results[1][0], atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(results[0][1], results[1][1], atol=1e-4, rtol=1e-3)


# Resuming.


class TrainingStoppedError(Exception):
    pass


def stop_at(last):
    def on_step(step):
        if step == last:
            raise TrainingStoppedError

    return on_step


def contents(folder):
    return {name: (folder / name).read_bytes() for name in (WEIGHTS, METRICS, CHECKPOINT)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "options"),
    [
        ((0,), dict()),
        ((0, 1), dict()),
        ((0, 1), dict(batch_size=5)),
        ((0,), dict(batch_size=1, is_shuffled=False)),
        ((0,), dict(batch_size=8, missing=0.2, descent=replace(LEARNING, averaging=0.9))),
    ],
    ids=["all windows", "members", "batches", "incremental", "gaps and averaging"],
)
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path, seeds, options):
    steps = dict(num_steps=8, validate_every=2)
    with RunFolder.create(tmp_path / "whole", CONFIG) as run:
        whole = make_training(seeds, **options)
        expected = fit(whole, **steps, run=run)
    with RunFolder.create(tmp_path / "parts", CONFIG) as run, pytest.raises(TrainingStoppedError):
        fit(make_training(seeds, **options), **steps, run=run, save_every=0.0, on_step=stop_at(5))
    with RunFolder.resume(tmp_path / "parts", CONFIG) as run:
        resumed = make_training(seeds, **options)
        result = fit(resumed, **steps, run=run)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert result.steps == expected.steps
    assert torch.equal(result.best_steps, expected.best_steps)
    for name, tensor in whole.state().items():
        assert torch.equal(resumed.state()[name], tensor), name


@pytest.mark.slow
def test_the_weights_that_are_kept_are_those_of_the_best_step(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        training = make_training((0, 1))
        fit(training, num_steps=8, validate_every=2, run=run)
        weights = run.read_weights()
    for member in range(2):
        for name, parameter in training.members.network(member).named_parameters():
            assert torch.equal(weights[name][member], parameter)


def test_the_checkpoint_of_another_training_is_refused():
    with pytest.raises(InputError, match="checkpoint of this training, got that of another. Choose another folder"):
        make_training((0, 1)).load_state(make_training().state())


# Mistakes.


@pytest.mark.parametrize("name", ["training", "validation"])
@pytest.mark.parametrize("kind", ["no window", "nothing observed"])
def test_a_part_without_targets_is_refused(name, kind):
    _, (training, validation, _) = make_parts()
    parts = dict(training=training, validation=validation)
    if kind == "no window":
        parts[name] = parts[name].predicting(range(1))
    else:
        parts[name] = replace(parts[name], targets=torch.full_like(parts[name].targets, torch.nan))
    with pytest.raises(InputError, match=f"at least one observed target in the {name} windows, got none") as error:
        SeriesTraining(make_networks(), [LEARNING], GRAPH, **parts)
    assert "\n" not in str(error.value)


def test_windows_without_any_target_teach_nothing():
    values = np.random.default_rng(0).standard_normal((60, 3))
    values[30] = np.nan
    panel = Panel.from_array(values, graph=Graph(np.array([[0, 1], [1, 2]]), 3))
    maker = FrameMaker.fit(panel, 2)
    windows, config = maker.windows(panel), SeriesConfig("DE-GNN", 4, 1, 2, skip="none")
    training = SeriesTraining(
        [config.build(maker.sizes(3), 0)], [config.descent], panel.graph, windows, windows, batch_size=1,
        is_shuffled=False,
    )  # fmt: skip
    for _ in range(training.steps_an_epoch):
        training.step()
    assert training.members.weights.isfinite().all()


def test_forecasts_that_are_infinite_are_noticed():
    panel = Panel.from_array(np.random.default_rng(0).standard_normal((30, 3)))
    maker = FrameMaker.fit(panel, 2)
    windows, config = maker.windows(panel), SeriesConfig("DE-GNN", 4, 1, 2, skip="none")
    graph = Graph(np.zeros((2, 0), dtype=int), 3)
    training = SeriesTraining([config.build(maker.sizes(3), 0)], [config.descent], graph, windows, windows)
    training.members.weights.fill_(1e30)
    assert training.validate().isnan().all()
