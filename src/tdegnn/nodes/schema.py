"""What `config.json` and `summary.json` of node estimators hold. The types of settings are those of the arguments."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

from pydantic import Field
from sklearn.base import BaseEstimator

from tdegnn.core.rules import RULE_OF_SYSTEM
from tdegnn.graph import Direction
from tdegnn.nodes.settings import ESTIMATOR_FAMILIES, upgrade_settings
from tdegnn.runs.run_folder import CONFIG, SUMMARY, RunFolder
from tdegnn.runs.schema import (
    Digest,
    EstimatorConfig,
    Order,
    Scales,
    Size,
    Stored,
    StoredNetwork,
    StoredWithOthers,
    Whole,
    check_chosen_order,
    checked,
    config_schema,
    refusal,
)

# Settings that folders of any format may lack: they were added later. Each then has its default, or what was done.
ADDED_SETTINGS = (
    "input_map",
    "state_norm",
    "readout",
    "skip",
    "readout_dropout",
    "self_loops",
    "optimizer",
    "batches",
    "segment_length",
)
AS_IT_WAS: dict[str, Any] = {"select_by": "accuracy", "baselines": False, "network": None}
Label = str | bool | int | float
ClassWeights = None | Literal["balanced"] | list[Annotated[list[Label], Field(min_length=2, max_length=2)]]


class Data(StoredWithOthers):
    """The nodes, and further entries that say where they came from."""

    nodes: Whole
    # Not bounded: hashed words are more than a million features. A network is never larger than its weights.
    features: Annotated[Whole, Field(ge=1)]
    edges: Whole
    direction: Direction
    sha256: Digest


class Scaling(Stored):
    """How features are scaled."""

    center: list[float]
    scale: Scales


class LearnedClasses(Stored):
    """What a classifier learned before training."""

    classes: Annotated[list[Label], Field(min_length=2)]


class LearnedUnits(Stored):
    """What a regressor learned before training."""

    center: list[float]
    scale: Scales
    is_vector: bool


class NodesConfig(EstimatorConfig):
    """The entries of config.json."""

    data: Data
    num_outputs: Size
    learned: LearnedClasses | LearnedUnits
    feature_names: list[str] | None = None
    feature_scaling: Scaling | None = None
    chosen_network: StoredNetwork | None = None


class _OldSettings(StoredWithOthers):
    system: Literal["DE-GNN", "TDE-GNN_D", "TDE-GNN_A", "TDE-GNN_S"]
    attention: Literal["plain", "gated"] = "gated"
    layer_maps: Literal["free", "near identity"] = "free"
    batch_norm: bool = False


class _OldConfig(StoredWithOthers):
    settings: _OldSettings


class BaselineScores(Stored):
    """The scores of a baseline."""

    validation: float | None
    test: float | None


class NodesSummary(Stored):
    """The entries of summary.json."""

    best_step: Whole
    score: Literal["accuracy", "roc-auc", "squared error"]
    validation_score: float | None
    test_score: float | None
    is_diverged: bool
    order: Order
    start: Whole
    baselines: dict[str, BaselineScores]
    notes: list[str]


def check_config(folder: RunFolder, kind: type[BaseEstimator], learned: str) -> dict[str, Any]:
    """Return the configuration of an estimator in its present form. Raise an `InputError` for a wrong entry.

    Args:
        folder: The run folder.
        kind: The class of the estimator.
        learned: An entry of what the estimator learned before training: `"classes"` or `"scale"`.
    """
    file, config = folder.path / CONFIG, folder.config
    found = checked(NodesConfig, config, file)
    settings = config["settings"]
    if folder.format == 1:
        checked(_OldConfig, config, file)
        settings = kind()._settings() | AS_IT_WAS | upgrade_settings(settings, RULE_OF_SYSTEM)
    settings = {name: getattr(kind, name) for name in ADDED_SETTINGS} | AS_IT_WAS | settings
    checked(config_schema(kind, tuple(ESTIMATOR_FAMILIES), class_weight=ClassWeights), {"settings": settings}, file)
    num_features, values = found.data.features, config["learned"]
    lengths = [
        ("learned", [values.get(name) for name in ("classes", "center", "scale") if name in values], found.num_outputs),
        ("feature_names", [found.feature_names], num_features),
        ("feature_scaling", list((config.get("feature_scaling") or {}).values()), num_features),
    ]
    for entry, lists, length in lengths:
        if any(each is not None and len(each) != length for each in lists):
            raise refusal(file, entry, f"{length} values", config[entry])
    classes = values.get("classes", [])
    check_chosen_order(found, settings, file)
    if found.chosen_network is not None:
        chosen = settings | found.chosen_network.settings
        checked(config_schema(kind, tuple(ESTIMATOR_FAMILIES), class_weight=ClassWeights), {"settings": chosen}, file)
    expected = [
        ("learned", learned in values, f"an entry {learned}", values),
        ("learned.classes", len(set(classes)) == len(classes), "distinct classes", classes),
        ("learned.is_vector", not values.get("is_vector") or found.num_outputs == 1, "false", True),
    ]
    weights = settings.get("class_weight")
    for pair in weights if isinstance(weights, list) else []:
        is_weight = type(pair[1]) in (int, float) and 0 <= pair[1] <= sys.float_info.max
        expected.append(("settings.class_weight", is_weight, "weights of at least 0", pair))
    for entry, is_right, text, value in expected:
        if not is_right:
            raise refusal(file, entry, text, value)
    added = {name: config.get(name) for name in ("feature_names", "feature_scaling")}
    return {**config, "settings": settings, **added}


def read_summary(folder: RunFolder) -> dict[str, Any]:
    """Return the summary of a finished training."""
    is_classes = "classes" in folder.config["learned"]
    added: dict[str, Any] = {
        "score": "accuracy" if is_classes else "squared error",
        "start": 0,
        "baselines": {},
        "notes": [],
    }
    summary = added | folder.read_summary()
    checked(NodesSummary, summary, folder.path / SUMMARY)
    return summary
