import numpy as np
import pytest
import torch

from tdegnn import Forecaster, InputError, Panel
from tdegnn.forecasting.losses import LOSSES
from tdegnn.parts import Part

RESIDUALS = torch.tensor([-2.0, -0.2, 0.0, 0.2, 2.0], dtype=torch.float64)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("squared", [4.0, 0.04, 0.0, 0.04, 4.0]),
        ("absolute", [2.0, 0.2, 0.0, 0.2, 2.0]),
        (Part("huber", delta=0.5), [0.875, 0.02, 0.0, 0.02, 0.875]),
        (Part("quantile", level=0.9), [0.2, 0.02, 0.0, 0.18, 1.8]),
    ],
    ids=str,
)
def test_losses_of_residuals(loss, expected):
    losses = LOSSES.make(loss)(RESIDUALS)
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64))


def test_the_forecast_that_pays_least_is_a_quantile():
    observed = torch.linspace(0, 1, 101, dtype=torch.float64)
    forecasts = torch.linspace(0, 1, 1001, dtype=torch.float64)
    paid = LOSSES.make(Part("quantile", level=0.8))(observed[None] - forecasts[:, None]).mean(dim=1)
    assert forecasts[paid.argmin()] == pytest.approx(0.8, abs=0.006)


def test_a_forecaster_learns_a_quantile():
    """Of noise around zero, nine of ten values are below the quantile 0.9."""
    draw = np.random.default_rng(0)
    panel = Panel.from_array(draw.normal(size=(200, 3)))
    loss, settings = Part("quantile", level=0.9), dict(window=2, order=1, horizon=1, hidden_channels=4, num_layers=1)
    model = Forecaster(**settings, num_members=1, num_steps=60, skip="none", device="cpu", loss=loss).fit(panel)
    held_out = model.fitted_.held_out
    observed = held_out.forecasts + held_out.residuals
    assert 0.8 < (observed <= held_out.forecasts).mean() < 0.99
    assert 0.7 < model.predict().values.mean() < 1.9


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("hubber", "loss to be one of squared, absolute, huber, quantile, .* got 'hubber'"),
        (Part("huber", delta=0.0), "positive delta, got 0.0"),
        (Part("quantile", level=1.0), "level between 0 and 1, got 1.0"),
        (Part("squared", delta=1.0), "settings of SquaredLoss to be none, got 'delta'"),
    ],
    ids=str,
)
def test_wrong_losses_are_refused(loss, message):
    with pytest.raises(InputError, match=message):
        LOSSES.make(loss)
