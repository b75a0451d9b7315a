"""The nonlinearities that operators take by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "absolute": torch.abs,
    "identity": lambda state: state,
}
