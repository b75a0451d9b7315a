"""Exported estimators give the same numbers: in torch.export, and in ONNX if its packages are installed."""

import sys

import numpy as np
import pytest
import torch

from tdegnn import Forecaster, Graph, InputError, NodeClassifier, NodeRegressor, Panel

QUICK = {"num_steps": 10, "network": None, "baselines": False}
NODES = 30


@pytest.fixture(scope="module")
def nodes():
    generator = np.random.default_rng(0)
    graph = Graph(np.stack([np.arange(NODES - 1), np.arange(1, NODES)]), direction="both")
    return 5 + generator.standard_normal((NODES, 4)), np.arange(NODES) % 3, graph


def make_panel(num_nodes=4, *, is_weekly=True):
    generator = np.random.default_rng(1)
    values = 100 + np.cumsum(generator.standard_normal((150, num_nodes)), axis=0)
    times = np.arange("2020-01-06", "2022-11-21", 7, dtype="datetime64[D]")[:150] if is_weekly else None
    edges = np.stack([np.arange(num_nodes - 1), np.arange(1, num_nodes)])
    return Panel.from_array(values, times=times).with_graph(Graph(edges, num_nodes))


@pytest.fixture(scope="module")
def forecaster():
    return Forecaster(horizon=3, window=6, num_steps=10, network=None, season=52).fit(make_panel())


def run_onnx(path, **inputs):
    session = pytest.importorskip("onnxruntime").InferenceSession(path)
    assert [each.name for each in session.get_inputs()] == [*inputs]
    return session.run(None, inputs)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"coefficients": "gated-attention", "operator": "gread-bs"},
        {"coefficients": "stable", "operator": "gcnii", "self_loops": True, "precision": "64-true"},
    ],
    ids=str,
)
def test_a_classifier_gives_the_same_probabilities(nodes, parts, tmp_path):
    features, labels, graph = nodes
    model = NodeClassifier(**QUICK, **parts).fit(features, labels, graph=graph)
    other = features[::-1] + 0.5
    expected = model.predict_proba(other, graph=graph)
    program = model.to_exported_program()
    found = program.module()(features=torch.as_tensor(other.copy())).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    pytest.importorskip("onnxscript")
    path = model.to_onnx(tmp_path / "model.onnx")
    np.testing.assert_allclose(run_onnx(path, features=other.copy()), expected, atol=1e-5)


def test_a_program_has_nothing_of_this_library_in_it(nodes):
    features, labels, graph = nodes
    program = NodeClassifier(**QUICK, operator="gcnii").fit(features, labels, graph=graph).to_exported_program()
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert targets
    assert not [target for target in targets if "tdegnn" in target or "sparse" in target]


def test_numbers_are_exported_in_their_units(nodes, tmp_path):
    features, _, graph = nodes
    model = NodeRegressor(**QUICK).fit(features, 1000 * features[:, 0], graph=graph)
    expected = model.predict(features, graph=graph)
    found = model.to_exported_program().module()(features=torch.as_tensor(features)).numpy()[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    pytest.importorskip("onnxscript")
    found = run_onnx(model.to_onnx(tmp_path / "model.onnx"), features=features)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.slow
def test_a_forecaster_gives_the_same_forecast(forecaster, tmp_path):
    expected = forecaster.predict().values
    inputs = forecaster.exported_inputs()
    assert inputs["values"].shape == (6, 4, 1)
    assert inputs["calendar"].shape[0] == 9
    assert inputs["calendar"].shape[1] > 0
    program = forecaster.to_exported_program()
    found = program.module()(**{name: torch.as_tensor(each) for name, each in inputs.items()}).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    pytest.importorskip("onnxscript")
    np.testing.assert_allclose(run_onnx(forecaster.to_onnx(tmp_path / "f.onnx"), **inputs), expected, rtol=1e-5)


@pytest.mark.slow
def test_newer_series_are_forecast_too(forecaster):
    newer = make_panel()[:140]
    expected = forecaster.predict(panel=newer).values
    inputs = {name: torch.as_tensor(each) for name, each in forecaster.exported_inputs(newer).items()}
    np.testing.assert_allclose(forecaster.to_exported_program().module()(**inputs).numpy(), expected, rtol=1e-6)


def test_a_series_without_seasons_stays_above_its_lowest_value():
    falling = make_panel(is_weekly=False).values[..., 0] - 2 * np.arange(150)[:, None]
    model = Forecaster(horizon=2, window=4, num_steps=5, network=None, lowest=float(falling.min()))
    model.fit(Panel.from_array(falling))
    inputs = {name: torch.as_tensor(each) for name, each in model.exported_inputs().items()}
    found = model.to_exported_program().module()(**inputs).numpy()
    assert inputs["calendar"].shape == (6, 0)
    assert found.min() >= falling.min()
    np.testing.assert_allclose(found, model.predict().values, rtol=1e-6)


def test_a_loaded_estimator_needs_a_graph(nodes, tmp_path):
    features, labels, graph = nodes
    model = NodeClassifier(**QUICK).fit(features, labels, graph=graph)
    model.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    with pytest.raises(InputError, match="Expected a graph to export, got none"):
        loaded.to_exported_program()
    found = loaded.to_exported_program(graph).module()(features=torch.as_tensor(features)).numpy()
    np.testing.assert_allclose(found, model.predict_proba(), atol=1e-6)


def test_what_cannot_be_exported_is_named(nodes, forecaster):
    features, labels, graph = nodes
    model = NodeClassifier(**QUICK, adjacency_features=True).fit(features, labels, graph=graph)
    with pytest.raises(InputError, match="plain features to export, got one with adjacency_features"):
        model.to_exported_program()
    gaps = make_panel()
    gaps.values[-1, 0] = np.nan
    with pytest.raises(InputError, match="last window without gaps"):
        forecaster.exported_inputs(gaps)


def test_without_the_packages_of_onnx_their_names_are_said(nodes, tmp_path, monkeypatch):
    features, labels, graph = nodes
    model = NodeClassifier(**QUICK).fit(features, labels, graph=graph)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"pip install 'tdegnn\[onnx\]'"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
