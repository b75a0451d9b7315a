"""Cases computed independently of this library, to agree with to 1e-9 in float64."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tdegnn import Graph

CASES: dict[str, Any] = json.loads((Path(__file__).parent / "golden.json").read_text())


def graph_of(case: dict[str, Any]) -> Graph:
    return Graph(np.array(case["edges"]).T, case["num_nodes"], case["weights"], case["direction"])


def tensor_of(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)
