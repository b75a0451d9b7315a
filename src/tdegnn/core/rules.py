"""The rules for c by name, and the short names of the paper's systems."""

from __future__ import annotations

from typing import Any, Literal, get_args

from tdegnn.core.coefficients import (
    AttentionCoefficients,
    DirectCoefficients,
    FixedCoefficients,
    GatedAttention,
    TemporalCoefficients,
)
from tdegnn.core.stable import StableAttention, StableCoefficients
from tdegnn.errors import InputError
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

# --- to be removed with the settings that use it
Attention = Literal["plain", "gated"]

_ATTENTIONS: dict[Attention, type[AttentionCoefficients]] = {"plain": AttentionCoefficients, "gated": GatedAttention}


def make_rule(system: System, order: int, channels: int, attention: Attention) -> TemporalCoefficients:
    """Make the rule for c of a system: c = [1], a learned or a stable vector, or attention over states."""
    if system == "DE-GNN":
        return FixedCoefficients([1.0])
    if system == "TDE-GNN_D":
        return DirectCoefficients(order)
    if system == "TDE-GNN_S":
        return StableCoefficients(order)
    return _ATTENTIONS[attention](order, channels)


def check_choices(settings: object, **kinds: Any) -> None:
    """Raise an `InputError` if a setting is not one of the values of its `Literal`."""
    for name, kind in kinds.items():
        came, known = getattr(settings, name), get_args(kind)
        if came not in known:
            raise InputError(f"Expected {name} to be one of {', '.join(known)}, got {came!r}.")
