import time

import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

from tdegnn import Graph, InputError
from tdegnn.data.graphs.edges import read_graph

NODES = ("A", "B", "C", "D")
MATRIX = np.array([[0, 2.0, 0, 0], [0, 0, 3.0, 0], [0, 0, 0, 0], [1.0, 0, 0, 0]])
EXPECTED = Graph.from_scipy(MATRIX, "out")


def write(tmp_path, text, name="edges.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def as_named_csv(tmp_path):
    # Rows and columns in orders of their own.
    frame = pd.DataFrame(MATRIX, index=NODES, columns=NODES).loc[["C", "A", "D", "B"], ["B", "D", "A", "C"]]
    frame.to_csv(tmp_path / "matrix.csv")
    return tmp_path / "matrix.csv"


def as_plain_csv(tmp_path):
    np.savetxt(tmp_path / "matrix.csv", MATRIX, delimiter=",")
    return tmp_path / "matrix.csv"


def as_headed_csv(tmp_path):
    pd.DataFrame(MATRIX, columns=NODES).to_csv(tmp_path / "matrix.csv", index=False)
    return tmp_path / "matrix.csv"


def as_scipy_file(tmp_path):
    scipy.sparse.save_npz(tmp_path / "matrix.npz", scipy.sparse.csr_array(MATRIX))
    return tmp_path / "matrix.npz"


def as_numpy_file(tmp_path):
    np.savez(tmp_path / "matrix.npz", MATRIX)
    return tmp_path / "matrix.npz"


def as_networkx(tmp_path):
    graph = networkx.DiGraph()
    graph.add_nodes_from("DCBA")
    graph.add_weighted_edges_from([("A", "B", 2.0), ("B", "C", 3.0), ("D", "A", 1.0)])
    return graph


SOURCES = {
    "list": lambda path: write(path, "source,target,weight\nA,B,2\nB,C,3\nD,A,1\n"),
    "list with other names": lambda path: write(path, "to,weight,from\nB,2,A\nC,3,B\nA,1,D\n"),
    "list without names": lambda path: write(path, "A,B,2\nB,C,3\nD,A,1\n"),
    "list in unknown columns": lambda path: write(path, "here,there,strength\nA,B,2\nB,C,3\nD,A,1\n"),
    "frame": lambda path: pd.DataFrame({"source": list("ABD"), "target": list("BCA"), "weight": [2, 3, 1]}),
    "matrix with names": as_named_csv,
    "matrix without names": as_plain_csv,
    "matrix with a header": as_headed_csv,
    "SciPy file": as_scipy_file,
    "NumPy file": as_numpy_file,
    "SciPy": lambda path: scipy.sparse.coo_array(MATRIX),
    "NumPy": lambda path: MATRIX,
    "networkx": as_networkx,
    "PyG": lambda path: EXPECTED.to_pyg(),
    "Graph": lambda path: EXPECTED,
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_graph(source, tmp_path):
    graph, notes = read_graph(SOURCES[source](tmp_path), NODES, direction="out")
    assert graph.equals(EXPECTED)
    assert notes == (("The column 'strength' was taken for the weights.",) if "unknown" in source else ())


def test_direction_is_both_unless_the_graph_has_one(tmp_path):
    assert read_graph(SOURCES["list"](tmp_path), NODES)[0].direction == "both"
    assert read_graph(EXPECTED, NODES)[0].direction == "out"


def test_parquet_and_more_columns(tmp_path):
    path = tmp_path / "edges.parquet"
    pd.DataFrame({"road": ["x", "y"], "source": ["A", "B"], "target": ["B", "C"]}).to_parquet(path)
    graph, notes = read_graph(path, NODES)
    assert (graph.num_edges, graph.is_weighted) == (2, False)
    assert notes == ("No edge touches 1 of 4 nodes: 'D'.",)


def test_no_edges_at_all(tmp_path):
    graph, notes = read_graph(write(tmp_path, "source,target\n"), NODES)
    assert (graph.num_edges, notes) == (0, ("The graph has no edges.",))


def test_many_lonely_nodes_are_counted_and_a_few_named():
    nodes = tuple(f"n{number}" for number in range(10))
    notes = read_graph(pd.DataFrame({"source": ["n0"], "target": ["n1"]}), nodes)[1]
    assert notes == ("No edge touches 8 of 10 nodes: 'n2', 'n3', 'n4', ....",)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (networkx.path_graph(3), "known nodes \\(such as 'A'\\), got '0' in the networkx graph"),
        (np.ones((3, 3)), "a graph of the 4 nodes, got one of 3"),
        (np.ones((2, 3)), "square"),
        (Data(edge_index=None), "edge_index"),
        (
            torch.tensor([[0], [1]]),
            "a file, a frame, a matrix, a networkx graph, PyG data or a Graph, got torch Tensor",
        ),
        (pd.DataFrame({"source": ["A"]}), "columns source and target in the frame, got source"),
        (pd.DataFrame({"source": ["A"], "target": ["B"], "weight": [np.inf]}), "finite numbers in column 'weight'"),
        (
            pd.DataFrame([["A"] * 4], columns=list("wxyz")),
            "a matrix with a column for each node, got 4 columns: w, x",
        ),
    ],
)
def test_wrong_graphs_are_refused(edges, message):
    with pytest.raises(InputError, match=message):
        read_graph(edges, NODES)


@pytest.mark.parametrize("first", ["A,X", "X,B", "a,B"])
def test_the_first_edge_is_not_taken_for_names(first, tmp_path):
    with pytest.raises(InputError, match="in line 1 of edges.csv"):
        read_graph(write(tmp_path, f"{first}\nB,C\nC,A\n"), NODES)


def test_a_third_column_is_explained(tmp_path):
    graph, notes = read_graph(write(tmp_path, "source,target,since\nA,B,1999\nB,C,2001\nC,D,2001\n"), NODES)
    assert graph.is_weighted
    assert notes == ("The column 'since' was taken for the weights.",)
    graph, notes = read_graph(write(tmp_path, "source,target,kind\nA,B,road\nB,C,rail\nC,D,rail\n"), NODES)
    assert not graph.is_weighted
    assert notes == ("The column 'kind' does not hold numbers and was not used.",)
    with pytest.raises(InputError, match="larger for nodes that are closer, got a column 'distance_km'"):
        read_graph(write(tmp_path, "source,target,distance_km\nA,B,10\n"), NODES)


def test_small_matrices_are_not_taken_for_edges(tmp_path):
    expected = Graph.from_scipy(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0.0]]))
    rows = "0,1,0\n1,0,1\n0,1,0\n"
    for text in (rows, "A,B,C\n" + rows):
        assert read_graph(write(tmp_path, text), ("A", "B", "C"))[0].equals(expected)
    with pytest.raises(InputError, match="edges or a matrix, got numbers that could be either"):
        read_graph(write(tmp_path, rows), ("0", "1", "2"))


def test_as_many_columns_as_nodes_may_be_edges(tmp_path):
    text = "source,target,weight,kind\nA,B,2,road\nB,C,3,rail\nD,A,1,rail\n"
    assert read_graph(write(tmp_path, text), NODES, direction="out")[0].equals(EXPECTED)


def test_a_frame_may_be_a_matrix():
    frame = pd.DataFrame(MATRIX, index=NODES, columns=NODES).loc[["C", "A", "D", "B"], ["B", "D", "A", "C"]]
    assert read_graph(frame, NODES, direction="out")[0].equals(EXPECTED)


def test_pyg_data_that_name_their_nodes_and_attributes_that_are_weights():
    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=3, node_names=["C", "B", "A"])
    assert read_graph(data, ("A", "B", "C"))[0].edge_index.tolist() == [[2], [1]]
    weighted = Data(edge_index=torch.tensor([[0], [1]]), edge_attr=torch.tensor([[0.5]]), num_nodes=2)
    assert read_graph(weighted, ("A", "B"))[0].edge_weight.tolist() == [0.5]


@pytest.mark.parametrize("matrix", [np.eye(4) + MATRIX, scipy.sparse.csr_array(np.eye(4) + MATRIX)])
def test_loops_of_a_matrix_are_told(matrix):
    graph, notes = read_graph(matrix, NODES, direction="out")
    assert graph.equals(EXPECTED)
    assert notes == ("Edges from a node to itself are left out: 4 of 7 in the matrix.",)


@pytest.mark.slow
def test_many_nodes_take_no_time():
    nodes = tuple(f"n{number}" for number in range(20_000))
    started = time.perf_counter()
    path = networkx.DiGraph([(nodes[number], nodes[number + 1]) for number in range(19_999)])
    assert read_graph(path, nodes)[0].num_edges == 19_999
    assert time.perf_counter() - started < 5


def test_an_archive_of_several_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "m.npz", a=MATRIX, b=MATRIX)
    with pytest.raises(InputError, match="one array, the adjacency matrix, in m.npz, got a, b"):
        read_graph(tmp_path / "m.npz", NODES)
    write(tmp_path, "no archive", "n.npz")
    with pytest.raises(InputError, match="saved by NumPy or SciPy in n.npz"):
        read_graph(tmp_path / "n.npz", NODES)
