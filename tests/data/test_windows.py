import numpy as np
import pytest
import torch

from tdegnn import InputError
from tdegnn.data.windows import backward_difference, one_step_windows


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
