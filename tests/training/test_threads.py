import pytest
import torch

from tdegnn.training.devices import single_thread


def test_number_of_threads_is_given_back_also_after_an_error():
    before = torch.get_num_threads()
    with single_thread():
        assert torch.get_num_threads() == 1
    with pytest.raises(KeyError), single_thread():
        raise KeyError
    assert torch.get_num_threads() == before
