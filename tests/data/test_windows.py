import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tdegnn import InputError
from tdegnn.data.windows import backward_difference, has_gaps, one_step_windows, sliding_windows


def test_windows_are_views_newest_first():
    states = torch.arange(12.0).reshape(1, 6, 2, 1)
    windows = one_step_windows(states, 2)
    assert windows.target[0, 0, 0, 0] == states[0, 2, 0, 0]
    assert [state[0, 0, 0, 0].item() for state in windows.history] == [2.0, 0.0]
    assert all(part.untyped_storage().data_ptr() == states.untyped_storage().data_ptr() for part in windows.history)


def test_backward_difference_is_that_of_numpy():
    states = torch.randn(2, 9, 3, 1, dtype=torch.float64)
    for order in (1, 2, 4):
        expected = np.diff(states.numpy(), n=order, axis=1)
        np.testing.assert_allclose(backward_difference(one_step_windows(states, order)), expected, atol=1e-12)


@pytest.mark.parametrize("order", [0, 6])
def test_an_order_that_does_not_fit_is_refused(order):
    with pytest.raises(InputError, match=f"between 1 and 5, one less than the steps, got {order}"):
        one_step_windows(torch.zeros(1, 6, 2, 1), order)


def series_of(num_steps):
    """A series in which every value says its step."""
    return torch.arange(float(num_steps))[:, None, None].repeat(1, 2, 3)


@given(window=st.integers(1, 6), horizon=st.integers(1, 4), stride=st.integers(1, 5), num_more_steps=st.integers(0, 20))
def test_sliding_windows_are_those_of_a_plain_loop(window, horizon, stride, num_more_steps):
    series = series_of(window + horizon + num_more_steps)
    windows = sliding_windows(series, window, horizon, stride)
    firsts = list(range(window, len(series) - horizon + 1, stride))
    assert list(windows.first_target_steps) == firsts
    assert len(windows) == len(windows.inputs) == len(windows.targets) == len(firsts)
    assert (windows.window, windows.horizon, windows.stride) == (window, horizon, stride)
    for inputs, targets, first in zip(windows.inputs, windows.targets, firsts, strict=True):
        assert torch.equal(inputs, series[first - window : first])
        assert torch.equal(targets, series[first : first + horizon])


@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_sliding_windows_are_views_of_the_series(kind):
    series = series_of(20)
    values = series if kind == "tensor" else series.numpy()
    windows = sliding_windows(values, 4, 2, 3).predicting(range(6, 18))
    for part in (windows.inputs, windows.targets):
        assert part.untyped_storage().data_ptr() == series.untyped_storage().data_ptr()
    first = windows.first_target_steps[0]
    values[first] = -1.0
    assert (windows.targets[0, 0] == -1).all()
    assert (windows.inputs[1, 1] == -1).all()


def test_a_read_only_array_is_taken_and_stays_as_it_is():
    values = series_of(9).numpy().copy()
    values.flags.writeable = False
    windows = sliding_windows(values, 3)
    windows.targets[0] = -1.0
    assert values[3, 0, 0] == 3


@given(
    horizon=st.integers(1, 4),
    stride=st.integers(1, 5),
    start=st.integers(-3, 25),
    num_predicted=st.integers(0, 25),
)
def test_windows_of_a_part_have_all_their_targets_in_it(horizon, stride, start, num_predicted):
    windows = sliding_windows(series_of(24), 3, horizon, stride)
    steps = range(start, start + num_predicted)
    part = windows.predicting(steps)
    expected = [first for first in windows.first_target_steps if first in steps and first + horizon - 1 in steps]
    assert list(part.first_target_steps) == expected
    assert part.targets[:, 0, 0, 0].tolist() == expected
    assert part.inputs[:, -1, 0, 0].tolist() == [first - 1 for first in expected]
    assert (part.window, part.horizon, part.stride) == (3, horizon, stride)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sliding_windows(series_of(6), 4, 3), "at least 7 steps for a window of 4 and a horizon of 3, got 6"),
        (lambda: sliding_windows(series_of(6), 0), "window to be at least 1, got 0"),
        (lambda: sliding_windows(series_of(6), 2, 0), "horizon to be at least 1, got 0"),
        (lambda: sliding_windows(series_of(6), 2, 1, 0), "stride to be at least 1, got 0"),
        (lambda: sliding_windows(series_of(6), 2).predicting(range(0, 6, 2)), "Expected consecutive steps, got range"),
    ],
)
def test_windows_that_do_not_fit_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


@given(st.integers(0, 11), st.integers(1, 4), st.integers(1, 6), st.booleans())
def test_a_gap_is_found_wherever_a_window_shows_it(step, window, stride, is_copy):
    values = torch.zeros(12, 2, 1)
    values[step, 1] = torch.nan
    windows = sliding_windows(values, window, 1, stride).inputs
    windows = windows.clone() if is_copy else windows
    assert has_gaps(windows) == bool(windows.isnan().any())
    assert not has_gaps(windows[..., :0])
    assert not has_gaps(windows[:0])
