from pathlib import Path

import numpy as np
import pytest

from tdegnn import InputError
from tdegnn.experiments import pendulum, stable_pendulum
from tdegnn.experiments.paper import PENDULUM_COEFFICIENTS
from tdegnn.experiments.pendulum import Effort, make_pendulum, run_pendulum
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.stable_pendulum import (
    CONTESTANTS,
    FREE,
    PRINTED,
    STABLE,
    FreeRun,
    count_steps,
    run_contestant,
    run_stable_pendulum,
)
from tdegnn.experiments.stable_pendulum_plots import plot_stable_pendulum
from tdegnn.training.optimizers import CosineAdam
from tests.cli.test_commands import run

pytestmark = pytest.mark.slow

QUICK = Effort(num_steps=40, descents=(CosineAdam(0.03),), hidden_channels=8)
RESULTS = read_lines(Path(__file__).parents[2] / "results" / "stable_pendulum.jsonl")
DATA = make_pendulum()
TICKS = []


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(stable_pendulum, "LONG_RUN_STEPS", 220)


@pytest.fixture(scope="module")
def results():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stable_pendulum, "LONG_RUN_STEPS", 220)
        return run_stable_pendulum(DATA, [2], QUICK, on_step=TICKS.append)


def test_free_coefficients_are_those_of_the_pendulum_experiment(results):
    """Same data, split, network, seed and effort: the same numbers."""
    known = run_pendulum(DATA, seed=2, effort=QUICK, orders=(5,))["TDE-GNN, order 5"]
    came = next(result.model for result in results if result.contestant == FREE)
    assert came.one_step_mse == pytest.approx(known.one_step_mse, rel=1e-9)
    assert came.coefficients == pytest.approx(known.coefficients, rel=1e-9)


def test_stable_coefficients_keep_their_double_root_whatever_they_learn(results):
    for result in results:
        if result.contestant == STABLE:
            assert result.report.root_multiplicity == 2
            assert result.report.max_root_modulus == 1.0
            assert result.max_free_root_modulus < 1.0
            assert result.model.coefficients != pytest.approx((2, -1, 0, 0, 0), abs=1e-4)  # it has learned


def test_the_printed_vector_stays_as_printed_and_leaves(results):
    printed = [result for result in results if result.contestant.startswith(PRINTED)]
    assert [result.seed for result in printed] == [2, None]  # without a spatial term there is nothing to learn
    for result in printed:
        assert result.model.coefficients == PENDULUM_COEFFICIENTS[5]
        assert result.max_free_root_modulus == pytest.approx(1.4007, abs=1e-4)
        assert not result.is_bounded
        assert result.run.num_bounded_steps < 40


def test_without_a_spatial_term_the_run_is_the_plain_recursion():
    run = run_contestant("printed, s = 0", DATA).run
    angles = DATA.states[0, 795:800, 1, 0].tolist()
    for _ in range(30):
        angles.append(sum(c * angles[-1 - past] for past, c in enumerate(PENDULUM_COEFFICIENTS[5])))
    np.testing.assert_allclose(run.angles[:30], angles[5:], rtol=1e-9)


def test_the_true_pendulum_swings_on_after_the_observed_one(results):
    truth = results[0].run.truth
    assert len(truth) == 220
    np.testing.assert_array_equal(truth[:200], DATA.states[0, 800:, 1, 0].numpy())
    assert 0.01 < np.abs(np.diff(truth[198:])).max() < 0.11  # and without a jump


def test_a_run_is_bounded_until_it_is_beyond_twice_the_amplitude():
    truth = np.array([0.5, -0.5, 0.5, -0.5])
    run = FreeRun(np.array([1.0, -1.0, 1.01, 0.0]), truth)
    assert (run.num_bounded_steps, run.largest_angle(2), run.largest_angle(4)) == (2, 2.0, 2.02)
    assert FreeRun(truth, truth).num_bounded_steps == 4
    assert FreeRun(np.array([0.5, 0.5, np.nan, 0.5]), truth).num_bounded_steps == 2
    assert FreeRun(np.array([0.5, 0.0, 0.5, 0.0]), truth).mse(2) == 0.125


def test_the_last_swing_tells_a_run_that_dies_from_one_that_grows(monkeypatch):
    monkeypatch.setattr(stable_pendulum, "SWING_STEPS", 2)
    truth = np.ones(6)
    assert FreeRun(np.array([1.0, 0.9, 0.5, 0.4, 0.2, -0.3]), truth).last_swing(6) == 0.3
    assert FreeRun(np.array([1.0, 0.9, 0.5, 0.4, 0.2, -0.3]), truth).last_swing(4) == 0.5


def test_all_get_the_same_number_of_steps(results):
    trained = [name for name, contestant in CONTESTANTS.items() if contestant.has_operator]
    assert {name: TICKS.count(name) for name in TICKS} == dict.fromkeys(trained, 40)
    assert len(TICKS) == count_steps(QUICK, 1)


def test_mistakes_are_named(results):
    with pytest.raises(InputError, match="contestant among free, stable, m = 2, .*got 'direct'"):
        run_contestant("direct", DATA)
    with pytest.raises(InputError, match="got none of printed"):
        plot_stable_pendulum([result for result in results if result.contestant != PRINTED])


def test_the_command_prints_draws_and_writes_lines(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(pendulum, "Effort", lambda: Effort(2, (CosineAdam(0.03),), 4))
    arguments = ("reproduce", "stable-pendulum", "--seeds", "1", "--device", "cpu", "--out", str(tmp_path))
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "printed: 0 of 1; printed, s = 0: 0 of 1" in out
    lines = read_lines(tmp_path / "stable_pendulum.jsonl")
    assert [line["model"] for line in lines] == list(CONTESTANTS)
    assert (tmp_path / "stable_pendulum.png").stat().st_size > 50_000


@pytest.mark.parametrize("optimizer", ["CosineAdam", "QuasiNewton"])
def test_committed_lines_have_five_seeds_and_stay_bounded_where_it_is_said(optimizer):
    needed = {"experiment", "protocol", "seed", "versions", "device", "descents", "rule", "run_mse_1000"}
    lines = [line for line in RESULTS if line["descents"][0].startswith(optimizer)]
    assert all(line.keys() >= needed for line in lines)
    for name, contestant in CONTESTANTS.items():
        own = [line for line in lines if line["model"] == name]
        assert [line["seed"] for line in own] == (list(range(5)) if contestant.has_operator else [None])
        assert all(line["is_bounded"] is not name.startswith(PRINTED) for line in own)
        if name == STABLE:
            assert all(line["root_multiplicity"] == 2 and line["max_free_root_modulus"] < 1 for line in own)
