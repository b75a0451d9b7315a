import pytest
import torch

from tdegnn.rivals.nodes.latent_space import relations_of, use_relations
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tests.core.checkers import weighted_graph
from tests.rivals.checkers import HIDDEN, NUM_FEATURES, make
from tests.rivals.dense_checkers import check_equation

GEOM_GCN = NODE_NETWORKS["Geom-GCN"]


def dense_network(network, relations, features):
    """The layers, written down relation by relation."""
    degrees = sum(relation.sum(dim=1) for relation in relations)
    scale = torch.diag(degrees**-0.5)
    state = features
    for number, linear in enumerate(network.maps, start=1):
        by_relation = [
            scale @ relation @ scale @ state @ W.T for relation, W in zip(relations, linear.weight, strict=True)
        ]
        if number == len(network.maps):
            return sum(by_relation) / len(by_relation)
        state = torch.relu(torch.cat(by_relation, dim=1))
    return state


def dense(network, received, features):
    # Relations follow the direction of the graph, which is not in its matrix.
    graphs = [weighted_graph(direction) for direction in ("out", "in", "both")]
    graph = next(each for each in graphs if (torch.as_tensor(each.received.toarray()) == received).all())
    relations = [torch.as_tensor(relation.toarray()) for relation in relations_of(graph)]
    assert torch.equal(sum(relations[:4]), (received != 0).double())
    return dense_network(network, relations, features)


DENSE = {"Geom-GCN": dense}


@pytest.mark.slow
def test_geom_gcn_is_its_equation():
    check_equation(GEOM_GCN, dense, num_layers=3)


def test_weights_are_drawn_by_relation():
    network = make(GEOM_GCN, num_layers=2)
    assert [tuple(linear.weight.shape) for linear in network.maps] == [(9, HIDDEN, NUM_FEATURES), (9, 3, 9 * HIDDEN)]
    bound = (6 / (HIDDEN + NUM_FEATURES)) ** 0.5
    assert 0.9 * bound < network.maps[0].weight.abs().max() <= bound


def test_relations_that_are_given_are_used():
    graph, other = weighted_graph(), weighted_graph()
    features = torch.randn(graph.num_nodes, NUM_FEATURES, dtype=torch.float64)
    network = make(GEOM_GCN).eval()
    relations = relations_of(graph)
    use_relations(other, [*relations[4:8], *relations[:4], relations[8]])
    answer = network(features, other)
    assert not torch.allclose(answer, network(features, graph))
    dense = [torch.as_tensor(relation.toarray()) for relation in relations_of(other)]
    torch.testing.assert_close(answer, dense_network(network, dense, features))
