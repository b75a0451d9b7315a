"""The spatial terms by name. To add one, write a file in this folder and add a line here."""

from __future__ import annotations

from tdegnn.core.operator import SpatialOperator
from tdegnn.operators.diffusion import DiffusionOperator, NearIdentityDiffusion
from tdegnn.operators.hidden_diffusion import HiddenDiffusionOperator
from tdegnn.operators.past_diffusion import PastDiffusion
from tdegnn.parts import Family

OPERATORS = Family(
    "operator",
    SpatialOperator,
    {
        "diffusion": DiffusionOperator,
        "near-identity": NearIdentityDiffusion,
        "hidden-diffusion": HiddenDiffusionOperator,
        "past-diffusion": PastDiffusion,
    },
)
