"""Threads of the CPU. Apart from other tests of the forecaster, which all run with one thread."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from tdegnn import Forecaster, Panel
from tdegnn.forecasting.fitted import Ensemble

PANEL = Panel.from_array(np.random.default_rng(0).normal(size=(60, 4)))
SMALL = dict(
    window=3, order=2, horizon=1, hidden_channels=4, num_layers=1, num_members=1, num_steps=4, validate_every=2
)


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

    model = Forecaster(**SMALL, device="cpu").fit(PANEL, on_look=see, on_progress=see)
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
    Forecaster(**SMALL, device="cpu").fit(PANEL, on_look=see, on_progress=see)
    assert set(seen) == {2}
    assert torch.get_num_threads() == 2


@pytest.mark.slow
@pytest.mark.usefixtures("_two_threads")
def test_trainings_in_python_threads_give_the_numbers_that_each_gives_alone():
    jobs = [
        lambda: Forecaster(**SMALL, device="cpu").fit(PANEL).predict(3).values,
        lambda: Forecaster(**SMALL, device="cpu", coefficients="attention", seed=1).fit(PANEL).predict(3).values,
    ]
    alone, state = [job() for job in jobs], torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: job(), jobs * 4))
    for number, values in enumerate(together):
        np.testing.assert_array_equal(values, alone[number % 2])
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), state)
