"""Random inputs are read or refused, and what failed once is tried again. The fuzz runner notices every other end."""

import pytest

from tests.faults import fuzz
from tests.faults.fuzz import NAMES, add_to_corpus, find_fuzzers, read_corpus, try_seeds
from tests.faults.matrix import NUM_SHORT_INPUTS


def test_no_fuzzer_is_missing():
    assert find_fuzzers() == list(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", find_fuzzers())
def test_random_inputs_are_read_or_refused(name):
    tries = try_seeds(name, [*read_corpus(name), *range(NUM_SHORT_INPUTS)])
    assert tries.failures == {}
    assert tries.num_tried == len(read_corpus(name)) + NUM_SHORT_INPUTS


@pytest.mark.slow
def test_the_runner_notices_crashes_errors_hangs_and_too_much_memory():
    tries = try_seeds("faulty_reader", [0, 1, 2, 3, 4, 5, 0], slowest=0.5)
    assert tries.answers == {"read": 2, "refused": 1}
    assert tries.failures.keys() == {2, 3, 4, 5}
    assert "ended with -11: Fatal Python error: Segmentation fault" in tries.failures[2]
    assert tries.failures[3].startswith("ZeroDivisionError: division by zero (faulty_reader.py")
    assert tries.failures[4].startswith("MemoryError")
    assert tries.failures[5] == "took too long"


def test_failures_are_kept_once(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "CORPUS", tmp_path / "corpus")
    assert read_corpus("table_fuzz") == []
    add_to_corpus("table_fuzz", {12: "ValueError: no # number"})
    add_to_corpus("table_fuzz", {12: "ValueError", 13: "a crash"})
    assert read_corpus("table_fuzz") == [12, 13]
