"""The rivals for forecasting by the names they have in tables, all built the same way.

`SERIES_NETWORKS["DCRNN"](sizes, hidden_channels=32)`. What only some of them know (`num_hops`, `num_rounds`,
`num_layers`, `embedding_channels`) has the value of the publication, or the usual one, in the file of the network.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tdegnn.nets.series_network import SeriesNetwork, SeriesSizes
from tdegnn.rivals.series.a3tgcn import AttentionTemporalGCN
from tdegnn.rivals.series.agcrn import AdaptiveRecurrentNetwork
from tdegnn.rivals.series.dcrnn import DiffusionRecurrentNetwork
from tdegnn.rivals.series.dygrae import DynamicGraphEncoder
from tdegnn.rivals.series.evolve_gcn import EvolvingConvolutionalNetwork
from tdegnn.rivals.series.gc_lstm import GraphConvolutionalLSTM
from tdegnn.rivals.series.gconv_gru import GraphConvolutionalGRU
from tdegnn.rivals.series.mpnn_lstm import MessagePassingLSTM
from tdegnn.rivals.series.tgcn import TemporalGCN


@runtime_checkable
class SeriesNetworkBuilder(Protocol):
    """Makes a network for a task of given sizes."""

    def __call__(
        self, sizes: SeriesSizes, *, hidden_channels: int, dropout: float = 0.0, seed: int = 0
    ) -> SeriesNetwork:
        """Return the network; its weights come from torch's generator, `seed` is that of the dropout."""


SERIES_NETWORKS: dict[str, SeriesNetworkBuilder] = {
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
