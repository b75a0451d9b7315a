import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tdegnn import InputError
from tdegnn.data.scalers import Scaler

NAN = np.nan
FITTED = [Scaler.standard, Scaler.robust]
series = arrays.arrays(
    np.float64, (6, 3, 2), elements=st.one_of(st.just(NAN), st.floats(-1e6, 1e6).map(lambda number: round(number, 3)))
)


def observed_series(seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((50, 4, 2)) * [1.0, 20.0] + rng.standard_normal((4, 2)) * 100
    values[rng.random(values.shape) < missing] = NAN
    return values


@pytest.mark.parametrize(("per", "axis"), [("node", 0), ("all", (0, 1))])
def test_standard_is_mean_and_standard_deviation(per, axis):
    values = observed_series()
    scaler = Scaler.standard(values, per)
    np.testing.assert_allclose(scaler.center, np.nanmean(values, axis).reshape(-1, 2), rtol=1e-12)
    np.testing.assert_allclose(scaler.scale, np.nanstd(values, axis).reshape(-1, 2), rtol=1e-12)
    scaled = scaler.transform(values)
    np.testing.assert_allclose(np.nanmean(scaled, axis), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(scaled, axis), 1, rtol=1e-12)


@pytest.mark.parametrize(("per", "axis"), [("node", 0), ("all", (0, 1))])
def test_robust_is_median_and_interquartile_range(per, axis):
    values = observed_series()
    scaler = Scaler.robust(values, per)
    lower, upper = np.nanquantile(values, 0.25, axis), np.nanquantile(values, 0.75, axis)
    np.testing.assert_allclose(scaler.center, np.nanmedian(values, axis).reshape(-1, 2), rtol=1e-12)
    np.testing.assert_allclose(scaler.scale, (upper - lower).reshape(-1, 2) / 1.349, rtol=1e-12)


def test_robust_estimates_the_standard_deviation_and_does_not_mind_an_outlier():
    values = np.random.default_rng(0).normal(3.0, 2.0, (100_000, 1, 1))
    values[0] = 1e15
    scaler = Scaler.robust(values)
    assert scaler.center.item() == pytest.approx(3.0, rel=0.01)
    assert scaler.scale.item() == pytest.approx(2.0, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("fit", FITTED)
@pytest.mark.parametrize("per", ["node", "all"])
@given(training=series, values=series)
def test_inverting_gives_back_what_was_transformed(fit, per, training, values):
    training[0, 0] = 1.0
    scaler = fit(training, per)
    assert (scaler.scale > 0).all()
    size = np.nanmax(np.abs(values), initial=1.0) + np.abs(scaler.center).max()
    np.testing.assert_allclose(scaler.invert(scaler.transform(values)), values, rtol=0, atol=1e-12 * size)


@pytest.mark.slow
@pytest.mark.parametrize("fit", FITTED)
@given(training=series, shift=st.integers(-1000, 1000), unit=st.sampled_from([0.25, 2.0, 16.0]))
def test_scaled_values_do_not_know_unit_and_origin(fit, training, shift, unit):
    training[0] = [[1.0, 2.0]] * 3
    training[1] = [[9.0, 8.0]] * 3
    plain = fit(training, "node").transform(training)
    moved = unit * training + shift
    np.testing.assert_allclose(fit(moved, "node").transform(moved), plain, atol=1e-6)


@pytest.mark.parametrize("fit", FITTED)
def test_only_the_training_part_matters_and_nodes_do_not_mix(fit):
    values = observed_series()
    scaler = fit(values[:30], "node")
    later = values.copy()
    later[30:] = 1e9
    same = fit(later[:30], "node")
    np.testing.assert_array_equal(same.center, scaler.center)
    np.testing.assert_array_equal(same.scale, scaler.scale)
    alone = fit(values[:30, 1:2], "node")
    np.testing.assert_array_equal(alone.center, scaler.center[1:2])
    np.testing.assert_array_equal(alone.scale, scaler.scale[1:2])


@pytest.mark.parametrize("fit", FITTED)
@pytest.mark.parametrize("constant", [0.0, 0.1, -1e9, 1e300])
def test_a_constant_has_scale_one(fit, constant):
    scaler = fit(np.full((1000, 2, 1), constant), "node")
    assert (scaler.center == constant).all()
    assert (scaler.scale == 1).all()


@pytest.mark.parametrize("fit", FITTED)
def test_what_rounding_leaves_of_a_constant_is_no_spread(fit):
    values = np.full((10, 1, 1), 0.3)
    values[::2] = 0.1 + 0.2
    assert np.ptp(values) > 0
    assert fit(values, "node").scale.item() == 1


def test_small_numbers_are_scaled_like_any_others():
    values = observed_series(missing=0) * 1e-30
    np.testing.assert_allclose(Scaler.standard(values).scale, values.std(axis=0), rtol=1e-12)


def test_where_the_quartiles_agree_the_standard_deviation_steps_in():
    values = np.zeros((20, 1, 1))
    values[3] = 5.0
    assert Scaler.robust(values).scale.item() == pytest.approx(values.std(), rel=1e-12)
    assert Scaler.robust(values).center.item() == 0


@pytest.mark.parametrize("fit", FITTED)
def test_a_node_of_which_nothing_was_observed_takes_what_all_nodes_have(fit):
    values = observed_series()
    values[:, 2, 1] = NAN
    scaler, of_all = fit(values, "node"), fit(values, "all")
    assert scaler.center.shape == (4, 2)
    assert scaler.center[2, 1] == of_all.center[0, 1]
    assert scaler.scale[2, 1] == of_all.scale[0, 1]
    assert scaler.center[2, 0] != of_all.center[0, 0]


def test_identity_changes_nothing():
    values, scaler = observed_series(), Scaler.identity(2)
    np.testing.assert_array_equal(scaler.transform(values), values)
    np.testing.assert_array_equal(scaler.invert(values), values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_keep_device_and_precision_and_agree_with_arrays(dtype, device):
    values = observed_series()
    scaler = Scaler.standard(values)
    windows = torch.as_tensor(values, dtype=dtype, device=device).unfold(0, 5, 1).movedim(-1, 1)
    scaled = scaler.transform(windows)
    assert (scaled.dtype, scaled.device.type) == (dtype, device.type)
    expected = torch.as_tensor(scaler.transform(windows.cpu().numpy()))
    torch.testing.assert_close(scaled.cpu(), expected, equal_nan=True)
    torch.testing.assert_close(scaler.invert(scaled), windows, equal_nan=True, atol=1e-4, rtol=1e-5)


def test_arrays_keep_their_precision():
    values = observed_series().astype(np.float32)
    assert Scaler.standard(values).transform(values).dtype == np.float32


def test_gradients_pass_through():
    prediction = torch.ones(3, 4, 2, requires_grad=True)
    scaler = Scaler.standard(observed_series())
    scaler.invert(prediction).sum().backward()
    torch.testing.assert_close(prediction.grad[0], torch.as_tensor(scaler.scale).float())


VALUES = observed_series()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Scaler.standard(np.where([True, False], VALUES, NAN)), r"every channel .* got none in \[1\]"),
        (lambda: Scaler.robust(VALUES[:0]), r"every channel .* got none in \[0, 1\]"),
        (lambda: Scaler.standard(VALUES / 0.0), "finite training values, or NaN .* got infinity"),
        (lambda: Scaler.identity(0), "num_channels to be at least 1, got 0"),
        (lambda: Scaler.standard(VALUES).transform(VALUES[:, :1]), r"\(..., 4 nodes, 2 channels\).* got \(50, 1, 2\)"),
        (lambda: Scaler.standard(VALUES, "all").invert(VALUES[..., :1]), r"\(..., nodes, 2 channels\).*\(50, 4, 1\)"),
        (lambda: Scaler.standard(VALUES).transform(torch.ones(4, 2).long()), "floating-point values, got torch.int64"),
        (lambda: Scaler.standard(VALUES).transform(np.ones((4, 2), int)), "floating-point values, got int64. Convert"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_wrong_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
