"""A process that is killed or interrupted loses nothing: begun again, it ends as one that was left alone."""

import pytest

from tests.faults.kills import INTERRUPTED, interrupt_and_compare, kill_and_compare
from tests.faults.matrix import KILLS
from tests.faults.works import has_database

CASES = [
    pytest.param(
        kind,
        seed,
        marks=pytest.mark.skipif(kind.endswith("SQL") and not has_database(), reason="there is no PostgreSQL to try"),
    )
    for kind, (_, num_short) in KILLS.items()
    for seed in range(num_short)
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_what_was_killed_is_finished_as_if_undisturbed(tmp_path, kind, seed):
    assert kill_and_compare(kind, seed, tmp_path) == "same"


@pytest.mark.slow
@pytest.mark.parametrize("kind", INTERRUPTED)
def test_what_was_interrupted_says_so_in_one_line_and_is_finished(tmp_path, kind):
    assert interrupt_and_compare(kind, 0, tmp_path) == "same"
