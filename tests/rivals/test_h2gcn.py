import pytest
import torch

from tdegnn import Graph, InputError, files
from tdegnn.rivals.nodes.h2gcn import TwoHopNetwork, neighborhood_matrices
from tests.dense_matrices import scaled
from tests.rivals.dense_checkers import check_equation


def dense(network, received, features):
    edges = (received != 0).double()
    is_reached = torch.linalg.matrix_power(edges, 2) > 0
    two_steps = (is_reached & (edges == 0)).double().fill_diagonal_(0.0)
    assert two_steps.any()
    rounds = [torch.relu(features @ network.embedding.weight.T)]
    for _ in range(network.num_layers):
        rounds.append(torch.cat([scaled(received) @ rounds[-1], scaled(two_steps) @ rounds[-1]], dim=1))
    return torch.cat(rounds, dim=1) @ network.readout.weight.T


DENSE = {"H2GCN": dense}


def test_it_is_its_equation():
    check_equation(TwoHopNetwork, dense, num_layers=2)


def test_two_steps_leave_out_neighbors_and_the_node_itself():
    # 0 -> 1 -> 2, a short cut 0 -> 2, 2 -> 3, back 1 -> 0; node 0 has a loop.
    graph = Graph([[0, 1, 0, 2, 1, 0], [1, 2, 2, 3, 0, 0]], 4, direction="out", keep_self_loops=True)
    like = torch.zeros(1, dtype=torch.float64)
    one, two = (matrix.to_dense() != 0 for matrix in neighborhood_matrices(graph, like))
    assert [row.nonzero().flatten().tolist() for row in one] == [[1, 2], [0, 2], [3], []]
    assert [row.nonzero().flatten().tolist() for row in two] == [[3], [3], [], []]
    assert neighborhood_matrices(graph, like) is neighborhood_matrices(graph, like)


def test_too_many_nodes_two_steps_away_are_refused(monkeypatch):
    star = Graph([[0] * 50, range(1, 51)])
    monkeypatch.setattr(files, "_chosen_limit", 40_000)
    with pytest.raises(InputError, match="Expected the nodes two steps away to take at most .* of memory"):
        neighborhood_matrices(star, torch.zeros(1))
