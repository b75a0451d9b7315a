"""Processes that share the batches of each step end with the numbers of one process."""

import json
from itertools import chain

import numpy as np
import pytest
import torch

from tdegnn import Graph, InputError, NodeClassifier, NodeRegressor, Part
from tdegnn.nets.in_blocks import BlockShare, cut_into_blocks
from tdegnn.runs.run_folder import CHECKPOINT, RunFolder
from tdegnn.training.processes import Processes
from tests.nodes.test_batches import FEATURES, GRAPH, LABELS, NODES, first_gradient, make_training
from tests.torchrun import run_together

# Batches that two processes cannot share evenly, with batch norm, dropout, a running mean of the weights, and 64 bits.
SETTINGS = dict(
    hidden_channels=8,
    num_steps=18,
    averaging=0.5,
    validate_every=1,
    device="cpu",
    precision="64-true",
    network=None,
    baselines=False,
)
KINDS = {
    "partitions": Part("partitions", num_parts=7, parts_per_batch=2, batches_per_step=3),
    "ranges": Part("ranges", num_parts=9, parts_per_batch=1, halo=2, batches_per_step=3),
    "neighborhoods": Part("neighborhoods", batch_size=8, num_neighbors=2, batches_per_step=3),
}
# Without a word about the network, on few nodes: networks and orders are tried, and several first weights are trained.
WITHOUT_A_WORD = dict(
    batches=Part("ranges", num_parts=4, parts_per_batch=1, batches_per_step=2),
    order="auto",
    num_steps=12,
    device="cpu",
    precision="64-true",
)
CASES = {name: SETTINGS | {"batches": batches} for name, batches in KINDS.items()} | {"auto": WITHOUT_A_WORD}
CASES |= {"regressor": CASES["partitions"]}
# Processes share each validation, also that of a graph of one block.
BLOCK_SIZES = {"partitions": 40, "ranges": 200, "neighborhoods": 10**6, "auto": 100, "regressor": 40}
SCRIPT = """
import json, sys
import numpy as np
from tdegnn.nets import in_blocks
from tdegnn.training.processes import join_processes
from tests.nodes.test_processes import BLOCK_SIZES, data_of, make_model, outputs_of

folder, *names = sys.argv[1:]
processes = join_processes()
for name in names:
    in_blocks.BLOCK_SIZE = BLOCK_SIZES[name]
    model = make_model(name).fit(**data_of(name), run=f"{folder}/{name}", resume=True)
    weights = np.concatenate([each.detach().numpy().ravel() for each in model.network_.parameters()])
    processes.check_same(weights.tobytes(), "weights")
    if processes.is_first:
        print(json.dumps([processes.size, name, model.history_, outputs_of(model).tolist()]), flush=True)
    processes.barrier()
if not processes.is_first:
    print("follower\\n", end="", flush=True)
"""
DATA = {"X": FEATURES, "y": LABELS, "graph": GRAPH}


def make_model(name):
    return (NodeRegressor if name == "regressor" else NodeClassifier)(**CASES[name])


def data_of(name):
    return DATA | {"y": np.cos(FEATURES.cumsum(axis=1))} if name == "regressor" else DATA


def outputs_of(model):
    return model.predict() if isinstance(model, NodeRegressor) else model.predict_proba()


def fit_together(folder, num_processes, *names):
    """Losses, scores and outputs of fits in run folders, by name of the case."""
    lines = run_together(SCRIPT, folder, *names, num_processes=num_processes).splitlines()
    assert lines.count("follower") == num_processes - 1
    found = {}
    for size, name, history, outputs in (json.loads(line) for line in lines if line.startswith("[")):
        assert size == num_processes
        found[name] = [(line["loss"], line["score"]) for line in history], outputs
    assert list(found) == list(names)
    return found


def check_same_numbers(found, model):
    measured, outputs = found
    np.testing.assert_allclose(measured, [(line["loss"], line["score"]) for line in model.history_], rtol=1e-9)
    np.testing.assert_allclose(outputs, outputs_of(model), rtol=1e-9)


@pytest.mark.slow
def test_two_processes_have_the_numbers_of_one(tmp_path):
    for name, found in fit_together(tmp_path, 2, *KINDS, "regressor").items():
        alone = make_model(name).fit(**data_of(name), run=tmp_path / f"{name}-alone")
        check_same_numbers(found, alone)
        kind = type(alone).__name__
        one, two = (RunFolder.open_finished(tmp_path / each, kind) for each in (f"{name}-alone", name))
        assert one.config == two.config
        assert one.read_summary()["best_step"] == two.read_summary()["best_step"]
        for key, weights in one.read_weights().items():
            np.testing.assert_allclose(two.read_weights()[key], weights, rtol=1e-6, atol=1e-9, err_msg=key)


@pytest.mark.slow
def test_two_processes_choose_network_and_order_as_one_does(tmp_path):
    found = fit_together(tmp_path, 2, "auto")
    alone = NodeClassifier(**WITHOUT_A_WORD).fit(**DATA, run=tmp_path / "alone")
    check_same_numbers(found["auto"], alone)
    one, two = (RunFolder.open_finished(tmp_path / name, "NodeClassifier").config for name in ("alone", "auto"))
    assert one["chosen_network"]["name"] == two["chosen_network"]["name"]
    assert one["chosen_order"] == two["chosen_order"]


@pytest.mark.slow
def test_what_some_processes_began_any_number_resumes(tmp_path):
    settings = CASES["partitions"]
    whole = NodeClassifier(**settings).fit(**DATA)

    def interrupt(look):
        if look.step == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NodeClassifier(**settings).fit(**DATA, run=tmp_path / "partitions", on_look=interrupt)
    assert (tmp_path / "partitions" / CHECKPOINT).exists()
    check_same_numbers(fit_together(tmp_path, 3, "partitions")["partitions"], whole)


# One process, without others.


def gradient_of(number, **settings):
    """The gradient of one batch, as the only one of the first step."""
    training = make_training(Part("ranges", num_parts=6, parts_per_batch=1), **settings)
    training._num_done.fill_(number)
    return first_gradient(training), training


@pytest.mark.parametrize("operator", [Part("near-identity", batch_norm=True), "cde"], ids=str)
def test_a_step_of_several_batches_has_the_mean_of_their_gradients_and_running_means(operator):
    training = make_training(Part("ranges", num_parts=6, parts_per_batch=1, batches_per_step=4), operator=operator)
    gradient = first_gradient(training)
    alone = [gradient_of(number, operator=operator) for number in range(4)]
    torch.testing.assert_close(gradient, torch.stack([each for each, _ in alone]).mean(dim=0), rtol=1e-9, atol=1e-12)
    losses = torch.stack([each.last_losses() for _, each in alone])
    torch.testing.assert_close(training.last_losses(), losses.mean(dim=0), rtol=1e-9, atol=0)
    running = [name for name in training.members.buffers if "running" in name]
    assert running
    for name in running:
        means = torch.stack([each.members.buffers[name] for _, each in alone]).mean(dim=0)
        torch.testing.assert_close(training.members.buffers[name], means, rtol=1e-9, atol=1e-12)


def test_each_batch_of_a_step_has_masks_of_its_own():
    """The only part is the batch each time, so that only the masks differ."""
    batches = Part("ranges", num_parts=1, parts_per_batch=1, batches_per_step=3)
    plain = dict(outer_dropout=0.0, hidden_dropout=0.0)
    several, one = (make_training(each, **plain) for each in (batches, Part("ranges", num_parts=1, parts_per_batch=1)))
    torch.testing.assert_close(first_gradient(several), first_gradient(one), rtol=1e-9, atol=1e-12)
    several, one = (make_training(each) for each in (batches, Part("ranges", num_parts=1, parts_per_batch=1)))
    assert not torch.allclose(first_gradient(several), first_gradient(one), rtol=1e-3)
    assert int(several.members.buffers["step"]) == 3


def test_validation_is_at_most_once_per_epoch_of_several_batches_per_step():
    batches = Part("ranges", num_parts=9, parts_per_batch=1, batches_per_step=2)
    model = NodeClassifier(**SETTINGS | {"batches": batches, "num_steps": 12}).fit(**DATA)
    assert [line["step"] for line in model.history_] == [5, 10, 12]


def test_fewer_batches_than_processes_are_refused():
    message = (
        "^Expected at least one batch per process, got 1 per step for 2 processes. Set batches_per_step of the batches "
        "to 2 or more, or start fewer processes.$"
    )
    with pytest.raises(InputError, match=message):
        make_training("partitions", processes=Processes(0, 2))


class Disagreeing(Processes):
    """A process among others whose first one has found something else."""

    def agree(self, value):
        return f"not {value}"


def test_other_batches_than_those_of_the_first_process_are_refused():
    with pytest.raises(
        InputError, match="^Expected the same batches in all 2 processes, got others in process 1. Start"
    ):
        make_training(KINDS["partitions"], processes=Disagreeing(1, 2))


SENT = []


class Listening(Processes):
    """A process whose others say nothing: it keeps the number of rows that it was to send each time."""

    def agree(self, value):
        return value

    def copy_from_first(self, tensor):
        pass

    def gather_rows(self, tensor, ends):
        SENT.append((len(tensor), ends[self.rank] - (0, *ends)[self.rank]))


def test_processes_share_the_validation_of_a_graph_of_one_block():
    SENT.clear()
    training = make_training(KINDS["ranges"], processes=Listening(1, 3))
    assert len(cut_into_blocks(GRAPH)) == 1
    training.measure()
    # Two initial states, the rate of the first of two layers, and outputs.
    assert len(SENT) == 4
    assert all(whole == NODES and NODES / 4 < own < NODES / 2 for whole, own in SENT)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_blocks_of_all_processes_are_all_nodes(size):
    blocks = [cut_into_blocks(GRAPH, 40, BlockShare(rank, size)) for rank in range(size)]
    assert np.array_equal(np.concatenate(list(chain.from_iterable(blocks))), np.arange(NODES))
    counts = [sum(map(len, own)) for own in blocks]
    assert max(counts) - min(counts) <= 1


def test_a_process_may_have_no_block():
    """One node has nearly all edges."""
    star = Graph(np.stack([np.arange(1, 5), np.zeros(4, dtype=int)]), 5)
    blocks = [cut_into_blocks(star, None, BlockShare(rank, 8)) for rank in range(8)]
    assert [] in blocks
    assert np.array_equal(np.concatenate(list(chain.from_iterable(blocks))), np.arange(5))
