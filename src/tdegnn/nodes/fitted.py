"""The fitted state of a node estimator: one value, complete before the estimator gets it.

`NodeTrainer` makes a `FittedNodes` from prepared nodes, `FittedNodes.read` from a run folder. It holds everything that
a prediction needs: settings that the user changes after `fit` do not change what a fitted estimator predicts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite, nan
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor, nn

from tdegnn.batches.base import Batches
from tdegnn.batches.registry import BATCHES
from tdegnn.core.segments import SegmentLength
from tdegnn.data.mapped_features import MappedFeatures
from tdegnn.data.nodes import Features, FeatureScaling, NodeDataset
from tdegnn.errors import LARGEST_SCALED, Argument, InputError, Message, TrainingError, find_too_large
from tdegnn.files import finite_or_null
from tdegnn.nets.in_blocks import check_has_blocks
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.nodes.baselines import BaselineTask, Measured, Outputs, measure_baselines, standard_error
from tdegnn.nodes.batch_training import BatchTraining
from tdegnn.nodes.block_run import run_network
from tdegnn.nodes.inputs import NodeInput
from tdegnn.nodes.settings import NodeConfig
from tdegnn.nodes.usual_networks import (
    BOUND_TO_NODES,
    WITHOUT_EDGES,
    Trial,
    can_have_folds,
    hold_out_in_turn,
    mean_trial,
    repeat_subsets,
)
from tdegnn.parts import PartLike, parts_must_fit
from tdegnn.runs.run_folder import RunFolder
from tdegnn.training.devices import DeviceName, Placement, choose_placement, place, threads_for
from tdegnn.training.loop import FitResult, Look, fit
from tdegnn.training.network_choice import ChosenNetwork
from tdegnn.training.node_rows import NodeRows
from tdegnn.training.node_training import (
    ClassScore,
    NodeSubsets,
    NodeTask,
    TaskTraining,
    as_input,
    show_training_nodes,
)
from tdegnn.training.order_choice import ChosenOrder
from tdegnn.training.processes import ALONE, Processes
from tdegnn.training.progress import OnProgress, Progress, ignore
from tdegnn.training.stored_weights import check_coefficients, check_members, making_what_is_stored, take_weights

OnLook = Callable[[Look], None]
# The stages of a fit that are always there. Before them, networks and orders may be tried.
TRAINING, BASELINES = "training", "baselines"
ScoreName = ClassScore | Literal["squared error"]
# A training whose best step is in this last share of its steps was still improving.
LAST_SHARE = 0.1


class Question(NamedTuple):
    """The task at some nodes.

    Attributes:
        task: Computes losses and scores from the outputs of the network.
        score: What the score is. Squared errors count negative.
        num_outputs: Outputs per node.
        subsets: Masks of the training, validation and test nodes.
        answers: The known labels or numbers of the nodes, for the checksum.
        learned: Values found before training that predictions need, in types that JSON supports.
        notes: What a reader of the score should know about the nodes that it is measured on.
    """

    task: NodeTask
    score: ScoreName
    num_outputs: int
    subsets: tuple[Bool[np.ndarray, " nodes"], ...]
    answers: Shaped[np.ndarray, "nodes ..."]
    learned: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def classes(self) -> Int64[np.ndarray, " nodes"] | None:
        """The class of each node, if classes are learned. None for numbers."""
        return None if self.score == "squared error" else self.answers


@dataclass(frozen=True, eq=False)
class PreparedNodes:
    """The nodes of a training, and its task.

    Attributes:
        nodes: Features, scaled, and graph.
        question: The task.
        scaling: How the features were scaled. None if they were not.
        feature_names: The names of the features, if they have names.
    """

    nodes: NodeDataset
    question: Question
    scaling: FeatureScaling | None
    feature_names: tuple[str, ...] | None

    def describe(self, source: dict[str, Any]) -> dict[str, Any]:
        """Return the entry about the data in the settings of a run folder.

        Args:
            source: Where the data came from.
        """
        nodes = self.nodes
        data = {
            "nodes": nodes.num_nodes,
            "features": nodes.num_features,
            "edges": nodes.graph.num_edges,
            "direction": nodes.graph.direction,
            "sha256": self._checksum(),
        }
        return {
            # What is needed to read the data back must not be replaced.
            "data": {**source, **data},
            "num_outputs": self.question.num_outputs,
            "learned": self.question.learned,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "feature_scaling": None if self.scaling is None else self.scaling.to_record(),
        }

    def _checksum(self) -> str:
        """SHA-256 of everything that was given, except the names of classes."""
        arrays = [] if self.scaling is None else [self.scaling.center, self.scaling.scale]
        digest = hashlib.sha256()
        for array in chain(
            self._features(), self.nodes.graph.arrays(), arrays, [self.question.answers], self.question.subsets
        ):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _features(self) -> Iterable[Shaped[np.ndarray, "..."]]:
        if isinstance(self.nodes.features, MappedFeatures):
            return self.nodes.features.chunks()
        matrix = scipy.sparse.csr_array(self.nodes.features)
        return [matrix.indptr, matrix.indices, matrix.data]


@dataclass(frozen=True, eq=False)
class FittedNodes:
    """The result of a training, and its settings.

    Attributes:
        network: The trained network.
        weights: Its weights on the CPU, as a run folder stores them.
        settings: The settings of the network, with the order that was used.
        config: The settings of the run folder: those of the estimator, and the data.
        coefficients: The learned c, layers x order.
        history: Step, loss and score of each validation.
        summary: Best step, which score it is, scores at that step, those of baselines, order, notes.
        order_choice: The order, and the reason for it.
        nodes: The nodes of the training, scaled. None after `load`: data are not saved.
        question: The task at these nodes. None after `load`.
    """

    network: StationaryNetwork
    weights: dict[str, Tensor]
    settings: NodeConfig
    config: dict[str, Any]
    coefficients: Float[np.ndarray, "layers order"]
    history: list[dict[str, Any]]
    summary: dict[str, Any]
    order_choice: ChosenOrder
    nodes: NodeDataset | None = None
    question: Question | None = None

    @property
    def learned(self) -> dict[str, Any]:
        """What the task learned: the classes, or center and scale of the targets."""
        learned: dict[str, Any] = self.config["learned"]
        return learned

    @property
    def scaling(self) -> FeatureScaling | None:
        """How features are scaled. None if they are not."""
        return FeatureScaling.from_record(self.config.get("feature_scaling"))

    @property
    def num_features(self) -> int:
        """Features per node, without those of the adjacency."""
        return int(self.config["data"]["features"])

    @classmethod
    def read(
        cls, folder: RunFolder, config: dict[str, Any], settings: NodeConfig, order_choice: ChosenOrder
    ) -> FittedNodes:
        """Read the result of a finished training.

        Args:
            folder: Its run folder.
            config: The settings of the run folder, checked.
            settings: The settings of the network.
            order_choice: The order of `settings`, and the reason for it.
        """
        from tdegnn.nodes.schema import read_summary

        data, estimator = config["data"], config["settings"]
        num_features = data["features"] + (data["nodes"] if settings.adjacency_features else 0)
        weights, coefficients = folder.read_weights(), folder.read_coefficients()["coefficients"]
        check_members(weights, 1, folder.path)
        check_coefficients(coefficients, settings.num_layers, order_choice.order, folder.path)
        summary = read_summary(folder)
        with making_what_is_stored(weights, folder.path):
            network = settings.build_network(
                num_features, config["num_outputs"], estimator["seed"], data["nodes"], estimator["segment_length"]
            )
        place(network, choose_placement("cpu", estimator["precision"]))
        take_weights(network, weights, 0, folder.path, settings.part_records())
        return cls(
            network.eval(),
            weights,
            settings,
            config,
            coefficients,
            _history_of(folder.read_history(), summary["start"]),
            summary,
            order_choice,
        )

    def write(self, folder: RunFolder) -> None:
        """Write the last files of a training, which mark its folder as finished."""
        folder.write_weights(self.weights)
        folder.write_coefficients(self.coefficients)
        folder.finish(self.summary)

    def save(self, path: str | Path) -> None:
        """Write everything to a new run folder."""
        with RunFolder.create(path, self.config, is_saved=True) as folder:
            for line in self.history:
                folder.append_metrics(line)
            self.write(folder)

    def as_trained(self, given: NodeInput) -> NodeDataset:
        """Return nodes with their features in the order and in the units of the training."""
        nodes, came, trained = given.nodes, given.feature_names, self.config.get("feature_names")
        if nodes.num_features != self.num_features:
            raise InputError(
                f"Expected the {self.num_features} features of the training, got {nodes.num_features} per node."
            )
        if came is not None and trained is not None and list(came) != trained:
            missing = [name for name in trained if name not in came]
            if missing:
                raise InputError(
                    f"Expected the {len(trained)} features of the training, got none called {missing[0]!r}. Rename it."
                )
            nodes = replace(nodes, features=nodes.features[:, [came.index(name) for name in trained]])
        scaling = self.scaling
        if scaling is not None:
            nodes = replace(nodes, features=scaling.apply(nodes.features))
        self._check_near(nodes.features)
        return nodes

    def _check_near(self, features: Features) -> None:
        """Raise an `InputError` for features, scaled, that numbers of 32 bits cannot be computed with."""
        num_before = 0
        for rows in features.chunks() if isinstance(features, MappedFeatures) else (features,):
            entries: Any = rows.data if scipy.sparse.issparse(rows) else rows
            place = find_too_large(entries, LARGEST_SCALED)
            if place is None:
                num_before += rows.shape[0]
                continue
            where = f" for node {num_before + place[0]}, feature {place[1]}" if len(place) == 2 else ""
            units = "" if self.scaling is None else " standard deviations of those of the training"
            raise InputError(
                f"Expected features within {LARGEST_SCALED:g}{units}, got {entries[place]:g}{where}. Correct it, or "
                "train with features of this size."
            )

    def _check_may_be_others(self, num_nodes: int, found: int) -> None:
        """Raise an `InputError` if the network is for the nodes of its training only."""
        if self.settings.adjacency_features:
            reason = "whose adjacency is a feature", "without adjacency_features"
        elif self.settings.is_for_its_nodes or self.network.sees_training_nodes:
            reason = "which the network knows one by one", "with other parts"
        else:
            return
        if self.config.get("chosen_network") is not None:
            reason = reason[0], "with network='diffusion'"
        raise InputError(
            f"Expected the {num_nodes} nodes of the training, {reason[0]}, got {found}. Train {reason[1]} to predict "
            "other nodes."
        )

    def outputs(self, nodes: NodeDataset, device: DeviceName) -> Outputs:
        """Return the outputs of the network for nodes.

        Args:
            nodes: Nodes as in the training, see `as_trained`.
            device: Where to compute.
        """
        num_nodes = self.config["data"]["nodes"]
        if nodes.num_nodes != num_nodes:
            self._check_may_be_others(num_nodes, nodes.num_nodes)
        placement = choose_placement(device, self.config["settings"]["precision"])
        place(self.network, placement).eval()
        batches = self.config["settings"].get("batches")
        found = _outputs_of(self.network, self.settings.prepare(nodes), placement, batches)
        if not np.isfinite(found).all():
            raise TrainingError(
                "Expected numbers as outputs of the network, got some that are none. Predict other features, or train "
                "with a lower learning rate or step size."
            )
        return found


@dataclass(frozen=True)
class NodeTrainer:
    """Trains networks on prepared nodes.

    Attributes:
        prepared: The nodes.
        placement: Where to compute.
        seed: Seed of weights and dropout.
        validate_every: Steps between two validations.
        has_baselines: Whether the result is compared with baselines.
        on_look: Called with the result of each validation.
        on_progress: Called at the start of each stage and after each of its steps.
        batches: How to train on a part of the graph at a time. If None, a step sees the whole graph.
        segment_length: Layers per segment of a training step, see `integrate`.
        processes: Who trains. Several need batches to share.
    """

    prepared: PreparedNodes
    placement: Placement
    seed: int
    validate_every: int
    has_baselines: bool = True
    on_look: OnLook | None = None
    on_progress: OnProgress = ignore
    batches: PartLike = None
    segment_length: SegmentLength = None
    processes: Processes = ALONE

    def start(self, settings: NodeConfig, num_starts: int = 1) -> TaskTraining:
        """Return a training before its first step. Raise an `InputError` if a part does not fit.

        Args:
            settings: The settings of the network.
            num_starts: Number of networks with other first weights, as members of the training.
        """
        return self._start(settings, repeat_subsets(self.prepared.question.subsets, num_starts))

    def _start(self, settings: NodeConfig, subsets: NodeSubsets) -> TaskTraining:
        """Return a training before its first step, with one start per row of the subsets."""
        nodes, question = settings.prepare(self.prepared.nodes), self.prepared.question
        num_starts, sizes = len(subsets.training), (nodes.num_features, question.num_outputs)
        networks = [
            settings.build_network(*sizes, self.seed + start, nodes.num_nodes, self.segment_length)
            for start in range(num_starts)
        ]
        descents = [settings.descent] * num_starts
        seen = show_training_nodes(networks, nodes, question.task, subsets)
        shared = (question.task, subsets, self.placement, settings.select_by)
        if self.batches is not None:
            check_has_blocks(networks[0].operator)
            made: Batches = BATCHES.make(self.batches, num_layers=settings.num_layers)
            plan = made.plan(nodes.graph, np.flatnonzero(subsets.training.any(axis=0)), self.seed)
            rows = NodeRows(nodes.features, self.placement)
            in_batches = BatchTraining(
                seen,
                descents,
                rows,
                nodes.graph,
                plan,
                *shared,
                batches_per_step=made.batches_per_step,
                processes=self.processes,
            )
            with parts_must_fit():
                in_batches.try_first_batch()
            return in_batches
        inputs = as_input(nodes, self.placement), nodes.graph
        training = TaskTraining(seen, descents, inputs, *shared)
        with parts_must_fit():
            training.members.evaluate(*inputs)
        return training

    def score(self, settings: NodeConfig, num_starts: int = 1, *, stage: str = TRAINING) -> float:
        """Train, and return the best score on validation. With several starts, that of the best one.

        Args:
            settings: The settings of the network.
            num_starts: Number of networks with other first weights.
            stage: Name of this stage of the work.
        """
        training = self.start(settings, num_starts)
        best = self._run(training, settings, stage, self.on_look, None).best_member
        return float(training.best_scores[best])

    def try_out(self, settings: NodeConfig, num_starts: int = 1, *, stage: str = TRAINING) -> Trial:
        """Train, and return how good a network is on nodes that it was not trained on, at its step of the lowest loss.

        If each start holds out other nodes (`usual_networks.py`), that is the mean over them, else the best start.

        Args:
            settings: The settings of the network.
            num_starts: Number of networks with other first weights.
            stage: Name of this stage of the work.
        """
        question = self.prepared.question
        has_folds = can_have_folds(question.subsets, num_starts)
        if has_folds:
            subsets = hold_out_in_turn(question.subsets, num_starts, self.seed, question.classes)
        else:
            subsets = repeat_subsets(question.subsets, num_starts)
        training = self._start(replace(settings, select_by="loss"), subsets)
        result = self._run(training, settings, stage, self.on_look, None)

        def judge(start: int) -> Trial:
            loss, outputs = -float(result.best_scores[start]), self._outputs(training.members.network(start), settings)
            # The score of a start that never had a finite loss was never measured.
            score = float(training.best_scores[start]) if isfinite(loss) else nan
            return Trial(score, loss, standard_error(question.task, outputs, subsets.validation[start]))

        return mean_trial([judge(start) for start in (range(num_starts) if has_folds else [result.best_member])])

    def train(
        self,
        training: TaskTraining,
        settings: NodeConfig,
        config: dict[str, Any],
        order_choice: ChosenOrder,
        folder: RunFolder | None,
        on_look: OnLook = lambda _: None,
    ) -> FittedNodes:
        """Train, and return the result.

        Args:
            training: The result of `start`.
            settings: The settings of the network.
            config: The settings of the run folder.
            order_choice: The order of `settings`, and the reason for it.
            folder: The run folder to write to, if any.
            on_look: Called with the result of each validation of this training.
        """
        history: list[dict[str, Any]] = [] if folder is None else folder.read_history()

        def see(look: Look) -> None:
            history.append(look.to_record())
            if self.on_look is not None:
                self.on_look(look)
            on_look(look)

        result = self._run(training, settings, TRAINING, see, folder)
        best = result.best_member
        if not bool(result.best_scores[best].isfinite()):
            raise TrainingError(
                "Expected outputs that are numbers, got none from the first validation on. "
                "Lower the learning rates or the step size, or take an operator with ",
                Argument("batch_norm", value=True),
                ".",
            )
        network = training.members.network(best)
        assert isinstance(network, StationaryNetwork)
        if isinstance(training, BatchTraining):
            training.forget_surroundings()
        measured = self._measure_baselines(network, settings) if self.has_baselines else Measured({}, ())
        nodes = settings.prepare(self.prepared.nodes)
        fitted = FittedNodes(
            network,
            {name: tensor[best : best + 1].cpu() for name, tensor in training.best_weights().items()},
            settings,
            config,
            _coefficients_of(network, nodes, self.placement, self.batches),
            _history_of(history, best),
            {
                "best_step": int(result.best_steps[best]),
                "score": self.prepared.question.score,
                "validation_score": float(training.best_scores[best]),
                # NaN if there is no test node, or none of a class that ROC-AUC needs.
                "test_score": finite_or_null(float(training.best_test_scores[best])),
                "is_diverged": bool(result.is_diverged[best]),
                "order": network.coefficients.order,
                "start": best,
                "baselines": measured.scores,
                "notes": [
                    *self.prepared.question.notes,
                    *_notes_of_network(config, has_edges=self.prepared.nodes.graph.num_edges > 0),
                    *self._notes_of_batches(settings),
                    *_notes_of_end(result, best, settings),
                    *measured.notes,
                ],
            },
            order_choice,
            self.prepared.nodes,
            self.prepared.question,
        )
        if folder is not None:
            fitted.write(folder)
        return fitted

    def _measure_baselines(self, network: StationaryNetwork, settings: NodeConfig) -> Measured:
        self.on_progress(Progress(BASELINES, 0, 1))
        if isinstance(self.prepared.nodes.features, MappedFeatures):
            return Measured({}, ("The features are in a file, too large to compare with baselines in a few seconds.",))
        question, outputs = self.prepared.question, self._outputs(network, settings)
        # Without the features and edges that only the network gets.
        plain = replace(settings, adjacency_features=False, self_loops=False).prepare(self.prepared.nodes)
        training, validation, test = question.subsets
        targets = question.task.targets(question.num_outputs)
        seen = BaselineTask(plain, targets, question.score == "squared error", training)
        return measure_baselines(question.task, seen, validation, test, outputs)

    def _notes_of_batches(self, settings: NodeConfig) -> Iterator[str]:
        """Yield a note if noise of the gradients weakens the weight decay."""
        has_decay = bool(settings.embedding.weight_decay or settings.spatial.weight_decay)
        if self.batches is not None and has_decay and not settings.optimizer_kind.is_decoupled:
            text = "Batches make gradients noisy, which weakens a weight decay inside the gradient of Adam. Pass "
            yield Message(text, Argument("optimizer", "adamw"), " with larger weight decays, such as 1.")

    def _outputs(self, network: nn.Module, settings: NodeConfig) -> Outputs:
        """Return the outputs of a network for all nodes."""
        assert isinstance(network, StationaryNetwork)
        return _outputs_of(network, settings.prepare(self.prepared.nodes), self.placement, self.batches)

    def _run(
        self,
        training: TaskTraining,
        settings: NodeConfig,
        stage: str,
        on_look: OnLook | None,
        folder: RunFolder | None,
    ) -> FitResult:
        validate_every = self.validate_every
        if isinstance(training, BatchTraining):
            # All nodes are validated: that takes as long as an epoch.
            validate_every = max(validate_every, training.steps_an_epoch)
        num_steps = settings.num_steps
        self.on_progress(Progress(stage, 0, num_steps))
        with threads_for(self.prepared.nodes.num_nodes * settings.hidden_channels):
            return fit(
                training,
                num_steps=num_steps,
                validate_every=validate_every,
                patience=settings.patience,
                on_step=lambda step: self.on_progress(Progress(stage, step, num_steps)),
                on_look=on_look,
                run=folder,
            )


def _history_of(history: list[dict[str, Any]], start: int) -> list[dict[str, Any]]:
    """Return the history of one of several starts."""
    return [
        {name: value[start] if isinstance(value, list) else value for name, value in line.items()} for line in history
    ]


def _notes_of_network(config: dict[str, Any], *, has_edges: bool) -> Iterator[str]:
    """Yield why the network was chosen, and what it cannot do."""
    chosen = ChosenNetwork.kept_in(config)
    if chosen is not None and chosen.reason:
        yield chosen.reason
        if chosen.name in WITHOUT_EDGES and has_edges:
            yield "Edges do not help on validation: they are left out."
        if chosen.name in BOUND_TO_NODES:
            text = "This network predicts only the nodes of its training. To predict others, pass "
            yield Message(text, Argument("network", "diffusion"), ".")


def _notes_of_end(result: FitResult, start: int, settings: NodeConfig) -> Iterator[str]:
    """Yield a note if the training was still improving when it ended."""
    last, best, patience = result.steps[-1], int(result.best_steps[start]), settings.patience
    is_late = best > (1 - LAST_SHARE) * settings.num_steps
    has_patience_left = patience is not None and last - best < patience
    if last == settings.num_steps and not bool(result.is_diverged[start]) and (is_late or has_patience_left):
        text = f"The training ended after {last} steps while it might still improve: its best step was {best}"
        waited = "" if is_late else f", and it waits for {patience} steps without improvement"
        yield Message(f"{text}{waited}. Pass ", Argument("num_steps", option="steps"), " for more steps.")


def _outputs_of(network: StationaryNetwork, nodes: NodeDataset, placement: Placement, batches: PartLike) -> Outputs:
    """Return the outputs of all nodes. A network that was trained in batches computes them in blocks."""
    with torch.no_grad(), threads_for(nodes.num_nodes * network.hidden_channels):
        if batches is None:
            outputs = network(as_input(nodes, placement), nodes.graph)
        else:
            outputs = run_network(network, nodes, placement).outputs
    return np.asarray(outputs.double().cpu().numpy())


def _coefficients_of(
    network: StationaryNetwork, nodes: NodeDataset, placement: Placement, batches: PartLike
) -> Float[np.ndarray, "layers order"]:
    with torch.no_grad(), threads_for(nodes.num_nodes * network.hidden_channels):
        if batches is None:
            coefficients = network.integrate(as_input(nodes, placement), nodes.graph).coefficients
        else:
            coefficients = run_network(network, nodes, placement).integration.coefficients
    return np.asarray(coefficients.double().cpu().numpy())
