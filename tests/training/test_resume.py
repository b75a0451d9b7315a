"""A training that is interrupted, at any moment, ends as one that is not: the same bits."""

import multiprocessing
import random
import signal
import time
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from tdegnn import DiffusionOperator, DirectCoefficients, Graph, InputError
from tdegnn.data.nodes import NodeDataset
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.runs.run_folder import CHECKPOINT, METRICS, WEIGHTS, RunFolder
from tdegnn.training.devices import choose_placement, single_thread
from tdegnn.training.loop import ClosureTrainee, fit
from tdegnn.training.members import GroupDescent, GroupedAdam
from tdegnn.training.node_training import Classification, NodeSubsets, NodeTraining, Regression, TaskTraining, as_input

NODES, FEATURES, CLASSES, CHANNELS, LAYERS = 24, 6, 3, 4, 2
CONFIG = {"kind": "test"}
LEARNING = GroupedAdam(*[GroupDescent(0.02, 1e-3)] * 3, averaging=0.9)


def make_dataset():
    draw = np.random.default_rng(0)
    parts = draw.permutation(NODES)[None] % 3
    masks = (parts == 0, parts == 1, parts == 2)
    features = draw.random((NODES, FEATURES)).astype(np.float32)
    labels = draw.integers(0, CLASSES, NODES)
    return NodeDataset("made up", features, Graph(draw.integers(0, NODES, (2, 60)), NODES), labels, *masks)


def make_networks(seeds, num_outputs=CLASSES):
    networks = []
    for seed in seeds:
        torch.manual_seed(seed)
        parts = (DirectCoefficients(2), DiffusionOperator(CHANNELS, LAYERS, 0.3, batch_norm=True))
        networks.append(
            StationaryNetwork(
                FEATURES,
                num_outputs,
                CHANNELS,
                LAYERS,
                *parts,
                step_size=0.3,
                outer_dropout=0.3,
                hidden_dropout=0.2,
                seed=seed,
            )
        )
    return networks


def classification(seeds=(0,)):
    return NodeTraining(make_networks(seeds), [LEARNING] * len(seeds), make_dataset(), [0] * len(seeds))


def regression(seeds=(0,)):
    dataset = make_dataset()
    targets = torch.as_tensor(dataset.features[:, :2] * 2 - 1)
    masks = (dataset.training_masks, dataset.validation_masks, dataset.test_masks)
    parts = NodeSubsets(*(np.repeat(mask, len(seeds), axis=0) for mask in masks))
    inputs = (as_input(dataset, choose_placement("cpu")), dataset.graph)
    return TaskTraining(make_networks(seeds, 2), [LEARNING] * len(seeds), inputs, Regression(targets), parts)


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
@pytest.mark.parametrize("patience", [None, 3])
@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
@pytest.mark.parametrize("make", [classification, regression])
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path, make, seeds, patience):
    options = dict(num_steps=30, validate_every=3, patience=patience)
    with single_thread():
        plain = make(seeds)
        expected = fit(plain, **options)
        with RunFolder.create(tmp_path / "whole", CONFIG) as run:
            fit(make(seeds), **options, run=run)
        with RunFolder.create(tmp_path / "parts", CONFIG) as run, pytest.raises(TrainingStoppedError):
            fit(make(seeds), **options, run=run, save_every=0.0, on_step=stop_at(6))
        # Where patience is short there may be nothing left to interrupt.
        with RunFolder.resume(tmp_path / "parts", CONFIG) as run, suppress(TrainingStoppedError):
            fit(make(seeds), **options, run=run, save_every=0.0, on_step=stop_at(8))
        with RunFolder.resume(tmp_path / "parts", CONFIG) as run:
            trainee = make(seeds)
            result = fit(trainee, **options, run=run)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert result.steps == expected.steps
    for one, other in [*zip(result.scores, expected.scores, strict=True), (result.best_steps, expected.best_steps)]:
        assert torch.equal(one, other)
    for name, tensor in plain.state().items():
        assert torch.equal(trainee.state()[name], tensor), name


def test_a_training_killed_after_its_last_step_is_only_restored(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        whole = classification()
        fit(whole, num_steps=9, run=run)
    before = contents(tmp_path)
    with RunFolder.resume(tmp_path, CONFIG) as run:
        again = classification()
        fit(again, num_steps=9, run=run, on_step=stop_at(1))
    assert contents(tmp_path) == before
    assert torch.equal(again.members.weights, whole.members.weights)


def test_the_folder_has_a_line_a_look_and_the_best_weights(tmp_path):
    looks = []
    with RunFolder.create(tmp_path, CONFIG) as run:
        trainee = classification()
        result = fit(trainee, num_steps=10, validate_every=4, run=run, on_look=looks.append)
        metrics = run.read_metrics()
        weights = run.read_weights()
    assert [line["step"] for line in metrics] == [4, 8, 10] == result.steps
    assert [line["score"] for line in metrics] == [score.item() for score in result.scores]
    assert [line["loss"] for line in metrics] == [look.losses.item() for look in looks]
    for name, parameter in trainee.members.network(0).named_parameters():
        assert torch.equal(weights[name][0], parameter)


def train_in(folder, started, pause):
    torch.set_num_threads(1)
    resume = (folder / "config.json").exists()
    with RunFolder.resume(folder, CONFIG) if resume else RunFolder.create(folder, CONFIG) as run:
        trainee = classification()
        started.set()
        fit(
            trainee, num_steps=300, validate_every=3, run=run, save_every=0.02,
            on_step=lambda _: time.sleep(pause),
        )  # fmt: skip
        run.finish({"score": trainee.best_scores.item()})


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
def test_ten_kills_at_random_moments_change_nothing(tmp_path):
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    moments = random.Random(0)

    def run(folder, pause, seconds=None):
        started = processes.Event()
        process = processes.Process(target=train_in, args=(tmp_path / folder, started, pause))
        process.start()
        assert started.wait(60)
        process.join(seconds)
        process.kill()
        process.join()
        return process.exitcode

    # Each step waits, so that no training can end before its kill.
    assert {run("killed", 0.01, moments.uniform(0, 0.25)) for _ in range(10)} == {-signal.SIGKILL}
    assert run("killed", 0) == 0
    assert run("whole", 0) == 0
    for name in (WEIGHTS, METRICS, "summary.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_training_of_closures_says_that_it_cannot_be_resumed(tmp_path):
    model = nn.Linear(1, 1)

    def loss():
        return model(torch.ones(1, 1)).square().mean()

    trainee = ClosureTrainee(model, loss, loss, torch.optim.SGD(model.parameters()))
    with (
        RunFolder.create(tmp_path, CONFIG) as run,
        pytest.raises(InputError, match="got a ClosureTrainee. Leave run out"),
    ):
        fit(trainee, num_steps=1, run=run)


def test_the_checkpoint_of_another_training_is_refused(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        fit(classification(), num_steps=3, run=run)
    with RunFolder.resume(tmp_path, CONFIG) as run, pytest.raises(InputError, match="got that of another"):
        fit(regression(), num_steps=3, run=run)


def test_class_weights_weigh_as_in_torch():
    outputs, labels = torch.randn(1, 5, 3), torch.tensor([0, 2, 1, -1, 2])
    weights, mask = torch.tensor([0.5, 1.0, 4.0]), torch.tensor([[True, True, True, False, False]])
    loss = Classification(labels, weights).losses(outputs, mask)
    expected = nn.functional.cross_entropy(outputs[0, :3], labels[:3], weight=weights)
    torch.testing.assert_close(loss[0], expected)


def test_targets_that_are_not_known_do_not_count():
    targets = torch.tensor([[1.0, 2.0], [3.0, 4.0], [float("nan"), 0.0]])
    outputs, mask = torch.zeros(1, 3, 2), torch.tensor([[True, True, False]])
    task = Regression(targets)
    assert task.losses(outputs, mask).tolist() == [7.5]
    assert task.scores(outputs, mask).tolist() == [-7.5]
