import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tdegnn import InputError
from tdegnn.cli.reproduce.pendulum import table_of_orders
from tdegnn.experiments.pendulum import (
    Effort,
    ModelResult,
    PendulumResult,
    count_steps,
    make_pendulum,
    run_pendulum,
)
from tdegnn.experiments.pendulum_plots import plot_order
from tdegnn.experiments.records import describe_environment, write_records
from tdegnn.training.optimizers import CosineAdam, VariableProjection

QUICK = Effort(num_steps=30, descents=(CosineAdam(0.01),), hidden_channels=8)


@pytest.fixture(scope="module")
def data():
    return make_pendulum()


def test_parts_follow_each_other_in_time_and_do_not_share_targets(data):
    assert data.bounds == {"training": (0, 600), "validation": (600, 800), "test": (800, 1000)}
    for order in (1, 2, 5):
        sizes = {part: data.windows(part, order).target.shape[1] for part in data.bounds}
        assert sizes == {"training": 600 - order, "validation": 200, "test": 200}
        torch.testing.assert_close(data.windows("test", order).target[0, 0], data.states[0, 800])


def test_roll_out_starts_cover_the_test_part(data):
    history, truth = data.roll_out_starts(order=2, num_steps=100)
    assert truth.shape == (100, 101, 1)
    torch.testing.assert_close(history[0][0], data.states[0, 799])
    torch.testing.assert_close(history[1][0], data.states[0, 798])
    torch.testing.assert_close(truth[-1, -1], data.states[0, 999, 1])


@pytest.mark.slow
def test_every_model_gets_the_same_number_of_steps(data):
    ticks = []
    result = run_pendulum(data, effort=QUICK, orders=(1, 2), on_step=ticks.append)
    assert len(ticks) == count_steps(QUICK, (1, 2)) == 4 * 30
    assert all(ticks.count(name) == 30 for name in set(ticks))
    assert result.models[0].model == "naive"


@pytest.mark.slow
def test_seed_decides_everything(data):
    first, same = (run_pendulum(data, seed=3, effort=QUICK, orders=(2,)) for _ in range(2))
    assert [m.one_step_mse for m in first.models] == [m.one_step_mse for m in same.models]


@pytest.mark.slow
def test_coordinates_can_be_observed_too():
    result = run_pendulum(make_pendulum("coordinates"), effort=QUICK, orders=(2,))
    assert result["TDE-GNN, order 2"].roll_out.shape == (100, 2)


@pytest.mark.slow
def test_records_hold_what_is_needed_to_repeat_them(data, tmp_path):
    result = run_pendulum(data, effort=QUICK, orders=(2,))
    environment = describe_environment(data.device)
    write_records(tmp_path / "new" / "lines.jsonl", [record | environment for record in result.to_records()])
    lines = [json.loads(line) for line in (tmp_path / "new" / "lines.jsonl").read_text().splitlines()]
    assert len(lines) == len(result.models)
    assert {"seed", "versions", "device", "protocol", "model", "one_step_mse", "roll_out_mse"} <= lines[-1].keys()
    assert lines[-1]["analysis"]["history_length"] == 2


@pytest.mark.slow
def test_verdict_says_when_no_order_explains_the_data(data):
    result = run_pendulum(data, effort=Effort(1, (CosineAdam(1e-6),), 4), orders=(1, 2))
    assert result.dynamics_order is None
    assert result.verdict().startswith("No order explains the data")


def with_shares(data, shares):
    """A result whose fits explain these shares."""
    models = [
        ModelResult(
            model=f"TDE-GNN, o = {order}",
            order=order,
            num_parameters=2,
            descent=None,
            validation_mse=1.0,
            one_step_mse=1.0,
            roll_out_mse=1.0,
            explained_share=share,
            coefficients=(1.0,) + (0.0,) * (order - 1),
            seconds=1.0,
            curve_steps=(),
            curve=(),
            roll_out=np.zeros((2, 2)),
        )
        for order, share in shares.items()
    ]
    return PendulumResult(data, 0, Effort(), tuple(models))


def test_shares_below_zero_are_not_printed_as_numbers(data):
    nothing = with_shares(data, {1: -4.213, 2: 0.5})
    assert nothing.verdict() == "No order explains the data: 1: < 0, 2: 0.500"
    found = with_shares(data, {1: -4.213, 2: 0.9996, 3: -4.0})
    assert "it explains 0.0% of the first differences" in found.verdict()
    assert "99.9% of the second differences" in found.verdict()
    for result in (nothing, found):
        assert "-4" not in result.verdict()
    _, _, rows = table_of_orders(found)
    assert [row[2] for row in rows] == ["< 0", "0.9996", "< 0"]
    assert [text.get_text() for text in plot_order(found).axes[0].texts[1:]] == ["< 0", "1.000", "< 0"]


@pytest.mark.slow
def test_a_fit_that_has_not_converged_is_not_counted_on(data):
    result = run_pendulum(data, effort=Effort(300, (CosineAdam(0.03),), 16), orders=(1, 2, 5))
    assert result.dynamics_order == 2
    assert result.has_unconverged_orders
    assert "explain enough too" not in result.verdict()


@pytest.mark.slow
def test_projection_needs_few_steps_for_every_order(data):
    effort = replace(Effort.projected(), num_steps=1, descents=(VariableProjection(),))
    result = run_pendulum(data, effort=effort, orders=(2, 3, 4, 5))
    assert min(result.shares.values()) >= 0.95
    assert not result.has_unconverged_orders


@pytest.mark.slow
def test_a_model_without_coefficients_has_no_report(data):
    naive: ModelResult = run_pendulum(data, effort=QUICK, orders=())["naive"]
    assert naive.report() is None
    assert naive.one_step_mse == pytest.approx(0.00445, rel=0.01)


def test_numbers_that_json_cannot_say_become_null(tmp_path):
    write_records(tmp_path / "lines.jsonl", [{"error": float("inf"), "parts": (1.0, float("nan"))}])
    assert json.loads((tmp_path / "lines.jsonl").read_text()) == {"error": None, "parts": [1.0, None]}


@pytest.mark.slow
def test_an_unknown_model_is_named(data):
    with pytest.raises(InputError, match="one of naive, .*got 'GRU'"):
        run_pendulum(data, effort=QUICK, orders=())["GRU"]
