"""Names and settings of parts are checked before a table is read, or a line of progress could be shown."""

from pathlib import Path

import pytest

from tdegnn.cli import backtest, classify, fit, sweep_nodes, sweep_series
from tests.cli.test_commands import run

SERIES = Path(__file__).parents[2] / "examples" / "cases.csv"
WRONG_OPERATORS = [
    (("--operator", "grund"), "got 'grund'. Did you mean 'grand'?"),
    (("--operator", "grand", "--set", "mixng=constant"), "got 'mixng'. Did you mean 'mixing'?"),
    (("--operator", "grand", "--set", "mixing=atention"), "got 'atention'. Did you mean 'attention'?"),
    (
        ("--operator", "grand", "--set", 'mixing={"name": "attention", "settings": {"num_heads": 5}}'),
        "Expected attention_channels to be a multiple of num_heads = 5, got 64.",
    ),
    (("--operator", "graff", "--set", "mixing=diagnal"), "got 'diagnal'"),
    (("--operator", "gcnii", "--set", "alpha=1.5"), "alpha to be from 0 to 1, got 1.5"),
    (("--operator", "together", "--set", 'terms=["walk"]'), "got 'walk'. Did you mean 'walks'?"),
    (("--set", "mixing=constant"), "Expected --operator with --set, got none."),
]
OF_SERIES = [
    (("--intervals", "conformed"), "got 'conformed'. Did you mean 'conformal'?"),
    (("--loss", "quantile:90"), "Expected a level between 0 and 1, got 90"),
]
COMMANDS = {
    "classify": (("classify", "cora"), WRONG_OPERATORS[:-1]),
    "fit": (("fit", SERIES), WRONG_OPERATORS + OF_SERIES),
    "backtest": (("backtest", SERIES), WRONG_OPERATORS + OF_SERIES),
    "sweep of series": (("sweep", SERIES), WRONG_OPERATORS + OF_SERIES),
    "sweep of nodes": (("sweep", "cora", "--system", "DE-GNN"), WRONG_OPERATORS),
}


def never(*_, **__):
    raise AssertionError("Expected a check before any progress is shown and anything is read.")


@pytest.fixture(autouse=True)
def no_progress(monkeypatch, tmp_path):
    for module in (classify, fit, backtest, sweep_series):
        monkeypatch.setattr(module, "progress_stages", never)
    monkeypatch.setattr(sweep_nodes, "progress_bar", never)
    monkeypatch.setattr("tdegnn.data.benchmarks.load.load_nodes", never)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [(command, *wrong) for command, given in COMMANDS.values() for wrong in given],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_wrong_part_is_one_line_before_anything_is_read(capsys, command, options, message):
    code, out, err = run(capsys, *map(str, command), *options)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert message in err


def test_an_operator_for_series_is_refused_for_nodes(capsys):
    _, _, err = run(capsys, "classify", "cora", "--operator", "past-diffusion")
    assert "Expected an operator for nodes, such as diffusion, " in err
    assert err.count("\n") == 1


def test_a_setting_of_batches_is_checked_first(capsys):
    _, _, err = run(capsys, "classify", "cora", "--batches", "partitions", "--batches-set", "part=3")
    assert "Expected settings of partitions among " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["fit", "backtest", "sweep"])
def test_right_parts_pass(capsys, command):
    with pytest.raises(AssertionError, match="before any progress"):
        run(capsys, command, str(SERIES), "--operator", "grand", "--set", "mixing=constant", "--loss", "huber:0.5")
