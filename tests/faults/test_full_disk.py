"""A full disk is said in one line, and given space the work ends as one that never lacked it."""

import pytest

from tests.faults.full_disk import fill_and_compare
from tests.faults.matrix import DISKS

CASES = [(kind, seed) for kind, (_, num_short) in DISKS.items() for seed in range(num_short)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_a_full_disk_loses_nothing(tmp_path, kind, seed):
    assert fill_and_compare(kind, seed, tmp_path) == "same"
