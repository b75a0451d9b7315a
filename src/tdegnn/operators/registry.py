"""The spatial terms by name. To add one, write a file in this folder and add a line here."""

from __future__ import annotations

from collections.abc import Sequence

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError
from tdegnn.operators.alone import AloneOperator
from tdegnn.operators.backbones.acm import AcmBackbone, AcmiiBackbone, AcmiiPlusBackbone, AcmPlusBackbone
from tdegnn.operators.backbones.dir_gnn import DirGnnBackbone
from tdegnn.operators.backbones.gat import GatBackbone
from tdegnn.operators.backbones.gcn import GcnBackbone
from tdegnn.operators.backbones.gcnii import GcniiBackbone, GcniiStarBackbone
from tdegnn.operators.backbones.tuned_gcn import TunedGcnBackbone
from tdegnn.operators.cde import CdeOperator
from tdegnn.operators.diffusion import DiffusionOperator, NearIdentityDiffusion
from tdegnn.operators.directed_diffusion import DirectedDiffusion
from tdegnn.operators.flode import FlodeOperator
from tdegnn.operators.graff import GraffOperator
from tdegnn.operators.grand import GrandOperator, NonlinearGrandOperator
from tdegnn.operators.grand_plus_plus import GrandPlusPlusOperator
from tdegnn.operators.gread import REACTIONS, GreadOperator
from tdegnn.operators.hidden_diffusion import HiddenDiffusionOperator
from tdegnn.operators.learned_adjacency import LearnedAdjacencyOperator
from tdegnn.operators.past_diffusion import PastDiffusion
from tdegnn.operators.pde_gcn import PDEGCNOperator
from tdegnn.operators.rate_of import as_rate
from tdegnn.operators.sheaf import BundleSheafDiffusion, DiagonalSheafDiffusion, GeneralSheafDiffusion
from tdegnn.operators.together import TogetherOperator
from tdegnn.parts import Family, Part


def make_together(
    channels: int,
    num_layers: int,
    step_size: float,
    num_nodes: int,
    *,
    terms: Sequence[str] = ("walks", "learned-adjacency"),
) -> TogetherOperator:
    """Return several operators of this file together.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers.
        step_size: h.
        num_nodes: Number of nodes, for terms that keep something for each of them.
        terms: Their names. Default: `("walks", "learned-adjacency")`.
    """
    if isinstance(terms, str) or not isinstance(terms, Sequence):
        raise InputError(f"Expected terms of together to be a list of operators, got {terms!r}. Correct it.")
    sizes = {"channels": channels, "num_layers": num_layers, "step_size": step_size, "num_nodes": num_nodes}
    return TogetherOperator([OPERATORS.make(name, **sizes) for name in terms])


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
        # The layers of networks, as rates.
        "gcn": as_rate(GcnBackbone),
        "tuned-gcn": as_rate(TunedGcnBackbone),
        "gat": as_rate(GatBackbone),
        "dir-gnn": as_rate(DirGnnBackbone),
        "gcnii": as_rate(GcniiBackbone),
        "gcnii*": as_rate(GcniiStarBackbone),
        "acm": as_rate(AcmBackbone),
        "acmii": as_rate(AcmiiBackbone),
        "acm+": as_rate(AcmPlusBackbone),
        "acmii+": as_rate(AcmiiPlusBackbone),
        "directed-diffusion": DirectedDiffusion,
        # Random walks along and against the edges, as in DCRNN.
        "walks": Part(DirectedDiffusion, num_hops=2, row_exponent=-1.0, column_exponent=0.0),
        "alone": AloneOperator,
        "together": Part(make_together),
        "pde-gcn": PDEGCNOperator,
        "graff": GraffOperator,
        "graff-diagonal": Part(GraffOperator, mixing="diagonal"),
        "flode": FlodeOperator,
        "sheaf-diagonal": DiagonalSheafDiffusion,
        "sheaf-bundle": BundleSheafDiffusion,
        "sheaf-general": GeneralSheafDiffusion,
    },
)
