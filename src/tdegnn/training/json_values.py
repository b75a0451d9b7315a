"""Values as JSON can say them. Light: commands that only print need nothing else of training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def finite_or_null(value: Any) -> Any:
    """The value with every number that JSON cannot say (infinite, not a number) as null."""
    if isinstance(value, Mapping):
        return {name: finite_or_null(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
