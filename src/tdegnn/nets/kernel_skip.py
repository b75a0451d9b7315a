"""The frozen skip of a node network: `w f`, with f the scores of a kernel ridge and w a learned scale.

f is solved once, before the training (`tdegnn.kernel_ridge`), and does not learn. On a training node it comes from a
ridge that has not seen the target of this node. Otherwise the network would learn to trust a memorized target. The twin
for series is the linear skip of the forecaster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tdegnn.adjacency import keep
from tdegnn.errors import InputError, check_count, check_finite
from tdegnn.files import read_arrays, write_arrays
from tdegnn.graph import Graph
from tdegnn.kernel_ridge import TO_CHOOSE, TO_SOLVE, VIEW_SETS, Auto, candidates, out_of_fold_scores
from tdegnn.nets.node_parts import NodeSkip
from tdegnn.node_views import KernelSetting, NodeViews
from tdegnn.training_nodes import TrainingNodes

# Settings are chosen on at most this many of the training nodes, evenly spaced: some hundred ridges take seconds then.
MOST_TO_CHOOSE_ON = 1000

_FOLDER: ContextVar[Path | None] = ContextVar("where scores are kept", default=None)


@contextmanager
def keep_scores_in(folder: Path) -> Iterator[None]:
    """Inside the `with` block, skips read scores from files in a folder, and write there what they solve for.

    Trainings of many configurations, by several processes, then solve for the scores of a split once.
    """
    before = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(before)


class _Settings(NamedTuple):
    views: Sequence[str] | Auto
    sharpness: float | Auto
    ridge: float | Auto
    num_folds: int
    first_scale: float


class KernelRidgeSkip(NodeSkip):
    """Scores of a kernel ridge times a learned scale, `w f`.

    `f = K (K_tt + lambda m I)^-1 (Y - y) + y`, solved from all training nodes; on a training node, from the folds that
    it is not in. Folds go by the order of the nodes: relabelling nodes may change f, but only on training nodes. What
    is `"auto"` is chosen by the squared error between out-of-fold scores and targets. So only training nodes decide.

    Deviation: with more than 10,000 training nodes, K is approximated by 4,000 landmarks among them
    (`tdegnn.kernel_ridge.TO_SOLVE`), and relabelling nodes draws others.

    Args:
        num_nodes: Nodes of the graph.
        num_outputs: Outputs per node: classes, or targets of a regression.
        views: Names of `tdegnn.node_views.VIEWS`, whose cosines are averaged, or one name. Default:
            `"auto"`.
        sharpness: g of the kernel `exp(g (cos - 1))`. Default: `"auto"`.
        ridge: lambda, relative to the mean of the diagonal of the kernel. Default: `"auto"`.
        num_folds: Number of folds. Default: 5.
        first_scale: Where w starts, and where weight decay pulls it. Default: 10, for scores of classes. Use 1 for a
            regression.
    """

    anchored: ClassVar[tuple[str, ...]] = ("scale",)
    scores: Tensor

    def __init__(
        self,
        num_nodes: int,
        num_outputs: int,
        *,
        views: Sequence[str] | Auto = "auto",
        sharpness: float | Auto = "auto",
        ridge: float | Auto = "auto",
        num_folds: int = 5,
        first_scale: float = 10.0,
    ) -> None:
        super().__init__()
        check_count(num_nodes=num_nodes, num_outputs=num_outputs)
        check_count(2, num_folds=num_folds)
        check_finite(first_scale=first_scale)
        if isinstance(views, str) and views != "auto":
            views = (views,)  # a single name
        if not isinstance(views, str | list | tuple):
            raise InputError(f'Expected views to be "auto" or a list of names, got {views!r}. Correct it.')
        KernelSetting(
            VIEW_SETS[0] if views == "auto" else tuple(views),
            1.0 if sharpness == "auto" else sharpness,
            1.0 if ridge == "auto" else ridge,
        ).check()
        # Not as plain numbers, which would have to be the same in all networks that are trained together.
        self._settings = _Settings(views, sharpness, ridge, num_folds, first_scale)
        self.register_buffer("scores", torch.zeros(num_nodes, num_outputs))
        self.scale = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Return the scale to where it starts. The scores stay."""
        nn.init.constant_(self.scale, self._settings.first_scale)

    def see_training_nodes(self, nodes: TrainingNodes) -> None:
        """Choose what is not given, and solve for the scores, on the device of this skip.

        What is found is kept with the graph: members of a training that see the same nodes find it once.
        """
        if nodes.targets.shape != self.scores.shape:
            raise InputError(
                f"Expected targets of shape {tuple(self.scores.shape)}, for which this skip was made, got "
                f"{nodes.targets.shape}."
            )
        training = np.flatnonzero(nodes.mask)
        if len(training) < 2:
            raise InputError(f"Expected at least 2 training nodes for a kernel ridge, got {len(training)}. Add some.")
        settings, num_folds = self._task(nodes)

        def find() -> Tensor:
            folder = _FOLDER.get()
            if folder is None:
                return _solve(nodes, training, settings, num_folds, self.scores)
            file = self.file_in(folder, nodes)
            if not file.exists():
                solved = _solve(nodes, training, settings, num_folds, self.scores)
                write_arrays(file, {"scores": solved.cpu().numpy()})
            return torch.as_tensor(read_arrays(file)[0]["scores"]).to(self.scores)

        name = ("kernel ridge", settings, num_folds, _digest(nodes))
        self.scores.copy_(keep(nodes.graph, name, self.scores, find))

    def file_in(self, folder: Path, nodes: TrainingNodes) -> Path:
        """Return the file of a folder that has the scores of these nodes, or will have them, see `keep_scores_in`."""
        graph = nodes.graph
        edges = (graph.edge_index.numpy(), graph.edge_weight.numpy())
        digest = hashlib.sha256(f"{self._task(nodes)}, {self.scores.dtype}, {graph.direction}".encode())
        for array in edges:
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(_digest(nodes).encode())
        return folder / f"{digest.hexdigest()[:32]}.npz"

    def _task(self, nodes: TrainingNodes) -> tuple[tuple[KernelSetting, ...], int]:
        """Return the settings to choose from, and the number of folds."""
        given = self._settings
        settings = candidates(nodes.graph, given.views, given.sharpness, given.ridge)
        return settings, min(given.num_folds, int(nodes.mask.sum()))

    def forward(self, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node, scaled."""
        if graph.num_whole_nodes != len(self.scores):
            raise InputError(
                f"Expected the graph of the training, of {len(self.scores)} nodes, since a kernel ridge scores only "
                f"these, got {graph.num_whole_nodes} nodes."
            )
        return self.scale * graph.of_its_nodes(self.scores)

    def extra_repr(self) -> str:
        """Return the settings shown by `repr`."""
        views, sharpness, ridge, num_folds, _ = self._settings
        return f"views={views}, sharpness={sharpness}, ridge={ridge}, num_folds={num_folds}"


def _solve(
    nodes: TrainingNodes,
    training: Int[np.ndarray, " training"],
    settings: Sequence[KernelSetting],
    num_folds: int,
    like: Tensor,
) -> Float[Tensor, "nodes outputs"]:
    """Return the scores of all nodes, out-of-fold ones on training nodes."""
    # Cosines in the precision of the network; the ridge itself is solved in float64.
    views = NodeViews(nodes.features, nodes.graph, settings, device=like.device, dtype=like.dtype)
    targets = torch.as_tensor(nodes.targets, dtype=torch.float64, device=like.device)
    setting = settings[0] if len(settings) == 1 else _choose(views, training, targets, settings, num_folds)
    solved = out_of_fold_scores(views, training, targets[training], [setting], TO_SOLVE, num_folds, with_others=True)
    ((_, scores),) = solved
    return scores.to(like.dtype)


def _choose(
    views: NodeViews,
    training: Int[np.ndarray, " training"],
    targets: Float[Tensor, "nodes outputs"],
    settings: Sequence[KernelSetting],
    num_folds: int,
) -> KernelSetting:
    """Return the setting with the smallest squared error of out-of-fold scores. Of several, the first."""
    judged = training[:: -(-len(training) // MOST_TO_CHOOSE_ON)]
    wanted = targets[judged]
    errors = [
        float((scores - wanted).square().mean())
        for _, scores in out_of_fold_scores(views, judged, wanted, settings, TO_CHOOSE, num_folds)
    ]
    return settings[int(np.argmin(errors))]


def _digest(nodes: TrainingNodes) -> str:
    """Return a digest of everything but the graph."""
    features: Any = nodes.features
    arrays = [features.indptr, features.indices, features.data] if scipy.sparse.issparse(features) else [features]
    digest = hashlib.sha256()
    for array in (*arrays, nodes.targets, nodes.mask):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
