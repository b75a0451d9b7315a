from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tdegnn import InputError
from tdegnn.data.splits import Fold, rolling_origins, split_chronologically
from tdegnn.data.windows import sliding_windows
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


@pytest.mark.parametrize("horizon", [1, 2, 5, 30])
def test_windows_are_counted_as_sliding_windows_are_cut(horizon):
    split = split_chronologically(60, 7)
    windows = sliding_windows(torch.zeros(60, 1, 1), 7, horizon)
    subsets = (split.training, split.validation, split.test)
    assert split.count_windows(horizon) == tuple(len(windows.predicting(subset)) for subset in subsets)


def test_a_series_too_short_to_split_is_refused():
    with pytest.raises(InputError, match="at least 10 steps to split for a window of 4, got 9"):
        split_chronologically(9, 4)
    with pytest.raises(InputError, match="window to be at least 1, got 0"):
        split_chronologically(50, 0)


@pytest.mark.parametrize("name", CASES["splits"])
def test_windows_of_one_step_are_exactly_those_of_the_split(name):
    case = CASES["splits"][name]
    windows = sliding_windows(torch.zeros(case["steps"], 1, 1), case["window"])
    split = split_chronologically(case["steps"], case["window"])
    for part in (split.training, split.validation, split.test, split.training_of_the_paper):
        assert windows.predicting(part).first_target_steps == part
    assert len(windows) == case["windows"]


@pytest.mark.parametrize("horizon", [2, 5, 12])
def test_no_target_of_a_window_lies_in_a_later_part(horizon):
    steps = torch.arange(200.0)[:, None, None]
    windows, split = sliding_windows(steps, 8, horizon), split_chronologically(200, 8)
    for part in (split.training, split.validation, split.test):
        targets = windows.predicting(part).targets
        # Windows across the border belong to neither part; all others are there.
        assert len(targets) == len(part) - horizon + 1
        assert [targets.min(), targets.max()] == ends(part)


def test_folds_by_hand():
    assert rolling_origins(20, horizon=3, num_folds=2) == (
        Fold(range(14), range(14, 17)),
        Fold(range(17), range(17, 20)),
    )
    assert rolling_origins(20, horizon=3, num_folds=2, stride=1, max_training=5) == (
        Fold(range(11, 16), range(16, 19)),
        Fold(range(12, 17), range(17, 20)),
    )


@given(
    horizon=st.integers(1, 5),
    num_folds=st.integers(1, 6),
    stride=st.one_of(st.none(), st.integers(1, 8)),
    window=st.integers(1, 6),
    num_more_steps=st.integers(0, 10),
    more_training=st.one_of(st.none(), st.integers(0, 10)),
)
def test_folds_follow_each_other_and_end_with_the_series(
    horizon, num_folds, stride, window, num_more_steps, more_training
):
    step = stride or horizon
    num_steps = window + 2 * horizon + (num_folds - 1) * step + num_more_steps
    max_training = None if more_training is None else window + horizon + more_training
    folds = rolling_origins(num_steps, horizon, num_folds, stride=stride, window=window, max_training=max_training)
    assert len(folds) == num_folds
    assert folds[-1].test[-1] == num_steps - 1
    assert all(later.test[0] - fold.test[0] == step for fold, later in pairwise(folds))
    windows = sliding_windows(torch.zeros(num_steps, 1, 1), window, horizon)
    for fold in folds:
        assert len(fold.test) == horizon
        assert fold.training.stop == fold.test.start
        assert len(fold.training) == min(fold.test.start, max_training or num_steps)
        assert len(windows.predicting(fold.training)) > 0
        assert len(windows.predicting(fold.test)) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rolling_origins(20, 3, 5, window=4), "at least 22 steps for 5 folds .* got 20. Take fewer folds"),
        (lambda: rolling_origins(20, 3, 5, stride=2, window=7), "window of 7, a horizon of 3 and a stride of 2, got"),
        (lambda: rolling_origins(20, 0, 5), "horizon to be at least 1, got 0"),
        (lambda: rolling_origins(20, 3, 0), "num_folds to be at least 1, got 0"),
        (lambda: rolling_origins(20, 3, 2, stride=0), "stride to be at least 1, got 0"),
        (lambda: rolling_origins(20, 3, 2, window=4, max_training=6), "max_training to be at least 7, got 6"),
    ],
)
def test_a_series_too_short_for_its_folds_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
