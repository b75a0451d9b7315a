"""No command imports a package that it does not use: start-up is a matter of imports."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tdegnn.runs.run_folder import RunFolder

EXAMPLES = Path(__file__).parents[2] / "examples"
HEAVY = {
    *("matplotlib", "networkx", "numpy", "optuna", "pandas", "pyarrow", "requests"),
    *("safetensors", "scipy", "sklearn", "torch", "torch_geometric"),
}
TABLES = {"numpy", "pandas", "pyarrow"}
# A graph is made of SciPy matrices and torch tensors.
GRAPHS = TABLES | {"scipy", "torch"}
PROGRAM = """
import sys
from tdegnn.cli import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    print("exit code", stop.code, file=sys.stderr)
print("imported", *sys.modules, file=sys.stderr)
"""


def imported(*arguments, code=0):
    """The heavy packages that a command imports."""
    return {name.split(".")[0] for name in all_imported(*arguments, code=code)} & HEAVY


def all_imported(*arguments, code=0):
    """The modules that a command imports, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "TDEGNN_CACHE"}
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    *_, ended, modules = result.stderr.splitlines()
    assert ended == f"exit code {code}", result.stderr
    return set(modules.split())


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """What `explain` reads of a run: settings and coefficients."""
    path = tmp_path_factory.mktemp("runs") / "run"
    with RunFolder.create(path, {"kind": "Forecaster", "settings": {"states": "latent"}, "seed": 0}) as folder:
        folder.write_coefficients(np.array([[2.0, -1.0]]))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["data", "list"],
        ["data", "where", "cora"],
        *(
            [command, "--help"]
            for command in ("fit", "predict", "update", "backtest", "classify", "order", "sweep", "zoo", "explain")
        ),
        ["reproduce", "--help"],
        ["reproduce", "table1", "--help"],
    ],
    ids=" ".join,
)
def test_help_and_the_list_of_benchmarks_import_nothing_heavy(arguments):
    assert imported(*arguments) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["fit", "nosuchfile.csv"], ["backtest", "chickenpocks"], ["classify", "coral"], ["order", "nosuchfile.csv"]],
    ids=" ".join,
)
def test_a_wrong_name_is_refused_before_anything_heavy_is_imported(arguments):
    assert imported(*arguments, code=2) == set()


@pytest.mark.slow
def test_json_is_printed_with_numpy_alone():
    assert imported("data", "list", "--json") == {"numpy"}


@pytest.mark.slow
def test_a_vector_is_explained_with_numpy_alone():
    assert imported("explain", "2,-1") == {"numpy"}
    assert imported("explain", "2,-1", "--json") == {"numpy"}


@pytest.mark.slow
def test_a_run_is_explained_without_torch(run_folder):
    assert imported("explain", run_folder) == {"numpy"}


@pytest.mark.slow
def test_pictures_are_drawn_with_matplotlib(tmp_path):
    assert imported("explain", "2,-1", "--out", tmp_path) == {"numpy", "matplotlib"}


@pytest.mark.slow
def test_a_table_is_checked_without_torch():
    assert imported("data", "check", EXAMPLES / "cases.csv") == TABLES


@pytest.mark.slow
def test_edges_are_checked_with_torch_and_no_other_library_of_graphs():
    assert imported("data", "check", EXAMPLES / "cases.csv", "--edges", EXAMPLES / "borders.csv") == GRAPHS


@pytest.mark.slow
def test_the_order_is_found_without_estimators():
    assert imported("order", EXAMPLES / "cases.csv", "--resamples", "2") <= GRAPHS


@pytest.mark.slow
def test_fit_and_predict_import_neither_pictures_nor_benchmarks(tmp_path):
    tables = (EXAMPLES / "cases.csv", "--edges", EXAMPLES / "borders.csv")
    small = ("--steps", "2", "--members", "1", "--hidden-channels", "4", "--window", "4", "--device", "cpu")
    used = GRAPHS | {"safetensors", "sklearn"}
    assert imported("fit", *tables, *small, "--out", tmp_path / "run") <= used
    assert imported("predict", tmp_path / "run", "--out", tmp_path / "forecast.csv") <= used


@pytest.mark.slow
def test_a_prediction_of_a_saved_classifier_imports_neither_models_to_compare_with_nor_compilers(tmp_path):
    nodes = range(30)
    features = ["node,a", *(f"{node},{node % 7}" for node in nodes)]
    edges = ["source,target", *(f"{node},{(node + 2) % 30}" for node in nodes)]
    labels = ["node,label", *(f"{node},{node % 2}" for node in nodes)]
    options = []
    for name, rows in {"features": features, "edges": edges, "labels": labels}.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
        options += [f"--{name}", str(tmp_path / f"{name}.csv")]
    run = tmp_path / "run"
    subprocess.run([sys.executable, "-m", "tdegnn", "classify", *options, "--steps", "2", "--out", run], check=True)
    unused = {"sklearn.linear_model", "sklearn.model_selection", "sklearn.neural_network", "networkx", "matplotlib"}
    unused |= {"torch._dynamo", "torch._inductor", "tdegnn.forecasting.backtest"}
    assert unused & all_imported("predict", run, "--out", tmp_path / "predictions.csv") == set()
