"""What node estimators share: settings, training, the run folder, and what the network says of nodes.

An estimator holds settings; `fit` adds what was learned, under names that end in an underscore. Underneath are
`NodeConfig`, which builds the network, and the one training loop. A saved estimator is the folder of its training.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Shaped
from sklearn.base import BaseEstimator

from tdegnn.analysis.report import CoefficientReport, explain
from tdegnn.core.rules import Attention, System
from tdegnn.data.nodes import FeatureScaling, NodeDataset
from tdegnn.errors import InputError, TrainingError, check_count
from tdegnn.graph import Direction
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.nodes.inputs import NodeInput, align, as_node_input
from tdegnn.nodes.settings import InitialStates, LayerMaps, NodeConfig
from tdegnn.runs.run_folder import RunFolder
from tdegnn.training.devices import DeviceName, Placement, Precision, choose_placement, place
from tdegnn.training.loop import FitResult, Look, fit
from tdegnn.training.members import GroupDescent, take_weights
from tdegnn.training.node_training import NodeParts, NodeTask, TaskTraining, as_input
from tdegnn.training.order_choice import AUTO, ChosenOrder, Order, check_order, order_by_score

Outputs = Float[np.ndarray, "nodes outputs"]


@dataclass(frozen=True, eq=False)
class PreparedNodes:
    """What a training needs besides settings.

    Attributes:
        nodes: Features and graph.
        task: What is asked about the nodes.
        num_outputs: Numbers that the network gives a node.
        parts: Training, validation and test nodes.
        answers: What is known about the nodes, for the checksum.
        learned: What is known before training and needed to predict, as JSON keeps it.
    """

    nodes: NodeDataset
    task: NodeTask
    num_outputs: int
    parts: tuple[Bool[np.ndarray, " nodes"], ...]
    answers: Shaped[np.ndarray, "nodes ..."]
    learned: dict[str, Any]


@dataclass(kw_only=True, repr=False, eq=False)
class NodeEstimator(BaseEstimator, ABC):  # type: ignore[misc] # scikit-learn has no types
    """Settings and work that `NodeClassifier` and `NodeRegressor` share.

    Attributes:
        system: Which rule gives c: `"DE-GNN"` c = [1], `"TDE-GNN_D"` a learned vector, `"TDE-GNN_A"` attention,
            `"TDE-GNN_S"` a vector that is stable whatever it learns.
        hidden_channels: Channels of a state.
        num_layers: Number of layers.
        order: Length of the history; DE-GNN has 1 whatever is given. `"auto"` trains with 1 to 4 and takes the one that
            validation prefers, then trains again (`order_` says which, `order_choice_` why).
        step_size: h.
        outer_dropout: Part of input and last state that is dropped in training.
        hidden_dropout: Part of the current state that is dropped before each layer in training.
        embedding_learning_rate: How fast embedding, initial states and readout learn.
        embedding_weight_decay: How strongly they are pulled to zero.
        temporal_learning_rate: How fast c learns.
        temporal_weight_decay: How strongly c is pulled to forward Euler.
        spatial_learning_rate: How fast the spatial term learns.
        spatial_weight_decay: How strongly it is pulled to zero.
        batch_norm: Whether the spatial term normalizes its channels.
        initial_states: How the older initial states come from the embedding.
        layer_maps: Whether the maps of the spatial term start at random and decay to zero, or both at the identity.
        attention: For TDE-GNN_A: that of the paper, `"plain"`, or `"gated"`, which starts as forward Euler.
        standardized_features: Whether features are brought to mean 0 and deviation 1, as the nodes of the training have
            them. Indicators and sparse features are left alone, and all where `normalized_features` is set.
        normalized_features: Whether the features of a node are scaled to sum to one.
        adjacency_features: Whether rows of the adjacency matrix join the features, which binds it to these nodes.
        averaging: Part of the past in the running mean of the weights that are kept; 0 keeps the last ones.
        num_steps: Number of steps of the optimizer at most.
        validate_every: Steps between two looks at validation.
        patience: Training ends when validation has not improved for so many steps. Without it, after `num_steps`.
        seed: Seed of weights, dropout, and the nodes held out for validation.
        device: `"auto"`, `"cpu"` or `"cuda"`.
        precision: Numbers of 32 or of 64 bits, `"32-true"` or `"64-true"`.
        direction: Whose states a node receives, see `Graph`. Without it that of a `Graph`, else `"both"`.
    """

    system: System = "TDE-GNN_D"
    hidden_channels: int = 64
    # Deviation: the paper's defaults are `NodeConfig`'s. These do better on five of six (docs/deviations.md).
    num_layers: int = 2
    order: Order = 2
    step_size: float = 1.0
    outer_dropout: float = 0.5
    hidden_dropout: float = 0.3
    embedding_learning_rate: float = 0.01
    embedding_weight_decay: float = 5e-4
    temporal_learning_rate: float = 1e-3
    temporal_weight_decay: float = 0.01
    spatial_learning_rate: float = 0.01
    spatial_weight_decay: float = 5e-4
    batch_norm: bool = True
    initial_states: InitialStates = "newest unmapped"
    layer_maps: LayerMaps = "near identity"
    attention: Attention = "gated"
    standardized_features: bool = True
    normalized_features: bool = False
    adjacency_features: bool = False
    averaging: float = 0.0
    num_steps: int = 300
    validate_every: int = 3
    patience: int | None = None
    seed: int = 0
    device: DeviceName = "auto"
    precision: Precision = "32-true"
    direction: Direction | None = None

    def fit(
        self,
        X: Any,  # noqa: N803 # scikit-learn's name
        y: Any = None,
        *,
        graph: Any = None,
        split: int = 0,
        train: Any = None,
        validation: Any = None,
        test: Any = None,
        run: str | Path | None = None,
        resume: bool = False,
        source: Mapping[str, Any] | None = None,
        on_look: Callable[[Look], None] | None = None,
    ) -> Self:
        """Train on the nodes whose label is known; the best weights by validation are kept.

        Args:
            X: A `NodeDataset`, PyG data, or a matrix of features, one row a node (NumPy, SciPy, torch, pandas).
            y: What is known about each node; None, NaN or -1 where it is not. Without it, what comes with `X`.
            graph: With a matrix: a `Graph`, an adjacency matrix, a networkx graph, or an edge_index of two rows.
            split: Which split, where `X` comes with splits and `train` is not given.
            train: Nodes to train on, a mask or numbers. Without it, all with a label that are in no other part.
            validation: Nodes to choose the step by. Without it a fifth of the training nodes, of each class alike.
            test: Nodes on which the result is reported, and nothing else done.
            run: Folder to write to: settings, metrics, weights, checkpoints. A finished one can be loaded.
            resume: Go on with the training in `run`; where there is none, begin it.
            source: Where the data came from, kept in the settings of the run folder.
            on_look: Called with what each look at validation saw.
        """
        check_order(self.order)
        prepared = self._prepare(X, y, graph, split, (train, validation, test))
        check_count(minimum=0, seed=self.seed)
        if run is not None:
            RunFolder.check_free(run, resume=resume)
        kept = ChosenOrder.kept_by(run, resume=resume)
        self.order_choice_ = kept or self._choose_order(prepared, on_look)
        config = self._config(prepared, source or {})
        # Before there is a folder: a mistake should leave none behind.
        start = self._start(prepared)
        if run is None:
            self._train(prepared, start, config, None, on_look)
        else:
            _check_savable(config)
            with RunFolder.begin(run, config, resume=resume) as folder:
                if folder.is_finished:
                    self._take(folder)
                else:
                    self._train(prepared, start, config, folder, on_look)
        self._nodes = prepared.nodes
        return self

    def explain(self) -> CoefficientReport:
        """What the learned coefficients say, their mean over the layers.

        They combine latent states of the network, layer after layer. They say how it integrates, not how the data
        evolve.
        """
        self._check_fitted()
        return replace(explain(self.coefficients_.mean(axis=0)), states="latent")

    def save(self, path: str | Path) -> None:
        """Write the estimator to a new run folder; `load` reads it."""
        self._check_fitted()
        _check_savable(self._config_)
        with RunFolder.create(path, self._config_) as folder:
            for line in self.history_:
                folder.append_metrics(line)
            self._write(folder)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save`, or `fit` with a run folder, wrote. Data are not in it: `predict` needs them again."""
        folder = RunFolder.open_finished(Path(path), kind=cls.__name__)
        loaded = cls(**cls._settings_of(folder.config))
        loaded._take(folder)
        return loaded

    @property
    def is_fitted(self) -> bool:
        """Whether there is something to predict with."""
        return hasattr(self, "network_")

    @property
    def order_(self) -> int:
        """The length of the history, whoever chose it."""
        return self.order_choice_.order

    def _prepare(self, X: Any, y: Any, graph: Any, split: int, parts: tuple[Any, Any, Any]) -> PreparedNodes:  # noqa: N803
        given = as_node_input(X, graph, self.direction)
        labels = given.labels if y is None else align(y, given.index)
        if labels is None:
            raise InputError("Expected labels, got data without any. Pass y=.")
        is_scaled = self.standardized_features and not self.normalized_features
        self._scaling = FeatureScaling.of(given.nodes.features) if is_scaled else None
        self._feature_names = given.feature_names
        given = replace(given, nodes=self._scaled(given.nodes))
        return self._make_task(given, labels, split, parts)

    def _scaled(self, nodes: NodeDataset) -> NodeDataset:
        return nodes if self._scaling is None else replace(nodes, features=self._scaling.apply(nodes.features))

    def _as_trained(self, given: NodeInput) -> NodeDataset:
        """Nodes with their features in the order and in the units of the training."""
        nodes, came, trained = given.nodes, given.feature_names, self._feature_names
        if nodes.num_features != self.n_features_in_:
            raise InputError(
                f"Expected the {self.n_features_in_} features of the training, got {nodes.num_features} a node."
            )
        if came is not None and trained is not None and came != trained:
            missing = [name for name in trained if name not in came]
            if missing:
                raise InputError(
                    f"Expected the {len(trained)} features of the training, got none called {missing[0]!r}. Rename it."
                )
            nodes = replace(nodes, features=nodes.features[:, [came.index(name) for name in trained]])
        return self._scaled(nodes)

    @abstractmethod
    def _make_task(self, given: NodeInput, labels: Any, split: int, parts: tuple[Any, Any, Any]) -> PreparedNodes:
        """What is to be learned."""

    @abstractmethod
    def _take_learned(self, learned: dict[str, Any]) -> None:
        """What was known before training, from the settings of a run."""

    def _settings(self) -> dict[str, Any]:
        """Settings as JSON keeps them."""
        return dict(self.get_params())

    @classmethod
    def _settings_of(cls, config: dict[str, Any]) -> dict[str, Any]:
        """Settings from those that `_settings` gave."""
        return dict(config["settings"])

    def _config(self, prepared: PreparedNodes, source: Mapping[str, Any]) -> dict[str, Any]:
        nodes = prepared.nodes
        data = {
            "nodes": nodes.num_nodes,
            "features": nodes.num_features,
            "edges": nodes.graph.num_edges,
            "direction": nodes.graph.direction,
            "sha256": _checksum(prepared, self._scaling),
        }
        return {
            "kind": type(self).__name__,
            "settings": self._settings(),
            "data": {**data, **source},
            "num_outputs": prepared.num_outputs,
            "learned": prepared.learned,
            "feature_names": None if self._feature_names is None else list(self._feature_names),
            "feature_scaling": None if self._scaling is None else self._scaling.to_record(),
            **self.order_choice_.to_config(self.order),
        }

    def _choose_order(self, prepared: PreparedNodes, on_look: Callable[[Look], None] | None) -> ChosenOrder:
        if self.order != AUTO:
            return ChosenOrder.given(self.order)
        if self.system == "DE-GNN":
            return ChosenOrder.given(1)

        def score_of(order: int) -> float:
            self.order_choice_ = ChosenOrder.given(order)
            training = self._start(prepared)[0]
            self._fit(training, on_look, None)
            return float(training.best_scores)

        return order_by_score(score_of)

    def _node_config(self) -> NodeConfig:
        return NodeConfig(
            self.system,
            self.hidden_channels,
            self.num_layers,
            self.order_,
            self.batch_norm,
            self.adjacency_features,
            self.normalized_features,
            self.initial_states,
            self.step_size,
            self.outer_dropout,
            self.hidden_dropout,
            GroupDescent(self.embedding_learning_rate, self.embedding_weight_decay),
            GroupDescent(self.temporal_learning_rate, self.temporal_weight_decay),
            GroupDescent(self.spatial_learning_rate, self.spatial_weight_decay),
            self.num_steps,
            self.layer_maps,
            self.averaging,
            self.attention,
        )

    def _train(
        self,
        prepared: PreparedNodes,
        start: tuple[TaskTraining, NodeDataset, Placement],
        config: dict[str, Any],
        folder: RunFolder | None,
        on_look: Callable[[Look], None] | None,
    ) -> None:
        training, nodes, placement = start
        looks: list[dict[str, Any]] = [] if folder is None else folder.read_metrics()

        def see(look: Look) -> None:
            looks.append(look.to_record())
            if on_look is not None:
                on_look(look)

        result = self._fit(training, see, folder)
        if not result.best_scores.isfinite().all():
            raise TrainingError(
                "Expected outputs that are numbers, got none from the first look on. "
                "Lower the learning rates or the step size, or turn batch_norm on."
            )
        network = training.members.network(0)
        assert isinstance(network, StationaryNetwork)
        self._weights = {name: tensor.cpu() for name, tensor in training.best_weights().items()}
        self._take_learned(prepared.learned)
        self.history_ = looks
        self.summary_ = {
            "best_step": int(result.best_steps),
            "validation_score": float(training.best_scores),
            "test_score": float(training.best_test_scores) if prepared.parts[2].any() else None,
            "is_diverged": bool(result.is_diverged),
            "order": self.order_,
        }
        self._config_, self.network_, self.n_features_in_ = config, network, prepared.nodes.num_features
        self.coefficients_ = _mean_coefficients(network, nodes, placement)
        if folder is not None:
            self._write(folder)

    def _start(self, prepared: PreparedNodes) -> tuple[TaskTraining, NodeDataset, Placement]:
        """A training before its first step, the nodes as it sees them, and what it computes with."""
        placement, settings = choose_placement(self.device, self.precision), self._node_config()
        nodes = settings.prepare(prepared.nodes)
        training = TaskTraining(
            [settings.build_network(nodes.num_features, prepared.num_outputs, self.seed)],
            [settings.descent],
            (as_input(nodes, placement), nodes.graph),
            prepared.task,
            NodeParts(*(mask[None] for mask in prepared.parts)),
            placement,
        )
        return training, nodes, placement

    def _fit(
        self, training: TaskTraining, on_look: Callable[[Look], None] | None, folder: RunFolder | None
    ) -> FitResult:
        return fit(
            training,
            num_steps=self.num_steps,
            validate_every=self.validate_every,
            patience=self.patience,
            on_look=on_look,
            run=folder,
        )

    def _write(self, folder: RunFolder) -> None:
        """The last files of a training, which make its folder a finished one."""
        folder.write_weights(self._weights)
        folder.write_coefficients(self.coefficients_)
        folder.finish(self.summary_)

    def _take(self, folder: RunFolder) -> None:
        """What a finished training learned."""
        config = folder.config
        names = config.get("feature_names")
        self._feature_names = None if names is None else tuple(names)
        self._scaling = FeatureScaling.from_record(config.get("feature_scaling"))
        kept = ChosenOrder.kept_in(config)
        if kept is None:
            assert self.order != AUTO  # a finished training has chosen
            kept = ChosenOrder.given(self.order)
        self.order_choice_ = kept
        settings, data = self._node_config(), config["data"]
        num_features = data["features"] + (data["nodes"] if settings.adjacency_features else 0)
        network = settings.build_network(num_features, config["num_outputs"], self.seed)
        place(network, choose_placement("cpu", self.precision))
        self._weights = folder.read_weights()
        take_weights(network, self._weights, 0, folder.path)
        self._take_learned(config["learned"])
        self.history_, self.summary_ = folder.read_metrics(), folder.read_summary()
        self._config_, self.network_, self.n_features_in_ = config, network.eval(), data["features"]
        self.coefficients_ = folder.read_coefficients()["coefficients"]

    def _outputs(self, X: Any, graph: Any) -> Outputs:  # noqa: N803
        """What the network gives; without `X` for the nodes of `fit`."""
        self._check_fitted()
        if X is not None:
            nodes = self._as_trained(as_node_input(X, graph, self.direction))
        elif graph is None and hasattr(self, "_nodes"):
            nodes = self._nodes
        else:
            raise InputError("Expected features of nodes, got none. A loaded estimator has no data: pass X and graph.")
        if self.adjacency_features and nodes.num_nodes != self._config_["data"]["nodes"]:
            raise InputError(
                f"Expected the {self._config_['data']['nodes']} nodes of the training, whose adjacency is a feature, "
                f"got {nodes.num_nodes}. Train without adjacency_features to predict others."
            )
        placement = choose_placement(self.device, self.precision)
        nodes = self._node_config().prepare(nodes)
        with torch.no_grad():
            outputs = place(self.network_, placement).eval()(as_input(nodes, placement), nodes.graph)
        return np.asarray(outputs.double().cpu().numpy())

    def _check_fitted(self) -> None:
        if not self.is_fitted:
            name = type(self).__name__
            raise InputError(f"Expected a {name} that has been trained, got one that has not. Call fit, or load one.")


def _mean_coefficients(
    network: StationaryNetwork, nodes: NodeDataset, placement: Placement
) -> Float[np.ndarray, "layers order"]:
    with torch.no_grad():
        coefficients = network.integrate(as_input(nodes, placement), nodes.graph).coefficients
    return np.asarray(coefficients.double().cpu().numpy())


def _check_savable(config: Mapping[str, Any]) -> None:
    """Classes may be anything that can be compared, but a run folder keeps text and numbers only."""
    for name in config["learned"].get("classes", ()):
        if not isinstance(name, str | int | float):
            raise InputError(f"Expected classes that are text or numbers to write them, got {name!r}. Rename them.")


def _checksum(prepared: PreparedNodes, scaling: FeatureScaling | None) -> str:
    """SHA-256 of everything that was given, but the names of classes."""
    features, graph = prepared.nodes.features, prepared.nodes.graph
    matrix = scipy.sparse.csr_array(features)
    arrays = [matrix.indptr, matrix.indices, matrix.data, graph.edge_index.numpy(), graph.edge_weight.numpy()]
    arrays += [] if scaling is None else [scaling.center, scaling.scale]
    digest = hashlib.sha256()
    for array in (*arrays, prepared.answers, *prepared.parts):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
