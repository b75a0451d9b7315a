import pytest
import torch

from tdegnn import FixedCoefficients, Graph, InputError, integrate
from tdegnn.operators.learned_adjacency import LearnedAdjacencyOperator
from tests.core.checkers import CHANNELS, NUM_NODES, check_equation, random_history, small_graph


def dense_learned_adjacency(operator, received, first, state, layer):
    exponentials = (operator.receivers @ operator.senders.T).clamp(min=0).exp()
    learned = exponentials / exponentials.sum(dim=1, keepdim=True)
    own, neighbors = operator.state_maps[layer], operator.neighbor_maps[layer]
    return torch.relu(state @ own.weight.T + own.bias + learned @ state @ neighbors.weight.T)


DENSE = {"learned-adjacency": dense_learned_adjacency}


def test_learned_adjacency_equals_its_equation():
    check_equation(lambda: LearnedAdjacencyOperator(CHANNELS, 2, NUM_NODES), dense_learned_adjacency, ("out",))


def test_embeddings_move_with_the_nodes():
    operator, (state,) = LearnedAdjacencyOperator(CHANNELS, 1, NUM_NODES).double(), random_history(1)
    graph, order = small_graph(), torch.randperm(NUM_NODES)
    before, _ = operator(state, graph, 0)
    with torch.no_grad():
        for embedding in (operator.receivers, operator.senders):
            embedding.copy_(embedding[order])
    after, _ = operator(state[order], graph, 0)
    torch.testing.assert_close(after, before[order])


def test_the_matrix_is_made_once_and_the_graph_is_not_used(monkeypatch):
    operator, (state,) = LearnedAdjacencyOperator(CHANNELS, 3, NUM_NODES).double(), random_history(1)
    made = []
    adjacency = operator.adjacency
    monkeypatch.setattr(operator, "adjacency", lambda: made.append(1) or adjacency())
    empty = Graph(torch.zeros(2, 0, dtype=torch.int64), NUM_NODES)
    ends = [
        integrate((state,), graph, FixedCoefficients([1.0]), operator, num_layers=3, step_size=0.5).state
        for graph in (small_graph(), empty)
    ]
    assert torch.equal(*ends)
    assert len(made) == 2  # passes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: LearnedAdjacencyOperator(4, 2, 5001),
            "at most 5000 nodes for a learned adjacency, .* got 5001. Use an operator on a given graph",
        ),
        (lambda: LearnedAdjacencyOperator(4, 2, 7, embedding_channels=0), "embedding_channels to be at least 1, got 0"),
        (
            lambda: LearnedAdjacencyOperator(4, 2, 9)(random_history(1, dtype=torch.float32)[0], small_graph(), 0),
            "Expected a graph of 9 nodes, .* got 7. Make a part for this graph.",
        ),
        (
            lambda: LearnedAdjacencyOperator(4, 2, 7)(random_history(1, dtype=torch.float32)[0], small_graph(), 2),
            "got layer 2",
        ),
    ],
)
def test_wrong_use_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
