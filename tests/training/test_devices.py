from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch

from tdegnn import NodeClassifier
from tdegnn.training.devices import choose_placement, place, single_thread
from tdegnn.training.loop import fit
from tdegnn.training.node_training import NodeTraining
from tests.node_datasets import make_dataset
from tests.training.test_members import FAST, make_network

TYPES = {"32-true": torch.float32, "64-true": torch.float64}


@pytest.mark.parametrize(("precision", "dtype"), TYPES.items())
def test_weights_have_the_numbers_that_were_asked_for(precision, dtype, device):
    placement = choose_placement(device.type, precision)
    assert placement.device.type == device.type
    assert placement.dtype is dtype
    training = NodeTraining(
        [make_network("attention", seed) for seed in (0, 1)], [FAST] * 2, make_dataset(), [0, 1], placement
    )
    fit(training, num_steps=6, validate_every=3)
    assert training.members.weights.dtype is dtype
    assert training.members.weights.device.type == device.type
    assert training.last_losses().dtype is dtype


@pytest.mark.slow
def test_more_digits_are_computed_with_and_not_only_kept():
    """Trainings in 32 and 64 bits go the same way, but not to the last digit; in 64 bits company changes nothing."""
    weights = {}
    for precision in TYPES:
        placement, networks = choose_placement("cpu", precision), [make_network("direct", seed) for seed in (0, 1)]
        for name, members in {"alone": networks[:1], "together": networks}.items():
            training = NodeTraining(members, [FAST] * len(members), make_dataset(), range(len(members)), placement)
            fit(training, num_steps=6)
            weights[precision, name] = training.members.weights[0].double()
    assert (weights["64-true", "together"] - weights["64-true", "alone"]).abs().max() < 1e-12
    gap = (weights["64-true", "alone"] - weights["32-true", "alone"]).abs().max()
    assert 1e-9 < gap < 1e-3


def test_settings_kept_in_64_bits_stay_so():
    network = place(make_network("direct", 0), choose_placement("cpu"))
    assert network.step_size.dtype is torch.float64
    assert network.embedding.weight.dtype is torch.float32


def test_a_saved_classifier_keeps_all_digits(tmp_path):
    model = NodeClassifier(num_layers=2, order=2, hidden_channels=4, num_steps=6, precision="64-true", device="cpu")
    model.fit(make_dataset(), run=tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    assert loaded.precision == "64-true"
    assert torch.equal(loaded.network_.embedding.weight, model.network_.embedding.weight)
    assert loaded.network_.embedding.weight.dtype is torch.float64


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def in_new_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_number_of_threads_is_given_back_also_after_an_error(three_threads):
    with single_thread():
        assert torch.get_num_threads() == 1
    with pytest.raises(KeyError), single_thread():
        raise KeyError
    assert torch.get_num_threads() == three_threads


def test_one_thread_inside_another_stays_one(three_threads):
    with single_thread():
        with single_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == three_threads


@pytest.mark.parametrize("first_to_leave", [0, 1])
def test_python_threads_that_overlap_leave_the_process_as_it_was(three_threads, first_to_leave):
    """One enters, the other enters, one leaves, the other leaves: no order may leave a process at one thread."""
    inside, may_leave = [Event(), Event()], [Event(), Event()]

    def work(number):
        with single_thread():
            seen = [torch.get_num_threads()]
            inside[number].set()
            assert may_leave[number].wait(20)
            seen.append(torch.get_num_threads())
        return [*seen, torch.get_num_threads()]

    with ThreadPoolExecutor(2) as pool:
        jobs = []
        for number in (0, 1):
            jobs.append(pool.submit(work, number))
            assert inside[number].wait(20)
        for number in (first_to_leave, 1 - first_to_leave):
            may_leave[number].set()
            assert jobs[number].result() == [1, 1, three_threads]
    assert torch.get_num_threads() == three_threads
    assert in_new_thread(torch.get_num_threads) == three_threads


def test_new_python_threads_begin_as_if_no_other_computed_with_one(three_threads):
    with single_thread():
        assert in_new_thread(torch.get_num_threads) == three_threads
        assert torch.get_num_threads() == 1
    assert in_new_thread(torch.get_num_threads) == three_threads
