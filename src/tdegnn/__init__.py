"""tdegnn: graph networks that learn the order of time.

`F[l+1] = sum_p c_p F[l-p+1] + h s(F[l]; G)`, `sum c = 1`: a layer is a time step, and c, the weights of the past
states, is learned. It then says which differential equation the data follow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tdegnn.version import __version__

if TYPE_CHECKING:
    from tdegnn.analysis.report import CoefficientReport, explain
    from tdegnn.core.coefficients import (
        AttentionCoefficients,
        DirectCoefficients,
        FixedCoefficients,
        TemporalCoefficients,
    )
    from tdegnn.core.integrator import Integration, integrate
    from tdegnn.core.operators import (
        ConvOperator,
        DiffusionOperator,
        HiddenDiffusionOperator,
        SpatialOperator,
    )
    from tdegnn.data.physics import (
        Simulation,
        simulate_heat,
        simulate_pendulum,
        simulate_third_order,
        simulate_wave,
    )
    from tdegnn.errors import InputError, TdegnnError, TrainingError
    from tdegnn.graph import Graph
    from tdegnn.nets.physical import PhysicalNetwork
    from tdegnn.nets.rollout import roll_out

__all__ = [
    "AttentionCoefficients",
    "CoefficientReport",
    "ConvOperator",
    "DiffusionOperator",
    "DirectCoefficients",
    "FixedCoefficients",
    "Graph",
    "HiddenDiffusionOperator",
    "InputError",
    "Integration",
    "PhysicalNetwork",
    "Simulation",
    "SpatialOperator",
    "TdegnnError",
    "TemporalCoefficients",
    "TrainingError",
    "__version__",
    "explain",
    "integrate",
    "roll_out",
    "simulate_heat",
    "simulate_pendulum",
    "simulate_third_order",
    "simulate_wave",
]

# Names are imported when they are first used: `tdegnn --help` must not wait for torch.
_HOMES = {
    "tdegnn.analysis.report": ("CoefficientReport", "explain"),
    "tdegnn.core.coefficients": (
        "AttentionCoefficients",
        "DirectCoefficients",
        "FixedCoefficients",
        "TemporalCoefficients",
    ),
    "tdegnn.core.integrator": ("Integration", "integrate"),
    "tdegnn.core.operators": (
        "ConvOperator",
        "DiffusionOperator",
        "HiddenDiffusionOperator",
        "SpatialOperator",
    ),
    "tdegnn.data.physics": (
        "Simulation",
        "simulate_heat",
        "simulate_pendulum",
        "simulate_third_order",
        "simulate_wave",
    ),
    "tdegnn.errors": ("InputError", "TdegnnError", "TrainingError"),
    "tdegnn.graph": ("Graph",),
    "tdegnn.nets.physical": ("PhysicalNetwork",),
    "tdegnn.nets.rollout": ("roll_out",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tdegnn' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
