"""Small problems give the same numbers whatever the number of CPU threads, to the last bit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from tdegnn import Forecaster, Graph, NodeClassifier, NodeRegressor, Panel, find_order

RANDOM = np.random.default_rng(0)
SERIES = np.sin(0.3 * np.arange(60))[:, None] + RANDOM.normal(size=(60, 5), scale=0.1)
RING = Graph([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
# Many nodes for few channels: products over all nodes are divided among threads first.
FEATURES = RANDOM.normal(size=(2000, 3))
EDGES = Graph(np.stack([RANDOM.integers(0, 1000, size=8000), RANDOM.integers(1000, 2000, size=8000)]), 2000)
SMALL = dict(hidden_channels=8, num_layers=2, order=2, num_steps=4, validate_every=2, device="cpu")


def forecast():
    model = Forecaster(window=4, num_members=1, **SMALL).fit(Panel.from_array(SERIES, graph=RING))
    return [model.predict(3).values, model.coefficients_]


def classify():
    labels = np.array(["a", "b", "c"])[FEATURES.argmax(axis=1)]
    model = NodeClassifier(**SMALL).fit(FEATURES, labels, graph=EDGES)
    return [model.predict_proba(), model.coefficients_, model.predict_proba(FEATURES[::-1], graph=EDGES)]


def regress():
    model = NodeRegressor(**SMALL).fit(FEATURES, FEATURES.sum(axis=1), graph=EDGES)
    return [model.predict(), model.coefficients_]


def find():
    return [np.frombuffer(repr(find_order(SERIES, RING, num_resamples=3)).encode(), np.uint8)]


@pytest.fixture
def _threads_restored():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("_threads_restored")
@pytest.mark.parametrize("job", [forecast, classify, regress, find])
def test_the_number_of_threads_changes_no_number(job):
    torch.set_num_threads(1)
    alone = job()
    for count in (2, 4):
        torch.set_num_threads(count)
        with ThreadPoolExecutor(1) as pool:
            for numbers in (job(), pool.submit(job).result()):
                assert all(map(np.array_equal, numbers, alone)), count
        assert torch.get_num_threads() == count
