"""The spatial terms by name. To add one, write a file in this folder and add a line here."""

from __future__ import annotations

from tdegnn.core.operator import SpatialOperator
from tdegnn.operators.diffusion import DiffusionOperator, NearIdentityDiffusion
from tdegnn.operators.flode import FlodeOperator
from tdegnn.operators.graff import GraffOperator
from tdegnn.operators.hidden_diffusion import HiddenDiffusionOperator
from tdegnn.operators.past_diffusion import PastDiffusion
from tdegnn.operators.pde_gcn import PDEGCNOperator
from tdegnn.operators.sheaf import BundleSheafDiffusion, DiagonalSheafDiffusion, GeneralSheafDiffusion
from tdegnn.parts import Family, Part

OPERATORS = Family(
    "operator",
    SpatialOperator,
    {
        "diffusion": DiffusionOperator,
        "near-identity": NearIdentityDiffusion,
        "hidden-diffusion": HiddenDiffusionOperator,
        "past-diffusion": PastDiffusion,
        "pde-gcn": PDEGCNOperator,
        "graff": GraffOperator,
        "graff-diagonal": Part(GraffOperator, mixing="diagonal"),
        "flode": FlodeOperator,
        "sheaf-diagonal": DiagonalSheafDiffusion,
        "sheaf-bundle": BundleSheafDiffusion,
        "sheaf-general": GeneralSheafDiffusion,
    },
)
