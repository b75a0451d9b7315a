import pytest

from tdegnn import InputError
from tdegnn.data.splits import split_chronologically
from tests.golden import CASES


def ends(part):
    return [part[0], part[-1]]


@pytest.mark.parametrize("name", CASES["splits"])
def test_boundaries_agree_with_golden_cases(name):
    case = CASES["splits"][name]
    split = split_chronologically(case["steps"], case["window"])
    assert ends(split.training) == case["honest_train_targets"]
    assert ends(split.validation) == case["honest_validation_targets"]
    assert ends(split.test) == case["test_targets"]
    assert len(split.training) + len(split.validation) + len(split.test) == case["windows"]


@pytest.mark.parametrize("num_steps", range(10, 200, 7))
def test_parts_follow_each_other_and_leave_nothing_out(num_steps):
    split = split_chronologically(num_steps, 4)
    assert [*split.training, *split.validation, *split.test] == list(range(4, num_steps))
    assert [*split.training_of_the_paper, *split.test] == list(range(4, num_steps))


def test_a_series_too_short_to_split_is_refused():
    with pytest.raises(InputError, match="at least 10 steps to split for a window of 4, got 9"):
        split_chronologically(9, 4)
    with pytest.raises(InputError, match="window to be at least 1, got 0"):
        split_chronologically(50, 0)
