"""Names of parts and methods that the networks for nodes and for series share.

Tests compare them with the modules that have them, which import torch: `--help` should not wait for it.
"""

from __future__ import annotations

from enum import StrEnum


class ReadoutOption(StrEnum):
    """What the outputs are read from, as in `nets/readouts.py`."""

    LAST = "last"
    MAXIMUM = "max"
    CONCATENATION = "concatenation"
    RELU = "relu"
    PERCEPTRON = "perceptron"
    TWO_LAYER = "two-layer"
    MODULUS = "modulus"
    COMPLEX = "complex"


class StateNormOption(StrEnum):
    """How new states are normalized, as in `nets/state_norms.py`."""

    UNIT_LENGTH = "unit-length"
    LAYER_NORM = "layer-norm"


class PrecisionOption(StrEnum):
    """Numbers of a training, as in `training/devices.py`."""

    SINGLE = "32-true"
    DOUBLE = "64-true"
    SHORT_MESSAGES = "bf16-mixed"


class OptimizerOption(StrEnum):
    """How weights learn, as in `training/members.py`."""

    ADAM = "adam"
    ADAMW = "adamw"
