"""The rivals for node classification, by their names in tables. To add a rival, write a file and add a line here.

`NODE_NETWORKS["GCN"](num_features, num_outputs, num_nodes, hidden_channels=64, num_layers=2)` makes any of them.
"""

from __future__ import annotations

from tdegnn.rivals.nodes.acm import AdaptiveChannelNetwork
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.rivals.nodes.fagcn import FrequencyAdaptiveNetwork
from tdegnn.rivals.nodes.fsgnn import FeatureSelectionNetwork
from tdegnn.rivals.nodes.gat import GraphAttentionNetwork
from tdegnn.rivals.nodes.gcn import GraphConvolutionalNetwork
from tdegnn.rivals.nodes.gcnii import InitialResidualNetwork
from tdegnn.rivals.nodes.geom_gcn import GeometricNetwork
from tdegnn.rivals.nodes.ggcn import SignedNetwork
from tdegnn.rivals.nodes.gprgnn import GeneralizedPageRankNetwork
from tdegnn.rivals.nodes.h2gcn import TwoHopNetwork
from tdegnn.rivals.nodes.linkx import LinkxNetwork
from tdegnn.rivals.nodes.mlp import MultilayerPerceptron
from tdegnn.rivals.nodes.ordered_gnn import OrderedNetwork

NODE_NETWORKS: dict[str, type[RivalNodeNetwork]] = {
    "MLP": MultilayerPerceptron,
    "GCN": GraphConvolutionalNetwork,
    "GAT": GraphAttentionNetwork,
    "GCNII": InitialResidualNetwork,
    "LINKX": LinkxNetwork,
    "FAGCN": FrequencyAdaptiveNetwork,
    "GPRGNN": GeneralizedPageRankNetwork,
    "H2GCN": TwoHopNetwork,
    "FSGNN": FeatureSelectionNetwork,
    "OrderedGNN": OrderedNetwork,
    "GGCN": SignedNetwork,
    "Geom-GCN": GeometricNetwork,
    "ACMII": AdaptiveChannelNetwork,
}
