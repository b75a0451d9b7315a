"""Pages as text: what they say, how large they are, and what a user has to give."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from tdegnn import Forecaster, InputError, NodeClassifier
from tdegnn.reports.of_forecaster import describe_forecaster
from tdegnn.reports.page import render
from tests.reports.conftest import HOSTILE, make_nodes, make_panel
from tests.runs.test_old_folders import FIXTURES


@pytest.mark.slow
def test_a_page_says_what_was_fitted_on_what(runs):
    page = render(runs[:1]).html
    for text in (
        "6 nodes, 240 steps of 1 hour",
        "3 steps ahead",
        "ridge regression",
        "the last season",
        "Forecasts, node by node",
        "Graph of the nodes, colored by error",
        "Residuals by hour and steps ahead",
        "Nodes with the largest errors",
        "Can the intervals be trusted?",
        "Weights c by layer",
        "Roots in the unit disc",
        "Stability region",
        "Stencil explorer",
    ):
        assert text in page, text
    assert len(page.encode()) < 1.5e6


def picture_of(page, title):
    """What a picture of a page shows, and its table of numbers as text. Empty if it has none."""
    found = re.search(rf"<h4>{title}</h4>.*?<script[^>]*>(.*?)</script>(.*?)</figure>", page, re.DOTALL)
    values = [layer["data"]["values"] for layer in json.loads(found[1])["layer"]]
    return values, re.sub(r"<[^>]+>", " ", found[2]).split()


@pytest.mark.slow
@pytest.mark.parametrize(("by", "entry"), [("steps ahead", "by_step"), ("hour", "by_hour")])
def test_coverage_by_step_and_by_hour_is_that_of_the_intervals(runs, fitted, by, entry):
    coverage = fitted.summary["intervals"]["coverage"]
    by_place = coverage[entry] if entry == "by_hour" else dict(enumerate(coverage[entry], start=1))
    shares = {int(place): share for place, share in by_place.items()}
    # The last third of the held-out steps ends at midnight, and is half a day long.
    assert [*shares] == ([1, 2, 3] if entry == "by_step" else [*range(11, 24)])
    assert all(0 < share <= 1 for share in shares.values())
    (aim, points), numbers = picture_of(render(runs[:1]).html, f"Coverage by {by}")
    assert aim == [{"aimed": 0.9}]
    assert {point["place"]: point["share"] for point in points} == pytest.approx(shares)
    printed = [word for place, share in shares.items() for word in (str(place), f"{100 * share:.1f}", "%")]
    assert numbers[-len(printed) :] == printed


@pytest.mark.slow
def test_coverage_by_node_is_that_of_the_intervals(runs, fitted):
    coverage = fitted.summary["intervals"]["coverage"]
    shares = [*coverage["by_node"].values()]
    assert len(shares) == 6
    # Each node and each step has as many observations.
    for each in (shares, coverage["by_step"]):
        assert np.mean(each) == pytest.approx(coverage["reached"], abs=5e-4)  # a summary has three digits
    page = render(runs[:1]).html
    (bars, aim), _ = picture_of(page, "Coverage by node")
    assert [bar["share"] for bar in bars] == pytest.approx(shares, abs=5e-4)  # with three digits
    assert aim == [{"aimed": 0.9}]
    assert f"How many nodes have which coverage, from {100 * min(shares):.0f} to {100 * max(shares):.0f} %." in page


@pytest.mark.slow
def test_a_page_of_classes_says_which_are_mixed_up(runs):
    page = render(runs[1:]).html
    for text in (
        "Confusion matrix",
        "Accuracy by degree",
        "Accuracy by homophily",
        "Calibration",
        "How the network sees the nodes",
        "logistic regression",
        "30 test nodes",
    ):
        assert text in page, text


@pytest.mark.slow
def test_the_headline_compares_with_naive_and_ridge(runs, forecaster):
    own = forecaster.summary_["held_out"]["forecaster"]["mae"]
    assert re.fullmatch(
        rf"On \d+ held-out forecasts of 3 steps, its mean absolute error is {own:.3g}: \d+ % (below|above) that of the "
        r"(last season|mean by hour) and \d+ % (below|above) that of ridge regression\.",
        runs[0].headline,
    )


@pytest.mark.slow
def test_nothing_in_a_page_comes_from_the_network_or_from_a_name(runs):
    page = render(runs).html
    assert HOSTILE not in page
    assert "<b>red</b>" not in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    assert "default-src 'none'" in page


@pytest.mark.slow
def test_runs_stand_side_by_side(runs, fitted):
    page = render(runs).html
    assert "fitted on different data, so their scores cannot be compared" in page
    again = replace(runs[0], name="again")
    assert "All were fitted on the same data" in render([runs[0], again]).html
    assert 'id="run-1"' in page


def test_a_page_needs_a_run():
    with pytest.raises(InputError, match="Expected at least one run to report on, got none"):
        render([])


@pytest.mark.slow
def test_a_forecaster_reports_in_python(forecaster, panel, tmp_path):
    path = forecaster.report(panel, coordinates=None).save(tmp_path / "report.html")
    assert "ridge regression" in path.read_text()
    alone = forecaster.report().html
    assert "The series of the training are not known, so there is no ridge regression" in alone
    other = forecaster.report(make_panel(seed=1)).html
    assert "The series have changed since the training" in other


@pytest.mark.slow
def test_coordinates_make_a_map(forecaster, tmp_path):
    import pandas as pd

    places = {"node": forecaster.fitted_.tail.nodes, "lat": np.linspace(48, 50, 6), "lon": np.linspace(2, 3, 6)}
    page = forecaster.report(coordinates=pd.DataFrame(places)).html
    assert "Map of the nodes, colored by error" in page


@pytest.mark.slow
def test_estimators_of_nodes_report_in_python(classifier, regressor, tmp_path):
    assert "Confusion matrix" in classifier.report().html
    assert "Predicted against true" in regressor.report().html
    classifier.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    with pytest.raises(InputError, match="Expected the data of the training, got none. .* pass X and y"):
        loaded.report()
    features, labels, graph = make_nodes()
    names = np.array(["<b>red</b>", "green", "blue"])[labels]
    assert "Confusion matrix" in loaded.report(features, names, graph=graph, test=range(60, 90)).html
    with pytest.raises(InputError, match="Expected the nodes, labels and subsets of the training, got others"):
        loaded.report(features, names, graph=graph, test=range(50, 90))


@pytest.mark.slow
def test_runs_of_earlier_versions_have_a_page_without_held_out_forecasts():
    model = Forecaster.load(FIXTURES / "format_2" / "forecaster")
    page = render([describe_forecaster("old", model.fitted_, None, None, None)]).html
    assert "This run was made by an earlier version, which kept no held-out forecasts" in page
    assert "Weights c by layer" in page
