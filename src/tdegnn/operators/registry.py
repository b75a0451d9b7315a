"""The spatial terms by name. To add one, write a file in this folder and add a line here."""

from __future__ import annotations

from tdegnn.core.operator import SpatialOperator
from tdegnn.operators.cde import CdeOperator
from tdegnn.operators.diffusion import DiffusionOperator, NearIdentityDiffusion
from tdegnn.operators.grand import GrandOperator, NonlinearGrandOperator
from tdegnn.operators.grand_plus_plus import GrandPlusPlusOperator
from tdegnn.operators.gread import REACTIONS, GreadOperator
from tdegnn.operators.hidden_diffusion import HiddenDiffusionOperator
from tdegnn.operators.learned_adjacency import LearnedAdjacencyOperator
from tdegnn.operators.past_diffusion import PastDiffusion
from tdegnn.parts import Family, Part

OPERATORS = Family(
    "operator",
    SpatialOperator,
    {
        "diffusion": DiffusionOperator,
        "near-identity": NearIdentityDiffusion,
        "hidden-diffusion": HiddenDiffusionOperator,
        "past-diffusion": PastDiffusion,
        # Diffusion with attention, sources, reactions and convection
        "grand": GrandOperator,
        "grand-nonlinear": NonlinearGrandOperator,
        "grand++": GrandPlusPlusOperator,
        **{f"gread-{reaction}": Part(GreadOperator, reaction=reaction) for reaction in REACTIONS},
        "cde": CdeOperator,
        "learned-adjacency": LearnedAdjacencyOperator,
    },
)
