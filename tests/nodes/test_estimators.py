import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.base import clone, is_classifier, is_regressor
from torch_geometric.data import Data

from tdegnn import Graph, InputError, NodeClassifier, NodeRegressor, TrainingError
from tdegnn.data.nodes import NodeDataset
from tdegnn.runs.run_folder import RunFolder
from tdegnn.training.devices import single_thread
from tests.node_datasets import make_dataset

NODES = 60
NAMES = np.array(["ant", "bee", "cat"])
SMALL = dict(
    hidden_channels=8, num_layers=2, order=2, outer_dropout=0.1, hidden_dropout=0.1, num_steps=24,
    embedding_learning_rate=0.05, device="cpu",
)  # fmt: skip


def make_nodes(seed=0):
    """Nodes whose class can be seen in features and neighbors."""
    draw = np.random.default_rng(seed)
    codes = np.arange(NODES) % 3
    features = (np.eye(3)[codes] + 0.1 * draw.random((NODES, 3))).astype(np.float32)
    edges = draw.integers(0, NODES, (2, 200))
    return features, NAMES[codes], edges[:, codes[edges[0]] == codes[edges[1]]]


FEATURES, LABELS, EDGES = make_nodes()


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


@pytest.fixture(scope="module")
def fitted():
    return NodeClassifier(**SMALL).fit(FEATURES, LABELS, graph=EDGES)


def test_classes_by_name_are_learned(fitted):
    assert fitted.classes_.tolist() == NAMES.tolist()
    assert fitted.score(FEATURES, LABELS, graph=EDGES) > 0.9
    assert fitted.predict()[:3].tolist() == NAMES.tolist()
    np.testing.assert_allclose(fitted.predict_proba().sum(axis=1), 1)
    assert fitted.summary_["validation_score"] > 0.9
    assert fitted.summary_["test_score"] is None
    assert [line["step"] for line in fitted.history_] == list(range(3, 25, 3))


@pytest.mark.slow
def test_every_form_of_input_gives_the_same(fitted):
    adjacency = scipy.sparse.coo_array((np.ones(EDGES.shape[1], bool), EDGES), shape=(NODES, NODES)).tocsr()
    for features, graph in [
        (FEATURES, Graph(EDGES, NODES)),
        (FEATURES, adjacency),
        (FEATURES, adjacency.toarray()),
        (torch.tensor(FEATURES), torch.tensor(EDGES)),
        (Data(x=torch.tensor(FEATURES), edge_index=torch.tensor(EDGES)), None),
    ]:
        again = NodeClassifier(**SMALL).fit(features, LABELS, graph=graph)
        np.testing.assert_array_equal(again.predict_proba(), fitted.predict_proba())
    sparse = NodeClassifier(**SMALL | dict(outer_dropout=0.0)).fit(
        scipy.sparse.csr_array(FEATURES), LABELS, graph=EDGES
    )
    assert sparse.score(FEATURES, LABELS, graph=EDGES) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("unknown", [None, float("nan"), -1])
def test_nodes_without_a_label_are_predicted(unknown):
    codes = [unknown if node % 4 == 0 else node % 3 for node in range(NODES)]
    model = NodeClassifier(**SMALL).fit(FEATURES, codes, graph=EDGES)
    assert model.classes_.tolist() == [0, 1, 2]
    assert (model.predict() == np.arange(NODES) % 3).mean() > 0.9


@pytest.mark.slow
def test_splits_of_a_dataset_are_used():
    parts = np.stack([np.arange(NODES) % 4, np.arange(NODES)[::-1] % 4])
    masks = (parts <= 1, parts == 2, parts == 3)
    dataset = NodeDataset("made up", FEATURES, Graph(EDGES, NODES), np.arange(NODES) % 3, *masks)
    model = NodeClassifier(**SMALL).fit(dataset, split=1)
    assert model.summary_["test_score"] == pytest.approx(model.score(dataset, nodes=masks[2][1]))
    assert model.summary_["validation_score"] == pytest.approx(model.score(dataset, nodes=masks[1][1]))
    pyg = NodeClassifier(**SMALL).fit(dataset.to_pyg(), split=1)
    assert pyg.summary_ == model.summary_
    with pytest.raises(InputError, match="split to be from 0 to 1, got 2"):
        model.fit(dataset, split=2)


def test_a_fifth_of_each_class_is_held_out_and_a_class_of_one_is_trained_on(tmp_path):
    labels = ["rare", *LABELS[1:]]
    NodeClassifier(**SMALL).fit(FEATURES, labels, graph=EDGES)
    prepared = NodeClassifier(**SMALL)._prepare(FEATURES, labels, EDGES, 0, (None, None, None))
    training, held, test = prepared.question.subsets
    assert training[0]
    assert (training.sum(), held.sum(), test.sum()) == (48, 12, 0)
    assert np.unique(LABELS[held], return_counts=True)[1].tolist() == [4, 4, 4]


def test_given_subsets_are_taken():
    model = NodeClassifier(**SMALL)
    mask = np.arange(NODES) < 30
    prepared = model._prepare(FEATURES, LABELS, EDGES, 0, (mask, [40, 41], [50]))
    assert [mask.sum() for mask in prepared.question.subsets] == [30, 2, 1]
    without = model._prepare(FEATURES, LABELS, EDGES, 0, (None, [40, 41], [50]))
    assert [mask.sum() for mask in without.question.subsets] == [57, 2, 1]


@pytest.mark.slow
def test_weights_of_classes_help_the_rare():
    codes = np.array([0] * 50 + [1] * 10)
    features = np.random.default_rng(0).random((NODES, 2)).astype(np.float32)
    shares = {}
    for weight in (None, "balanced", {1: 50.0}):
        # One look, at the end: features of chance have no best step.
        model = NodeClassifier(**SMALL, class_weight=weight, validate_every=24)
        model.fit(features, codes, graph=np.zeros((2, 0), dtype=int))
        shares[str(weight)] = model.predict_proba()[:, 1].mean()
    assert shares["None"] < shares["balanced"] < shares["{1: 50.0}"]


def test_a_saved_classifier_predicts_the_same(tmp_path, fitted):
    fitted.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(
        loaded.predict_proba(FEATURES, graph=EDGES), fitted.predict_proba(FEATURES, graph=EDGES)
    )
    assert loaded.predict(FEATURES, graph=EDGES).tolist() == fitted.predict().tolist()
    assert str(loaded.explain()) == str(fitted.explain())
    assert (loaded.summary_, loaded.history_) == (fitted.summary_, fitted.history_)
    with pytest.raises(InputError, match="A loaded estimator has no data"):
        loaded.predict()
    with pytest.raises(InputError, match="run folder of a NodeRegressor, got .* of a NodeClassifier"):
        NodeRegressor.load(tmp_path / "model")


def test_weights_of_classes_survive_saving(tmp_path):
    model = NodeClassifier(**SMALL | dict(num_steps=1), class_weight={2: 3.0}).fit(
        FEATURES, np.arange(NODES) % 3, graph=EDGES, run=tmp_path
    )
    loaded = NodeClassifier.load(tmp_path)
    assert loaded.class_weight == model.class_weight == {2: 3.0}
    assert loaded.classes_.tolist() == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("system", ["DE-GNN", "TDE-GNN_D", "TDE-GNN_A"])
def test_every_system_goes_on_where_it_was_stopped(tmp_path, system):
    settings = SMALL | dict(system=system)

    def stop(look):
        if look.step == 9:
            raise KeyboardInterrupt

    whole = NodeClassifier(**settings).fit(FEATURES, LABELS, graph=EDGES)
    with pytest.raises(KeyboardInterrupt):
        NodeClassifier(**settings).fit(FEATURES, LABELS, graph=EDGES, run=tmp_path, on_look=stop)
    with pytest.raises(InputError, match="a finished training, got an unfinished one"):
        NodeClassifier.load(tmp_path)
    resumed = NodeClassifier(**settings).fit(FEATURES, LABELS, graph=EDGES, run=tmp_path, resume=True)
    finished = NodeClassifier(**settings).fit(FEATURES, LABELS, graph=EDGES, run=tmp_path, resume=True)
    for model in (resumed, finished, NodeClassifier.load(tmp_path)):
        np.testing.assert_array_equal(model.predict_proba(FEATURES, graph=EDGES), whole.predict_proba())
        assert model.history_ == whole.history_
        np.testing.assert_array_equal(model.coefficients_, whole.coefficients_)
    assert RunFolder.open(tmp_path).read_coefficients()["coefficients"].shape == whole.coefficients_.shape
    with pytest.raises(InputError, match="got settings.num_steps = 25 instead of 24"):
        NodeClassifier(**settings | dict(num_steps=25)).fit(FEATURES, LABELS, graph=EDGES, run=tmp_path, resume=True)
    with pytest.raises(InputError, match="got data.sha256"):
        NodeClassifier(**settings).fit(2 * FEATURES, LABELS, graph=EDGES, run=tmp_path, resume=True)


@pytest.mark.slow
def test_other_nodes_are_predicted(fitted):
    features, labels, edges = make_nodes(1)
    assert fitted.score(features[:30], labels[:30], graph=edges[:, (edges < 30).all(axis=0)]) > 0.9
    with pytest.raises(InputError, match="Expected the 3 features of the training, got 2"):
        fitted.predict(features[:, :2], graph=edges)
    fixed = NodeClassifier(**SMALL, adjacency_features=True).fit(FEATURES, LABELS, graph=EDGES)
    assert fixed.score(FEATURES, LABELS, graph=EDGES) > 0.9
    with pytest.raises(InputError, match="Expected the 60 nodes of the training, whose adjacency"):
        fixed.predict(features[:30], graph=np.zeros((2, 0), dtype=int))


@pytest.mark.slow
@pytest.mark.parametrize("num_targets", [None, 2])
def test_numbers_are_learned_in_any_unit(tmp_path, num_targets):
    targets = 1000 + 500 * FEATURES[:, 0].astype(float)
    targets[5] = np.nan
    if num_targets:
        targets = np.stack([targets, 1e-3 * FEATURES[:, 1]], axis=1)
    model = NodeRegressor(**SMALL | dict(outer_dropout=0.0, hidden_dropout=0.0, num_steps=60))
    model.fit(FEATURES, targets, graph=EDGES, run=tmp_path)
    assert model.score(FEATURES, targets, graph=EDGES) > 0.8
    assert model.predict().shape == targets.shape
    assert max(line["score"] for line in model.history_) == model.summary_["validation_score"] < 0
    loaded = NodeRegressor.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(FEATURES, graph=EDGES), model.predict(FEATURES, graph=EDGES))


def test_the_report_is_about_the_mean_over_layers(fitted):
    report = fitted.explain()
    np.testing.assert_allclose(report.coefficients, fitted.coefficients_.mean(axis=0))
    assert "latent" in NodeClassifier.explain.__doc__


def test_it_is_a_scikit_learn_estimator(fitted):
    copy = clone(fitted).set_params(order=1)
    assert (copy.order, fitted.order, copy.is_fitted) == (1, 2, False)
    assert "hidden_channels=8" in repr(fitted)
    assert is_classifier(fitted)
    assert is_regressor(NodeRegressor())
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        copy.set_params(colour=1)


def test_patience_ends_the_training():
    model = NodeClassifier(**SMALL | dict(num_steps=500), patience=6).fit(FEATURES, LABELS, graph=EDGES)
    assert model.history_[-1]["step"] < 200


@pytest.mark.parametrize("call", ["predict", "predict_proba", "explain", "score"])
def test_before_fit_there_is_nothing(call):
    with pytest.raises(InputError, match="NodeClassifier that has been trained, got one that has not. Call fit"):
        getattr(NodeClassifier(), call)()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(y=None), "Expected labels, got data without any. Pass y="),
        (dict(y=LABELS[:5]), "labels for each of 60 nodes, got shape"),
        (dict(y=["one"] * NODES), "at least two classes, got 1"),
        (dict(y=np.linspace(0, 1, NODES)), "numbers with a fraction. Use NodeRegressor"),
        (dict(y=[[node] for node in range(NODES)]), "labels that can be compared"),
        (dict(graph=None), "Expected a graph with the features"),
        (dict(graph=[[1, 2], [0], [0]]), "a networkx graph or an edge_index, got a list of unlike rows"),
        (dict(graph=np.eye(5)), "graph of 60 nodes, one per row of the features, got 5"),
        (dict(X=FEATURES[0]), "features of shape .nodes, features."),
        (dict(X="cora"), "a NodeDataset, PyG data or a matrix of numbers, got str"),
        (dict(X=np.full((NODES, 1), "red")), "a matrix of numbers, got an array that holds text. Encode it."),
        (dict(X=FEATURES * np.nan), "finite features, got NaN for node 0, feature 0. Fill in what is missing."),
        (dict(train=[0, 1], validation=[1]), "at most one of train, validation and test, got node 1 in two"),
        (dict(train=[60]), "train to be a mask of 60 nodes or their numbers from 0 to 59, got 60."),
        (dict(test=range(NODES)), "enough nodes with a label, besides test nodes, to hold a fifth of them out"),
        (dict(validation=[]), "validation to be a mask"),
        (dict(validation=np.zeros(NODES, dtype=bool)), "at least one validation node, got none"),
        (dict(y=[None, *LABELS[1:]], train=[0, 1, 2, 3], validation=[4]), "each training node, got none for node 0"),
        (dict(settings=dict(system="GCN")), "system to be one of DE-GNN, TDE-GNN_D, TDE-GNN_A, TDE-GNN_S, got 'GCN'"),
        (dict(settings=dict(coefficients="keen")), "coefficients to be one of euler, leapfrog, direct, .*, got 'keen'"),
        (dict(settings=dict(coefficients="direct", system="DE-GNN")), "system or coefficients, got both: 'DE-GNN'"),
        (dict(settings=dict(operator="eye")), "operator to be one of diffusion, near-identity, .*, got 'eye'"),
        (dict(settings=dict(initial_states="all")), "initial_states to be one of mapped, newest-unmapped, .*'all'"),
        (dict(settings=dict(class_weight="even")), "class_weight to be 'balanced' or a mapping, got 'even'"),
        (dict(settings=dict(class_weight={"dog": 1})), "weights of classes such as .*'ant'.*, got one of 'dog'"),
        (dict(settings=dict(class_weight={"ant": -1})), "class weights that are not negative"),
        (dict(settings=dict(outer_dropout=1.0)), "outer_dropout to be at least 0 and below 1"),
        (dict(settings=dict(device="tpu")), "Expected device to be"),
        (dict(settings=dict(precision="16")), "Expected precision to be one of 32-true, 64-true, bf16-mixed, got '16'"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(as_a_user, changes, message):
    given = dict(X=FEATURES, y=LABELS, graph=EDGES) | changes
    model = NodeClassifier(**SMALL | given.pop("settings", {}))
    with pytest.raises(InputError, match=message):
        model.fit(given.pop("X"), given.pop("y"), **given)


def test_numbers_are_expected_by_the_regressor(as_a_user):
    for targets, message in [
        (LABELS, "numbers as targets"),
        (FEATURES[:5], "row of targets"),
        ([np.inf] * NODES, "fin"),
    ]:
        with pytest.raises(InputError, match=message):
            NodeRegressor(**SMALL).fit(FEATURES, targets, graph=EDGES)


def test_a_network_that_never_gives_numbers_is_an_error():
    model = NodeClassifier(**SMALL | dict(embedding_learning_rate=1e30, num_steps=3))
    with pytest.raises(TrainingError, match="Lower the learning rates or the step size"):
        model.fit(FEATURES, LABELS, graph=EDGES)


@pytest.mark.slow
def test_classes_of_any_kind_work_but_cannot_be_written(tmp_path):
    labels = [("a", 1) if node % 3 else "b" for node in range(NODES)]
    model = NodeClassifier(**SMALL).fit(FEATURES, labels, graph=EDGES)
    assert set(model.classes_) == {("a", 1), "b"}
    assert model.score(FEATURES, labels, graph=EDGES) > 0.9
    with pytest.raises(InputError, match="text or numbers to write them"):
        model.save(tmp_path / "model")


@pytest.mark.parametrize("settings", [dict(outer_dropout=1.5), dict(device="tpu"), dict(seed=-1), dict(num_layers=0)])
def test_mistakes_in_settings_leave_no_folder(as_a_user, tmp_path, settings):
    with pytest.raises(InputError):
        NodeClassifier(**dict(num_steps=2) | settings).fit(make_dataset(), run=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_taken_is_noticed_before_orders_are_tried(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    looks = []
    with pytest.raises(InputError, match="Expected an empty folder for the run"):
        NodeClassifier(order="auto", num_steps=2).fit(make_dataset(), run=tmp_path, on_look=looks.append)
    assert not looks


def test_numbers_that_were_not_learned_are_not_scored():
    dataset = make_dataset()
    target = np.asarray(dataset.features.sum(axis=1)).ravel()
    model = NodeRegressor(num_steps=2).fit(dataset.features, target, graph=dataset.graph)
    with pytest.raises(InputError, match="Expected 1 numbers per node, as learned, got 2."):
        model.score(None, np.stack([target, target], axis=1))


def named_nodes(num_nodes=40, seed=0):
    """Features, labels and edges of nodes with names; labels follow the first feature and the neighbors."""
    random = np.random.default_rng(seed)
    names = [f"user {number:02d}" for number in random.permutation(num_nodes)]
    features = pd.DataFrame(random.standard_normal((num_nodes, 3)), index=names, columns=["a", "b", "c"])
    ends = random.integers(0, num_nodes, (60, 2))
    edges = pd.DataFrame({"source": [names[one] for one, _ in ends], "target": [names[two] for _, two in ends]})
    return features, (features["a"] > 0).map({True: "high", False: "low"}), edges[edges["source"] != edges["target"]]


@pytest.mark.slow
def test_graphs_and_labels_with_names_are_matched_by_them():
    features, labels, edges = named_nodes()
    places = {name: place for place, name in enumerate(features.index)}
    by_number = np.array([[places[name] for name in edges[end]] for end in ("source", "target")])
    expected = NodeClassifier(**SMALL).fit(features, labels, graph=by_number).predict_proba()
    network = networkx.from_pandas_edgelist(edges)
    network.add_nodes_from(reversed(features.index))
    for graph, given in [(network, labels), (edges, labels), (network, labels.sample(frac=1, random_state=1))]:
        model = NodeClassifier(**SMALL).fit(features, given, graph=graph)
        np.testing.assert_allclose(model.predict_proba(), expected, atol=1e-6)
    assert model.score(features, labels.iloc[::-1], graph=edges) == model.score(features, labels, graph=edges)


@pytest.mark.slow
def test_numbers_of_nodes_in_a_networkx_graph_are_rows():
    network = networkx.Graph([(3, 1), (1, 0), (0, 2)])
    reordered = networkx.Graph()
    reordered.add_nodes_from(range(4))
    reordered.add_edges_from(network.edges)
    features, labels = np.eye(4, dtype=np.float32), [0, 1, 0, 1]
    parts = dict(train=[0, 1], validation=[2, 3])
    first, second = (
        NodeClassifier(**SMALL).fit(features, labels, graph=graph, **parts).predict_proba()
        for graph in (network, reordered)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(y=pd.Series({"nobody": "high"})), "one of 'nobody', which has no features. Correct the index"),
        (dict(graph=networkx.path_graph(["user 00", "nobody"])), "Expected known nodes .such as 'user"),
        (dict(X=lambda features: features.assign(d="text")), "a column 'd' that has none. Drop it or encode it"),
    ],
)
def test_names_that_do_not_fit_are_explained(as_a_user, change, message):
    features, labels, edges = named_nodes()
    given = dict(X=features, y=labels, graph=edges) | change
    if callable(given["X"]):
        given["X"] = given["X"](features)
    with pytest.raises(InputError, match=message):
        NodeClassifier(**SMALL).fit(**given)


@pytest.mark.slow
def test_features_are_matched_by_name(tmp_path):
    features, labels, edges = named_nodes()
    fitted = NodeClassifier(**SMALL).fit(features, labels, graph=edges, run=tmp_path / "run")
    for model in (fitted, NodeClassifier.load(tmp_path / "run")):
        turned = model.predict_proba(features[["c", "a", "b"]], graph=edges)
        np.testing.assert_allclose(turned, fitted.predict_proba(), atol=1e-6)
        for wrong in (features.rename(columns={"a": "z"}), features.assign(d=1.0)):
            with pytest.raises(InputError, match="Expected the 3 features of the training, got"):
                model.predict(wrong, graph=edges)


@pytest.mark.slow
def test_features_of_any_size_are_learned_from(tmp_path):
    features, labels, edges = named_nodes(num_nodes=90)
    large = features.assign(b=3e4 * features["b"] + 1e6, indicator=(features["c"] > 0).astype(float))
    model = NodeClassifier(num_steps=120).fit(large, labels, graph=edges, run=tmp_path / "run")
    assert model.score(large, labels, graph=edges) > 0.85
    assert model.fitted_.scaling.center[3] == 0
    loaded = NodeClassifier.load(tmp_path / "run")
    np.testing.assert_allclose(loaded.predict_proba(large, graph=edges), model.predict_proba(), atol=1e-5)
    raw = NodeClassifier(num_steps=120, standardized_features=False).fit(large, labels, graph=edges)
    assert raw.score(large, labels, graph=edges) < 0.75


@pytest.mark.slow
def test_sparse_and_normalized_features_are_left_alone():
    dataset = make_dataset()
    for settings in (dict(), dict(normalized_features=True)):
        assert NodeClassifier(**SMALL | settings).fit(dataset).fitted_.scaling is None
    mostly_zero = np.eye(40, dtype=np.float32)
    assert NodeClassifier(**SMALL).fit(mostly_zero, dataset.labels, graph=dataset.graph).fitted_.scaling is None


def test_features_far_from_those_of_the_training_are_refused():
    rng = np.random.default_rng(0)
    features, graph = rng.standard_normal((12, 3)), Graph(np.stack([np.arange(11), np.arange(1, 12)]))
    model = NodeClassifier(num_steps=3, validate_every=1).fit(features, np.arange(12) % 2, graph=graph)
    features[3, 1] = 1e39
    with pytest.raises(InputError, match=r"within 1e\+18 standard deviations .* for node 3, feature 1"):
        model.predict_proba(features, graph=graph)


@pytest.mark.slow
def test_the_picture_shows_which_classes_are_taken_for_which(fitted):
    labels = LABELS.copy().astype(object)
    labels[0], labels[1], labels[2] = "bee", None, "cat"  # ant, bee and cat
    confusion, reliability = fitted.plot(FEATURES, labels, graph=EDGES).axes
    predicted = fitted.predict()
    assert fitted.score(FEATURES, LABELS, graph=EDGES) == 1
    counts = [[int(text.get_text()) for text in confusion.texts[3 * row : 3 * row + 3]] for row in range(3)]
    assert counts == [[19, 0, 0], [1, 19, 0], [0, 0, 20]]
    assert [text.get_text() for text in confusion.get_yticklabels()] == NAMES.tolist()
    assert confusion.get_title(loc="left") == "98.3% of 59 nodes are right"
    sure = fitted.predict_proba().max(axis=1)
    is_right = predicted == labels
    is_surest = np.delete(sure >= 0.9, 1)
    last = reliability.get_lines()[1].get_xydata()[-1]
    expected = np.delete(sure, 1)[is_surest].mean(), np.delete(is_right, 1)[is_surest].mean()
    np.testing.assert_allclose(last, expected)
    some = fitted.plot(FEATURES, LABELS, graph=EDGES, nodes=range(6)).axes[0]
    assert some.get_title(loc="left") == "100.0% of 6 nodes are right"
    with pytest.raises(InputError, match="Expected classes of the training, such as 'ant', got 'eel'. Leave it out."):
        fitted.plot(FEATURES, np.where(LABELS == "cat", "eel", LABELS), graph=EDGES)
    with pytest.raises(InputError, match="Expected labels to score against, got none. Pass y=."):
        fitted.plot()
