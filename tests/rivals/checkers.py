"""One checker for the family: what every network for node classification must do."""

import networkx
import numpy as np
import scipy.sparse
import torch

from tdegnn import Graph
from tdegnn.sparse import SparseMatrix
from tdegnn.training.members import GroupDescent, GroupedAdam, Members
from tests.core.checkers import draw_statistics, has_norm, relabeled_graph, relabeled_module, weighted_graph

NUM_NODES, NUM_FEATURES, NUM_OUTPUTS, HIDDEN = 12, 5, 3, 8
LEARNING_RATE, DECAY = 0.02, 1e-3
LABELS = torch.arange(NUM_NODES) % NUM_OUTPUTS


def small_graph(direction="out"):
    return Graph.from_networkx(networkx.gnp_random_graph(NUM_NODES, 0.25, seed=3, directed=True), direction)


def sparse_features(dtype=torch.float64):
    matrix = scipy.sparse.random_array((NUM_NODES, NUM_FEATURES), density=0.5, random_state=np.random.default_rng(1))
    return SparseMatrix.from_scipy(matrix).to(torch.device("cpu"), dtype)


def make(build, seed=0, num_nodes=NUM_NODES, **settings):
    """A network in float64; the same weights for the same seed."""
    torch.manual_seed(seed)
    sizes = dict(hidden_channels=HIDDEN, num_layers=3)
    return build(NUM_FEATURES, NUM_OUTPUTS, num_nodes, seed=seed, **(sizes | settings)).double()


def check_node_network(build, *, sees_features_of_others=True):
    """Check everything that all networks have in common."""
    check_answers(build)
    check_dropout(build)
    check_members(build)
    check_direction(build, sees_features_of_others=sees_features_of_others)
    check_relabeling(build)


def check_answers(build):
    """Shape and precision; dense and sparse features agree; any depth; weights are drawn anew; state is saved."""
    graph, features = small_graph(), sparse_features()
    for num_layers in (1, 2, 5):
        network = make(build, num_layers=num_layers).eval()
        answer = network(features, graph)
        assert (answer.shape, answer.dtype) == ((NUM_NODES, NUM_OUTPUTS), torch.float64)
        torch.testing.assert_close(answer, network(features.to_dense(), graph))
        single = network.float()(features.to(torch.device("cpu"), torch.float32), graph)
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), answer, atol=1e-5, rtol=1e-4)
    network, other = make(build, seed=1).eval(), make(build, seed=2).eval()
    assert not torch.allclose(network(features, graph), other(features, graph))
    other.load_state_dict(network.state_dict())
    assert torch.equal(network(features, graph), other(features, graph))
    network.reset_parameters()
    assert not torch.allclose(network(features, graph), other(features, graph))
    assert f"num_layers={network.num_layers}" in repr(network)


def check_dropout(build):
    """Masks are a function of seed and step, which a pass goes on by; evaluation has none; nothing else is random."""
    graph, features = small_graph(), sparse_features()
    plain = make(build).train()
    for rate in ("outer_dropout", "hidden_dropout"):
        network = make(build, **{rate: 0.5}).train()
        first = network(features, graph)
        assert not torch.allclose(first, network(features, graph))
        network.step.zero_()
        assert torch.equal(first, network(features, graph))
        assert not torch.allclose(first, plain(features, graph))
        network.step.zero_()
        network.seed += 1
        assert not torch.allclose(first, network(features, graph))
        # Batch norm remembers what it saw in training, so a fresh network is asked.
        assert torch.equal(make(build, **{rate: 0.5}).eval()(features, graph), make(build).eval()(features, graph))


def check_members(build, settings=(dict(outer_dropout=0.2, hidden_dropout=0.5), dict(outer_dropout=0.6), dict())):
    """A member of a batch is trained as it would be alone, by torch's Adam."""
    graph, features = small_graph(), sparse_features()
    networks = [make(build, seed, **setting) for seed, setting in enumerate(settings)]
    group = GroupDescent(LEARNING_RATE, DECAY)
    members = Members(networks, [GroupedAdam(group, group, group)] * len(networks))
    for _ in range(3):
        members.step(cross_entropy_by_member, features, graph)
    together = members.evaluate(features, graph)
    assert members.num_parameters == sum(parameter.numel() for parameter in networks[0].parameters())
    for member, network in enumerate(networks):
        alone = train_alone(network, features, graph)
        torch.testing.assert_close(together[member], alone, atol=1e-5, rtol=0)
        torch.testing.assert_close(members.network(member)(features, graph), alone, atol=1e-5, rtol=0)


def cross_entropy_by_member(answers):
    return torch.stack([torch.nn.functional.cross_entropy(answer, LABELS) for answer in answers])


def train_alone(network, features, graph):
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, weight_decay=DECAY)
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(features, graph), LABELS).backward()
        optimizer.step()
    return network.eval()(features, graph).detach()


def check_relabeling(build):
    """Nodes in another order get the same scores in that order. What is kept for each node moves with it."""
    plain, features = small_graph(), sparse_features().to_dense()
    weights = torch.linspace(0.5, 2.0, plain.edge_index.shape[1], dtype=torch.float64)
    network, numbers = make(build).eval(), torch.randperm(NUM_NODES)
    draw_statistics(network)
    moved_network = relabeled_module(network, numbers)
    for direction in ("out", "in", "both"):
        graph = Graph(plain.edge_index, NUM_NODES, weights, direction)
        moved = moved_network(features[torch.argsort(numbers)], relabeled_graph(graph, numbers))
        torch.testing.assert_close(moved[numbers], network(features, graph), atol=1e-9, rtol=1e-9)


def check_direction(build, *, sees_features_of_others):
    """Of the edge 0 -> 1: node 0 receives with "out", node 1 with "in", both with "both"; node 2 never."""
    features = torch.randn(3, NUM_FEATURES, dtype=torch.float64)
    network = make(build, num_nodes=3).eval()
    for direction, receivers in {"out": {0}, "in": {1}, "both": {0, 1}}.items():
        graph = Graph([[0], [1]], 3, direction=direction)
        before = network(features, graph)
        for changed in range(3):
            other = features.clone()
            other[changed] += 1.0
            is_moved = (network(other, graph) - before).abs().amax(dim=1) > 1e-9
            partner = {1 - changed} if changed < 2 and sees_features_of_others else set()
            assert set(is_moved.nonzero().flatten().tolist()) == {changed} | (partner & receivers)


def check_equation(make_network, dense, graphs=None):
    """Scores, and their gradients, must equal those of a dense and slow transcription of the equation.

    With batch norm they must do so in training too, where statistics are those of the nodes. `dense(network, received,
    features)` has A' as a dense matrix. The graph is directed and weighted, and has a node that is isolated.
    """
    network = make_network()
    with torch.no_grad():  # some weights start at zero, where a wrong term would not be seen
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    draw_statistics(network)
    for graph in graphs or [weighted_graph(direction) for direction in ("out", "in", "both")]:
        for is_training in (False, True) if has_norm(network) else (False,):
            _check_equation(network.train(is_training), dense, graph)


def _check_equation(network, dense, graph):
    weights = list(network.parameters())
    features = torch.randn(graph.num_nodes, NUM_FEATURES, dtype=torch.float64, requires_grad=True)
    answer = network(features, graph)
    expected = dense(network, torch.as_tensor(graph.received.toarray()), features)
    torch.testing.assert_close(answer, expected, atol=1e-9, rtol=1e-9)
    came, wanted = (
        torch.autograd.grad((scores.sin() * scores).sum(), [features, *weights]) for scores in (answer, expected)
    )
    for gradient, transcribed in zip(came, wanted, strict=True):
        torch.testing.assert_close(gradient, transcribed, atol=1e-9, rtol=1e-9)
