"""`tdegnn report`: pages of runs of both kinds, and what is said when there is no page."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from tdegnn import Forecaster, NodeClassifier, Panel, cli

FIT = ["--horizon", "2", "--window", "4", "--steps", "6", "--members", "1", "--device", "cpu", "--quiet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, and a run of each kind."""
    path = tmp_path_factory.mktemp("report")
    random = np.random.default_rng(0)
    names, times = ["a", "b", "c"], pd.date_range("2024-01-01", periods=80, freq="D")
    pd.DataFrame(random.normal(size=(80, 3)).cumsum(axis=0), times, names).to_csv(
        path / "series.csv", index_label="time"
    )
    pd.DataFrame({"node": names, "lat": [48.0, 49.0, 50.0], "lon": [2.0, 3.0, 4.0]}).to_csv(
        path / "places.csv", index=False
    )
    nodes = [f"n{number}" for number in range(30)]
    labels = np.array(["ant", "bee"])[np.arange(30) % 2]
    features = pd.DataFrame(random.normal(size=(30, 3)) + (np.arange(30) % 2)[:, None], nodes)
    features.to_csv(path / "features.csv", index_label="node")
    pd.DataFrame({"node": nodes, "label": labels}).to_csv(path / "labels.csv", index=False)
    pd.DataFrame({"source": nodes, "target": nodes[2:] + nodes[:2]}).to_csv(path / "edges.csv", index=False)
    series = [str(path / "series.csv"), "--coordinates", str(path / "places.csv"), "--neighbors", "1"]
    with pytest.raises(SystemExit) as stop:
        cli.main(["fit", *series, "--out", str(path / "series"), *FIT])
    assert stop.value.code in (0, None)
    tables = [
        argument for name in ("features", "labels", "edges") for argument in (f"--{name}", str(path / f"{name}.csv"))
    ]
    small = ["--network", "diffusion", "--steps", "6", "--hidden-channels", "4", "--device", "cpu", "--quiet"]
    with pytest.raises(SystemExit) as stop:
        cli.main(["classify", *tables, "--out", str(path / "nodes"), *small])
    assert stop.value.code in (0, None)
    return path


@pytest.fixture
def run(capsys):
    def run(*arguments, code=0):
        with pytest.raises(SystemExit) as stop:
            cli.main(["report", *map(str, arguments)])
        assert (stop.value.code or 0) == code
        return capsys.readouterr()

    return run


@pytest.mark.slow
def test_two_runs_make_one_page(folder, tmp_path, run):
    out = tmp_path / "pages" / "report.html"
    said = run(folder / "series", folder / "nodes", "--out", out).out.splitlines()
    assert said[0].startswith("series: On ")
    assert "ridge regression" in said[0]
    assert said[1].startswith("nodes: On validation nodes, ")
    assert said[-1] == f"Report: {out}"
    page = out.read_text()
    assert "Map of the nodes, colored by error" in page
    assert "Confusion matrix" in page
    assert "Side by side" in page


@pytest.mark.slow
def test_a_report_for_programs(folder, tmp_path, run):
    facts = json.loads(run(folder / "series", "--out", tmp_path / "report.html", "--json").out)
    assert set(facts) == {"report", "headlines", "verdicts", "notes"}
    assert facts["verdicts"]["series"].startswith("From layer to layer")


@pytest.mark.slow
def test_series_that_are_gone_are_left_out(folder, tmp_path, run):
    (folder / "series.csv").rename(tmp_path / "away.csv")
    try:
        said = run(folder / "series", "--out", tmp_path / "report.html")
    finally:
        (tmp_path / "away.csv").rename(folder / "series.csv")
    assert "are left out: Expected a file" in said.out + said.err
    assert "there is no ridge regression to compare with" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_what_is_no_finished_run_is_refused_in_one_line(folder, tmp_path, run):
    shutil.copytree(folder / "series", tmp_path / "unfinished")
    (tmp_path / "unfinished" / "summary.json").unlink()
    for path, expected in (
        (tmp_path / "nothing", "Expected a run folder, got .*nothing, which is not a folder"),
        (folder, "Expected a run folder, got .* without config.json"),
        (tmp_path / "unfinished", "Expected a finished training"),
    ):
        said = run(path, "--out", tmp_path / "report.html", code=2)
        assert said.out == ""
        assert len(said.err.splitlines()) == 1
        assert re.search(expected, said.err), said.err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_a_page_ends_in_html(folder, tmp_path, run):
    said = run(folder / "series", "--out", tmp_path / "report.pdf", code=2)
    assert "Expected a page that ends in .html, got report.pdf. Rename it." in said.err


@pytest.mark.slow
def test_a_classifier_without_paths_is_refused(tmp_path, run):
    features = np.random.default_rng(0).normal(size=(20, 2))
    graph = np.stack([np.arange(20), (np.arange(20) + 1) % 20])
    model = NodeClassifier(network=None, num_steps=3, hidden_channels=4, baselines=False, device="cpu")
    model.fit(features, np.arange(20) % 2, graph=graph).save(tmp_path / "run")
    said = run(tmp_path / "run", "--out", tmp_path / "report.html", code=2)
    assert "Expected a run that holds the paths of its data" in said.err


@pytest.mark.slow
def test_a_forecaster_saved_in_python_is_reported_without_its_series(tmp_path, run):
    panel = Panel.from_array(np.random.default_rng(0).normal(size=(60, 2)))
    settings = dict(horizon=1, window=3, num_steps=3, num_members=1, hidden_channels=4, network=None, device="cpu")
    Forecaster(**settings).fit(panel).save(tmp_path / "run")
    run(tmp_path / "run", "--out", tmp_path / "report.html")
    assert "The series of the training are not known" in (tmp_path / "report.html").read_text()
