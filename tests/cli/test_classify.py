import csv
import errno
import json
import os
import re
import sys
import time
from contextlib import contextmanager
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from safetensors.numpy import save_file

from tdegnn import Part, StoredGraph, cli
from tdegnn.batches.registry import BATCHES
from tdegnn.cli.batch_options import BatchesOption
from tdegnn.cli.classify import (
    USUAL_OPERATOR,
    InputMapOption,
    NetworkOption,
    SelectByOption,
    SkipOption,
)
from tdegnn.cli.network_options import OptimizerOption, PrecisionOption, ReadoutOption, StateNormOption
from tdegnn.data.nodes import NodeDataset
from tdegnn.data.tables.nodes import read_node_tables
from tdegnn.files import digest_of
from tdegnn.graph import Graph
from tdegnn.nets.input_maps import INPUT_MAPS
from tdegnn.nets.node_skips import SKIPS
from tdegnn.nets.readouts import READOUTS
from tdegnn.nets.state_norms import STATE_NORMS
from tdegnn.nodes import estimator
from tdegnn.nodes.classifier import NodeClassifier
from tdegnn.nodes.usual_networks import NetworkName
from tdegnn.runs.run_folder import CONFIG, METRICS, WEIGHTS, RunFolder
from tdegnn.training.devices import Precision, single_thread
from tdegnn.training.members import OptimizerName
from tdegnn.training.node_training import SelectBy

NODES = 30
NAMES = [f"n{node}" for node in range(NODES)]
KINDS = np.array(["ant", "bee", "cat"])
SMALL = [
    *(
        "--hidden-channels",
        "8",
        "--layers",
        "2",
        "--order",
        "2",
        "--dropout",
        "0.1",
        "--hidden-dropout",
        "0.1",
        "--steps",
        "12",
    ),
    *("--learning-rate", "0.05", "--device", "cpu"),
]


@pytest.fixture(autouse=True)
def _one_thread():
    with single_thread():
        yield


@pytest.fixture
def run(capsys):
    """Run a command in this process; return its exit code, what it printed, and what it complained about."""

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return run


def test_the_command_has_the_defaults_of_the_classifier(monkeypatch, run):
    made = []

    def stop(model, **_):
        made.append(model.get_params())
        raise SystemExit(0)

    monkeypatch.setattr(NodeClassifier, "fit", stop)
    # The name of the module is also that of the function in it.
    monkeypatch.setattr(sys.modules["tdegnn.cli.classify"], "_load_benchmark", lambda *_: {"X": None, "notes": []})
    assert run("classify", "cora")[0] == 0
    assert made == [NodeClassifier().get_params()]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ((), (None, None, None)),
        (("--system", "TDE-GNN_S"), ("TDE-GNN_S", None, None)),
        (("--coefficients", "euler"), (None, "euler", None)),
        (("--no-batch-norm",), (None, None, Part("near-identity", batch_norm=False))),
        (("--operator", "near-identity"), (None, None, None)),
        (("--operator", "diffusion"), (None, None, Part("diffusion", batch_norm=True))),
        (("--operator", "diffusion", "--set", "batch_norm=false"), (None, None, Part("diffusion", batch_norm=False))),
        (("--set", "batch_norm=false"), (None, None, Part("near-identity", batch_norm=False))),
        (
            ("--operator", "hidden-diffusion", "--set", "hidden_channels=4"),
            (None, None, Part("hidden-diffusion", hidden_channels=4)),
        ),
    ],
)
def test_parts_of_a_classifier_are_named(monkeypatch, run, options, parts):
    made = []

    def stop(model, **_):
        made.append(model)
        raise SystemExit(0)

    monkeypatch.setattr(NodeClassifier, "fit", stop)
    monkeypatch.setattr(sys.modules["tdegnn.cli.classify"], "_load_benchmark", lambda *_: {"X": None, "notes": []})
    assert run("classify", "cora", *options)[0] == 0
    assert (made[0].system, made[0].coefficients, made[0].operator) == parts


def test_the_names_of_parts_are_those_of_the_library():
    assert tuple(ReadoutOption) == READOUTS.names
    assert tuple(StateNormOption) == STATE_NORMS.names
    assert tuple(InputMapOption) == INPUT_MAPS.names
    assert tuple(SkipOption) == SKIPS.names
    assert tuple(BatchesOption) == BATCHES.names
    assert tuple(OptimizerOption) == get_args(OptimizerName)
    assert tuple(PrecisionOption) == get_args(Precision)
    assert tuple(SelectByOption) == get_args(SelectBy)
    assert tuple(NetworkOption) == get_args(NetworkName)


def test_other_parts_come_through(monkeypatch, run):
    made = []

    def stop(model, **_):
        made.append(model.get_params())
        raise SystemExit(0)

    monkeypatch.setattr(NodeClassifier, "fit", stop)
    monkeypatch.setattr(sys.modules["tdegnn.cli.classify"], "_load_benchmark", lambda *_: {"X": None, "notes": []})
    said = {
        "readout": "max",
        "state_norm": "unit-length",
        "input_map": "perceptron",
        "skip": "kernel-ridge",
        "optimizer": "adamw",
        "select_by": "loss",
        "readout_dropout": 0.25,
        "batches": "neighborhoods",
    }
    options = [word for name, value in said.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert run("classify", "cora", *options, "--self-loops")[0] == 0
    assert made == [NodeClassifier(**said, self_loops=True).get_params()]


def test_the_usual_operator_is_that_of_the_classifier():
    assert Part(USUAL_OPERATOR, batch_norm=True) == estimator.USUAL_OPERATOR


def test_batches_have_settings(monkeypatch, run):
    made = []

    def stop(model, **_):
        made.append(model.batches)
        raise SystemExit(0)

    monkeypatch.setattr(NodeClassifier, "fit", stop)
    monkeypatch.setattr(sys.modules["tdegnn.cli.classify"], "_load_benchmark", lambda *_: {"X": None, "notes": []})
    options = ("--batches-set", "num_parts=8", "--batches-set", "halo=2")
    assert run("classify", "cora", "--batches", "ranges", *options)[0] == 0
    assert made == [Part("ranges", num_parts=8, halo=2)]
    for wrong, complaint in {
        options: "Expected --batches with --batches-set, got none. Add it.",
        ("--batches", "ranges", "--batches-set", "parts=8"): "Expected settings of ranges among num_parts",
        ("--batches", "ranges", "--batches-set", "8"): "Expected --batches-set NAME=VALUE",
    }.items():
        code, _, printed = run("classify", "cora", *wrong)
        assert code == 2
        assert complaint in printed


@pytest.fixture
def files(tmp_path):
    """Options that name the user's files: features, labels (a sixth unknown) and edges."""
    draw = np.random.default_rng(0)
    codes = np.arange(NODES) % 3
    features = pd.DataFrame(np.eye(3)[codes] + 0.1 * draw.random((NODES, 3)), columns=["a", "b", "c"])
    features.insert(0, "node", NAMES)
    features.to_csv(tmp_path / "features.csv", index=False)
    labels = ["" if node % 6 == 0 else KINDS[code] for node, code in enumerate(codes)]
    pd.DataFrame({"node": NAMES, "label": labels})[::-1].to_csv(tmp_path / "labels.csv", index=False)
    edges = [(NAMES[node], NAMES[(node + 3) % NODES]) for node in range(NODES)]
    pd.DataFrame(edges, columns=["source", "target"]).to_csv(tmp_path / "edges.csv", index=False)
    return [part for name in ("features", "labels", "edges") for part in (f"--{name}", tmp_path / f"{name}.csv")]


@pytest.mark.slow
def test_features_and_edges_may_stay_in_files(run, tmp_path):
    codes = np.arange(NODES) % 3
    np.save(tmp_path / "x.npy", (np.eye(3)[codes] + 0.1).astype(np.float32))
    StoredGraph.write(tmp_path / "graph", np.stack([np.arange(NODES), (np.arange(NODES) + 3) % NODES]), NODES)
    pd.DataFrame({"node": np.arange(NODES), "label": KINDS[codes]}).to_csv(tmp_path / "labels.csv", index=False)
    files = ["--features", tmp_path / "x.npy", "--edges", tmp_path / "graph" / "graph.json"]
    options = ["--labels", tmp_path / "labels.csv", "--batches", "neighborhoods", "--out", tmp_path / "run"]
    assert run("classify", *files, *options, *SMALL)[0] == 0
    assert run("predict", tmp_path / "run", "--out", tmp_path / "p.csv", "--device", "cpu")[0] == 0
    assert len(read_predictions(tmp_path / "p.csv")) == NODES
    save_file({"features": np.load(tmp_path / "x.npy")}, tmp_path / "x.safetensors")
    again = ["--features", tmp_path / "x.safetensors", *files[2:], *options[:-1], tmp_path / "again"]
    assert run("classify", *again, *SMALL)[0] == 0
    assert run("predict", tmp_path / "again", "--out", tmp_path / "q.csv", "--device", "cpu")[0] == 0
    assert (tmp_path / "q.csv").read_text() == (tmp_path / "p.csv").read_text()
    np.save(tmp_path / "y.npy", np.ones((4, 3), dtype=np.float32))
    wrong = ["--features", tmp_path / "y.npy", *files[2:], *options[:-1], tmp_path / "other"]
    code, _, complaint = run("classify", *wrong)
    assert code == 2
    assert "Expected a graph of 4 nodes" in complaint
    np.save(tmp_path / "y.npy", np.ones(4))
    assert "Expected one row of numbers per node in y.npy" in run("classify", *wrong)[2]


def read_predictions(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
def test_the_labels_may_say_which_part_a_node_is_in(run, files, tmp_path):
    table = pd.read_csv(tmp_path / "labels.csv", keep_default_na=False)
    number = table["node"].str[1:].astype(int)
    table["part"] = np.where(number % 6 == 0, "", np.where(number < 15, "Train", np.where(number < 22, "val", "test")))
    table.to_csv(tmp_path / "labels.csv", index=False)
    code, printed, _ = run("classify", *files, *SMALL, "--out", tmp_path / "run", "--json")
    assert code == 0
    # Nodes 22 to 29 but 24 are tested: a seventh is the least that their accuracy can change by.
    assert json.loads(printed)["test_score"] * 7 == pytest.approx(
        round(json.loads(printed)["test_score"] * 7), abs=1e-5
    )
    table.loc[3, "part"] = "tset"
    table.to_csv(tmp_path / "labels.csv", index=False)
    code, _, complaint = run("classify", *files, *SMALL, "--out", tmp_path / "other")
    assert code == 2
    assert (
        "Expected train, validation, test or an empty cell in column 'part', got 'tset' in line 5 of labels.csv"
        in complaint
    )


@pytest.mark.slow
def test_own_files_are_learned_and_predicted(run, files, tmp_path):
    folder, out = tmp_path / "run", tmp_path / "predictions.csv"
    code, printed, complaint = run("classify", *files, *SMALL, "--out", folder)
    assert (code, complaint) == (0, "")
    for line in (
        "Accuracy on 3 classes",
        "the network",
        "logistic regression",
        "a perceptron",
        "kernel ridge",
        "best step",
        "c (mean",
        "Run folder:",
    ):
        assert line in printed
    assert len((folder / METRICS).read_text().splitlines()) == 4
    code, printed, _ = run("predict", folder, "--out", out)
    assert code == 0
    assert f"30 nodes in {out}" in printed
    rows = read_predictions(out)
    assert list(rows[0]) == ["node", "label", "probability_ant", "probability_bee", "probability_cat"]
    assert [row["node"] for row in rows] == NAMES
    assert np.mean([row["label"] == KINDS[node % 3] for node, row in enumerate(rows)]) > 0.9
    for row in rows:
        assert sum(float(row[f"probability_{kind}"]) for kind in KINDS) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_a_run_is_explained_as_latent(run, files, tmp_path):
    folder = tmp_path / "run"
    run("classify", *files, *SMALL, "--out", folder)
    code, out, err = run("explain", folder)
    assert (code, err) == (0, "")
    assert "history length     2" in out
    assert "latent" in out
    code, _, err = run("explain", tmp_path)
    assert code == 2
    assert "without config.json" in err


@pytest.mark.slow
def test_other_nodes_are_predicted(run, files, tmp_path):
    assert run("classify", *files, *SMALL, "--out", tmp_path / "run", "--quiet")[0] == 0
    features = np.eye(3, dtype=np.float32)[[2, 0, 1, 2]]
    np.savez(tmp_path / "new.npz", features=features, nodes=np.array(["w", "x", "y", "z"]))
    (tmp_path / "new.csv").write_text("source,target\nw,z\n")
    given = ("--features", tmp_path / "new.npz", "--edges", tmp_path / "new.csv")
    out = tmp_path / "new" / "labels.csv"
    code, printed, _ = run("predict", tmp_path / "run", *given, "--out", out, "--json")
    facts = json.loads(printed)
    assert (code, facts["counts"]) == (0, {"ant": 1, "bee": 1, "cat": 2})
    expected = [("w", "cat"), ("x", "ant"), ("y", "bee"), ("z", "cat")]
    for rows in (read_predictions(out), facts["by_node"]):
        assert [(row["node"], row["label"]) for row in rows] == expected
    for printed_row, row in zip(facts["by_node"], read_predictions(out), strict=True):
        assert [*printed_row] == [*row] == ["node", "label", *(f"probability_{kind}" for kind in KINDS)]
        for kind in KINDS:
            assert printed_row[f"probability_{kind}"] == pytest.approx(float(row[f"probability_{kind}"]))


@pytest.mark.slow
def test_a_benchmark_is_learned_by_its_name(run, tmp_path, monkeypatch):
    parts = np.arange(NODES)[None] % 5
    masks = (parts <= 2, parts == 3, parts == 4)
    features = scipy.sparse.csr_array(np.eye(3, dtype=np.float32)[np.arange(NODES) % 3])
    graph = Graph([range(NODES), np.roll(range(NODES), 3)], NODES, direction="out")
    dataset = NodeDataset("made up", features, graph, np.arange(NODES) % 3, *masks)
    monkeypatch.setattr("tdegnn.data.benchmarks.load.load_nodes", lambda name: {"cora": dataset}[name])
    code, printed, _ = run("classify", "cora", *SMALL, "--out", tmp_path / "run", "--json", "--direction", "in")
    facts = json.loads(printed)
    model = NodeClassifier.load(tmp_path / "run")
    assert code == 0
    assert facts["test_score"] == pytest.approx(model.score(dataset, nodes=masks[2][0]))
    assert facts["classes"] == [0, 1, 2]
    assert sum(facts["coefficients"]) == pytest.approx(1)
    assert run("predict", tmp_path / "run", "--out", tmp_path / "out.csv", "--quiet")[0] == 0
    predicted = [int(row["label"]) for row in read_predictions(tmp_path / "out.csv")]
    assert predicted == model.predict(dataset).tolist()
    _, printed, _ = run("predict", tmp_path / "run", "--out", tmp_path / "out.csv", "--json")
    # Classes of a benchmark are numbers, and stay numbers.
    assert [row["label"] for row in json.loads(printed)["by_node"]] == predicted


@pytest.mark.slow
def test_a_stopped_training_goes_on(run, files, tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run("classify", *files, *SMALL, "--out", whole)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr("tdegnn.runs.run_folder.RunFolder.finish", interrupt)
        assert run("classify", *files, *SMALL, "--out", parts)[0] == 130
    again = run("classify", *files, *SMALL, "--out", parts)
    assert again[0] == 2
    assert "an unfinished training. Add --resume or choose another folder." in again[2]
    assert run("classify", *files, *SMALL, "--out", parts, "--resume")[0] == 0
    for name in (WEIGHTS, METRICS, "summary.json"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()
    changed = run("classify", *files, *SMALL, "--out", parts, "--resume", "--seed", "1")
    assert changed[0] == 2
    assert "got settings.seed = 1 instead of 0" in changed[2]


def interrupt(*_):
    raise KeyboardInterrupt


def complains(run, *arguments):
    """What a command that fails says: one line, exit code 2."""
    code, _, complaint = run(*arguments)
    assert code == 2
    assert complaint.count("\n") == 1
    assert complaint.startswith("Error: ")
    return complaint


@pytest.mark.parametrize(
    ("error", "message"),
    [(errno.ENOSPC, "Expected free disk space for"), (errno.EROFS, "Expected permission to write")],
)
def test_a_disk_that_does_not_take_it_is_one_line(run, files, tmp_path, monkeypatch, error, message):
    def refuse(_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("tdegnn.files.os.fsync", refuse)
    assert message in complains(run, "classify", *files, *SMALL, "--out", tmp_path / "run")


@pytest.mark.slow
def test_a_damaged_or_strange_run_is_one_line(run, files, tmp_path):
    folder = tmp_path / "run"
    assert run("classify", *files, *SMALL, "--out", folder)[0] == 0
    out = ("--out", tmp_path / "predictions.csv")
    assert "got one of them" in complains(run, "predict", folder, *out, "--features", tmp_path / "features.csv")
    assert "Expected no --horizon for" in complains(run, "predict", folder, *out, "--horizon", "4")
    assert "a finished training" in complains(run, "classify", *files, *SMALL, "--out", folder)
    weights = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(weights[:-10])
    assert "does not match its SHA-256 checksum" in complains(run, "predict", folder, *out)
    (folder / WEIGHTS).write_bytes(weights)
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"format": 99}))
    assert "Upgrade tdegnn" in complains(run, "predict", folder, *out)
    (folder / CONFIG).write_text(json.dumps(config | {"kind": "NodeRegressor"}))
    assert "does not match its SHA-256 checksum" in complains(run, "predict", folder, *out)
    other = {name: value for name, value in config.items() if name != "sha256"} | {"kind": "NodeRegressor"}
    (folder / CONFIG).write_text(json.dumps(other | {"sha256": digest_of(other)}))
    assert "of a NodeRegressor" in complains(run, "predict", folder, *out)
    assert "Expected a run folder" in complains(run, "predict", tmp_path / "nowhere", *out)
    (folder / CONFIG).write_text(json.dumps(config))
    (tmp_path / "features.csv").unlink()
    assert "Expected a file at" in complains(run, "predict", folder, *out)
    assert not (tmp_path / "predictions.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("features", "node,a\nn0,1\nn0,2\n", "each node once in features.csv, got 'n0' several times"),
        ("features", "node,a\nn0,1\nn1,\n", "a number in column 'a', got nothing in line 3 of features.csv"),
        ("features", "node,a\nn0,1\nn1,red\n", "Features are numbers; the first column is a name"),
        ("labels", "node,label\nn0,ant\nn99,bee\n", "got 'n99' in line 3 of labels.csv"),
        ("labels", "node,label\nn0,ant\nn0,bee\n", "got 'n0' again in line 3 of labels.csv"),
        ("labels", "a,b,c\nn0,ant,1\n", "columns node and label in labels.csv, got a, b, c"),
        ("labels", "node,label\nn0,ant\nn1,ant\n", "at least two classes, got 1"),
        ("edges", "source,target\nn0,n99\n", "got 'n99' in line 2 of edges.csv"),
    ],
)
def test_wrong_files_are_one_line(run, files, tmp_path, name, text, message):
    (tmp_path / f"{name}.csv").write_text(text)
    assert message in complains(run, "classify", *files, *SMALL, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--operator", "grund"), "Expected operator to be one of diffusion, near-identity, "),
        (("--operator", "Diffusion"), "got 'Diffusion'. Did you mean 'diffusion'?"),
        (
            ("--operator", "diffusion", "--set", "norm=true"),
            "Expected settings of diffusion among channels, ",
        ),
        (("--operator", "diffusion", "--set", "batchnorm=true"), "batch_norm, got 'batchnorm'. Did you mean 'batch_"),
        (("--operator", "diffusion", "--set", "batch_norm=1"), "batch_norm of diffusion to be true or false, got 1."),
        (("--operator", "diffusion", "--set", "batch_norm"), "Expected --set NAME=VALUE, as in batch_norm=true, got"),
        (("--operator", "hidden-diffusion", "--no-batch-norm"), "hidden_channels, got 'batch_norm'."),
        (("--coefficients", "stabel"), "Did you mean 'stable'?"),
    ],
)
def test_wrong_parts_are_one_line(run, options, message):
    assert message in complains(run, "classify", "cora", *options)


@pytest.mark.slow
def test_weights_of_another_operator_are_one_line(run, files, tmp_path):
    folder = tmp_path / "run"
    assert run("classify", *files, *SMALL, "--operator", "diffusion", "--out", folder, "--quiet")[0] == 0
    config, fitted = RunFolder.open(folder).config, NodeClassifier.load(folder).fitted_

    def predict_with(operator):
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        with RunFolder.create(path, {**config, "settings": {**config["settings"], "operator": operator}}) as other:
            fitted.write(other)
        return complains(run, "predict", path, "--out", tmp_path / "predictions.csv")

    complaint = predict_with({"name": "hidden-diffusion", "settings": {"hidden_channels": 4}})
    named = r"of the operator hidden-diffusion with hidden_channels=4, as config.json of \S+ says, with operator"
    came = r"; got weights.safetensors with operator.norms.0.bias \(8,\), .*, \.\.\. instead. Restore both files"
    assert re.search(f"{named}.difference_map.weight .*{came} from one copy, or train again.$", complaint), complaint
    assert re.search(r"of the operator diffusion, .* with none of them; got .*norms.0.bias", predict_with("diffusion"))
    assert "Did you mean 'diffusion'?" in predict_with("difusion")


@pytest.mark.slow
def test_wrong_options_are_one_line(run, files, tmp_path):
    out = ("--out", tmp_path / "run")
    assert "got both or neither" in complains(run, "classify", *out)
    assert "got both or neither" in complains(run, "classify", "cora", *files, *out)
    assert "got no --labels" in complains(run, "classify", *files[:2], *files[4:], *out)
    assert "coral" in complains(run, "classify", "coral", *out)
    assert "Invalid value for '--dropout'" in complains(run, "classify", *files, "--dropout", "1", *out)


@pytest.fixture
def shown(monkeypatch):
    """What `tdegnn classify` shows: stage, finished steps, all steps, text."""
    shown = []

    @contextmanager
    def watched(*, is_quiet):
        yield lambda stage, done, total, text="": shown.append((stage, done, total, text or stage))

    monkeypatch.setattr(sys.modules["tdegnn.cli.classify"], "progress_stages", watched)
    return shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "tried"),
    [
        (("--steps", "7", "--device", "cpu"), ["diffusion", "deep", "alone", "linear"]),
        ((*SMALL, "--order", "auto"), [f"order {order}" for order in range(1, 5)]),
    ],
)
def test_each_stage_is_shown_with_its_own_steps(run, shown, files, tmp_path, options, tried):
    assert run("classify", *files, *options, "--out", tmp_path / "run")[0] == 0
    stages = [*dict.fromkeys(stage for stage, *_ in shown)]
    assert stages == ["reading tables", "starting", *(f"trying {name}" for name in tried), "training", "baselines"]
    num_steps = int(options[options.index("--steps") + 1])
    for stage in stages[2:-1]:
        steps = [(done, total) for each, done, total, _ in shown if each == stage]
        # A trial may end early, and the first line comes before the first step.
        assert steps == [(done, num_steps) for done in range(len(steps))]
        assert 3 < len(steps) <= num_steps + 1
    texts = [text for stage, _, _, text in shown if stage.startswith("trying") or stage == "training"]
    assert all(text.startswith(stage) for stage, _, _, text in shown)
    assert any("validation loss" in text for text in texts) == ("auto" not in options)
    assert not any("validation -" in text for text in texts)
    assert any(re.fullmatch(r"training: loss \d\.\d{3}, validation (loss \d\.\d{3}|[\d.]+%)", text) for text in texts)


@pytest.mark.slow
def test_the_folder_and_a_line_come_while_tables_are_read(monkeypatch, run, files, tmp_path):
    folders = []

    def read_slowly(*given):
        folders.append([*(tmp_path / "run").iterdir()])
        time.sleep(0.5)
        return read_node_tables(*given)

    monkeypatch.setattr("tdegnn.cli.output.FIRST_LINE", 0.05)
    monkeypatch.setattr("tdegnn.data.tables.nodes.read_node_tables", read_slowly)
    code, _, complaint = run("classify", *files, *SMALL, "--out", tmp_path / "run")
    assert (code, folders) == (0, [[]])
    assert re.match(r"reading tables \(\d+ s\)\n", complaint)
    code, _, complaint = run("classify", *files, *SMALL, "--out", tmp_path / "other", "--quiet")
    assert (code, complaint) == (0, "")


@pytest.mark.slow
def test_a_network_is_chosen_if_no_option_describes_one(run, files, tmp_path):
    folder = tmp_path / "run"
    code, printed, complaint = run("classify", *files, "--steps", "3", "--device", "cpu", "--out", folder)
    assert (code, complaint) == (0, "")
    assert "Note: The network 'd" in printed
    assert "might still improve: its best step was 3. Pass --steps for more steps." in printed
    assert run("predict", folder, "--out", tmp_path / "predictions.csv")[0] == 0
    facts = run("classify", *files, *SMALL, "--out", tmp_path / "given", "--json", "--no-baselines")[1]
    assert json.loads(facts)["baselines"] == {}
