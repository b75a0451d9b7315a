import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tdegnn.data.windows import fill_last, fill_linear, fill_zero_with_mask, sliding_windows

NAN = float("nan")
FILLINGS = [fill_last, fill_linear, fill_zero_with_mask]
windows_with_gaps = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 7), st.integers(1, 3), st.integers(1, 2)),
    elements=st.one_of(st.just(NAN), st.floats(-100, 100)),
)


def fill_last_of_pandas(table):
    return table.ffill().bfill()


def fill_linear_of_pandas(table):
    return table.interpolate(method="linear", limit_direction="both")


def column(*values):
    return torch.tensor(values)[:, None, None]


@pytest.mark.parametrize(
    ("fill", "fill_of_pandas"), [(fill_last, fill_last_of_pandas), (fill_linear, fill_linear_of_pandas)]
)
@given(values=windows_with_gaps)
def test_gaps_are_filled_as_pandas_fills_them(fill, fill_of_pandas, values):
    expected = fill_of_pandas(pd.DataFrame(values.reshape(len(values), -1))).fillna(0.0)
    filled = fill(torch.as_tensor(values))
    np.testing.assert_allclose(filled.flatten(1), expected.to_numpy(), rtol=1e-12, atol=1e-12)


def test_examples_by_hand():
    values = column(NAN, 1.0, NAN, NAN, 4.0, NAN)
    assert fill_last(values).flatten().tolist() == [1.0, 1.0, 1.0, 1.0, 4.0, 4.0]
    assert fill_linear(values).flatten().tolist() == [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]
    with_mask = fill_zero_with_mask(values)[:, 0]
    assert with_mask[:, 0].tolist() == [0.0, 1.0, 0.0, 0.0, 4.0, 0.0]
    assert with_mask[:, 1].tolist() == [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("fill", FILLINGS)
@given(values=windows_with_gaps)
def test_what_was_observed_stays_as_it_is_and_nothing_is_left_missing(fill, values):
    before = torch.as_tensor(values.copy())
    filled = fill(torch.as_tensor(values))
    is_observed = ~before.isnan()
    assert torch.equal(filled[..., : values.shape[-1]][is_observed], before[is_observed])
    assert not filled.isnan().any()
    torch.testing.assert_close(torch.as_tensor(values), before, equal_nan=True, atol=0, rtol=0)


@pytest.mark.parametrize("fill", FILLINGS)
def test_a_node_with_nothing_in_the_window_becomes_zero(fill):
    values = torch.ones(2, 5, 3, 1)
    values[0, :, 1] = NAN
    filled = fill(values)[..., :1]
    assert (filled[0, :, 1] == 0).all()
    assert (filled[1] == 1).all()


@pytest.mark.parametrize("fill", [fill_last, fill_linear])
def test_where_nothing_is_missing_nothing_is_copied(fill):
    values = torch.randn(2, 5, 3, 1)
    assert fill(values) is values


def test_the_mask_has_a_channel_for_each_channel_even_where_nothing_is_missing():
    values = torch.randn(2, 5, 3, 2)
    with_mask = fill_zero_with_mask(values)
    assert torch.equal(with_mask[..., :2], values)
    assert torch.equal(with_mask[..., 2:], torch.ones(2, 5, 3, 2))


@pytest.mark.parametrize("fill", FILLINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_of_a_batch_do_not_see_each_other(fill, dtype, device):
    values = torch.randn(4, 3, 6, 5, 2, dtype=dtype)
    values[torch.rand(values.shape) < 0.5] = NAN
    together = fill(values.to(device))
    assert (together.dtype, together.device.type) == (dtype, device.type)
    alone = torch.stack([torch.stack([fill(window) for window in part]) for part in values])
    torch.testing.assert_close(together.cpu(), alone)


@pytest.mark.parametrize("fill", FILLINGS)
def test_no_future_value_reaches_a_window(fill):
    series = torch.randn(30, 3, 1)
    series[torch.rand(series.shape) < 0.4] = NAN
    windows = sliding_windows(series, window=6, horizon=2)
    before = fill(windows.inputs)
    for index, step in enumerate(windows.first_target_steps):
        other = series.clone()
        other[step:] = 1e6
        assert torch.equal(fill(sliding_windows(other, 6, 2).inputs)[index], before[index])
