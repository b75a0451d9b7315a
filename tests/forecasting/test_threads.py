"""Threads of the CPU. Apart from other tests of the forecaster, which all run with one thread."""

import numpy as np
import pytest
import torch

from tdegnn import Forecaster, Panel
from tdegnn.forecasting.fitted import Ensemble

PANEL = Panel.from_array(np.random.default_rng(0).normal(size=(60, 4)))
SMALL = dict(window=3, order=2, hidden_channels=4, num_layers=1, num_members=1, num_steps=4, validate_every=2)


@pytest.fixture
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("_two_threads")
def test_small_panels_are_computed_with_one_thread(monkeypatch):
    seen = []

    def see(*_):
        seen.append(torch.get_num_threads())

    model = Forecaster(**SMALL, device="cpu").fit(PANEL, on_look=see, on_refit=see)
    assert set(seen) == {1}
    seen.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Ensemble, "run_freely", lambda *_: see() or np.zeros((1, 4, 1)))
        model.predict()
        patch.setattr("tdegnn.forecasting.forecaster.train_further", lambda _, fitted, *__: see() or fitted)
        model.update(PANEL, num_steps=1)
    assert seen == [1, 1]
    seen.clear()
    monkeypatch.setattr("tdegnn.forecasting.held_out.SMALL_PANEL", PANEL.values.size - 1)
    Forecaster(**SMALL, device="cpu").fit(PANEL, on_look=see, on_refit=see)
    assert set(seen) == {2}
    assert torch.get_num_threads() == 2
