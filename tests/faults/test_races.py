"""Two processes that write to one place lose nothing, tear nothing and write nothing twice."""

import pytest

from tests.faults.matrix import NUM_SHORT_RACES
from tests.faults.races import RACES, race


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(NUM_SHORT_RACES))
@pytest.mark.parametrize("kind", RACES)
def test_two_writers_lose_nothing(tmp_path, kind, seed):
    assert race(kind, seed, tmp_path) == "same"
