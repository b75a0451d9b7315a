"""Every operator of the registry, trained, saved with its network and loaded again, answers the same."""

from pathlib import Path

import numpy as np
import pytest

from tdegnn import Forecaster, NodeClassifier, read_panel
from tdegnn.operators.registry import OPERATORS

EXAMPLES = Path(__file__).parents[2] / "examples"
NODES = 12
SMALL = dict(hidden_channels=8, num_steps=2, device="cpu")
FOR_SERIES = [name for name in OPERATORS.names if getattr(OPERATORS.resolve(name).kind, "takes_past_features", False)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in OPERATORS.names if name not in FOR_SERIES])
def test_a_classifier_with_it_answers_the_same_after_saving(name, tmp_path):
    features, ring = np.eye(NODES, dtype=np.float32), np.roll(np.eye(NODES), 1, axis=0)
    model = NodeClassifier(operator=name, **SMALL).fit(features, np.arange(NODES) % 2, graph=ring)
    model.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    assert loaded.operator == name
    np.testing.assert_array_equal(loaded.predict_proba(features, graph=ring), model.predict_proba())


@pytest.mark.slow
@pytest.mark.parametrize("name", FOR_SERIES)
def test_a_forecaster_with_it_answers_the_same_after_saving(name, tmp_path):
    panel = read_panel(EXAMPLES / "cases.csv", EXAMPLES / "borders.csv")
    model = Forecaster(operator=name, states="latent", window=4, num_members=1, **SMALL).fit(panel)
    model.save(tmp_path / "run")
    loaded = Forecaster.load(tmp_path / "run")
    assert loaded.operator == name
    np.testing.assert_array_equal(loaded.predict(panel=panel).values, model.predict().values)
