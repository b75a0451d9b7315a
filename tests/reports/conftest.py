"""Small runs to report on, and a browser. Tests that need a browser are skipped where there is none."""

import shutil

import numpy as np
import pandas as pd
import pytest

from tdegnn import Forecaster, Graph, NodeClassifier, NodeRegressor, Panel
from tdegnn.forecasting.forecaster import FittedForecaster
from tdegnn.reports.of_forecaster import describe_forecaster
from tdegnn.reports.of_nodes import describe_nodes
from tdegnn.reports.page import render

# Names that would leave their place in the page if anything were not escaped.
HOSTILE = "</script><script>window.broken = true</script>"
NAMES = (HOSTILE, "<img src=x onerror='window.broken = true'>", "Öre \u2028 'q\" &amp;", "North", "South", "A" * 60)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser():
    """The path of the system's Chromium. None if there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def make_panel(num_steps=240, seed=0):
    """Hours with a day in them: the nodes share a wave, each with its own noise."""
    random = np.random.default_rng(seed)
    times = pd.date_range("2024-03-01", periods=num_steps, freq="h")
    wave = np.sin(2 * np.pi * np.arange(num_steps) / 24)
    noise = random.normal(size=(num_steps, len(NAMES))) * np.linspace(0.1, 0.8, len(NAMES))
    values = 10 + wave[:, None] * np.linspace(1, 3, len(NAMES)) + noise
    values[5, 0] = np.nan
    graph = Graph([[0, 1, 2, 3], [1, 2, 3, 4]], len(NAMES), direction="both")
    return Panel.from_array(values, times=times, nodes=NAMES, graph=graph, channels=["<load>"], name="hours")


def make_nodes(num_nodes=90, seed=0):
    """Three classes of nodes, of which most are linked to their own class."""
    random = np.random.default_rng(seed)
    labels = np.arange(num_nodes) % 3
    ends = random.integers(num_nodes, size=(2, 5 * num_nodes))
    kept = (labels[ends[0]] == labels[ends[1]]) | (random.random(ends.shape[1]) < 0.2)
    features = np.eye(3)[labels] + random.normal(size=(num_nodes, 3))
    return features, labels, Graph(ends[:, kept], num_nodes, direction="both")


@pytest.fixture(scope="session")
def panel():
    return make_panel()


@pytest.fixture(scope="session")
def forecaster(panel):
    settings = dict(horizon=3, window=6, order=3, hidden_channels=4, num_layers=2, num_members=1, num_steps=15)
    return Forecaster(**settings, network=None, device="cpu", season=24).fit(panel)


@pytest.fixture(scope="session")
def next_hour(panel):
    settings = dict(horizon=1, window=4, order=2, hidden_channels=4, num_layers=1, num_members=1, num_steps=2)
    return Forecaster(**settings, network=None, device="cpu").fit(panel)


@pytest.fixture(scope="session")
def classifier():
    features, labels, graph = make_nodes()
    names = np.array(["<b>red</b>", "green", "blue"])[labels]
    model = NodeClassifier(network=None, num_steps=15, hidden_channels=8, device="cpu")
    return model.fit(features, names, graph=graph, test=range(60, 90))


@pytest.fixture(scope="session")
def regressor():
    features, labels, graph = make_nodes()
    model = NodeRegressor(network=None, num_steps=10, hidden_channels=8, device="cpu")
    return model.fit(features, labels.astype(float), graph=graph, test=range(60, 90))


@pytest.fixture(scope="session")
def fitted(forecaster) -> FittedForecaster:
    return forecaster.fitted_


@pytest.fixture(scope="session")
def runs(fitted, classifier, panel):
    return [
        describe_forecaster("hours", fitted, None, panel, None, num_runs=2),
        describe_nodes("colors <of> nodes", classifier.fitted_),
    ]


@pytest.fixture(scope="session")
def pages(runs, next_hour, panel, tmp_path_factory):
    """A page of a forecaster, one of a classifier, one of both, and one of forecasts of one step, as files."""
    folder = tmp_path_factory.mktemp("pages")
    one_step = describe_forecaster("one step", next_hour.fitted_, None, panel, None, num_runs=1)
    shown = {"forecaster": runs[:1], "classifier": runs[1:], "both": runs, "one step": [one_step]}
    return {name: render(each).save(folder / f"{name}.html") for name, each in shown.items()}


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = find_browser()
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        # Without a sandbox, as tests may run as root in a container. The pages are our own.
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, pages):
    """Return a function that opens a page, and fail if it logs an error or asks for anything else."""
    opened, complaints = [], []

    def open_one(name, width=1000, scheme="light", height=900):
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith("data:") or asked.append(request.url))
        asked = []
        page.goto(pages[name].as_uri())
        page.wait_for_function("document.querySelector('#explorer .acting svg') !== null")
        assert asked == [pages[name].as_uri()]
        opened.append(page)
        return page

    yield open_one
    for page in opened:
        page.close()
    assert complaints == []
