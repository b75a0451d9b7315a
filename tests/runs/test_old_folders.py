"""Run folders and result lines that an earlier version wrote are still read, and mean the same.

`tests/fixtures/format_1` holds tiny trainings of tdegnn 0.1.0, `expected.json` what they predicted then;
`tests/fixtures/results_1` holds result lines of the same time.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tdegnn import Forecaster, InputError, NodeClassifier, NodeRegressor
from tdegnn.experiments.recipe_files import config_from_record
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.table2 import summarize
from tdegnn.runs.run_folder import RunFolder

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDERS = FIXTURES / "format_1"
EXPECTED = json.loads((FOLDERS / "expected.json").read_text())
NODES = json.loads((FOLDERS / "nodes.json").read_text())
FORECASTERS = [name for name in EXPECTED if name.startswith("forecaster")]
CLASSIFIERS = [name for name in EXPECTED if name.startswith("classifier")]


@pytest.fixture
def folder(request, tmp_path):
    """A copy, so that nothing is written to the fixture."""
    return shutil.copytree(FOLDERS / request.param, tmp_path / request.param)


def check(name, values, coefficients):
    np.testing.assert_allclose(values, EXPECTED[name]["values"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(coefficients, EXPECTED[name]["coefficients"], rtol=1e-6, atol=1e-6)


def nodes():
    return np.array(NODES["features"], dtype=np.float32), np.array(NODES["edges"])


def test_folders_of_format_2_are_read_and_saved_in_the_present_form(tmp_path):
    expected = json.loads((FIXTURES / "format_2" / "expected.json").read_text())
    features, edges = nodes()
    for kind in (Forecaster, NodeClassifier):
        path = FIXTURES / "format_2" / ("forecaster" if kind is Forecaster else "classifier")
        assert RunFolder.open(path).format == 2
        loaded = kind.load(path)
        loaded.save(tmp_path / path.name)
        assert RunFolder.open(tmp_path / path.name).format == 3
        for model in (loaded, kind.load(tmp_path / path.name)):
            is_series = kind is Forecaster
            values = model.predict().values if is_series else model.predict_proba(features, graph=edges)
            np.testing.assert_allclose(values, expected[path.name]["values"], rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(model.coefficients_, expected[path.name]["coefficients"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("folder", FORECASTERS, indirect=True)
def test_a_forecaster_of_format_1_forecasts_what_it_did(folder):
    model = Forecaster.load(folder)
    forecast = model.predict()
    check(folder.name, forecast.values, model.coefficients_)
    low = EXPECTED[folder.name]["low"]
    if low is not None:
        np.testing.assert_allclose(forecast.low, low, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("folder", CLASSIFIERS, indirect=True)
def test_a_classifier_of_format_1_predicts_what_it_did(folder):
    model = NodeClassifier.load(folder)
    features, edges = nodes()
    check(folder.name, model.predict_proba(features, graph=edges), model.coefficients_)


@pytest.mark.parametrize("folder", ["regressor"], indirect=True)
def test_a_regressor_of_format_1_predicts_what_it_did(folder):
    model = NodeRegressor.load(folder)
    features, edges = nodes()
    check(folder.name, model.predict(features, graph=edges), model.coefficients_)


@pytest.mark.parametrize("folder", ["forecaster", "classifier"], indirect=True)
def test_an_old_folder_is_read_but_not_resumed(folder):
    old = RunFolder.open(folder)
    assert old.format == 1
    assert old.versions["tdegnn"] == "0.1.0"
    before = sorted(path.name for path in folder.iterdir())
    about = f"Expected a training of format 3, got .*{folder.name} of format 1, written by tdegnn 0.1.0."
    with pytest.raises(InputError, match=f"{about} Load it, or start it again in another folder."):
        RunFolder.resume(folder, old.config)
    (folder / "summary.json").unlink()
    with pytest.raises(InputError, match=f"{about} Start it again in another folder."):
        RunFolder.begin(folder, old.config, resume=True)
    assert sorted(path.name for path in folder.iterdir()) == [name for name in before if name != "summary.json"]


def test_configurations_in_old_lines_of_table_one_are_read():
    ours, rival = (
        config_from_record(line["configuration"]) for line in read_lines(FIXTURES / "results_1/table1.jsonl")
    )
    assert (ours.system, ours.order, ours.hidden_channels, ours.num_layers) == ("TDE-GNN_A", 2, 64, 2)
    assert (rival.system, rival.hidden_channels, rival.num_layers) == ("GCNII", 64, 4)


def test_old_lines_of_table_two_are_summarized():
    lines = read_lines(FIXTURES / "results_1/table2.jsonl")
    cells = summarize(lines)
    assert set(cells) == {("pedalme", system, "honest", 4) for system in ("TDE-GNN_A", "DCRNN")}
    for line in lines:
        assert cells["pedalme", line["system"], "honest", 4] == (line["test_mse"], 0.0, 1)


@pytest.mark.parametrize("folder", CLASSIFIERS, indirect=True)
def test_a_folder_of_format_1_is_saved_in_the_present_form(folder, tmp_path):
    model = NodeClassifier.load(folder)
    model.save(tmp_path / "again")
    settings = RunFolder.open(tmp_path / "again").config["settings"]
    assert set(settings) == set(model.get_params())
    features, edges = nodes()
    check(
        folder.name, NodeClassifier.load(tmp_path / "again").predict_proba(features, graph=edges), model.coefficients_
    )


@pytest.mark.parametrize("folder", ["classifier"], indirect=True)
def test_a_folder_of_format_1_is_not_resumed_and_this_is_said_before_the_training(folder):
    looks, (features, edges) = [], nodes()
    with pytest.raises(InputError, match="training of format 3, got .* of format 1, .* Load it, or start it again"):
        NodeClassifier(order="auto").fit(
            features, np.arange(len(features)) % 2, graph=edges, run=folder, resume=True, on_look=looks.append
        )
    assert not looks
