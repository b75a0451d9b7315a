"""The default type of torch in a process changes no number: trainings say by themselves in which type they compute."""

import numpy as np
import pytest
import torch

from tdegnn import (
    DiffusionOperator,
    DirectCoefficients,
    Forecaster,
    Graph,
    NodeClassifier,
    NodeRegressor,
    Panel,
    find_order,
    integrate,
)

RANDOM = np.random.default_rng(0)
SERIES = np.sin(0.3 * np.arange(60))[:, None] + RANDOM.normal(size=(60, 5), scale=0.1)
RING = Graph([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
FEATURES, EDGES = RANDOM.normal(size=(40, 3)), [list(range(39)), list(range(1, 40))]
SMALL = dict(hidden_channels=4, num_layers=2, num_steps=3, validate_every=3, device="cpu")


def forecast(**settings):
    model = Forecaster(window=4, num_members=1, **SMALL, **settings).fit(Panel.from_array(SERIES, graph=RING))
    table = model.predict(3)
    return [table.values, table.low, table.high, model.coefficients_]


def classify(**settings):
    labels = np.array(["a", "b", "c"])[FEATURES.argmax(axis=1)]
    model = NodeClassifier(**SMALL, **settings).fit(FEATURES, labels, graph=Graph(EDGES))
    return [model.predict_proba(), model.coefficients_]


def regress():
    model = NodeRegressor(**SMALL).fit(FEATURES, FEATURES.sum(axis=1), graph=Graph(EDGES))
    return [model.predict(), model.coefficients_]


def find():
    found = find_order(SERIES, RING, num_resamples=3)
    return [np.array([found.order or -1, found.noise_share])]


RULE, OPERATOR = DirectCoefficients(2), DiffusionOperator(4, 2, step_size=0.1)


def step_on():
    done = integrate(torch.ones(2, 5, 4, dtype=torch.float32), RING, RULE, OPERATOR, num_layers=2, step_size=0.1)
    return [done.state.detach().numpy(), done.coefficients.detach().numpy()]


JOBS = {
    "latent": lambda: forecast(order=2),
    "attention": lambda: forecast(order=2, coefficients="attention"),
    "physical": lambda: forecast(states="physical", order=2),
    "order": lambda: forecast(states="physical", order="auto"),
    "64 bits": lambda: forecast(order=2, precision="64-true"),
    "classes": classify,
    "dropout": lambda: classify(outer_dropout=0.3, averaging=0.9, class_weight="balanced"),
    "numbers": regress,
    "find_order": find,
    "integrate": step_on,
}


@pytest.fixture
def _restored():
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.slow
@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("job", JOBS)
def test_the_default_type_of_a_process_changes_no_number(job):
    usual = JOBS[job]()
    for dtype in (torch.float64, torch.bfloat16):
        torch.set_default_dtype(dtype)
        for number, expected in zip(JOBS[job](), usual, strict=True):
            np.testing.assert_array_equal(number, expected, err_msg=str(dtype))
        assert torch.get_default_dtype() == dtype
