import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from tdegnn.cli import main
from tdegnn.version import __version__

PROGRAM = Path(sys.executable).parent / "tdegnn"
DOCS = Path(__file__).parents[2] / "docs"


def run(capsys, *arguments):
    """Run a command in this process; return its exit code, what it printed, and what it complained about."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    printed = capsys.readouterr()
    return stop.value.code, printed.out, printed.err


@pytest.mark.slow
def test_help_answers_in_half_a_second():
    """Seconds of computing: what others do on the machine meanwhile does not count."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert all(command in result.stdout for command in ("demo", "explain", "reproduce", "data"))
    assert min(times) < 0.5


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"tdegnn {__version__}\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit", "classify", "backtest", "predict", "sweep", "order", "update", "report"])
def test_every_option_is_named_in_the_docs(command):
    from tdegnn.cli.commands import app

    words = {word for page in DOCS.rglob("*.md") for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*", page.read_text())}
    parameters = get_command(app).commands[command].params
    options = {option for each in parameters for option in (*each.opts, *each.secondary_opts) if option[:2] == "--"}
    assert options
    assert options - words == set()


@pytest.mark.slow
def test_the_package_is_a_program_too():
    command = [sys.executable, "-m", "tdegnn"]
    right = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert right.stdout == f"tdegnn {__version__}\n"
    wrong = subprocess.run([*command, "forcast"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("Error: No such command 'forcast'")


def test_explain_prints_a_report(capsys):
    code, out, err = run(capsys, "explain", "1.4,0.2,-0.6")
    assert (code, err) == (0, "")
    assert "a pure second-order recursion" in out


def test_explain_takes_a_vector_that_starts_with_a_minus(capsys):
    code, out, _ = run(capsys, "explain", "-0.08,1.68,0.153,0.006,-0.759", "--quiet")
    assert code == 0
    assert out.startswith("Unstable (largest root modulus 1.401)")
    assert out.count("\n") == 1


@pytest.mark.slow
def test_explain_as_json_with_pictures(capsys, tmp_path):
    code, out, _ = run(
        capsys, "explain", "0.975,0.675,-0.25,-0.4", "--tolerance", "0.02", "--json", "--out", str(tmp_path)
    )
    report = json.loads(out)
    assert code == 0
    assert (report["is_stable"], report["root_multiplicity"], report["history_length"]) == (True, 2, 4)
    assert report["real_limit"] < 0
    assert {path.name for path in tmp_path.iterdir()} == {"roots.png", "region.png", "consistency.png"}


@pytest.mark.slow
def test_reproduce_coefficients(capsys, tmp_path):
    code, out, _ = run(capsys, "reproduce", "coefficients", "--out", str(tmp_path))
    assert code == 0
    assert "stable only at tolerance 0.02" in out
    assert "unstable (1.401)" in out
    _, out, _ = run(capsys, "reproduce", "coefficients", "--out", str(tmp_path), "--json")
    assert [entry["order"] for entry in json.loads(out)["vectors"]] == [2, 3, 4, 5]
    _, out, _ = run(capsys, "reproduce", "coefficients", "--out", str(tmp_path), "--quiet")
    assert out == "order 2 stable; order 3 stable; order 4 stable only at tolerance 0.02; order 5 unstable (1.401)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "2,-0.5"], "Expected coefficients that sum to 1, got [2.0, -0.5] with sum 1.5. Divide them"),
        (
            ["explain", "two,-1"],
            "Expected numbers separated by commas, as in 1.4,0.2,-0.6, or a run folder, got 'two,-1'.",
        ),
        (["explain", "nan,1"], "Expected finite coefficients"),
        (["explain", "2,-1", "--tolerance", "5"], "Expected a tolerance of at least 0 and below 1, got 5.0."),
        (["explain"], "Missing argument"),
        (["explain", "2,-1", "--colour"], "--colour"),
        (["explian", "2,-1"], "No such command 'explian'"),
        (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
        (["demo", "--seed", "99999999999999999999"], "Try: tdegnn demo --help"),
        (["explain", "0,0"], "with sum 0.\n"),
        (["demo", "--device", "tpu"], "Invalid value for '--device'"),
        (["reproduce", "table99"], "No such command 'table99'"),
        (
            ["explain", "2,-1", "--out", "/dev/null/folder"],
            "Expected to write /dev/null/folder/roots.png, got a system error (Not a directory).",
        ),
    ],
)
def test_a_mistake_gives_one_line_and_exit_code_two(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("Error: ")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_known_orders_prints_a_table_and_writes_lines(capsys, tmp_path, monkeypatch):
    from dataclasses import replace

    from tdegnn.experiments import known_orders, nested_orders

    monkeypatch.setattr(known_orders, "SYSTEMS", {"heat": known_orders.SYSTEMS["heat"]})
    monkeypatch.setattr(nested_orders, "PROJECTED", replace(nested_orders.PROJECTED, num_steps=2))
    code, out, err = run(capsys, "reproduce", "known-orders", "--seeds", "1", "--out", str(tmp_path))
    assert (code, err) == (0, "")
    assert "Order found for" in out
    assert len((tmp_path / "known_orders.jsonl").read_text().splitlines()) == 4


def test_a_fit_that_is_worse_than_none_has_no_share(capsys, tmp_path, monkeypatch):
    from tdegnn.experiments import known_orders
    from tdegnn.experiments.nested_orders import PROJECTED, NestedFits, OrderFit

    fits = tuple(
        OrderFit(order, share, (1.0,), (1.0,)) for order, share in enumerate((-4.213, 0.9996, -0.0001, 0.5), start=1)
    )
    monkeypatch.setattr(known_orders, "SYSTEMS", {"heat": None})
    monkeypatch.setattr(
        known_orders,
        "run_known_order",
        lambda system, seed, **_: known_orders.KnownOrderResult(system, 2, seed, PROJECTED, NestedFits(fits)),
    )
    code, out, err = run(capsys, "reproduce", "known-orders", "--seeds", "1", "--out", str(tmp_path))
    assert (code, err) == (0, "")
    (row,) = (line for line in out.splitlines() if line.startswith("heat"))
    assert re.split(r"  +", row.strip())[-4:] == ["< 0", "1.000", "< 0", "0.500"]
    # The lines keep what was measured.
    assert json.loads((tmp_path / "known_orders.jsonl").read_text().splitlines()[0])["explained_share"] == -4.213
