"""A graph in a folder is the graph in memory: rows, degrees, neighbors, whatever the file of edges."""

import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from safetensors.numpy import save_file

from tdegnn import Graph, InputError
from tdegnn.data.graphs import edge_chunks, stored_graph
from tdegnn.data.graphs.stored_graph import StoredGraph
from tdegnn.subgraph import Subgraph, nodes_around

NODES = 60
DRAW = np.random.default_rng(0)
EDGES = DRAW.integers(0, NODES - 2, (2, 400))  # some twice, some self-loops, two nodes without edges
VALUES = DRAW.integers(0, 5, 400) / 4


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    for module in (edge_chunks, stored_graph):
        monkeypatch.setattr(module, "CHUNK", 37)


@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("weights", [None, VALUES], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("loops", [False, True])
def test_it_is_the_graph_in_memory(tmp_path, direction, weights, loops):
    plain = Graph(EDGES, NODES, weights, direction, keep_self_loops=loops)
    stored = StoredGraph.write(tmp_path / "g", EDGES, NODES, weights, direction, keep_self_loops=loops)
    assert (stored.num_nodes, stored.direction, stored.is_weighted) == (NODES, direction, weights is not None)
    state = torch.randn(NODES, 3, dtype=torch.float64)
    nodes = nodes_around(plain, np.array([3, 17]), 1)
    assert np.array_equal(nodes, nodes_around(stored, np.array([3, 17]), 1))
    pair = (Subgraph(graph, nodes).propagate(state[nodes]) for graph in (stored, plain))
    torch.testing.assert_close(*pair, rtol=1e-12, atol=1e-12)
    for axis in (0, 1):
        found, expected = (graph.received_sums(axis, direction) for graph in (stored, plain))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    torch.testing.assert_close(stored.propagate(state), plain.propagate(state), rtol=1e-12, atol=1e-12)
    assert stored._lists.nodes.dtype == np.int32


@pytest.mark.parametrize(("weights", "kind"), [(None, bool), (VALUES, np.float32)], ids=["unweighted", "weighted"])
def test_the_whole_graph_is_read_without_a_copy_in_float64(tmp_path, weights, kind):
    stored = StoredGraph.write(tmp_path / "g", EDGES, NODES, weights)
    assert stored.rows_of(np.arange(3)).dtype == kind
    assert stored._adjacency.dtype == kind
    assert stored._received_by_row.dtype == kind
    assert stored.edge_weight.dtype == torch.float64


@pytest.mark.parametrize("weights", [None, VALUES], ids=["unweighted", "weighted"])
def test_every_kind_of_file_gives_the_same_graph(tmp_path, weights):
    tensors = {"edge_index": EDGES} | ({} if weights is None else {"edge_weight": weights})
    columns = {"source": EDGES[0], "target": EDGES[1]} | ({} if weights is None else {"weight": weights})
    np.save(tmp_path / "e.npy", EDGES.astype(np.int32))
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, tmp_path / "e.safetensors")
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "e.parquet")
    np.save(tmp_path / "w.npy", VALUES)
    graphs = [StoredGraph.write(tmp_path / "array", EDGES, edge_weight=weights, direction="out")]
    for kind in ("npy", "safetensors", "parquet"):
        own = tmp_path / "w.npy" if kind == "npy" and weights is not None else None
        graphs.append(StoredGraph.write(tmp_path / kind, tmp_path / f"e.{kind}", edge_weight=own, direction="out"))
    assert all(graph.equals(graphs[0]) for graph in graphs)
    assert graphs[0].num_nodes == EDGES.max() + 1


def test_a_symmetric_graph_may_be_received_along_any_direction(tmp_path):
    stored = StoredGraph.write(tmp_path / "g", EDGES, NODES)
    state = torch.randn(NODES, 2, dtype=torch.float64)
    assert torch.equal(stored.with_direction("in").propagate(state), stored.propagate(state))
    directed = StoredGraph.write(tmp_path / "d", EDGES, NODES, direction="out").with_direction("in")
    torch.testing.assert_close(directed.propagate(state), Graph(EDGES, NODES, direction="in").propagate(state))


def test_wrong_edges_and_folders_are_refused(tmp_path):
    write = StoredGraph.write
    for edges, message in {
        "none.npy": "Expected a file of edges, got .*none.npy, which does not exist",
        ((0.5, 1), (1, 2)): "Expected edges as two rows of whole numbers, got float64",
        ((0, -1), (1, 2)): "Expected node indices from 0 on, got -1",
        ((0, 9), (1, 2)): "Expected node indices between 0 and 4, got 9",
    }.items():
        with pytest.raises(InputError, match=message):
            write(tmp_path / "g", edges if isinstance(edges, str) else np.array(edges), 5)
    (tmp_path / "e.csv").write_text("0,1\n")
    with pytest.raises(InputError, match="Expected a .npy, .parquet or .safetensors file of edges"):
        write(tmp_path / "g", tmp_path / "e.csv")
    with pytest.raises(InputError, match="Expected one weight for each of the 400 edges, got shape"):
        write(tmp_path / "g", EDGES, edge_weight=[1.0])
    with pytest.raises(InputError, match="Expected edge weights to be finite and not negative"):
        write(tmp_path / "g", EDGES, edge_weight=-VALUES)
    pyarrow.parquet.write_table(pyarrow.table({"from": [0], "to": [1]}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="Expected columns 'source' and 'target'"):
        write(tmp_path / "g", tmp_path / "e.parquet")
    with pytest.raises(InputError, match="Expected a folder that StoredGraph.write wrote"):
        StoredGraph(tmp_path / "nothing")
    write(tmp_path / "g", EDGES)
    with pytest.raises(InputError, match="Expected a folder without a graph"):
        write(tmp_path / "g", EDGES)
    (tmp_path / "g" / "lists.nodes").write_bytes(b"1234")
    with pytest.raises(InputError, match="Expected a whole graph in .*, got damaged files"):
        StoredGraph(tmp_path / "g")
    facts = json.loads((tmp_path / "g" / "graph.json").read_text())
    (tmp_path / "g" / "graph.json").write_text(json.dumps(facts | {"format": 9}))
    with pytest.raises(InputError, match="Expected a graph of format 1"):
        StoredGraph(tmp_path / "g")


def test_a_graph_without_edges(tmp_path):
    stored = StoredGraph.write(tmp_path / "g", np.zeros((2, 0), dtype=np.int64), 4)
    assert (stored.num_edges, stored.num_nodes) == (0, 4)
    assert float(stored.propagate(torch.ones(4, 1)).abs().sum()) == 0
