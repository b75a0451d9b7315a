"""Skips for nodes, scores that are added to the outputs of the layers. By default there is none.

To add one, derive it from `NodeSkip` of `node_parts.py` in a file of its own, and add a line here.
"""

from __future__ import annotations

from tdegnn.nets.kernel_skip import KernelRidgeSkip
from tdegnn.nets.node_parts import NodeSkip
from tdegnn.parts import Family

SKIPS = Family("skip", NodeSkip, {"kernel-ridge": KernelRidgeSkip})
