"""tdegnn: graph networks that learn the order of time.

`F[l+1] = sum_p c_p F[l-p+1] + h s(F[l]; G)`, `sum c = 1`: a layer is a time step, and c, the weights of the past
states, is learned. The learned c shows which differential equation the data follow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tdegnn.quick_imports import collection_paused
from tdegnn.version import __version__

if TYPE_CHECKING:
    from tdegnn.analysis.order_report import OrderFound
    from tdegnn.analysis.order_search import find_order
    from tdegnn.analysis.report import CoefficientReport, explain
    from tdegnn.core.coefficients import (
        AttentionCoefficients,
        DirectCoefficients,
        FixedCoefficients,
        GatedAttention,
        TemporalCoefficients,
    )
    from tdegnn.core.integrator import Integration, integrate
    from tdegnn.core.mixed import MixedCoefficients
    from tdegnn.core.operator import SpatialOperator
    from tdegnn.core.stable import StableAttention, StableCoefficients
    from tdegnn.data.benchmarks.load import load_nodes, load_panel
    from tdegnn.data.graphs.edges import read_graph, write_edges
    from tdegnn.data.graphs.neighbors import correlation_graph, neighbor_graph, read_coordinates
    from tdegnn.data.graphs.stored_graph import StoredGraph
    from tdegnn.data.mapped_features import map_tensor
    from tdegnn.data.nodes import NodeDataset
    from tdegnn.data.panel import Panel
    from tdegnn.data.scalers import Scaler
    from tdegnn.data.simulators.physics import (
        Simulation,
        simulate_heat,
        simulate_pendulum,
        simulate_third_order,
        simulate_wave,
    )
    from tdegnn.data.splits import rolling_origins, split_chronologically
    from tdegnn.data.tables.csv_files import CsvFormat
    from tdegnn.data.tables.series import panel_to_frame, read_panel, write_series
    from tdegnn.data.windows import SlidingWindows, sliding_windows
    from tdegnn.errors import DownloadError, InputError, TdegnnError, TrainingError
    from tdegnn.files import set_memory_limit
    from tdegnn.forecasting.forecaster import Forecaster
    from tdegnn.graph import Graph
    from tdegnn.nets.physical import PhysicalNetwork
    from tdegnn.nets.rollout import roll_out
    from tdegnn.nets.stationary import StationaryNetwork
    from tdegnn.nodes.classifier import NodeClassifier
    from tdegnn.nodes.regressor import NodeRegressor
    from tdegnn.nodes.transductive import Transductive
    from tdegnn.not_fitted import NotFittedError
    from tdegnn.operators.convolution import ConvOperator
    from tdegnn.operators.diffusion import DiffusionOperator, NearIdentityDiffusion
    from tdegnn.operators.hidden_diffusion import HiddenDiffusionOperator
    from tdegnn.operators.rate_of import Backbone, RateOf
    from tdegnn.parts import Part
    from tdegnn.training.callbacks import Callback, Outcome
    from tdegnn.training.mlflow import MLflowCallback
    from tdegnn.training.tensorboard import TensorBoardCallback

__all__ = [
    "AttentionCoefficients",
    "Backbone",
    "Callback",
    "CoefficientReport",
    "ConvOperator",
    "CsvFormat",
    "DiffusionOperator",
    "DirectCoefficients",
    "DownloadError",
    "FixedCoefficients",
    "Forecaster",
    "GatedAttention",
    "Graph",
    "HiddenDiffusionOperator",
    "InputError",
    "Integration",
    "MLflowCallback",
    "MixedCoefficients",
    "NearIdentityDiffusion",
    "NodeClassifier",
    "NodeDataset",
    "NodeRegressor",
    "NotFittedError",
    "OrderFound",
    "Outcome",
    "Panel",
    "Part",
    "PhysicalNetwork",
    "RateOf",
    "Scaler",
    "Simulation",
    "SlidingWindows",
    "SpatialOperator",
    "StableAttention",
    "StableCoefficients",
    "StationaryNetwork",
    "StoredGraph",
    "TdegnnError",
    "TemporalCoefficients",
    "TensorBoardCallback",
    "TrainingError",
    "Transductive",
    "__version__",
    "correlation_graph",
    "explain",
    "find_order",
    "integrate",
    "load_nodes",
    "load_panel",
    "map_tensor",
    "neighbor_graph",
    "panel_to_frame",
    "read_coordinates",
    "read_graph",
    "read_panel",
    "roll_out",
    "rolling_origins",
    "set_memory_limit",
    "simulate_heat",
    "simulate_pendulum",
    "simulate_third_order",
    "simulate_wave",
    "sliding_windows",
    "split_chronologically",
    "write_edges",
    "write_series",
]

# Names are imported when they are first used: `tdegnn --help` must not wait for torch.
_HOMES = {
    "tdegnn.analysis.order_report": ("OrderFound",),
    "tdegnn.analysis.order_search": ("find_order",),
    "tdegnn.analysis.report": ("CoefficientReport", "explain"),
    "tdegnn.core.coefficients": (
        "AttentionCoefficients",
        "DirectCoefficients",
        "FixedCoefficients",
        "GatedAttention",
        "TemporalCoefficients",
    ),
    "tdegnn.core.integrator": ("Integration", "integrate"),
    "tdegnn.core.mixed": ("MixedCoefficients",),
    "tdegnn.core.operator": ("SpatialOperator",),
    "tdegnn.core.stable": ("StableAttention", "StableCoefficients"),
    "tdegnn.data.tables.csv_files": ("CsvFormat",),
    "tdegnn.data.graphs.edges": ("read_graph", "write_edges"),
    "tdegnn.data.graphs.neighbors": ("correlation_graph", "neighbor_graph", "read_coordinates"),
    "tdegnn.data.graphs.stored_graph": ("StoredGraph",),
    "tdegnn.data.mapped_features": ("map_tensor",),
    "tdegnn.data.benchmarks.load": ("load_nodes", "load_panel"),
    "tdegnn.data.nodes": ("NodeDataset",),
    "tdegnn.data.panel": ("Panel",),
    "tdegnn.data.simulators.physics": (
        "Simulation",
        "simulate_heat",
        "simulate_pendulum",
        "simulate_third_order",
        "simulate_wave",
    ),
    "tdegnn.data.scalers": ("Scaler",),
    "tdegnn.data.tables.series": ("panel_to_frame", "read_panel", "write_series"),
    "tdegnn.data.splits": ("rolling_origins", "split_chronologically"),
    "tdegnn.data.windows": ("SlidingWindows", "sliding_windows"),
    "tdegnn.errors": ("DownloadError", "InputError", "TdegnnError", "TrainingError"),
    "tdegnn.files": ("set_memory_limit",),
    "tdegnn.forecasting.forecaster": ("Forecaster",),
    "tdegnn.nodes.classifier": ("NodeClassifier",),
    "tdegnn.nodes.regressor": ("NodeRegressor",),
    "tdegnn.nodes.transductive": ("Transductive",),
    "tdegnn.graph": ("Graph",),
    "tdegnn.not_fitted": ("NotFittedError",),
    "tdegnn.nets.physical": ("PhysicalNetwork",),
    "tdegnn.nets.rollout": ("roll_out",),
    "tdegnn.nets.stationary": ("StationaryNetwork",),
    "tdegnn.parts": ("Part",),
    "tdegnn.operators.convolution": ("ConvOperator",),
    "tdegnn.operators.diffusion": ("DiffusionOperator", "NearIdentityDiffusion"),
    "tdegnn.operators.hidden_diffusion": ("HiddenDiffusionOperator",),
    "tdegnn.operators.rate_of": ("Backbone", "RateOf"),
    "tdegnn.training.callbacks": ("Callback", "Outcome"),
    "tdegnn.training.mlflow": ("MLflowCallback",),
    "tdegnn.training.tensorboard": ("TensorBoardCallback",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tdegnn' has no attribute {name!r}")
    with collection_paused():
        return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
