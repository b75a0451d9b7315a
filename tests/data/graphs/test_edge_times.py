import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from tdegnn import InputError, Panel, find_order, read_panel
from tdegnn.data.graphs.graph_steps import GraphSteps
from tdegnn.graph import Graph

SERIES = pd.DataFrame(np.arange(24.0).reshape(8, 3), columns=["a", "b", "c"]).assign(
    time=pd.date_range("2024-01-01", periods=8)
)
EDGES = pd.DataFrame(
    [("a", "b", "2023-12-25"), ("a", "c", "2023-12-30"), ("b", "c", "2024-01-03"), ("a", "b", "2024-01-03")],
    columns=["source", "target", "time"],
)


def edges_of(graph):
    return graph.edge_index.T.tolist()


def test_edges_hold_from_their_time_until_the_next_listing(tmp_path):
    panel = read_panel(SERIES, EDGES)
    steps = panel.graph_steps
    assert [edges_of(steps.graphs[number]) for number in steps.numbers[:3]] == [[[0, 2]], [[0, 2]], [[0, 1], [1, 2]]]
    assert steps.num_changes == 1
    assert "Edges change at 1 of 8 steps, by the column 'time'." in panel.notes
    assert edges_of(panel.graph) == [[0, 1], [1, 2]]
    assert "edges that change 1 times, at the end Graph(" in repr(panel)
    EDGES.assign(weight=0.5).to_csv(tmp_path / "edges.csv", index=False)
    SERIES.to_csv(tmp_path / "series.csv", index=False)
    weighted = read_panel(tmp_path / "series.csv", tmp_path / "edges.csv", direction="in")
    assert (weighted.graph.is_weighted, weighted.graph.direction) == (True, "in")
    assert weighted.graph_steps.numbers.tolist() == steps.numbers.tolist()


def test_a_slice_has_the_graphs_of_its_steps_and_the_last_of_them_as_its_graph():
    panel = read_panel(SERIES, EDGES)
    assert edges_of(panel[:2].graph) == [[0, 2]]
    assert panel[1:4].graph_steps.numbers.tolist() == [0, 1, 1]
    assert panel[2:].graph_steps.is_constant
    assert panel.equals(read_panel(SERIES, EDGES))
    assert not panel.equals(read_panel(SERIES, EDGES.iloc[1:3]))
    assert not panel.equals(panel.with_graph(panel.graph))


def test_a_column_of_another_name_counts_if_it_is_named():
    built = EDGES.rename(columns={"time": "year"}).assign(weight=1.0)
    assert read_panel(SERIES, built).graph_steps is None
    assert read_panel(SERIES, built, edge_time="year").graph_steps.num_changes == 1


def test_edges_after_the_last_step_are_left_out():
    late = pd.concat([EDGES, pd.DataFrame([("a", "b", "2024-02-01")], columns=EDGES.columns)])
    panel = read_panel(SERIES, late)
    assert "Edges listed after the last step are left out, from 2024-02-01 on." in panel.notes
    assert panel.equals(read_panel(SERIES, EDGES))


def test_an_edge_at_two_times_is_not_listed_twice():
    assert not [note for note in read_panel(SERIES, EDGES).notes if "more than once" in note]
    twice = read_panel(SERIES, pd.concat([EDGES, EDGES.iloc[:1]]))
    assert "Edges listed more than once count once: 1 of 5 in the frame." in twice.notes


def test_a_list_of_graphs_has_one_per_step_of_any_kind():
    chain, matrix = [("a", "b"), ("b", "c")], scipy.sparse.eye_array(3, k=1, dtype=bool)
    panel = Panel.from_array(np.ones((4, 3)), nodes="abc", graph=[chain, matrix, [], chain])
    assert panel.graph_steps.numbers.tolist() == [0, 0, 1, 0]  # a chain is what the matrix has
    assert (panel.has_edges, panel[2:3].has_edges) == (True, False)
    weighted = panel.with_graph([[("a", "b", 2.0)], [("a", "b", 3.0)], [("a", "b", 2.0)], [("a", "b", 2.0)]])
    assert weighted.graph_steps.numbers.tolist() == [0, 1, 0, 0]
    assert panel.with_graph(None).graph is None


def test_a_step_that_is_missing_has_the_graph_before_it():
    first, second = Graph([[0], [1]], 2), Graph([[1], [0]], 2, direction="both")
    panel = Panel.from_array(np.ones((3, 2)), times=[4, 0, 1], graph=[second, first, first])
    assert panel.num_steps == 5
    assert panel.graph_steps.numbers.tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([[("a", "b")]] * 3, "Expected one graph per step, 4 in all, got 3"),
        ([[("a", "b")]] * 3 + [[("a", "z")]], "In the graph of step 3: Expected known nodes .* got 'z'"),
        ([[("a", "b")]] * 3 + [[("a", "b", 1.0)]], "Expected weights of edges at all steps or at none"),
        ([[("a",)]] * 4, r"In the graph of step 0: Expected edges \(source, target\), or all with a weight"),
    ],
)
def test_wrong_lists_are_refused(graphs, message):
    with pytest.raises(InputError, match=message):
        Panel.from_array(np.ones((4, 3)), nodes="abc", graph=graphs)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"time": ["2024-01-02"] * 4}, "Expected edges from the first step of the series on, 2024-01-01, got none b"),
        ({"time": ["2024-01-01"] * 3 + ["2024-01-03 12:00"]}, "among those of the series, got 2024-01-03 12:00:00 in"),
        ({"time": ["2024-01-01"] * 3 + [None]}, "Expected a time in every row, got none in row 3 of the frame"),
        ({"time": [1, 1, 2, 3]}, "Expected times of edges like those of the series, such as 2024-01-01, got 1 in row"),
        ({"target": ["b", "c", "c", "z"]}, "Expected known nodes .such as 'a'., got 'z' in row 3 of the frame"),
    ],
)
def test_wrong_tables_are_refused(changed, message):
    with pytest.raises(InputError, match=message):
        read_panel(SERIES, EDGES.assign(**changed))


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="Expected edges with a column 'when', got the columns"):
        read_panel(SERIES, EDGES, edge_time="when")
    with pytest.raises(InputError, match="Expected edges with a column 'when', got a graph"):
        read_panel(SERIES, Graph([[0], [1]], 3), edge_time="when")
    with pytest.raises(InputError, match="Expected a table of edges for a column of times, got a list of graphs"):
        read_panel(SERIES, [[("a", "b")]] * 8, edge_time="when")


def test_what_needs_one_graph_refuses_several():
    panel = read_panel(SERIES, EDGES)
    with pytest.raises(InputError, match="Expected series on one graph, got edges that change"):
        find_order(panel)
    with pytest.raises(InputError, match="Expected series on one graph for PyG data, got edges that change"):
        panel.to_pyg()
    with pytest.raises(InputError, match="Expected graphs of 8 steps, got 2"):
        panel.with_graph_steps(panel.graph_steps[:2])


def test_equal_graphs_are_one_object():
    graphs = [Graph([[0, 1], [1, 2]], 3), Graph([[0], [1]], 3), Graph([[0, 1], [1, 2]], 3)]
    steps = GraphSteps.of(graphs)
    assert (len(steps.graphs), steps.numbers.tolist()) == (2, [0, 1, 0])
    assert [list(run) for run in steps[np.array([0, 2, 1])].runs()] == [[0, 1], [2]]
    assert len(steps[:1].compact().graphs) == 1
    assert steps.longer(2).numbers.tolist() == [0, 1, 0, 0, 0]
