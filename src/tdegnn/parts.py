"""What networks do with the parts they are made of."""

from __future__ import annotations

from torch import nn


def reset_parts(*parts: nn.Module | None) -> None:
    """Draw the weights of parts anew, in this order; some have none, as fixed coefficients."""
    for part in parts:
        reset = getattr(part, "reset_parameters", None)
        if reset is not None:
            reset()
