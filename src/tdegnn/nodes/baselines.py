"""What the score of a network for nodes is compared with: answers that need no network, each from one part of the data.

The most frequent class, or the mean; a linear model of the features alone, and for classes also a perceptron; a kernel
ridge of the link lists alone. Each is fitted to the training nodes. Its regularization, or the length of its training,
is chosen on validation, as the step of the network is. A baseline that would take longer than some seconds is left out,
and a note says so. Another note names a baseline that does as well as the network.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float

from tdegnn.data.nodes import NodeDataset
from tdegnn.files import finite_or_null
from tdegnn.kernel_ridge import TO_CHOOSE, ridge_scores
from tdegnn.node_views import KernelSetting, NodeViews
from tdegnn.training.node_training import NodeTask

Outputs = Float[np.ndarray, "nodes outputs"]

# From strong to weak regularization: of settings with the same score, the first one is taken.
STRENGTHS = (0.01, 0.1, 1.0)
PENALTIES = (1000.0, 10.0, 0.1)
KERNELS = tuple(
    KernelSetting(("links", "scaled-links"), sharpness, ridge) for sharpness in (1.0, 6.0) for ridge in (1.0, 0.1)
)
MOST_ITERATIONS = 100
# A perceptron of one hidden layer. Validation looks at it after some epochs, six times.
WIDTH, LEARNING_RATE, WEIGHT_DECAY = 64, 0.005, 0.1
NUM_LOOKS, FEWEST_EPOCHS, FEWEST_STEPS, ROWS_PER_STEP = 6, 3, 15, 200
# Sizes up to which a baseline takes a few seconds on one core.
MOST_ENTRIES = 20_000_000  # entries of the features of the training nodes, for a linear model times outputs
MOST_TRAINING = 4000  # rows of a system of equations
MOST_KERNEL = 10**8  # entries of a kernel
# Groups of nodes that are left out, one after the other, to find out how certain a score is.
NUM_GROUPS = 20


class BaselineTask(NamedTuple):
    """What baselines see.

    Attributes:
        nodes: Features, prepared as for the network, and graph.
        targets: One-hot classes, or numbers. Those of training nodes only are used.
        is_numbers: Whether targets are numbers.
        training: The nodes to fit.
    """

    nodes: NodeDataset
    targets: Outputs
    is_numbers: bool
    training: Bool[np.ndarray, " nodes"]

    @property
    def num_entries(self) -> int:
        """Entries of the features of the training nodes."""
        rows: Any = self.nodes.features[np.flatnonzero(self.training)]
        return int(rows.nnz if scipy.sparse.issparse(rows) else rows.size)


class Baseline(NamedTuple):
    """One kind of answer.

    Attributes:
        name: Its name in tables.
        subject: The beginning of a sentence "... as well".
        answers: Yields the outputs of each setting to choose from, of all nodes.
        is_small: Whether the task is small enough. If None, all tasks are.
    """

    name: str
    subject: str
    answers: Callable[[BaselineTask], Iterable[Outputs]]
    is_small: Callable[[BaselineTask], bool] | None = None


@dataclass(frozen=True)
class Measured:
    """The scores of the baselines.

    Attributes:
        scores: By the name of the baseline, the score on `"validation"` and on `"test"` nodes. None if there is none.
        notes: Baselines that do as well as the network, and those that were left out.
    """

    scores: dict[str, dict[str, float | None]]
    notes: tuple[str, ...]


def measure_baselines(
    task: NodeTask,
    seen: BaselineTask,
    validation: Bool[np.ndarray, " nodes"],
    test: Bool[np.ndarray, " nodes"],
    outputs: Outputs,
) -> Measured:
    """Fit baselines to the training nodes, choose their settings on validation, and compare them with a network.

    Args:
        task: Computes the scores.
        seen: What baselines see.
        validation: The nodes to choose settings by, and to compare on.
        test: The nodes on which the score is reported.
        outputs: The outputs of the network.
    """
    own = _score(task, outputs, validation)
    error = standard_error(task, outputs, validation)
    scores: dict[str, dict[str, float | None]] = {}
    notes = []
    for baseline in _baselines(seen):
        if baseline.is_small is not None and not baseline.is_small(seen):
            notes.append(f"The graph is too large to compare with {baseline.name} in a few seconds.")
            continue
        best = max(baseline.answers(seen), key=lambda answer: _score(task, answer, validation))
        score = _score(task, best, validation)
        scores[baseline.name] = {"validation": finite_or_null(score), "test": finite_or_null(_score(task, best, test))}
        if score >= own - error:
            how = "better" if score > own + error else "as well"
            shown = _shown(score, seen.is_numbers), _shown(own, seen.is_numbers)
            notes.append(f"{baseline.subject} {how}: {shown[0]} on validation, the network {shown[1]}.")
    return Measured(scores, tuple(notes))


def _baselines(seen: BaselineTask) -> Iterator[Baseline]:
    if seen.is_numbers:
        yield Baseline("the mean", "Always answering the mean does", _answer_mean)
        yield Baseline("ridge regression", "The features alone (ridge regression) do", _fit_ridge, _is_small_ridge)
    else:
        yield Baseline("the most frequent class", "Always answering the most frequent class does", _answer_mean)
        if len(np.unique(seen.targets[seen.training].argmax(axis=1))) > 1:
            subject = "The features alone (logistic regression) do"
            yield Baseline("logistic regression", subject, _fit_logistic, _is_small_linear)
            subject = "The features alone (a perceptron) do"
            yield Baseline("a perceptron", subject, _fit_perceptron, lambda seen: seen.num_entries <= MOST_ENTRIES)
    if seen.nodes.graph.num_edges:
        yield Baseline("kernel ridge", "The links alone (kernel ridge) do", _fit_kernel, _is_small_kernel)


def _answer_mean(seen: BaselineTask) -> Iterator[Outputs]:
    mean = seen.targets[seen.training].mean(axis=0)
    yield np.tile(mean, (len(seen.targets), 1))


def _is_small_linear(seen: BaselineTask) -> bool:
    return bool(seen.num_entries * seen.targets.shape[1] <= MOST_ENTRIES)


def _fit_logistic(seen: BaselineTask) -> Iterator[Outputs]:
    from sklearn.linear_model import LogisticRegression  # a prediction needs none of these models

    for strength in STRENGTHS:
        yield _fitted(LogisticRegression(C=strength, max_iter=MOST_ITERATIONS), seen)


def _fit_perceptron(seen: BaselineTask) -> Iterator[Outputs]:
    """Yield the outputs after some epochs of one training, again and again."""
    from sklearn.neural_network import MLPClassifier

    num_training = int(seen.training.sum())
    num_steps = -(-num_training // ROWS_PER_STEP)  # per epoch
    model = MLPClassifier(
        (WIDTH,),
        alpha=WEIGHT_DECAY,
        learning_rate_init=LEARNING_RATE,
        batch_size=min(ROWS_PER_STEP, num_training),
        max_iter=max(FEWEST_EPOCHS, -(-FEWEST_STEPS // num_steps)),
        warm_start=True,
        random_state=0,
    )
    for _ in range(NUM_LOOKS):
        yield _fitted(model, seen)


def _fitted(model: Any, seen: BaselineTask) -> Outputs:
    """Fit a model to the classes of the training nodes. Return the probabilities of all nodes."""
    from sklearn.exceptions import ConvergenceWarning

    features = seen.nodes.features
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline need not be exact
        model.fit(features[np.flatnonzero(seen.training)], seen.targets[seen.training].argmax(axis=1))
    outputs = np.zeros_like(seen.targets, dtype=np.float64)
    outputs[:, model.classes_] = model.predict_proba(features)
    return outputs


def _is_small_ridge(seen: BaselineTask) -> bool:
    return _is_small_linear(seen) and min(seen.training.sum(), seen.nodes.num_features) <= MOST_TRAINING


def _fit_ridge(seen: BaselineTask) -> Iterator[Outputs]:
    from sklearn.linear_model import Ridge

    features = seen.nodes.features
    for penalty in PENALTIES:
        model = Ridge(penalty).fit(features[np.flatnonzero(seen.training)], seen.targets[seen.training])
        yield np.asarray(model.predict(features)).reshape(seen.targets.shape)


def _is_small_kernel(seen: BaselineTask) -> bool:
    landmarks = TO_CHOOSE.landmarks(np.flatnonzero(seen.training))
    num_columns = int(seen.training.sum()) if landmarks is None else len(landmarks)
    return num_columns * seen.nodes.num_nodes <= MOST_KERNEL


def _fit_kernel(seen: BaselineTask) -> Iterator[Outputs]:
    training = np.flatnonzero(seen.training)
    views = NodeViews(seen.nodes.features, seen.nodes.graph, KERNELS)
    targets = torch.as_tensor(seen.targets[training], dtype=torch.float64)
    for _, scores in ridge_scores(views, training, targets, KERNELS, TO_CHOOSE):
        yield scores.numpy()


def _score(task: NodeTask, outputs: Outputs, mask: Bool[np.ndarray, " nodes"]) -> float:
    """Return the score on some nodes. NaN if there are none."""
    return float(task.scores(torch.as_tensor(outputs, dtype=torch.float64)[None], torch.as_tensor(mask)[None])[0])


def standard_error(task: NodeTask, outputs: Outputs, mask: Bool[np.ndarray, " nodes"]) -> float:
    """Return the standard error of a score, by the jackknife: how much it changes when groups of nodes are left out."""
    nodes = np.random.default_rng(0).permutation(np.flatnonzero(mask))
    num_groups = min(NUM_GROUPS, len(nodes))
    if num_groups < 2:
        return 0.0
    masks = np.tile(mask, (num_groups, 1))
    masks[np.arange(len(nodes)) % num_groups, nodes] = False
    repeated = torch.as_tensor(outputs, dtype=torch.float64).expand(num_groups, -1, -1)
    scores: Any = task.scores(repeated, torch.as_tensor(masks)).double().numpy()
    # ROC-AUC is not a number if the only node of a class was left out.
    known = scores[np.isfinite(scores)]
    return float(np.sqrt((num_groups - 1) * known.var())) if len(known) else 0.0


def _shown(score: float, is_numbers: bool) -> str:
    return f"squared error {-score:.3g}" if is_numbers else f"{score:.1%}"
