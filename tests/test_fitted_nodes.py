"""A node estimator keeps what it learned, through a `fit` that fails, other settings and saving; no digits are lost."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn.exceptions
import torch
from sklearn.base import clone
from torch_geometric.data import Data

from tdegnn import (
    DiffusionOperator,
    DirectCoefficients,
    Graph,
    InputError,
    NodeClassifier,
    NodeDataset,
    NodeRegressor,
    NotFittedError,
    SpatialOperator,
    TemporalCoefficients,
    TrainingError,
)
from tdegnn.nets.stationary import MappedStates

NODES = 40
LEARNED = ("network_", "coefficients_", "summary_", "history_", "order_choice_", "order_", "n_features_in_")
SMALL = dict(hidden_channels=8, num_steps=12, device="cpu")


def make_nodes(seed=0):
    """Features, classes and edges; the classes can be seen in the features."""
    draw = np.random.default_rng(seed)
    codes = np.arange(NODES) % 2
    features = codes[:, None] + 0.3 * draw.standard_normal((NODES, 3))
    return features.astype(np.float32), codes, draw.integers(0, NODES, (2, 80))


FEATURES, CODES, EDGES = make_nodes()


def fit(**settings):
    return NodeClassifier(**SMALL | settings).fit(FEATURES, CODES, graph=EDGES)


class Repulsion(SpatialOperator):
    """README's operator: neighbors push each other apart, as strongly as a gate of their own state says."""

    def __init__(self, channels):
        super().__init__()
        self.gate = torch.nn.Linear(channels, channels)

    def forward(self, state, graph, layer, context=None):
        return torch.sigmoid(self.gate(state)) * graph.laplacian(state), context


class Fading(TemporalCoefficients):
    """Weights that halve from state to state, and how much of them counts is learned."""

    anchored = ("share",)

    def __init__(self, order, base=2.0):
        super().__init__(order)
        self.base, self.share = base, torch.nn.Parameter(torch.tensor(0.5))

    def forward(self, history, layer):
        weights = self.base ** -torch.arange(self.order).to(history[0])
        newest = torch.zeros_like(weights).index_fill(0, torch.tensor(0), 1.0)
        return newest + self.share * (weights / weights.sum() - newest)


class Halved(MappedStates):
    """Initial states of half the size."""

    def forward(self, embedded):
        return tuple(state / 2 for state in super().forward(embedded))


# --- a fit that fails


def stop(look):
    raise RuntimeError("stop here")


FAILURES = {
    "a node in two subsets": (InputError, dict(), dict(train=[0, 1, 2], validation=[2, 3])),
    "labels that are missing": (InputError, dict(), dict(y=None)),
    "a wrong setting": (InputError, dict(outer_dropout=1.5), dict()),
    "a training that diverges": (TrainingError, dict(embedding_learning_rate=1e30), dict()),
    "an error of the caller's": (RuntimeError, dict(), dict(on_look=stop)),
    "an error while orders are tried": (RuntimeError, dict(order="auto"), dict(on_look=stop)),
}


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES)
def test_a_fit_that_fails_leaves_the_model_as_it_was(failure):
    error, settings, arguments = FAILURES[failure]
    model = fit()
    fitted, shown = model.fitted_, {name: repr(getattr(model, name)) for name in LEARNED}
    classes, probabilities = model.classes_, model.predict_proba(FEATURES, graph=EDGES)
    others = np.random.default_rng(1).random((30, 5)) * 100
    model.set_params(**settings)
    given = dict(y=np.arange(30) % 3, graph=np.zeros((2, 0), dtype=int)) | arguments
    with pytest.raises(error):
        model.fit(others, **given)
    model.set_params(**NodeClassifier(**SMALL).get_params())
    np.testing.assert_array_equal(model.predict_proba(FEATURES, graph=EDGES), probabilities)
    np.testing.assert_array_equal(model.predict_proba(), probabilities)
    np.testing.assert_array_equal(model.classes_, classes)
    assert model.fitted_ is fitted
    assert {name: repr(getattr(model, name)) for name in LEARNED} == shown


@pytest.mark.slow
def test_a_regressor_that_fails_to_fit_stays_as_it_was_too():
    model = NodeRegressor(**SMALL).fit(FEATURES, 7 * FEATURES[:, 0], graph=EDGES)
    before = model.predict()
    with pytest.raises(RuntimeError, match="stop here"):
        model.fit(10 * FEATURES, np.stack([CODES, CODES], axis=1), graph=EDGES, on_look=stop)
    np.testing.assert_array_equal(model.predict(), before)


@pytest.mark.slow
def test_before_fit_there_are_no_learned_attributes_and_afterwards_none_can_be_set():
    model = NodeClassifier(**SMALL)
    assert not any(hasattr(model, name) for name in (*LEARNED, "classes_", "fitted_"))
    model.fit(FEATURES, CODES, graph=EDGES)
    assert all(hasattr(model, name) for name in (*LEARNED, "classes_"))
    for name in (*LEARNED, "classes_"):
        with pytest.raises(AttributeError):
            setattr(model, name, None)
    with pytest.raises(FrozenInstanceError):
        model.fitted_.summary = {}
    assert not clone(model).is_fitted


def test_settings_that_change_after_fit_change_no_prediction():
    sparse = scipy.sparse.csr_array(np.abs(FEATURES))
    model = NodeClassifier(**SMALL, normalized_features=True).fit(sparse, CODES, graph=EDGES)
    before = model.predict_proba(sparse, graph=EDGES)
    model.set_params(
        normalized_features=False, adjacency_features=True, num_layers=5, precision="64-true", direction="out"
    )
    np.testing.assert_array_equal(model.predict_proba(sparse, graph=EDGES), before)
    np.testing.assert_array_equal(model.predict_proba(), before)


# --- random numbers of the user's own


@pytest.mark.slow
def test_fit_and_load_leave_the_global_generator_alone(tmp_path):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    model = fit()
    numbers = [torch.rand(1)]
    model.save(tmp_path / "run")
    NodeClassifier.load(tmp_path / "run")
    numbers.append(torch.rand(1))
    NodeClassifier.load(tmp_path / "run")
    numbers.append(torch.rand(1))
    torch.testing.assert_close(torch.cat(numbers), expected, atol=0, rtol=0)


# --- digits


@pytest.mark.slow
@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_an_offset_of_the_features_costs_no_accuracy(offset):
    features = FEATURES.astype(float) + offset
    model = NodeClassifier(**SMALL | dict(num_steps=60)).fit(features, CODES, graph=EDGES)
    assert model.score(features, CODES, graph=EDGES) > 0.95


@pytest.mark.parametrize(
    "made_of",
    [
        lambda seconds: pd.DataFrame({"time": seconds}),
        lambda seconds: seconds[:, None],
        lambda seconds: torch.tensor(seconds[:, None]),
        lambda seconds: seconds[:, None].tolist(),
        lambda seconds: seconds[:, None].astype(np.uint32),
    ],
)
def test_a_column_of_unix_time_keeps_all_its_values(made_of):
    seconds = 1_700_000_000 + 50 * np.arange(NODES)
    labels = (np.arange(NODES) // 2) % 2  # of two neighbors in time
    given = made_of(seconds)
    model = NodeClassifier(**SMALL | dict(num_steps=2)).fit(given, labels, graph=np.zeros((2, 0), dtype=int))
    assert len(np.unique(model.predict_proba()[:, 0])) == NODES
    if not isinstance(given, list | pd.DataFrame):
        data = Data(x=torch.as_tensor(seconds)[:, None], edge_index=torch.zeros(2, 0, dtype=torch.long))
        pyg = NodeClassifier(**SMALL | dict(num_steps=2)).fit(data, labels)
        np.testing.assert_array_equal(pyg.predict_proba(), model.predict_proba())


@pytest.mark.slow
def test_64_bits_are_64_bits_from_the_door_on():
    """Features, targets and weights of classes that float32 cannot tell apart make another training."""
    double = dict(SMALL, precision="64-true", standardized_features=False)
    tiny = 1e-12
    features = FEATURES.astype(float)

    def probabilities(features, **settings):
        return NodeClassifier(**double | settings).fit(features, CODES, graph=EDGES).predict_proba()

    assert (probabilities(features) != probabilities(features * (1 + tiny))).any()
    weighted = [probabilities(features, class_weight={0: 1.0, 1: 1.0 + change}) for change in (0.0, tiny)]
    assert (weighted[0] != weighted[1]).any()
    targets = features[:, 0] + np.where(np.arange(NODES) == 3, 0.0, 1e-9 * np.arange(NODES))
    several = [
        NodeRegressor(**double).fit(features, given, graph=EDGES).predict() for given in (features[:, 0], targets)
    ]
    assert 0 < np.abs(several[0] - several[1]).max() < 1e-6


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_dataset_keeps_the_features_it_is_given(dtype, is_sparse):
    features = scipy.sparse.csr_array(FEATURES.astype(dtype)) if is_sparse else FEATURES.astype(dtype)
    masks = [np.zeros((0, NODES), dtype=bool)] * 3
    dataset = NodeDataset("given", features, Graph(EDGES, NODES), CODES.astype(np.int64), *masks)
    assert dataset.features is features
    back = NodeDataset.from_pyg(dataset.to_pyg())
    assert back.features.dtype == dtype
    with pytest.raises(InputError, match="float32 or float64"):
        replace(dataset, features=features.astype(np.int64))


# --- parts


def both(model, other):
    return model.predict_proba(FEATURES, graph=EDGES), other.predict_proba(FEATURES, graph=EDGES)


OWN = {
    "operator": Repulsion,
    "coefficients": Fading,
    "initial_states": Halved,
}


@pytest.mark.slow
@pytest.mark.parametrize("family", OWN)
def test_a_part_of_ones_own_works_from_fit_to_load(tmp_path, family):
    kind = OWN[family]
    model = NodeClassifier(**SMALL, **{family: kind}).fit(FEATURES, CODES, graph=EDGES, run=tmp_path / "run")
    assert isinstance(getattr(model.network_, family), kind)
    assert len(model.explain().coefficients) == 2
    np.testing.assert_array_equal(*both(model, clone(model).fit(FEATURES, CODES, graph=EDGES)))
    model.save(tmp_path / "saved")
    for folder in ("run", "saved"):
        loaded = NodeClassifier.load(tmp_path / folder, **{family: kind})
        np.testing.assert_array_equal(*both(model, loaded))
        assert getattr(loaded, family) is kind
        with pytest.raises(InputError, match=rf"In Python: load\(path, {family}={kind.__name__}\)"):
            NodeClassifier.load(tmp_path / folder)
    assert json.loads((tmp_path / "run/config.json").read_text())["settings"][family] == {"class": kind.__name__}
    resumed = clone(model).fit(FEATURES, CODES, graph=EDGES, run=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(*both(model, resumed))


@pytest.mark.slow
def test_a_part_may_be_a_name_a_class_with_settings_or_an_object(tmp_path):
    from tdegnn.parts import Part

    half = fit(coefficients=Part(Fading, base=3.0))
    assert half.network_.coefficients.base == 3.0
    half.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run", coefficients=Fading)
    assert loaded.network_.coefficients.base == 3.0
    np.testing.assert_array_equal(*both(half, loaded))
    given = Repulsion(8)
    before = given.gate.weight.detach().clone()
    model = fit(operator=given)
    assert torch.equal(given.gate.weight, before)
    assert not torch.equal(model.network_.operator.gate.weight, before)
    named = fit(coefficients="attention", operator=Part("diffusion", batch_norm=True), initial_states="mapped")
    named.save(tmp_path / "named")
    loaded = NodeClassifier.load(tmp_path / "named")
    assert loaded.get_params() == named.get_params()
    np.testing.assert_array_equal(*both(named, loaded))
    with pytest.raises(InputError, match="Expected no operator: the folder has 'diffusion'. Leave it out"):
        NodeClassifier.load(tmp_path / "named", operator=Repulsion)


@pytest.mark.slow
def test_another_class_than_that_of_the_training_is_refused(tmp_path):
    fit(operator=Repulsion).save(tmp_path / "run")
    with pytest.raises(InputError, match="operator to be a Repulsion, as in the training, got diffusion"):
        NodeClassifier.load(tmp_path / "run", operator=DiffusionOperator)


@pytest.mark.slow
def test_a_system_is_a_short_name_for_a_rule():
    rules = {"DE-GNN": "euler", "TDE-GNN_D": "direct", "TDE-GNN_A": "gated-attention", "TDE-GNN_S": "stable"}
    for system, rule in rules.items():
        np.testing.assert_array_equal(*both(fit(system=system), fit(coefficients=rule)))
    np.testing.assert_array_equal(*both(fit(), fit(system="TDE-GNN_D")))
    with pytest.raises(InputError, match="Expected system or coefficients, got both: 'DE-GNN' stands for .*'euler'"):
        fit(system="DE-GNN", coefficients="direct")


@pytest.mark.slow
def test_the_order_is_that_of_the_rule():
    assert fit(coefficients="leapfrog", order=5).order_ == 2
    assert fit(system="DE-GNN").summary_["order"] == 1
    leapfrog = fit(coefficients="leapfrog", order="auto")
    assert (leapfrog.order_, leapfrog.order_choice_.order) == (2, 2)
    for rule in (Fading, "stable-attention"):
        chosen = fit(coefficients=rule, order="auto")
        assert chosen.order_ == chosen.order_choice_.order
        assert set(chosen.order_choice_.details["scores"]) == {"1", "2", "3", "4"}
    fixed = fit(coefficients=DirectCoefficients(3), order="auto")
    assert fixed.order_ == 3


@pytest.mark.slow
def test_what_a_rule_of_ones_own_anchors_decays_to_where_it_starts():
    strong = dict(temporal_learning_rate=0.05, temporal_weight_decay=1e6, num_steps=60, validate_every=60)
    shares = {}
    for kind in (Fading, type("Loose", (Fading,), dict(anchored=()))):
        shares[kind.__name__] = fit(coefficients=kind, **strong).network_.coefficients.share.item()
    assert shares["Fading"] == pytest.approx(0.5, abs=0.05)
    assert shares["Loose"] == pytest.approx(0.0, abs=0.05)


@pytest.mark.slow
def test_settings_of_earlier_versions_are_read():
    """Settings in which attention, maps and batch norm were words and switches."""
    from tdegnn.parts import Part

    for attention, rule in {"plain": "attention", "gated": "gated-attention"}.items():
        model = fit(coefficients=rule, operator=Part("diffusion", batch_norm=True))
        settings = model._settings()
        for name in ("coefficients", "operator"):
            del settings[name]
        settings |= dict(
            system="TDE-GNN_A",
            attention=attention,
            layer_maps="free",
            batch_norm=True,
            initial_states="newest unmapped",
        )
        again = NodeClassifier(**NodeClassifier._settings_of(settings, {}))
        assert again.operator == Part("diffusion", batch_norm=True)
        np.testing.assert_array_equal(*both(model, again.fit(FEATURES, CODES, graph=EDGES)))


@pytest.mark.slow
def test_what_is_handed_out_or_was_given_may_be_changed():
    features, source = FEATURES.copy(), {"file": {"name": "a.csv"}}
    model = NodeClassifier(**SMALL, standardized_features=False).fit(features, CODES, graph=EDGES, source=source)
    probabilities, coefficients = model.predict_proba(), model.coefficients_.copy()
    features[:] = 0.0
    source["file"]["name"] = "b.csv"
    model.history_.clear()
    model.summary_.clear()
    model.coefficients_[:] = 0.0
    np.testing.assert_array_equal(model.predict_proba(), probabilities)
    np.testing.assert_array_equal(model.coefficients_, coefficients)
    assert model.history_
    assert model.summary_["order"] == 2
    assert model.fitted_.config["data"]["file"] == {"name": "a.csv"}


@pytest.mark.slow
def test_copies_and_pickles_of_a_fitted_classifier_predict_the_same():
    model = fit(operator=Repulsion)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(), model.predict_proba())


@pytest.mark.parametrize("name", [*LEARNED, "classes_"])
def test_what_is_not_learned_yet_says_so(name):
    assert not hasattr(NodeClassifier(), name)
    message = "Expected a NodeClassifier that has been trained, got one that has not. Call fit, or load one."
    with pytest.raises(sklearn.exceptions.NotFittedError, match=message) as error:
        getattr(NodeClassifier(), name)
    assert isinstance(error.value, NotFittedError)
    assert isinstance(error.value, InputError)  # what callers of earlier versions catch
    assert str(pickle.loads(pickle.dumps(error.value))) == message  # as it comes back from another process


@pytest.mark.parametrize("order", [2, "auto"])
def test_a_rule_of_one_order_says_so(order, tmp_path):
    model = fit(coefficients="euler", order=order)
    assert model.order_ == model.order_choice_.order == model.summary_["order"] == 1
    model.save(tmp_path / "run")
    assert NodeClassifier.load(tmp_path / "run").order_choice_.order == 1


def test_an_object_is_loaded_from_an_object(tmp_path):
    model = fit(operator=Repulsion(8))
    model.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run", operator=Repulsion(8))
    np.testing.assert_array_equal(loaded.predict_proba(FEATURES, graph=EDGES), model.predict_proba())
    with pytest.raises(InputError, match="Expected operator to be a Repulsion object, as in the training, got Rep"):
        NodeClassifier.load(tmp_path / "run", operator=Repulsion)
