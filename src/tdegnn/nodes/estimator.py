"""The base class of node estimators: settings, `fit`, `explain`, `save` and `load`.

An estimator holds settings. `fit` adds one value, `fitted_` (`nodes/fitted.py`), and only when it is complete: after a
`fit` that fails, an estimator predicts as before. A saved estimator is the run folder of its training.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from tdegnn.analysis.report import CoefficientReport, explain
from tdegnn.batches.registry import BATCHES
from tdegnn.core.rules import COEFFICIENTS, RULE_OF_SYSTEM, System
from tdegnn.core.segments import SegmentLength
from tdegnn.data.mapped_features import MappedFeatures
from tdegnn.data.nodes import FeatureScaling
from tdegnn.errors import (
    InputError,
    check_choice,
    check_count,
    check_count_or_auto,
    check_finite,
    check_truth,
)
from tdegnn.graph import Direction
from tdegnn.markup import Page
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.nodes.baselines import Outputs
from tdegnn.nodes.fitted import FittedNodes, NodeTrainer, OnLook, PreparedNodes, Question
from tdegnn.nodes.inputs import NodeInput, align, as_node_input
from tdegnn.nodes.settings import ESTIMATOR_FAMILIES, FAMILIES, NodeConfig, rule_of, upgrade_settings
from tdegnn.nodes.usual_networks import (
    BOUND_TO_NODES,
    FEW_NODES,
    FEW_NODES_SETTINGS,
    FEW_TRIAL_STEPS,
    MANY_NODES,
    NETWORK_SETTINGS,
    NUM_STARTS,
    TRIAL_PATIENCE,
    TRIAL_STEPS,
    USUAL_NETWORKS,
    NetworkName,
    Trial,
    choose_by_trials,
    suitable_networks,
)
from tdegnn.not_fitted import NotFittedError
from tdegnn.parts import Part, PartLike, parts_from_record, parts_to_record
from tdegnn.runs.hub import find_folder
from tdegnn.runs.run_folder import RunFolder, keep_decisions
from tdegnn.training.callbacks import Callback, Outcome, following
from tdegnn.training.devices import DeviceName, Precision, choose_placement
from tdegnn.training.members import GroupDescent, OptimizerName
from tdegnn.training.network_choice import ChosenNetwork, given_settings, without_given
from tdegnn.training.node_training import SelectBy
from tdegnn.training.order_choice import AUTO, USUAL_ORDER, ChosenOrder, Order, order_by_score
from tdegnn.training.processes import check_alone, join_processes
from tdegnn.training.progress import OnProgress, ignore
from tdegnn.training.shared_run import begin_shared_run

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# Deviation: the paper's maps start at random, without batch norm (docs/deviations.md).
USUAL_OPERATOR = Part("near-identity", batch_norm=True)

# Settings of an estimator that its configuration has by the same name.
_SAME_SETTINGS = (
    "hidden_channels",
    "num_layers",
    "initial_states",
    "input_map",
    "state_norm",
    "readout",
    "skip",
    "adjacency_features",
    "normalized_features",
    "self_loops",
    "step_size",
    "outer_dropout",
    "hidden_dropout",
    "readout_dropout",
    "optimizer",
    "select_by",
    "num_steps",
    "patience",
    "averaging",
)


@dataclass(kw_only=True, repr=False, eq=False)
class NodeEstimator(BaseEstimator, ABC):  # type: ignore[misc] # scikit-learn has no types
    """Base class of `NodeClassifier` and `NodeRegressor`.

    `coefficients`, `operator`, `initial_states`, `input_map`, `state_norm`, `readout` and `skip` are parts: a name, a
    class of your own, a `Part` (a name or class with settings), or an object, which is copied. Weights are drawn from
    the seed. An object without `reset_parameters` keeps those it has.

    Attributes:
        system: Short name of a rule for c: `"DE-GNN"` is c = [1], `"TDE-GNN_D"` a learned vector, `"TDE-GNN_A"`
            attention with a gate, `"TDE-GNN_S"` a vector that is stable whatever it learns.
        coefficients: The rule for c, in place of `system`: `"direct"` (default), `"attention"`, `"gated-attention"`,
            `"stable"`, `"stable-attention"`, `"euler"`, `"leapfrog"`, `"mixed"`, or a `TemporalCoefficients`.
        operator: The spatial term: a name that `tdegnn zoo` lists, such as `"gread-bs"`, or a `SpatialOperator`. If
            None, `Part("near-identity", batch_norm=True)`.
        initial_states: From the embedding to the first states: `"newest-unmapped"`, or the paper's `"mapped"`.
        input_map: From the features to the embedding: `"linear"`, with relu, `"affine"`, without it, or
            `Part("perceptron", num_layers=2, layer_norm=False)`, of 1 to 3 layers.
        state_norm: Applied to the new state after each layer: `"unit-length"` or `"layer-norm"`. If None, states stay
            as they are.
        readout: From the states after each layer to the outputs: a linear map of the `"last"` one, of its `"relu"`, of
            its `"modulus"` (complex states), of the elementwise `"max"` of all, or of their `"concatenation"`; or a
            `"perceptron"` on the last one.
        skip: Scores that are added to the outputs: `"kernel-ridge"`, or a `NodeSkip`. If None, nothing is added.
        hidden_channels: Channels of a state.
        num_layers: Number of layers.
        order: Length of the history, for rules that take one. `"auto"` trains with 1 to 4, takes the order that
            validation prefers, and trains again (`order_` says which, `order_choice_` why).
        step_size: h.
        outer_dropout: Share of the input, and of what the readout reads, that is dropped in training.
        hidden_dropout: Share of the current state that is dropped before each layer in training.
        readout_dropout: Share of what the readout reads that is dropped in training. If None, `outer_dropout`.
        embedding_learning_rate: Learning rate of all parts but c and the spatial term.
        embedding_weight_decay: How strongly they are pulled to zero.
        temporal_learning_rate: Learning rate of c.
        temporal_weight_decay: How strongly c is pulled to forward Euler.
        spatial_learning_rate: Learning rate of the spatial term.
        spatial_weight_decay: How strongly it is pulled to zero.
        standardized_features: Whether to scale features to mean 0 and standard deviation 1 over the nodes of the
            training. Indicators and sparse features are left alone, and all features if `normalized_features` is set.
        normalized_features: Whether the features of each node are scaled to sum to one.
        adjacency_features: Whether rows of the adjacency matrix join the features. Only the nodes of the training can
            then be predicted.
        self_loops: Whether nodes also receive from themselves.
        averaging: Weight of the past in the running mean of the weights that are kept. 0 keeps the last ones. A network
            that is chosen on a graph below 1,000 nodes has 0.99.
        optimizer: `"adam"`, with weight decay in the gradient, or `"adamw"`, with weight decay apart from it.
        select_by: By what the step is chosen on validation, and what is reported: `"roc-auc"`, the area under the ROC
            curve, or `"accuracy"`. `"auto"` takes ROC-AUC for two classes, accuracy for more, and the squared error for
            numbers; of equal ones, the step with the lowest loss. `"loss"` chooses by the loss only.
        num_steps: Maximum number of optimizer steps. A note says if more of them might help.
        validate_every: Steps between two validations.
        patience: Steps without improvement on validation after which training ends. If None, it ends after `num_steps`.
        baselines: Whether to compare the result with answers that need no network: the most frequent class (or the
            mean), a linear model of the features alone, for classes also a perceptron, and a kernel ridge of the link
            lists alone. Their scores are in `summary_`, and `notes_` says which of them do as well as the network.
        seed: Seed of weights, dropout, and the nodes held out for validation.
        device: `"auto"`, `"cpu"` or `"cuda"`.
        precision: `"32-true"` or `"64-true"`: numbers of 32 or of 64 bits. `"bf16-mixed"`: numbers of 32 bits, and 16
            bits for what travels along edges. That is quicker on large graphs on a GPU.
        direction: Whose states a node receives, see `Graph`. If None, that of a `Graph`, else `"both"`.
        network: `"auto"` tries the usual networks that suit the graph for some steps, and trains the best one on
            validation (`network_choice_` says which and why); below 1,000 nodes, from several first weights, of which
            the best are kept, with averaged weights. There, unless validation nodes are as many as training nodes, a
            network is tried on several folds of both: the validation nodes, and parts of the training nodes. If any
            setting of the network is given, that is used instead. Or the name of one: `"diffusion"`; `"links"` and
            `"directed"`, which are for graphs with a direction and predict only the nodes of the training; `"deep"`;
            `"many-nodes"`; `"alone"` and `"linear"`, which leave the edges out. If None, the settings as they are.
        segment_length: Layers per segment of a training step, for deep networks: only the states between segments are
            kept, and the backward pass computes the layers again. `"auto"` is about the root of `num_layers`, so that
            memory grows as that root. If None, all layers are kept. It changes memory and time, and no numbers.
    """

    system: System | None = None
    coefficients: PartLike = None
    operator: PartLike = None
    initial_states: PartLike = "newest-unmapped"
    input_map: PartLike = "linear"
    state_norm: PartLike = None
    readout: PartLike = "last"
    skip: PartLike = None
    hidden_channels: int = 64
    # Deviation: the paper's defaults are those of `NodeConfig`. These do better on five of six (docs/deviations.md).
    num_layers: int = 2
    order: Order = 2
    step_size: float = 1.0
    outer_dropout: float = 0.5
    hidden_dropout: float = 0.3
    readout_dropout: float | None = None
    embedding_learning_rate: float = 0.01
    embedding_weight_decay: float = 5e-4
    temporal_learning_rate: float = 1e-3
    temporal_weight_decay: float = 0.01
    spatial_learning_rate: float = 0.01
    spatial_weight_decay: float = 5e-4
    standardized_features: bool = True
    normalized_features: bool = False
    adjacency_features: bool = False
    self_loops: bool = False
    averaging: float = 0.0
    optimizer: OptimizerName = "adam"
    select_by: SelectBy = "auto"
    # Deviation: the paper trains for a fixed number of steps (docs/deviations.md).
    num_steps: int = 3000
    validate_every: int = 3
    patience: int | None = 200
    baselines: bool = True
    seed: int = 0
    device: DeviceName = "auto"
    precision: Precision = "32-true"
    direction: Direction | None = None
    network: NetworkName | None = "auto"
    batches: PartLike = None
    segment_length: SegmentLength = None

    fitted_: FittedNodes = field(init=False)
    # An entry of what is learned before training, by which a run folder is known to be one of this class.
    _LEARNED: ClassVar[str]

    # The last step of a pipeline is passed the graph, if metadata routing is enabled.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"graph": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"graph": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"graph": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"graph": True}

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
        on_look: OnLook | None = None,
        on_progress: OnProgress = ignore,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train on the nodes whose label is known, and keep the best weights by validation.

        If anything goes wrong, an estimator that was fitted before stays as it was.

        With `batches`, processes that `torchrun` started, or that are joined by `torch.distributed`, train together:
        each calls `fit` with the same arguments. The first of them writes to `run` and calls `on_look`, `on_progress`
        and the callbacks.

        Args:
            X: A `NodeDataset`, PyG data, or a matrix of features (NumPy, SciPy, torch, pandas), one row per node.
            y: The label of each node. None, NaN or -1 means unknown. If None, the labels that come with `X`.
            graph: Needed with a matrix: a `Graph`, an adjacency matrix, a networkx graph, or an edge_index of two rows.
            split: Which split to use, if `X` comes with splits and none of the three subsets is given.
            train: Nodes to train on, a mask or numbers. Default: all with a label that are in no other subset.
            validation: Nodes to choose the step by. Default: a fifth of the training nodes, of each class alike.
            test: Nodes on which the result is reported. They are used for nothing else.
            run: Folder to write to: settings, metrics, weights, checkpoints. It exists from the start, and keeps what
                is decided before the training. A finished one can be loaded.
            resume: Whether to continue in `run`, wherever the work was interrupted. If there is none, a new one begins.
            source: Where the data came from, stored in the settings of the run folder.
            on_look: Called with the result of each validation, also while networks or orders are tried.
            on_progress: Called at the start of each stage of the work and after each of its steps, with the stage
                (networks and orders that are tried, the training, baselines), the number of its finished steps and of
                all of them.
            callbacks: Told about settings, validations of the training, and the result: see `Callback`.
        """
        if self.batches is None:
            check_alone("a training on the whole graph")
        self.check_settings()
        prepared = self._prepare(X, y, graph, split, (train, validation, test))
        config = {
            "kind": type(self).__name__,
            "settings": self._settings(),
            **prepared.describe(copy.deepcopy(dict(source or {}))),
        }
        if run is not None:
            _check_savable(config)
        processes = join_processes()
        # Files may be elsewhere on another machine.
        data = {name: value for name, value in config["data"].items() if name not in (source or {})}
        processes.check_same([config["settings"], data], "settings and data")
        if not processes.is_first:
            callbacks, on_look, on_progress = (), None, ignore
        with following(callbacks, type(self).__name__, config["settings"]) as followers:
            # Before any long work: whatever happens from now on, the fit can be resumed.
            with begin_shared_run(run, config, resume=resume, processes=processes) as folder:
                kept = {} if folder is None else folder.config
                placement = choose_placement(self.device, self.precision)
                trainer = NodeTrainer(
                    prepared,
                    placement,
                    self.seed,
                    self.validate_every,
                    self.baselines,
                    on_look,
                    on_progress,
                    self.batches,
                    self.segment_length,
                    processes,
                )
                # Of several processes, the first one decides: they may round differently.
                network = ChosenNetwork.kept_in(kept) or processes.agree(self._choose_network(trainer))
                config |= {} if network is None else network.to_config()
                keep_decisions(folder, config)
                built = self._built(network)
                kept_order = ChosenOrder.kept_in(kept) if self.order == AUTO else None
                order_choice = kept_order or built._given_order() or processes.agree(built._search_order(trainer))
                config |= order_choice.to_config() if self.order == AUTO else {}
                keep_decisions(folder, config)
                settings = built._node_config(order_choice.order)
                if folder is not None:
                    folder.settle(config)
                if folder is not None and folder.is_finished:
                    fitted = FittedNodes.read(folder, self._check_config(folder), settings, order_choice)
                    fitted = replace(fitted, nodes=prepared.nodes, question=prepared.question)
                else:
                    training = trainer.start(settings, 1 if network is None else network.num_starts)
                    fitted = trainer.train(training, settings, config, order_choice, folder, followers.on_look)
            self.fitted_ = fitted
            followers.outcome = Outcome(self.summary_, self.coefficients_, self.explain().verdict)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def check_settings(self) -> None:
        """Raise an `InputError` for a setting that is wrong whatever the data, and that no network checks."""
        check_count_or_auto(order=self.order)
        if self.segment_length is not None:
            check_count_or_auto(segment_length=self.segment_length)
        check_choice(get_args(SelectBy), select_by=self.select_by)
        if self.network is not None:
            check_choice(get_args(NetworkName), network=self.network)
        if self.batches is not None:
            BATCHES.check_settings(self.batches)
        check_count(minimum=0, seed=self.seed)
        check_truth(
            standardized_features=self.standardized_features,
            normalized_features=self.normalized_features,
            adjacency_features=self.adjacency_features,
            self_loops=self.self_loops,
            baselines=self.baselines,
        )
        check_finite(step_size=self.step_size, outer_dropout=self.outer_dropout, hidden_dropout=self.hidden_dropout)
        for group in ("embedding", "temporal", "spatial"):
            for name in (f"{group}_learning_rate", f"{group}_weight_decay"):
                check_finite(**{name: getattr(self, name)})
                if getattr(self, name) < 0:
                    raise InputError(f"Expected {name} to be at least 0, got {getattr(self, name)}.")

    def explain(self) -> CoefficientReport:
        """Return the analysis of the learned coefficients, by their mean over the layers.

        They combine latent states of the network, layer after layer. They show how it integrates, not how the data
        evolve.
        """
        return replace(explain(self._checked().coefficients.mean(axis=0)), states="latent")

    def report(
        self,
        X: Any = None,  # noqa: N803 # scikit-learn's name
        y: Any = None,
        *,
        graph: Any = None,
        split: int = 0,
        train: Any = None,
        validation: Any = None,
        test: Any = None,
    ) -> Page:
        """Return a page about this estimator: scores, which nodes are wrong, and what c means. See `docs/report.md`.

        After `fit`, it needs no arguments. A loaded estimator has no data: pass what `fit` was given.
        """
        data = dict(y=y, graph=graph, split=split, train=train, validation=validation, test=test)
        fitted = self._checked() if X is None else self.recall(X, **data)
        if fitted.question is None:
            raise InputError(
                "Expected the data of the training, got none. A loaded estimator has no data: pass X and y."
            )
        # By name: reports look down on this room.
        made: Page = import_module("tdegnn.reports.of_nodes").report_nodes(fitted)
        return made

    def recall(
        self,
        X: Any,  # noqa: N803 # scikit-learn's name
        y: Any = None,
        *,
        graph: Any = None,
        split: int = 0,
        train: Any = None,
        validation: Any = None,
        test: Any = None,
    ) -> FittedNodes:
        """Return what was learned, together with the data of the training, which a run folder does not hold.

        Refuse other data. The arguments are those of `fit`.
        """
        fitted = self._checked()
        prepared = self._prepare(X, y, graph, split, (train, validation, test))
        if prepared.describe({})["data"]["sha256"] != fitted.config["data"]["sha256"]:
            raise InputError("Expected the nodes, labels and subsets of the training, got others. Pass those.")
        return replace(fitted, nodes=prepared.nodes, question=prepared.question)

    def save(self, path: str | Path) -> None:
        """Write the estimator to a new run folder, which `load` reads.

        If this is interrupted, the folder counts as empty: save again.
        """
        fitted = self._checked()
        _check_savable(fitted.config)
        fitted.save(path)

    def save_pretrained(self, path: str | Path) -> None:
        """Write the estimator as a folder of the Hugging Face hub, which is a run folder: the same as `save`."""
        self.save(path)

    def to_exported_program(self, graph: Any = None) -> ExportedProgram:
        """Return a program of `torch.export` from features to what is predicted: probabilities, or numbers.

        Its input `features` is the whole matrix, in float64. The graph is a part of the program.

        Args:
            graph: The graph, in any form. If None, that of the training, which a loaded estimator does not have.
        """
        from tdegnn.nodes.exported import export_nodes

        return export_nodes(self._checked(), graph)

    def to_onnx(self, path: str | Path, graph: Any = None) -> Path:
        """Write what `to_exported_program` returns as an ONNX file. Needs the packages of the extra `onnx`."""
        from tdegnn.export import write_onnx

        return write_onnx(self.to_exported_program(graph), path)

    @classmethod
    def from_pretrained(cls, name: str | Path, *, revision: str | None = None, **own: PartLike) -> Self:
        """Read an estimator from a folder, or from a repository of the Hugging Face hub.

        Args:
            name: The folder, or `owner/name`, which needs `huggingface_hub`.
            revision: A branch, tag or commit of the repository. If None, its newest state.
            own: Classes of your own, as for `load`.
        """
        return cls.load(find_folder(name, revision), **own)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        coefficients: PartLike = None,
        operator: PartLike = None,
        initial_states: PartLike = None,
        input_map: PartLike = None,
        state_norm: PartLike = None,
        readout: PartLike = None,
        skip: PartLike = None,
        batches: PartLike = None,
    ) -> Self:
        """Read an estimator that `save`, or `fit` with a run folder, wrote. `predict` needs the data again.

        Args:
            path: The run folder.
            coefficients: The class of the rule for c, if it is your own. Code is never imported by a name in a folder.
            operator: The class of the spatial term, if it is your own.
            initial_states: The class of the initial states, if it is your own.
            input_map: The class of the input map, if it is your own.
            state_norm: The class of the state norm, if it is your own.
            readout: The class of the readout, if it is your own.
            skip: The class of the skip, if it is your own.
            batches: The class of the batches, if it is your own.
        """
        folder = RunFolder.open_finished(Path(path), kind=cls.__name__)
        own = {
            "coefficients": coefficients,
            "operator": operator,
            "initial_states": initial_states,
            "input_map": input_map,
            "state_norm": state_norm,
            "readout": readout,
            "skip": skip,
            "batches": batches,
        }
        config = cls._check_config(folder)
        loaded = cls(**cls._settings_of(config["settings"], own))
        loaded.check_settings()
        built = loaded._built(ChosenNetwork.kept_in(config))
        order_choice = ChosenOrder.kept_in(config) or built._given_order()
        assert order_choice is not None  # a checked configuration has one
        fitted = FittedNodes.read(folder, config, built._node_config(order_choice.order), order_choice)
        # The folder may have the settings of an earlier version.
        loaded.fitted_ = replace(fitted, config={**fitted.config, "settings": loaded._settings()})
        return loaded

    @property
    def is_fitted(self) -> bool:
        """Return whether the estimator was fitted or loaded."""
        return hasattr(self, "fitted_")

    @property
    def network_(self) -> StationaryNetwork:
        """The trained network."""
        return self._checked().network

    @property
    def coefficients_(self) -> Float[np.ndarray, "layers order"]:
        """The learned c, layers x order."""
        return self._checked().coefficients.copy()

    @property
    def summary_(self) -> dict[str, Any]:
        """Best step, which score it is, scores on validation and test at it, those of baselines, order, notes."""
        return copy.deepcopy(self._checked().summary)

    @property
    def notes_(self) -> list[str]:
        """Remarks for the user: a training that ended too early, baselines that do as well."""
        notes: list[str] = self.summary_["notes"]
        return notes

    @property
    def history_(self) -> list[dict[str, Any]]:
        """Step, loss and score of each validation."""
        return copy.deepcopy(self._checked().history)

    @property
    def network_choice_(self) -> ChosenNetwork | None:
        """Which of the usual networks it is, and why. None if the settings of the network were given."""
        return ChosenNetwork.kept_in(self._checked().config)

    @property
    def order_choice_(self) -> ChosenOrder:
        """The order, and the reason for it."""
        return self._checked().order_choice

    @property
    def order_(self) -> int:
        """The length of the history, given or chosen."""
        return self.network_.coefficients.order

    @property
    def n_features_in_(self) -> int:
        """Features per node."""
        return self._checked().num_features

    def _prepare(self, X: Any, y: Any, graph: Any, split: int, subsets: tuple[Any, Any, Any]) -> PreparedNodes:  # noqa: N803
        given = as_node_input(X, graph, self.direction)
        labels = given.labels if y is None else align(y, given.index)
        if labels is None:
            raise InputError("Expected labels, got data without any. Pass y=.")
        is_scaled = self.standardized_features and not self.normalized_features
        scaling = FeatureScaling.of(given.nodes.features) if is_scaled else None
        question = self._ask(given, labels, split, subsets)
        # A copy: what the user does to X after `fit` must not change what is predicted for the nodes of the training.
        features = given.nodes.features.copy() if scaling is None else scaling.apply(given.nodes.features)
        return PreparedNodes(replace(given.nodes, features=features), question, scaling, given.feature_names)

    @abstractmethod
    def _ask(self, given: NodeInput, labels: Any, split: int, subsets: tuple[Any, Any, Any]) -> Question:
        """Return the task, and the nodes to learn from."""

    @classmethod
    def _check_config(cls, folder: RunFolder) -> dict[str, Any]:
        """Return the configuration in a run folder, checked and in its present form."""
        from tdegnn.nodes.schema import check_config

        return check_config(folder, cls, cls._LEARNED)

    def _settings(self) -> dict[str, Any]:
        """Return the settings in types that JSON supports."""
        return parts_to_record(ESTIMATOR_FAMILIES, self.get_params(deep=False))

    @classmethod
    def _settings_of(cls, record: Mapping[str, Any], own: Mapping[str, PartLike]) -> dict[str, Any]:
        """Return the settings that `_settings` of this or an earlier version gave."""
        settings = parts_from_record(ESTIMATOR_FAMILIES, upgrade_settings(record, RULE_OF_SYSTEM), own)
        # An earlier version could say both.
        return settings | ({} if settings.get("coefficients") is None else {"system": None})

    def _choose_network(self, trainer: NodeTrainer) -> ChosenNetwork | None:
        """Return the usual network to train, given or chosen. None for the settings as given."""
        given = given_settings(self, NodeEstimator)
        if self.network is None or (self.network == AUTO and given & {*NETWORK_SETTINGS}):
            return None
        networks = without_given(USUAL_NETWORKS, given)
        if self.network != AUTO:
            return ChosenNetwork(self.network, networks[self.network])
        nodes, question = trainer.prepared.nodes, trainer.prepared.question
        num_starts, shared = (NUM_STARTS, FEW_NODES_SETTINGS) if nodes.num_nodes < FEW_NODES else (1, {})
        num_steps = min(self.num_steps, FEW_TRIAL_STEPS if nodes.num_nodes > MANY_NODES else TRIAL_STEPS)
        num_training = int(question.subsets[0].sum())
        names = suitable_networks(nodes.graph, num_training, has_classes=question.score != "squared error")
        if isinstance(nodes.features, MappedFeatures):  # too large to be compared, and without room for link lists
            names = [name for name in names if name not in BOUND_TO_NODES]

        def try_out(name: str) -> Trial:
            tried = self._built(ChosenNetwork(name, networks[name]))
            settings = tried._node_config(USUAL_ORDER if self.order == AUTO else self.order)
            patience = min(settings.patience or TRIAL_PATIENCE, TRIAL_PATIENCE)
            short = replace(settings, num_steps=num_steps, patience=patience)
            return trainer.try_out(short, num_starts, stage=f"trying {name}")

        trained = {name: {**shared, **settings} for name, settings in networks.items()}
        return choose_by_trials(trained, {name: try_out(name) for name in names}, num_starts)

    def _built(self, network: ChosenNetwork | None) -> Self:
        """Return an estimator with the settings of a usual network. If None, with its own."""
        if network is None:
            return self
        return type(self)(**self.get_params(deep=False) | parts_from_record(FAMILIES, network.settings, {}))

    def _given_order(self) -> ChosenOrder | None:
        """Return the order that the rule or the user decides. None if it is to be searched for."""
        only = self._node_config(1).only_order()
        if only is not None:
            return ChosenOrder(only)
        return None if self.order == AUTO else ChosenOrder(self.order)

    def _search_order(self, trainer: NodeTrainer) -> ChosenOrder:
        settings = self._node_config(1)
        return order_by_score(
            lambda order: trainer.score(replace(settings, order=order), stage=f"trying order {order}")
        )

    def _node_config(self, order: int) -> NodeConfig:
        if self.system is not None and self.coefficients is not None:
            raise InputError(
                f"Expected system or coefficients, got both: {self.system!r} stands for the rule "
                f"{rule_of(self.system, RULE_OF_SYSTEM)!r}. Leave one out."
            )
        rule = self.coefficients
        if rule is None:
            rule = "direct" if self.system is None else rule_of(self.system, RULE_OF_SYSTEM)
        return NodeConfig(
            system=self.system or COEFFICIENTS.name_of(rule),
            order=order,
            coefficients=rule,
            operator=USUAL_OPERATOR if self.operator is None else self.operator,
            embedding=GroupDescent(self.embedding_learning_rate, self.embedding_weight_decay),
            temporal=GroupDescent(self.temporal_learning_rate, self.temporal_weight_decay),
            spatial=GroupDescent(self.spatial_learning_rate, self.spatial_weight_decay),
            **{name: getattr(self, name) for name in _SAME_SETTINGS},
        )

    def _outputs(self, X: Any, graph: Any) -> Outputs:  # noqa: N803
        """Return the outputs of the network for nodes. If `X` is None, for the nodes of `fit`."""
        fitted = self._checked()
        if X is not None:
            nodes = fitted.as_trained(as_node_input(X, graph, fitted.config["settings"]["direction"]))
        elif graph is None and fitted.nodes is not None:
            nodes = fitted.nodes
        else:
            raise InputError("Expected features of nodes, got none. A loaded estimator has no data: pass X and graph.")
        return fitted.outputs(nodes, self.device)

    def _checked(self) -> FittedNodes:
        if not self.is_fitted:
            raise NotFittedError.of(self)
        return self.fitted_


def _check_savable(config: Mapping[str, Any]) -> None:
    """Raise an `InputError` for classes that a run folder cannot keep: it keeps text and numbers only."""
    for name in config["learned"].get("classes", ()):
        if not isinstance(name, str | int | float):
            raise InputError(f"Expected classes that are text or numbers to write them, got {name!r}. Rename them.")
