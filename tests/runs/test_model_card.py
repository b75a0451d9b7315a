"""The model card of a run folder, and folders of the Hugging Face hub."""

import json
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from tdegnn import DownloadError, Forecaster, Graph, InputError, NodeClassifier, Panel
from tdegnn.runs.hub import find_folder
from tdegnn.runs.model_card import describe_run
from tdegnn.runs.run_folder import CARD, FILES, SUMMARY, RunFolder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A saved classifier and a saved forecaster, and what they predict."""
    root, generator = tmp_path_factory.mktemp("saved"), np.random.default_rng(0)
    features, graph = generator.standard_normal((30, 3)), Graph(np.stack([np.arange(29), np.arange(1, 30)]))
    classifier = NodeClassifier(num_steps=10, network=None).fit(features, ["odd|one", "even"] * 15, graph=graph)
    classifier.save_pretrained(root / "classifier")
    series = np.cumsum(generator.standard_normal((60, 3)), axis=0)
    forecaster = Forecaster(horizon=2, window=4, num_steps=10, network=None).fit(Panel.from_array(series))
    forecaster.save_pretrained(root / "forecaster")
    return SimpleNamespace(
        root=root,
        nodes=(features, graph),
        probabilities=classifier.predict_proba(),
        forecast=forecaster.predict().to_frame(),
    )


def front_matter(card):
    _, head, body = card.split("---\n", 2)
    return yaml.safe_load(head), body


@pytest.mark.parametrize(("kind", "task"), [("NodeClassifier", "graph-ml"), ("Forecaster", "time-series-forecasting")])
def test_card_has_the_head_that_the_hub_reads(folders, kind, task):
    name = "classifier" if kind == "NodeClassifier" else "forecaster"
    head, body = front_matter((folders.root / name / CARD).read_text())
    assert head == {"library_name": "tdegnn", "pipeline_tag": task, "tags": ["tdegnn", "graph-neural-networks"]}
    assert f"{kind}.from_pretrained(" in body
    assert "## Limits" in body


def test_card_has_the_scores_beside_simple_answers(folders):
    summary = json.loads((folders.root / "forecaster" / SUMMARY).read_text())
    card = (folders.root / "forecaster" / CARD).read_text()
    for method in ("forecaster", "the last value"):
        assert f"| {method} | {summary['held_out'][method]['mse']:.4g} |" in card
    card = (folders.root / "classifier" / CARD).read_text()
    assert "| the most frequent class | 0.5 |" in card
    assert r"| classes | 2: even, odd\|one |" in card
    assert "no features and no edges" in card


@pytest.mark.parametrize(
    ("length", "chose_nothing", "limit"),
    [
        (
            60,
            False,
            "The held-out steps that are scored also chose the weights, so new steps may be forecast less well.",
        ),
        (600, True, "The steps that are scored chose neither window, network nor step."),
    ],
)
def test_card_says_what_the_steps_that_are_scored_chose(tmp_path, length, chose_nothing, limit):
    series = np.cumsum(np.random.default_rng(0).standard_normal((length, 3)), axis=0)
    model = Forecaster(horizon=2, window=4, num_steps=10, network=None).fit(Panel.from_array(series))
    model.save(tmp_path / "run")
    held_out = model.summary_["held_out"]
    assert held_out["chose_nothing"] == chose_nothing
    card = (tmp_path / "run" / CARD).read_text()
    assert card.split("## Limits\n")[1].splitlines()[1] == f"- {limit}"
    assert ("also chose the weights" in card) != chose_nothing
    # A forecast of two steps is counted once.
    assert f"On {held_out['steps']} held-out forecasts:" in card


@pytest.mark.parametrize("name", ["classifier", "forecaster"])
def test_summary_tells_an_edited_card_and_load_takes_it(folders, name, tmp_path):
    kind = NodeClassifier if name == "classifier" else Forecaster
    copied = shutil.copytree(folders.root / name, tmp_path / name)
    assert RunFolder.open(copied).has_own_card
    (copied / CARD).write_text("my words")
    assert not RunFolder.open(copied).has_own_card
    kind.load(copied)
    (copied / CARD).unlink()
    assert not RunFolder.open(copied).has_own_card
    kind.load(copied)


def test_names_cannot_break_the_card():
    config = {"kind": "NodeClassifier", "learned": {"classes": ["---\n# x", "<script>", "a`b"]}}
    head, body = front_matter(describe_run(config, {}, {"notes": ["| a |"]}))
    assert head["library_name"] == "tdegnn"
    assert "<script>" not in body
    assert "\n# x" not in body
    assert r"- \| a \|" in body


def test_a_run_of_another_kind_has_a_card_too(tmp_path):
    with RunFolder.create(tmp_path / "run", {"kind": "study"}) as folder:
        folder.finish({"loss": 1.0})
    head, body = front_matter((tmp_path / "run" / CARD).read_text())
    assert "pipeline_tag" not in head
    assert "None were measured." in body


def test_a_folder_of_the_hub_gives_the_same_numbers(folders):
    classifier = NodeClassifier.from_pretrained(folders.root / "classifier")
    features, graph = folders.nodes
    np.testing.assert_allclose(classifier.predict_proba(features, graph=graph), folders.probabilities, atol=1e-6)
    forecaster = Forecaster.from_pretrained(str(folders.root / "forecaster"))
    forecast = forecaster.predict().to_frame()
    np.testing.assert_allclose(forecast["forecast"], folders.forecast["forecast"], atol=1e-6)


def test_a_name_of_the_hub_is_downloaded(folders, monkeypatch, tmp_path):
    asked = []

    def snapshot_download(name, *, revision, allow_patterns):
        asked.append((name, revision, allow_patterns))
        return str(folders.root / "classifier")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    features, graph = folders.nodes
    model = NodeClassifier.from_pretrained("someone/karate", revision="v1")
    assert asked == [("someone/karate", "v1", list(FILES))]
    np.testing.assert_allclose(model.predict_proba(features, graph=graph), folders.probabilities, atol=1e-6)


def test_a_failed_download_is_one_line(monkeypatch):
    def snapshot_download(*_, **__):
        raise OSError("404 Client Error")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    with pytest.raises(DownloadError, match="Could not download no/model from the Hugging Face hub: 404"):
        find_folder("no/model")


def test_without_the_package_its_name_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"huggingface_hub to download no/model.*pip install 'tdegnn\[hub\]'"):
        find_folder("no/model")


def test_a_folder_has_no_revision(tmp_path):
    with pytest.raises(InputError, match="name of a repository with revision='v1'"):
        find_folder(tmp_path, "v1")


def test_a_path_that_is_not_there_is_not_downloaded(tmp_path):
    with pytest.raises(InputError, match="which is not a folder"):
        NodeClassifier.from_pretrained(tmp_path / "nothing")
