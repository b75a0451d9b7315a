"""What was read of a mapped file is let go of, and nothing that was written is lost."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tdegnn.data.mapped_features import MappedFeatures
from tdegnn.data.mappings import let_go

SIZE = 2**25


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "numbers.npy", np.arange(SIZE // 4, dtype=np.float32).reshape(-1, 8))
    return tmp_path / "numbers.npy"


def memory_of_files():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssFile"].split()[0]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say how much of a file is in memory")
@pytest.mark.parametrize("view", [lambda array: array, np.asarray, lambda array: array[5:, 1:]])
def test_what_was_read_is_no_memory_of_the_process(path, view):
    numbers = view(np.load(path, mmap_mode="r"))
    before = memory_of_files()
    total = numbers.sum(dtype=np.float64)
    assert memory_of_files() - before > SIZE / 2
    let_go(numbers)
    assert memory_of_files() - before < SIZE / 10
    assert numbers.sum(dtype=np.float64) == total


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say how much of a file is in memory")
def test_features_that_are_read_in_chunks_leave_no_chunk_behind(path, monkeypatch):
    monkeypatch.setattr("tdegnn.data.mapped_features.CHUNK", SIZE // 4 // 16)
    features = MappedFeatures(np.load(path, mmap_mode="r"))
    before = memory_of_files()
    assert sum(float(chunk.sum()) > 0 for chunk in features.chunks()) == 16
    assert memory_of_files() - before < SIZE / 4


@pytest.mark.parametrize("mode", ["c", "r+"])
def test_changes_are_not_lost(path, mode):
    numbers = np.load(path, mmap_mode=mode)
    numbers[3, 3] = -1.0
    let_go(numbers)
    assert numbers[3, 3] == -1.0


def test_arrays_in_memory_stay():
    numbers = np.arange(6.0)
    let_go(numbers)
    let_go(None)
    np.testing.assert_array_equal(numbers, np.arange(6.0))
