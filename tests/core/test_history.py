import pytest
import torch

from tdegnn import InputError
from tdegnn.core.integrator import as_history, push, replace_newest


def test_newest_states_come_first():
    history = as_history(torch.arange(6.0).reshape(3, 2, 1), 2)
    assert [state[0, 0].item() for state in history] == [0.0, 2.0]
    newer = push(history, torch.full((2, 1), 9.0))
    assert [state[0, 0].item() for state in newer] == [9.0, 0.0]
    assert replace_newest(history, newer[0])[1] is history[1]


def test_too_short_or_uneven_histories_are_refused():
    with pytest.raises(InputError, match="at least 3 states.*got 2"):
        as_history(torch.zeros(2, 4, 1), 3)
    with pytest.raises(InputError, match=r"alike, got \(4, 1\) torch.float32 on cpu and \(5, 1\)"):
        as_history([torch.zeros(4, 1), torch.zeros(5, 1)], 2)
    with pytest.raises(InputError, match="torch.float64"):
        as_history([torch.zeros(4, 1), torch.zeros(4, 1).double()], 2)
