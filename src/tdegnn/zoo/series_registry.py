"""The rivals for forecasting by the names they have in tables, all built the same way.

`SERIES_NETWORKS["DCRNN"](sizes, hidden_channels=32)`. What only some of them know (`num_hops`, `num_rounds`,
`num_layers`, `embedding_channels`) has the value of the publication, or the usual one, in the file of the network.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tdegnn.nets.series_network import SeriesNetwork, SeriesSizes
from tdegnn.zoo.a3tgcn import AttentionTemporalGCN
from tdegnn.zoo.agcrn import AdaptiveRecurrentNetwork
from tdegnn.zoo.dcrnn import DiffusionRecurrentNetwork
from tdegnn.zoo.dygrae import DynamicGraphEncoder
from tdegnn.zoo.evolve_gcn import EvolvingConvolutionalNetwork
from tdegnn.zoo.gc_lstm import GraphConvolutionalLSTM
from tdegnn.zoo.gconv_gru import GraphConvolutionalGRU
from tdegnn.zoo.mpnn_lstm import MessagePassingLSTM
from tdegnn.zoo.tgcn import TemporalGCN


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
