import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from torch_geometric.data import Data

from tdegnn import Graph, InputError
from tdegnn.data.edges import read_graph

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
    assert notes == ()


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
        (networkx.path_graph(3), "nodes of the series \\(such as 'A'\\), got '0' in the networkx graph"),
        (np.ones((3, 3)), "a graph of the 4 nodes of the series, got one of 3"),
        (np.ones((2, 3)), "square"),
        (Data(edge_index=None), "edge_index"),
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


def test_an_archive_of_several_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "m.npz", a=MATRIX, b=MATRIX)
    with pytest.raises(InputError, match="one array, the adjacency matrix, in m.npz, got a, b"):
        read_graph(tmp_path / "m.npz", NODES)
    write(tmp_path, "no archive", "n.npz")
    with pytest.raises(InputError, match="saved by NumPy or SciPy in n.npz"):
        read_graph(tmp_path / "n.npz", NODES)
