"""A training step of our node network against a plain transcription of its equations, and against PyG's GCN.

Forward, backward and Adam on one drawn graph: 64 channels, four layers, and four states for rules that learn c. The
rules: c = [1], a learned vector, attention. The transcription has the same weights and must have the same losses. GCN
has the same depth and width, and the same graph, which it normalizes once: as edges, PyG's usual form, and as a sparse
matrix in compressed rows. Sizes are that of Cora and a million messages; on a CUDA device also 20 million. Times are
medians of one run, in turns. Memory is what a step needs at its peak beside weights, features and graph. The last pair
has dropout: our step as `fit` makes it, and PyG's.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch

from benchmarks.memory import peak_bytes
from benchmarks.node_steps import (
    SYSTEMS,
    Nodes,
    Step,
    as_trained,
    edges_of,
    our_step,
    plain_step,
    pyg_as_trained,
    pyg_step,
    rows_of,
)
from benchmarks.timing import interleaved_medians

# Nodes and edges. Each edge carries messages both ways.
CORA, MILLION, LARGE = (2708, 5278), (50_000, 500_000), (1_000_000, 10_000_000)
DROPOUT = 0.5
# The transcription of this rule is measured at all sizes, those of the others on the smallest graph: they are slow.
ALWAYS = "learned vector"
SAME_LOSS, GOAL = 1e-5, 1.0


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes = (CORA, MILLION, LARGE) if device.type == "cuda" else (CORA, MILLION)
    if device.type == "cpu":
        print("left out: 20 million messages need a CUDA device")
    for num_nodes, num_edges in sizes:
        yield from _measure_size(Nodes.draw(num_nodes, num_edges, device), is_small=num_nodes == CORA[0])


def _measure_size(nodes: Nodes, *, is_small: bool) -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    where = f"{nodes.num_messages:,} messages"
    contestants = {f"ours, {rule}": our_step(system, nodes) for rule, system in SYSTEMS.items()}
    plain = [rule for rule in SYSTEMS if is_small or rule == ALWAYS]
    contestants |= {f"plain, {rule}": plain_step(SYSTEMS[rule], nodes) for rule in plain}
    contestants |= {"PyG": pyg_step(nodes, edges_of(nodes)), "PyG, sparse matrix": pyg_step(nodes, rows_of(nodes))}
    contestants |= {"ours, as fit trains": as_trained(SYSTEMS[ALWAYS], nodes, DROPOUT)}
    contestants |= {"PyG with dropout": pyg_as_trained(nodes, DROPOUT)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyG makes a sparse matrix, which torch calls beta
        losses = {name: float(step()) for name, step in contestants.items()}
    difference = max(abs(losses[f"ours, {rule}"] / losses[f"plain, {rule}"] - 1) for rule in plain)
    yield f"{where}: largest difference of losses, ours / plain - 1", difference, "", SAME_LOSS
    # Before steps are recorded: a recorded one allocates nothing.
    memory = {name: peak_bytes(step, nodes.features.device) for name, step in contestants.items()}
    seconds = _time(contestants, nodes.features.device, is_small=is_small)
    for name in contestants:
        yield f"{where}: a step, {name}", 1e3 * seconds[name], "ms"
    for name in contestants:
        yield f"{where}: memory of a step, {name}", memory[name] / 1e6, "MB"
    for rule in plain:
        yield f"{where}: time, ours / plain, {rule}", seconds[f"ours, {rule}"] / seconds[f"plain, {rule}"], "x"
    pairs = {rule: (f"ours, {rule}", "PyG") for rule in SYSTEMS} | {
        "as fit trains": ("ours, as fit trains", "PyG with dropout")
    }
    for name, (ours, theirs) in pairs.items():
        # On a graph as small as Cora, the number of operations decides, and GCN has fewer.
        goal = [] if is_small else [GOAL]
        yield (f"{where}: time, ours / PyG, {name}", seconds[ours] / seconds[theirs], "x", *goal)
        yield (f"{where}: memory, ours / PyG, {name}", memory[ours] / memory[theirs], "x", *goal)
    for rule in SYSTEMS:
        ratio = seconds[f"ours, {rule}"] / seconds["PyG, sparse matrix"]
        yield f"{where}: time, ours / PyG with a sparse matrix, {rule}", ratio, "x"


def _time(contestants: dict[str, Step], device: torch.device, *, is_small: bool) -> dict[str, float]:
    def finish(step: Step) -> None:
        step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    many = is_small or device.type == "cuda"
    steps = {name: lambda step=step: finish(step) for name, step in contestants.items()}
    return interleaved_medians(steps, repetitions=20 if many else 3, warm_up=5 if many else 0)
