"""The rules for c by name, and the short names of the paper's systems."""

from __future__ import annotations

from typing import Literal, get_args

from tdegnn.core.coefficients import (
    AttentionCoefficients,
    DirectCoefficients,
    FixedCoefficients,
    GatedAttention,
    TemporalCoefficients,
)
from tdegnn.core.mixed import MixedCoefficients
from tdegnn.core.stable import StableAttention, StableCoefficients
from tdegnn.parts import Family, Part

COEFFICIENTS = Family(
    "coefficients",
    TemporalCoefficients,
    {
        "euler": Part(FixedCoefficients, values=(1.0,)),
        "leapfrog": Part(FixedCoefficients, values=(2.0, -1.0)),
        "direct": DirectCoefficients,
        "attention": AttentionCoefficients,
        "gated-attention": GatedAttention,
        "stable": StableCoefficients,
        "stable-attention": StableAttention,
        "mixed": MixedCoefficients,
    },
)

# Three are the paper's. TDE-GNN_S is ours: a learned vector that satisfies the root condition whatever it learns.
System = Literal["DE-GNN", "TDE-GNN_D", "TDE-GNN_A", "TDE-GNN_S"]
SYSTEMS: tuple[System, ...] = get_args(System)
# Deviation: the paper's attention has no gate. `coefficients="attention"` is the paper's.
RULE_OF_SYSTEM: dict[System, str] = {
    "DE-GNN": "euler",
    "TDE-GNN_D": "direct",
    "TDE-GNN_A": "gated-attention",
    "TDE-GNN_S": "stable",
}
