"""Estimators with other parts than the defaults: from `fit` to `load`, and what an operator sees before training."""

import numpy as np
import pytest
import torch

from tdegnn import InputError, NodeClassifier, NodeRegressor, Part, SpatialOperator
from tdegnn.nets.node_parts import InputMap, Readout, StateNorm
from tdegnn.nets.stationary import LinearInput, LinearReadout
from tests.nets.test_node_parts import PriorSkip

NODES = 30
SMALL = dict(hidden_channels=6, num_steps=6, device="cpu")
CODES = np.arange(NODES) % 3
FEATURES = (np.eye(3)[CODES] + 0.1 * np.random.default_rng(0).random((NODES, 3))).astype(np.float32)
EDGES = np.random.default_rng(1).integers(0, NODES, (2, 60))


class Sourced(SpatialOperator):
    """Training nodes of any class are sources; how strong they are was seen before training."""

    def __init__(self, num_nodes):
        super().__init__()
        self.register_buffer("sources", torch.zeros(num_nodes))
        self.register_buffer("is_seen", torch.zeros(num_nodes, dtype=torch.bool))

    def see_training_nodes(self, nodes):
        assert nodes.features.shape == (len(nodes.mask), 3)
        self.sources.copy_(torch.as_tensor(nodes.targets.sum(axis=1)))
        self.is_seen.copy_(torch.as_tensor(nodes.mask))

    def forward(self, state, graph, layer, context=None):
        return graph.propagate(state) + self.sources[:, None].to(state.dtype), context


class Quartered(LinearInput):
    def forward(self, features):
        return super().forward(features) / 4


class Halving(StateNorm):
    def forward(self, state):
        return state / 2


class SumReadout(LinearReadout):
    def __init__(self, channels, num_outputs):
        super().__init__(channels, num_outputs)

    def keep(self, kept, state):
        return state if kept is None else kept + state


def answers(*models):
    return [model.predict_proba(FEATURES, graph=EDGES) for model in models]


SETTINGS = {
    "readout": dict(readout="max", state_norm="unit-length"),
    "norm": dict(readout="concatenation", state_norm="layer-norm", readout_dropout=0.1),
    "input": dict(input_map=Part("perceptron", num_layers=3, layer_norm=True), self_loops=True),
    "training": dict(optimizer="adamw", select_by="loss", patience=6, adjacency_features=True, self_loops=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_settings_of_parts_and_training_are_saved_and_loaded(tmp_path, settings):
    model = NodeClassifier(**SMALL, **settings).fit(FEATURES, CODES, graph=EDGES, run=tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(*answers(model, loaded))
    np.testing.assert_array_equal(model.predict_proba(), answers(model)[0])


OWN = {"input_map": Quartered, "state_norm": Halving, "readout": SumReadout, "skip": PriorSkip, "operator": Sourced}


@pytest.mark.slow
@pytest.mark.parametrize("family", OWN)
def test_a_part_of_ones_own_is_saved_and_loaded(tmp_path, family):
    given = {family: OWN[family]}
    model = NodeClassifier(**SMALL, **given).fit(FEATURES, CODES, graph=EDGES)
    model.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run", **given)
    np.testing.assert_array_equal(*answers(model, loaded))
    with pytest.raises(InputError, match=rf"In Python: load\(path, {family}={OWN[family].__name__}\)"):
        NodeClassifier.load(tmp_path / "run")
    assert issubclass(Quartered, InputMap)
    assert issubclass(SumReadout, Readout)


@pytest.mark.slow
def test_what_an_operator_saw_before_training_is_kept_in_the_run_folder(tmp_path):
    train, rest = np.arange(0, 20), np.arange(20, 25)
    model = NodeClassifier(**SMALL, operator=Sourced)
    model.fit(FEATURES, CODES, graph=EDGES, train=train, validation=rest, run=tmp_path / "run")
    for each in (model, NodeClassifier.load(tmp_path / "run", operator=Sourced)):
        operator = each.network_.operator
        assert operator.sources.tolist() == [1.0] * 20 + [0.0] * 10
        assert operator.is_seen.tolist() == [True] * 20 + [False] * 10
        with pytest.raises(InputError, match="the 30 nodes of the training, which the network knows one by one, got 2"):
            each.predict(FEATURES[:2], graph=np.array([[0], [1]]))


@pytest.mark.slow
def test_numbers_are_seen_as_the_network_sees_them():
    numbers = 5.0 + 2.0 * FEATURES[:, 0]
    model = NodeRegressor(**SMALL, operator=Sourced).fit(FEATURES, numbers, graph=EDGES, train=np.arange(20))
    sources = model.network_.operator.sources
    assert sources[:20].abs().max() > 0
    assert sources[:20].sum().abs() < 1e-4  # centered over the training nodes
    assert not sources[20:].any()


@pytest.mark.slow
def test_self_loops_change_what_nodes_receive():
    plain, looped = (
        NodeClassifier(**SMALL, self_loops=loops).fit(FEATURES, CODES, graph=EDGES) for loops in (False, True)
    )
    assert not np.allclose(*answers(plain, looped))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "sgd"}, "optimizer to be one of adam, adamw, got 'sgd'"),
        ({"select_by": "f1"}, "select_by to be one of auto, accuracy, roc-auc, loss, got 'f1'"),
        ({"patience": 0}, "patience to be at least 1, got 0"),
        ({"operator": "past-diffusion"}, "got PastDiffusion, which needs the features of past frames"),
        ({"state_norm": "unit"}, "state_norm to be one of unit-length, layer-norm, or a class of your own, got 'unit'"),
        ({"skip": "ridge"}, "skip to be one of .* got 'ridge'"),
        ({"skip": Part("kernel-ridge", views=3)}, "views to be .auto. or a list of names, got 3"),
        # What would be taken now could not be read back from the folder.
        ({"self_loops": "yes"}, "self_loops to be True or False, got 'yes'"),
        ({"adjacency_features": 1}, "adjacency_features to be True or False, got 1"),
        ({"readout_dropout": "much"}, "readout_dropout to be a number, got 'much'"),
        ({"outer_dropout": None}, "outer_dropout to be a number, got None"),
        ({"spatial_learning_rate": "fast"}, "spatial_learning_rate to be a number, got 'fast'"),
        ({"embedding_weight_decay": -1.0}, "embedding_weight_decay to be at least 0, got -1.0"),
        (
            {"operator": Part("grand", self_loops="false")},
            "GrandOperator to be true or false, got 'false'",
        ),
        ({"operator": Part("gcnii", theta=float("inf"))}, "theta of gcnii to be finite, got inf"),
        ({"state_norm": Part("unit-length", length=2)}, "settings of UnitLength to be none, got 'length'"),
    ],
)
def test_wrong_settings_are_explained_before_there_is_a_folder(as_a_user, tmp_path, settings, message):
    with pytest.raises(InputError, match=message):
        NodeClassifier(**SMALL, **settings).fit(FEATURES, CODES, graph=EDGES, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_folder_without_the_later_settings_has_their_defaults(tmp_path):
    model = NodeClassifier(**SMALL).fit(FEATURES, CODES, graph=EDGES)
    from tdegnn.nodes.schema import ADDED_SETTINGS, check_config
    from tdegnn.runs.run_folder import RunFolder

    model.save(tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    for name in ADDED_SETTINGS:
        del folder.config["settings"][name]
    assert check_config(folder, NodeClassifier, "classes")["settings"] == model._settings()
