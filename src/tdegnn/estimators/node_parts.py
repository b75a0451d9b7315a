"""Which nodes are trained on, validated, tested and scored, from what the user gives and what is left open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int64

from tdegnn.data.node_inputs import NodeInput, align, as_mask, hold_out
from tdegnn.data.nodes import PARTS
from tdegnn.errors import InputError


def choose_parts(
    given: NodeInput,
    is_known: Bool[np.ndarray, " nodes"],
    split: int,
    parts: tuple[Any, Any, Any],
    seed: int,
    strata: Int64[np.ndarray, " nodes"] | None,
) -> tuple[Bool[np.ndarray, " nodes"], ...]:
    """Training, validation and test nodes: those given, else those of the split, else all with a label."""
    num_nodes = len(is_known)
    names = ("train", "validation", "test")
    chosen = [None if part is None else as_mask(part, num_nodes, name) for part, name in zip(parts, names, strict=True)]
    if given.masks is not None and all(part is None for part in chosen):
        num_splits = len(given.masks[0])
        if not 0 <= split < num_splits:
            raise InputError(f"Expected split to be from 0 to {num_splits - 1}, got {split}.")
        # An empty part is one that nobody has made.
        chosen = [masks[split] if masks[split].any() else None for masks in given.masks]
    training, validation, test = chosen
    test = np.zeros(num_nodes, dtype=bool) if test is None else test
    if training is None:
        training = is_known & ~test if validation is None else is_known & ~test & ~validation
    if validation is None:
        numbers = np.flatnonzero(training & is_known)
        held = hold_out(numbers, seed, None if strata is None else strata[numbers])
        validation = as_mask(held, num_nodes, "validation")
        training = training & ~validation
    _check_parts((training, validation, test), is_known)
    return training, validation, test


def _check_parts(masks: tuple[Bool[np.ndarray, " nodes"], ...], is_known: Bool[np.ndarray, " nodes"]) -> None:
    for name, mask in zip(PARTS, masks, strict=True):
        if not mask.any() and name != "test":
            raise InputError(f"Expected at least one {name} node, got none.")
        if (mask & ~is_known).any():
            node = int(np.argmax(mask & ~is_known))
            raise InputError(f"Expected a label for each {name} node, got none for node {node}. Leave it out.")
    times_used = np.stack(masks).sum(axis=0)
    if (times_used > 1).any():
        node = int(np.argmax(times_used > 1))
        raise InputError(f"Expected each node in one part at most, got node {node} in two.")


def counted_nodes(is_known: Bool[np.ndarray, " nodes"], nodes: Any) -> Bool[np.ndarray, " nodes"]:
    """The nodes that a score counts."""
    counts = is_known if nodes is None else is_known & as_mask(nodes, len(is_known), "nodes")
    if not counts.any():
        raise InputError("Expected nodes with a label to score, got none.")
    return counts


def labels_to_score(X: Any, y: Any) -> Any:  # noqa: N803
    """What to score against: `y`, else what comes with `X`."""
    if y is not None:
        return align(y, X.index if isinstance(X, pd.DataFrame) else None)
    labels: Any = getattr(X, "labels", getattr(X, "y", None))
    if labels is None:
        raise InputError("Expected labels to score against, got none. Pass y=.")
    return labels
