"""The demo as a newcomer runs it, and the claims it makes about the pendulum."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "docs" / "demo.md").read_text()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    before = os.times()
    result = subprocess.run(
        [sys.executable, "-m", "tdegnn", "demo", "--json", "--out", folder],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    after = os.times()
    content = json.loads(result.stdout)
    models = {model["model"]: model for model in content["models"]}
    return {
        **content,
        "models": models,
        "folder": folder,
        "stderr": result.stderr,
        "cpu_seconds": after.children_user + after.children_system - before.children_user - before.children_system,
    }


def test_demo_takes_less_than_a_minute_of_one_core_and_says_nothing_else(demo):
    assert demo["cpu_seconds"] < 60
    assert demo["stderr"] == ""


def test_order_two_finds_leapfrog_and_beats_naive_tenfold(demo):
    best = demo["models"]["TDE-GNN, order 2"]
    np.testing.assert_allclose(best["coefficients"], [2, -1], atol=0.01)
    assert best["one_step_mse"] <= demo["models"]["naive"]["one_step_mse"] / 10


def test_two_states_run_freely_better_than_one(demo):
    best = demo["models"]["TDE-GNN, order 2"]
    for rival in ("naive", "LSTM, one state", "TDE-GNN, order 1"):
        assert best["roll_out_mse"] < demo["models"][rival]["roll_out_mse"] / 100


def test_every_order_converges(demo):
    shares = {model["order"]: model["explained_share"] for model in demo["models"].values() if model["coefficients"]}
    assert sorted(shares) == [1, 2, 3, 4, 5]
    assert shares[1] < 0.5
    assert all(0.95 <= shares[order] <= 1 for order in (2, 3, 4, 5))


def test_data_are_found_to_be_of_second_order(demo):
    assert demo["dynamics_order"] == 2
    assert "Order 1 cannot do it" in demo["verdict"]
    assert "second order" in demo["verdict"]
    assert "Longer histories (3, 4, 5) explain enough too" in demo["verdict"]


def test_order_is_found_under_noise(demo):
    assert demo["noisy"]["order"] == 2
    assert demo["noisy"]["noise_share"] == pytest.approx(0.2, abs=0.03)


class Reader(HTMLParser):
    """Collects tags, texts and sources, and checks that tags are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.sources, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_page_needs_no_other_file(demo):
    page = Path(demo["page"])
    reader = Reader()
    reader.feed(page.read_text())
    assert page.name == "index.html"
    assert reader.open == []
    assert len(reader.sources) == 5
    assert all(source.startswith("data:image/png;base64,") for source in reader.sources)
    assert demo["verdict"] in reader.text
    assert "TDE-GNN, order 5" in reader.text


def test_pictures_and_result_lines_are_written(demo):
    names = {path.name for path in demo["folder"].iterdir()}
    pictures = {"prediction.png", "order.png", "roots.png", "consistency.png", "noisy.png"}
    assert names == pictures | {"pendulum.jsonl", "index.html"}
    assert {Path(picture).name for picture in demo["pictures"]} == pictures
    assert all(Path(picture).stat().st_size > 20_000 for picture in demo["pictures"])


def test_the_page_shows_what_the_demo_prints(demo):
    (shown,) = re.findall(r"`make demo` prints.*?```\n(.*?)```", PAGE, flags=re.DOTALL)
    assert " ".join(demo["verdict"].split()) in " ".join(shown.split())
    # How many resamples agree depends on rounding too.
    assert demo["noisy"]["verdict"].split(",")[0] in shown
    (agreement,) = re.findall(r"(\d+) % of the resamples", shown)
    assert int(agreement) == pytest.approx(100 * demo["noisy"]["agreement"], abs=3)
    rows = {line.split("  ")[0]: line.split() for line in shown.splitlines() if " x  " in line}
    assert set(rows) <= set(demo["models"])
    assert len(rows) >= 5
    for name, row in rows.items():
        # Libraries of linear algebra round differently, and 100 iterations make much of it.
        assert float(row[-1]) == pytest.approx(demo["models"][name]["roll_out_mse"], rel=0.5)
        assert row[-5] == str(demo["models"][name]["num_parameters"])
