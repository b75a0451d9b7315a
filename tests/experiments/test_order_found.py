import json
from pathlib import Path

import pytest

from tdegnn import InputError
from tdegnn.experiments.order_found import (
    NOISES,
    SYSTEMS,
    OrderCell,
    breaking_noises,
    count_runs,
    run_missing,
    run_order,
    summarize_orders,
)
from tdegnn.experiments.records import pack_lines, read_lines

RESULTS = Path(__file__).parent.parent.parent / "results"
NEEDED = {
    "experiment",
    "protocol",
    "system",
    "true_order",
    "seed",
    "noise",
    "order",
    "agreement",
    "explained_shares",
    "derivatives",
    "versions",
    "device",
}
MAIN = {"heat": 1, "wave": 2, "damped wave": 2, "third order": 3, "pendulum": 2}
CHANCE = ("white noise", "random walk", "smooth noise")


@pytest.fixture(scope="module")
def lines():
    return read_lines(RESULTS / "order_found.parquet")


def test_every_line_says_how_it_was_made(lines):
    assert all(line.keys() >= NEEDED for line in lines)
    runs = {(line["system"], line["noise"], line["seed"]) for line in lines}
    assert len(runs) == len(lines) == count_runs(SYSTEMS, 20)


def test_orders_are_found_as_promised(lines):
    cells = summarize_orders(lines)
    for system in MAIN:
        assert cells[system, 0.0] == OrderCell(20, 20, 0)
        assert cells[system, 0.01].num_right >= 18
    assert all(cells[system, 0.0] == OrderCell(20, 20, 0) for system in CHANCE)


def test_no_verdict_is_wrong_where_there_is_less_noise_than_signal(lines):
    wrong = [line for line in lines if line["order"] not in (None, line["true_order"])]
    assert len(wrong) <= 2
    assert all(line["noise"] >= 1.0 for line in wrong)


def test_certainty_does_not_grow_with_noise(lines):
    """An epidemic seen through one of its two states is never called an order, with or without noise."""
    cells = summarize_orders(line for line in lines if line["system"] == "epidemic, one state")
    assert cells == {("epidemic, one state", noise): OrderCell(20, 20, 0) for noise in NOISES[:7]}


def test_the_first_derivative_tells_the_damped_wave_from_the_other(lines):
    for line in lines:
        if line["noise"] <= 0.01 and line["system"] in ("wave", "damped wave"):
            (first,) = line["derivatives"]
            assert (first["low"] <= 0 <= first["high"]) == (line["system"] == "wave")
            assert first["takes_part"] == (line["system"] == "damped wave")


def test_the_page_says_what_the_lines_say(lines):
    """The table of `docs/order.md`: a row a system, right verdicts of 20 by noise."""
    page = (RESULTS.parent / "docs" / "order.md").read_text("utf-8")
    cells = summarize_orders(lines)
    for name, system in SYSTEMS.items():
        counts = [cells.get((name, noise)) for noise in NOISES]
        row = " | ".join("" if cell is None else str(cell.num_right) for cell in counts)
        order = next(line["true_order"] for line in lines if line["system"] == name) or "none"
        assert f"| {name} | {order} | {row} |" in page
        assert len(system.noises) == sum(cell is not None for cell in counts)


@pytest.mark.slow
def test_a_line_is_made_again_as_it_was(lines):
    line = next(line for line in lines if (line["system"], line["noise"], line["seed"]) == ("wave", 0.01, 603))
    again = run_order("wave", 603, 0.01).to_record()
    assert (again["order"], again["chosen"]) == (line["order"], line["chosen"])
    assert again["explained_shares"] == pytest.approx(line["explained_shares"], rel=1e-3)


@pytest.mark.slow
def test_what_is_in_the_file_is_not_run_again(tmp_path):
    path = tmp_path / "order_found.jsonl"
    run_missing(path, ["white noise"], seeds=[0])
    (line,) = read_lines(path)
    path.write_text(json.dumps(line | {"order": "kept"}) + "\n")
    asked = []
    run_missing(path, ["white noise"], seeds=[0, 1], on_run=asked.append)
    assert [line["order"] for line in read_lines(path)] == ["kept", None]
    assert len(asked) == 2


@pytest.mark.slow
def test_what_is_packed_is_not_run_again(tmp_path):
    path = tmp_path / "order_found.jsonl"
    run_missing(path, ["white noise"], seeds=[0])
    pack_lines(path)
    run_missing(path, ["white noise"], seeds=[0, 1])
    (added,) = path.read_text().splitlines()
    assert json.loads(added)["seed"] == 1
    assert [line["seed"] for line in read_lines(path)] == [0, 1]


def test_where_it_breaks():
    cells = {("a", 0.0): OrderCell(20, 20, 0), ("a", 0.1): OrderCell(20, 17, 3), ("b", 0.0): OrderCell(10, 9, 0)}
    assert breaking_noises(cells) == {"a": 0.1, "b": None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tea",), "system to be one of heat; wave; .*, got 'tea'"),
        (("heat", -1), "seed to be at least 0, got -1"),
        (("heat", 0, -0.1), "noise to be at least 0, got -0.1"),
        (("heat", 0, float("nan")), "noise to be finite, got nan"),
    ],
)
def test_wrong_input_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        run_order(*arguments)
