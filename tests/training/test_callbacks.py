"""Callbacks hear of a fit from its start to its end, and write what TensorBoard and MLflow read."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tdegnn import (
    Callback,
    Forecaster,
    Graph,
    InputError,
    MLflowCallback,
    NodeClassifier,
    Panel,
    Part,
    TensorBoardCallback,
)
from tdegnn.cli import main

QUICK = {"num_steps": 9, "network": None}
NODES = 30


class Diary(Callback):
    """Keeps what it is told."""

    def __init__(self):
        self.settings, self.looks, self.outcomes = [], [], []

    def on_start(self, settings):
        self.settings.append(settings)

    def on_look(self, look):
        self.looks.append(look)

    def on_end(self, outcome):
        self.outcomes.append(outcome)


class Broken(Callback):
    def on_look(self, look):
        raise OSError("the disk is full")


def make_nodes():
    generator = np.random.default_rng(0)
    graph = Graph(np.stack([np.arange(NODES - 1), np.arange(1, NODES)]), direction="both")
    return {"X": generator.standard_normal((NODES, 4)), "y": np.arange(NODES) % 3, "graph": graph}


def make_panel():
    values = 100 + np.cumsum(np.random.default_rng(1).standard_normal((150, 4)), axis=0)
    return Panel.from_array(values).with_graph(Graph([[0, 1, 2], [1, 2, 3]], 4))


def fit_classifier(*callbacks, **settings):
    return NodeClassifier(**QUICK, **settings).fit(**make_nodes(), test=range(20, 30), callbacks=callbacks)


def fit_forecaster(*callbacks, **settings):
    model = Forecaster(horizon=3, window=6, num_members=2, validate_every=3, **QUICK, **settings)
    return model.fit(make_panel(), callbacks=callbacks)


@pytest.mark.slow
@pytest.mark.parametrize("fit", [fit_classifier, fit_forecaster])
def test_a_callback_hears_of_settings_validations_and_the_result(fit):
    diary = Diary()
    model = fit(diary, order=3)
    (settings,), (outcome,) = diary.settings, diary.outcomes
    assert settings["estimator"] == type(model).__name__
    assert settings["num_steps"] == 9
    assert settings["order"] == 3
    assert [look.step for look in diary.looks] == [3, 6, 9]
    assert [look.to_record() for look in diary.looks] == model.history_
    assert outcome.summary == model.summary_
    assert outcome.notes == model.notes_
    assert outcome.verdict == model.explain().verdict
    np.testing.assert_array_equal(outcome.coefficients, model.coefficients_)


def test_scores_are_the_numbers_of_the_summary():
    diary = Diary()
    summary = fit_classifier(diary).summary_
    scores = diary.outcomes[0].scores
    assert scores["test_score"] == summary["test_score"]
    assert scores["baselines/kernel ridge/test"] == summary["baselines"]["kernel ridge"]["test"]
    assert "is_diverged" not in scores


def test_networks_that_are_tried_are_not_reported():
    diary, looks = Diary(), []
    model = NodeClassifier(num_steps=9).fit(**make_nodes(), callbacks=[diary], on_look=looks.append)
    assert len(diary.looks) == len(model.history_) < len(looks)


def test_all_callbacks_hear_of_an_error_and_a_failed_fit_changes_nothing():
    before, after = Diary(), Diary()
    model = fit_classifier()
    fitted = model.fitted_
    with pytest.raises(OSError, match="the disk is full"):
        model.fit(**make_nodes(), callbacks=[before, Broken(), after])
    assert before.outcomes == after.outcomes == [None]
    assert model.fitted_ is fitted


def test_what_is_no_callback_is_refused(as_a_user):
    with pytest.raises(InputError, match=r"derived from tdegnn\.Callback, got <built-in function print>"):
        fit_classifier(print)


def read_events(folder):
    """Scalars by name, as pairs of step and value, and texts by name, read by TensorBoard itself."""
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = loading.EventAccumulator(str(folder), size_guidance={loading.TENSORS: 0, loading.SCALARS: 0})
    events.Reload()
    scalars = {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    texts = {tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in events.Tags()["tensors"]}
    return scalars, texts, events.SummaryMetadata


@pytest.mark.slow
def test_tensorboard_reads_what_was_logged(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    model = fit_forecaster(TensorBoardCallback(tmp_path / "log"))
    scalars, texts, _ = read_events(tmp_path / "log")
    for member in range(2):
        expected = [(line["step"], pytest.approx(line["score"][member])) for line in model.history_]
        assert scalars[f"validation/score/{member + 1}"] == expected
    learned = [(layer, pytest.approx(value)) for layer, value in enumerate(model.coefficients_[:, 0], start=1)]
    assert scalars["coefficients/c1"] == learned
    ((_, mae),) = scalars["scores/held_out/forecaster/mae"]
    assert mae == pytest.approx(model.summary_["held_out"]["forecaster"]["mae"])
    assert '"num_steps": 9' in texts["settings/text_summary"]
    assert texts["verdict/text_summary"] == model.explain().verdict


@pytest.mark.slow
def test_tensorboard_shows_settings_beside_scores(tmp_path):
    plugin = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2", reason="tensorboard is not installed")
    fit_classifier(TensorBoardCallback(tmp_path), order=3)
    _, _, metadata = read_events(tmp_path)
    content = metadata("_hparams_/session_start_info").plugin_data.content
    started = plugin.HParamsPluginData.FromString(content).session_start_info
    assert started.hparams["order"].number_value == 3
    assert started.hparams["estimator"].string_value == "NodeClassifier"


def test_a_failed_fit_leaves_a_log_that_can_be_read(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    with pytest.raises(OSError, match="the disk is full"):
        fit_classifier(TensorBoardCallback(tmp_path), Broken())
    scalars, texts, _ = read_events(tmp_path)
    assert [step for step, _ in scalars["validation/score"]] == [3]
    assert "settings/text_summary" in texts


class RecordingClient:
    """Stands in for MLflow's client, where it is not installed, and keeps what is logged."""

    def __init__(self, uri):
        self.uri, self.metrics, self.parameters, self.tags, self.status = uri, {}, {}, {}, None

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        return name

    def create_run(self, experiment, run_name):
        return SimpleNamespace(info=SimpleNamespace(run_id=f"{experiment}/{run_name}"))

    def log_batch(self, run_id, metrics=(), params=(), tags=()):
        for name, value, _, step in metrics:
            self.metrics.setdefault(name, []).append((step, value))
        self.parameters.update(params)
        self.tags.update(tags)

    def set_terminated(self, run_id, status):
        self.status = status


@pytest.fixture
def recorded(monkeypatch):
    """The client that the next `MLflowCallback` makes."""
    clients = []

    def make(uri):
        clients.append(RecordingClient(uri))
        return clients[-1]

    entities = ModuleType("mlflow.entities")
    entities.Metric = lambda name, value, time, step: (name, value, time, step)
    entities.Param = entities.RunTag = lambda name, value: (name, value)
    module = ModuleType("mlflow")
    module.MlflowClient, module.entities = make, entities
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return clients


def test_mlflow_is_told_settings_scores_and_coefficients(recorded):
    model = fit_classifier(
        MLflowCallback("sqlite:///runs.db", run_name="first"), operator=Part("near-identity", batch_norm=False)
    )
    (client,) = recorded
    assert client.uri == "sqlite:///runs.db"
    assert client.parameters["num_steps"] == "9"
    assert client.parameters["operator/settings/batch_norm"] == "False"
    assert client.metrics["validation/score"] == [(line["step"], line["score"]) for line in model.history_]
    assert client.metrics["test_score"] == [(0, model.summary_["test_score"])]
    assert client.metrics["coefficients/c2"] == [*enumerate(model.coefficients_[:, 1], start=1)]
    assert client.tags["verdict"] == model.explain().verdict
    assert client.status == "FINISHED"


def test_a_server_that_is_gone_is_named(recorded, monkeypatch):
    def fail(*_, **__):
        raise ConnectionError("nobody answers\nand more")

    monkeypatch.setattr(RecordingClient, "create_run", fail)
    with pytest.raises(InputError, match=r"MLflow keeps runs, got http://localhost: nobody answers$"):
        fit_classifier(MLflowCallback("http://localhost"))


def test_a_failed_fit_is_a_failed_run_of_mlflow(recorded):
    with pytest.raises(OSError, match="the disk is full"):
        fit_classifier(MLflowCallback(), Broken())
    assert recorded[0].status == "FAILED"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_what_was_logged(tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    uri = f"sqlite:///{tmp_path / 'runs.db'}"
    callback = MLflowCallback(uri, run_name="first")
    model = fit_forecaster(callback)
    client = mlflow.MlflowClient(uri)
    run = client.get_run(callback.run_id)
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert run.data.params["horizon"] == "3"
    assert run.data.metrics["held_out/forecaster/mae"] == model.summary_["held_out"]["forecaster"]["mae"]
    looks = client.get_metric_history(callback.run_id, "validation/score/2")
    assert [(each.step, each.value) for each in looks] == [(line["step"], line["score"][1]) for line in model.history_]
    # A resumed fit continues its run.
    fit_forecaster(MLflowCallback(uri, run_id=callback.run_id))
    assert len(client.get_metric_history(callback.run_id, "validation/score/2")) == 2 * len(looks)
    assert client.get_run(callback.run_id).info.status == "FINISHED"
    with pytest.raises(InputError, match="Expected a place where MLflow keeps runs, got nonsense://"):
        MLflowCallback("nonsense://")


@pytest.mark.parametrize(
    ("make", "package", "extra"),
    [
        (lambda: TensorBoardCallback("log"), "torch.utils.tensorboard", "tensorboard"),
        (MLflowCallback, "mlflow", "mlflow"),
    ],
)
def test_a_missing_package_is_named(make, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    said = rf"Expected the package {extra}, got none. Run: pip install 'tdegnn\[{extra}\]'."
    with pytest.raises(InputError, match=said):
        make()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Expected a folder for the log of TensorBoard, got .*file"):
        fit_classifier(TensorBoardCallback(tmp_path / "file"))


@pytest.fixture
def tables(tmp_path):
    """Options for three small tables of nodes."""
    rows = {
        "features": ["node,a,b", *(f"n{node},{node % 7},{node % 3}" for node in range(NODES))],
        "labels": ["node,label", *(f"n{node},{'even' if node % 2 else 'odd'}" for node in range(NODES))],
        "edges": ["source,target", *(f"n{node},n{(node + 2) % NODES}" for node in range(NODES))],
    }
    for name, lines in rows.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return [word for name in rows for word in (f"--{name}", str(tmp_path / f"{name}.csv"))]


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return ended.value.code


@pytest.mark.slow
def test_commands_log_where_they_are_told(tables, tmp_path, recorded):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    places = ["--log-to", f"tensorboard:{tmp_path / 'log'}", "--log-to", "mlflow:http://localhost:5000"]
    small = ["--steps", "6", "--network", "diffusion", "--quiet", "--out", tmp_path / "run"]
    assert run("classify", *tables, *small, *places) == 0
    scalars, _, _ = read_events(tmp_path / "log")
    assert len(scalars["validation/score"]) == 2
    assert recorded[0].uri == "http://localhost:5000"
    assert recorded[0].status == "FINISHED"


@pytest.mark.parametrize("place", ["tensorbord:log", "tensorboard:", "log"])
def test_an_unknown_place_is_refused(place, tables, capsys):
    assert run("classify", *tables, "--log-to", place) == 2
    assert "Expected tensorboard:FOLDER, mlflow:URI or mlflow" in " ".join(
        capsys.readouterr().err.replace("│", "").split()
    )
