"""Systems by name, for configurations of nodes and of series alike: which rule gives c.

Three are the paper's. TDE-GNN_S is ours: a learned vector that satisfies the root condition whatever it learns.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from tdegnn.core.coefficients import (
    AttentionCoefficients,
    DirectCoefficients,
    FixedCoefficients,
    GatedAttention,
    TemporalCoefficients,
)
from tdegnn.core.stable import StableCoefficients
from tdegnn.errors import InputError

System = Literal["DE-GNN", "TDE-GNN_D", "TDE-GNN_A", "TDE-GNN_S"]
Attention = Literal["plain", "gated"]

_ATTENTIONS: dict[Attention, type[AttentionCoefficients]] = {"plain": AttentionCoefficients, "gated": GatedAttention}


def make_rule(system: System, order: int, channels: int, attention: Attention) -> TemporalCoefficients:
    """The rule for c of a system: c = [1], a learned or a stable vector, attention over states of so many channels."""
    if system == "DE-GNN":
        return FixedCoefficients([1.0])
    if system == "TDE-GNN_D":
        return DirectCoefficients(order)
    if system == "TDE-GNN_S":
        return StableCoefficients(order)
    return _ATTENTIONS[attention](order, channels)


def check_choices(settings: object, **kinds: Any) -> None:
    """Raise an `InputError` where a setting is not one of the values that its `Literal` names."""
    for name, kind in kinds.items():
        came, known = getattr(settings, name), get_args(kind)
        if came not in known:
            raise InputError(f"Expected {name} to be one of {', '.join(known)}, got {came!r}.")
