"""The demo as a newcomer runs it, and the claims it makes about the pendulum."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    program = Path(sys.executable).parent / "tdegnn"
    started = time.perf_counter()
    result = subprocess.run(
        [program, "demo", "--json", "--out", folder], capture_output=True, text=True, check=True, timeout=600
    )
    content = json.loads(result.stdout)
    models = {model["model"]: model for model in content["models"]}
    return {
        **content,
        "models": models,
        "folder": folder,
        "stderr": result.stderr,
        "seconds": time.perf_counter() - started,
    }


def test_demo_takes_less_than_three_minutes_and_says_nothing_else(demo):
    assert demo["seconds"] < 180
    assert demo["stderr"] == ""


def test_order_two_finds_leapfrog_and_beats_naive_tenfold(demo):
    best = demo["models"]["TDE-GNN, order 2"]
    np.testing.assert_allclose(best["coefficients"], [2, -1], atol=0.01)
    assert best["one_step_mse"] <= demo["models"]["naive"]["one_step_mse"] / 10


def test_order_two_runs_freely_better_than_every_rival(demo):
    best = demo["models"]["TDE-GNN, order 2"]
    for rival in ("naive", "LSTM, one state", "LSTM, two states", "TDE-GNN, order 1"):
        assert best["roll_out_mse"] < demo["models"][rival]["roll_out_mse"]


def test_data_are_found_to_be_of_second_order(demo):
    assert demo["dynamics_order"] == 2
    assert "Order 1 cannot do it" in demo["verdict"]
    assert "second order" in demo["verdict"]
    assert "Longer histories (3, 4, 5) say the same" in demo["verdict"]


@pytest.mark.parametrize("order", [3, 4, 5])
def test_longer_histories_say_second_order_too(demo, order):
    model = demo["models"][f"TDE-GNN, order {order}"]
    assert model["analysis"]["root_multiplicity"] == 2
    assert model["analysis"]["second_derivative_share"] > 0.95
    assert model["one_step_mse"] <= demo["models"]["naive"]["one_step_mse"] / 10


def test_pictures_and_result_lines_are_written(demo):
    names = {path.name for path in demo["folder"].iterdir()}
    assert names == {"prediction.png", "order.png", "roots.png", "consistency.png", "pendulum.jsonl"}
    assert all(Path(picture).stat().st_size > 20_000 for picture in demo["pictures"])
