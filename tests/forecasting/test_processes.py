"""Two processes that share the windows of each step end with the numbers of one process."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from tdegnn import Forecaster, InputError, Panel
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.nets.dropout import BatchShare
from tdegnn.operators.diffusion import DiffusionOperator
from tdegnn.parts import Part
from tdegnn.runs.run_folder import CHECKPOINT, RunFolder
from tdegnn.training.processes import ALONE, Processes
from tests.forecasting.test_forecaster import PANEL
from tests.forecasting.test_series_training import GRAPH, LEARNING, make_networks, make_parts
from tests.torchrun import run_together

# Of a size that two processes cannot share evenly, with gaps, dropout, two networks and a time budget.
SCRIPT = """
import json, sys
import numpy as np
from tdegnn import Forecaster
from tdegnn.training.processes import join_processes
from tests.forecasting.test_processes import SETTINGS, make_gappy_panel

run, settings = sys.argv[1], json.loads(sys.argv[2])
model = Forecaster(**SETTINGS | settings).fit(make_gappy_panel(), run=run, resume=True)
processes = join_processes()
weights = np.concatenate([each.detach().numpy().ravel() for each in model.networks_[0].parameters()])
if not processes.is_first:
    print("follower\\n", end="", flush=True)
processes.barrier()
processes.check_same(weights.tobytes(), "weights")
if processes.is_first:
    print(json.dumps([processes.size, model.history_, model.predict().values.tolist()]))
"""
SETTINGS = dict(
    horizon=2,
    num_members=2,
    num_steps=30,
    validate_every=5,
    batch_size=7,
    network="walks",
    dropout=0.2,
    precision="64-true",
    device="cpu",
)


def make_gappy_panel():
    values = PANEL.values.copy()
    values[np.random.default_rng(1).random(values.shape) < 0.1] = np.nan
    return Panel.from_array(values[..., 0], graph=PANEL.graph)


def fit_together(run, num_processes, **settings):
    """Scores and forecasts of a fit in a run folder, and how many processes made it."""
    printed = run_together(SCRIPT, run, json.dumps(settings), num_processes=num_processes)
    lines = printed.splitlines()
    assert lines.count("follower") == num_processes - 1
    size, history, forecast = json.loads(next(line for line in lines if line.startswith("[")))
    assert size == num_processes
    return [line["score"] for line in history], forecast


@pytest.mark.slow
def test_two_processes_have_the_numbers_of_one(tmp_path):
    alone = Forecaster(**SETTINGS).fit(make_gappy_panel(), run=tmp_path / "one")
    scores, forecast = fit_together(tmp_path / "two", 2)
    np.testing.assert_allclose(scores, [line["score"] for line in alone.history_], rtol=1e-9)
    np.testing.assert_allclose(forecast, alone.predict().values, rtol=1e-9)
    one, two = (RunFolder.open_finished(tmp_path / name, "Forecaster") for name in ("one", "two"))
    assert one.config == two.config
    assert one.read_summary()["best_step"] == two.read_summary()["best_step"]
    for name, weights in one.read_weights().items():
        np.testing.assert_allclose(two.read_weights()[name], weights, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_what_some_processes_began_any_number_resumes(tmp_path):
    whole, forecast = fit_together(tmp_path / "whole", 1)
    # A longer training is not the same training: the checkpoint of an interrupted one is needed.
    model = Forecaster(**SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        model.fit(make_gappy_panel(), run=tmp_path / "parts", on_look=interrupt_at(15))
    assert (tmp_path / "parts" / CHECKPOINT).exists()
    scores, resumed = fit_together(tmp_path / "parts", 3)
    np.testing.assert_allclose(scores, whole, rtol=1e-9)
    np.testing.assert_allclose(resumed, forecast, rtol=1e-9)


@dataclass
class interrupt_at:  # noqa: N801
    """Interrupts a training after a validation."""

    step: int

    def __call__(self, look):
        if look.step == self.step:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_time_budget_is_planned_by_the_first_process(tmp_path):
    scores, _ = fit_together(tmp_path / "run", 2, time_budget="3s", network="auto", num_members=1)
    assert scores
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["planned_steps"] >= 10


# Each process measures how long steps take. By the clock of the second one, the time to measure is over at once.
UNEQUAL_CLOCKS = """
import os, time, types
from tdegnn.forecasting import training
if os.environ["RANK"] == "1":
    training.time = types.SimpleNamespace(perf_counter=lambda: 1e6 * time.perf_counter())
"""


@pytest.mark.slow
def test_processes_with_unequal_clocks_time_the_same_steps(tmp_path):
    settings = json.dumps(dict(time_budget="5s", network="auto", num_members=1))
    run_together(UNEQUAL_CLOCKS + SCRIPT, tmp_path / "run", settings, longest=60)


# Shares of one process, without others.


def test_shares_cover_everything_once():
    for count in (1, 5, 7, 64):
        for size in (1, 2, 3, 8):
            shares = [Processes(rank, size).share_of(count) for rank in range(size)]
            assert [number for share in shares for number in range(count)[share]] == [*range(count)]
            assert max(len(range(count)[share]) for share in shares) <= -(-count // size)


def test_a_share_of_a_batch_drops_what_the_batch_drops():
    _, (training, *_) = make_parts()
    network = make_networks(dropout=0.3, skip="none")[0].train()
    network.readout.reset_parameters()
    frames, _ = training.batch(slice(0, 7))
    whole = network(frames, GRAPH)
    network.step.zero_()
    network.share = BatchShare(3, 7)
    part = network(type(frames)(*(each[3:6] for each in frames)), GRAPH)
    np.testing.assert_allclose(part.detach(), whole[3:6].detach(), rtol=1e-6)


def test_what_processes_cannot_share_is_refused():
    _, (training, validation, _) = make_parts()

    def start(network, **options):
        return SeriesTraining([network], [LEARNING], GRAPH, training, validation, processes=Processes(0, 2), **options)

    with pytest.raises(InputError, match="at least one window per process, got 1 windows per step for 2"):
        start(make_networks()[0], batch_size=1)
    with_norm = Part(DiffusionOperator, batch_norm=True)
    with pytest.raises(InputError, match="got a network with batch norm. Start one process"):
        start(make_networks(operator=with_norm)[0])


def test_one_process_alone_needs_nobody():
    assert ALONE.agree("x") == "x"
    ALONE.barrier()
    ALONE.check_same(1, "numbers")
