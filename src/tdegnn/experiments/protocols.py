"""How the published numbers of Table 1 were made: one line per system that says what differs from our protocol.

Ours: the ten fixed splits, all nodes in them, everything chosen by validation. The notes are from the released code,
unless they say "probably" or "unknown".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
    """How the published numbers of a system were made.

    Attributes:
        is_ours: Whether splits, direction of the edges, and selection are the same as here.
        note: What differs.
    """

    is_ours: bool
    note: str


_PEI = "Probably the numbers of Pei et al. (2020), whose code tests the last epoch. Here settings are searched."
PROTOCOLS: dict[str, Protocol] = {
    "GCN": Protocol(False, _PEI),
    "GAT": Protocol(False, _PEI),
    "GCNII": Protocol(
        True,
        "64 layers and 1,500 steps on the citation graphs, here up to 16 and 300. Other graphs: of other authors.",
    ),
    "Geom-GCN": Protocol(
        False, "Tests the last epoch, and takes the best of three embeddings after the fact. Undirected."
    ),
    "NSD": Protocol(False, "Undirected; 15 unlabelled nodes of Citeseer left out; the best of three kinds of maps."),
    "GGCN": Protocol(True, "15 unlabelled nodes of Citeseer left out, which is worth 0.25."),
    "H2GCN": Protocol(False, "Undirected; 15 unlabelled nodes of Citeseer left out."),
    "FAGCN": Protocol(False, "Unknown how these numbers were made. Here settings are searched."),
    "GPRGNN": Protocol(False, "Numbers of other authors; its own are of random splits. Here settings are searched."),
    "GRAFF": Protocol(True, "Undirected, as here."),
    "LINKX": Protocol(False, "Undirected; here a node receives from the nodes that it points to."),
    "ACMII": Protocol(False, "Of 270 settings the one with the highest test accuracy was taken."),
    "GRAND": Protocol(False, "Numbers of GREAD's authors, with constant weights; its own are of other splits."),
    "PDE-GCN": Protocol(False, "Epochs and settings were chosen by test accuracy. There is no validation."),
    "GRAND++": Protocol(False, "Numbers of GREAD's authors; no code of its own is known."),
    "GREAD": Protocol(
        True,
        "Runge-Kutta steps on four of six graphs; here Euler steps. Its code logs mean validation and mean test "
        "accuracy of each setting; which of them chose is not released.",
    ),
    "CDE": Protocol(
        False, "Probably of random splits of 60 / 20 / 20; no working settings for these graphs are released."
    ),
    "FLODE": Protocol(False, "On the largest component of each graph, which changes the nodes of Citeseer."),
    "DE-GNN": Protocol(True, "The paper's settings are not published."),
    "TDE-GNN_D": Protocol(True, "The paper's settings are not published."),
    "TDE-GNN_A": Protocol(True, "The paper's settings are not published."),
}
