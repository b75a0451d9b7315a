"""The rivals for forecasting, by their names in tables. To add a rival, write a file and add a line here.

`SERIES_NETWORKS["DCRNN"](sizes, hidden_channels=32)` makes any of them.
"""

from __future__ import annotations

from tdegnn.rivals.series.a3tgcn import AttentionTemporalGCN
from tdegnn.rivals.series.agcrn import AdaptiveRecurrentNetwork
from tdegnn.rivals.series.base import RivalSeriesNetwork
from tdegnn.rivals.series.dcrnn import DiffusionRecurrentNetwork
from tdegnn.rivals.series.dygrae import DynamicGraphEncoder
from tdegnn.rivals.series.evolve_gcn import EvolvingConvolutionalNetwork
from tdegnn.rivals.series.gc_lstm import GraphConvolutionalLSTM
from tdegnn.rivals.series.gconv_gru import GraphConvolutionalGRU
from tdegnn.rivals.series.mpnn_lstm import MessagePassingLSTM
from tdegnn.rivals.series.tgcn import TemporalGCN

SERIES_NETWORKS: dict[str, type[RivalSeriesNetwork]] = {
    "DCRNN": DiffusionRecurrentNetwork,
    "GConvGRU": GraphConvolutionalGRU,
    "GC-LSTM": GraphConvolutionalLSTM,
    "DyGrAE": DynamicGraphEncoder,
    "EvolveGCN-O": EvolvingConvolutionalNetwork,
    "T-GCN": TemporalGCN,
    "A3T-GCN": AttentionTemporalGCN,
    "MPNN-LSTM": MessagePassingLSTM,
    "AGCRN": AdaptiveRecurrentNetwork,
}
