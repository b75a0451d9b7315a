import torch

from tdegnn import Graph
from tdegnn.operators.cde import CdeOperator
from tests.core.checkers import CHANNELS, NUM_NODES, check_equation, random_history, small_graph
from tests.dense_matrices import batch_norm
from tests.operators.test_grand import ATTENTION, dense_mixing


def dense_convection(operator, received, state):
    """The sum as it is written, over one pair of nodes after the other."""
    rows = []
    for node, own in enumerate(state):
        neighbors = state[received[node] != 0]
        rows.append((torch.relu((neighbors - own) @ operator.difference_map.weight.T) * own).sum(dim=0))
    return torch.stack(rows)


def dense_cde(operator, received, first, state, layer):
    convection = batch_norm(operator.convection_norm, dense_convection(operator, received, state))
    diffusion = batch_norm(operator.diffusion_norm, dense_mixing(operator.mixing, received, state) @ state)
    moved = convection @ operator.convection_map.weight.T + diffusion @ operator.diffusion_map.weight.T
    target = torch.cat([state, moved], dim=1) @ operator.joint_map.weight.T + operator.joint_map.bias
    return operator.raw_rate.sigmoid() * (target - state) + operator.source_scale * first.detach()


DENSE = {"cde": dense_cde}


def test_cde_equals_its_equation():
    check_equation(lambda: CdeOperator(CHANNELS, mixing=ATTENTION), dense_cde)


def test_cde_with_a_constant_mean_equals_its_equation():
    check_equation(lambda: CdeOperator(CHANNELS, mixing="constant", self_loops=True), dense_cde, ("out",))


def test_equal_states_have_no_convection_nor_has_a_graph_without_edges():
    operator = CdeOperator(CHANNELS).double()
    constant = torch.ones(NUM_NODES, CHANNELS, dtype=torch.float64)
    assert not operator._convection(constant, small_graph()).any()
    empty = Graph(torch.zeros(2, 0, dtype=torch.int64), NUM_NODES)
    assert not operator._convection(random_history(1)[0], empty).any()
    assert operator(random_history(1)[0], empty, 0)[0].isfinite().all()


def test_batch_norm_is_over_nodes_and_batch():
    operator, (state,) = CdeOperator(CHANNELS).double().train(), random_history(1, 2, 3)
    operator(state, small_graph(), 0)
    expected = 0.1 * operator._convection(state, small_graph()).flatten(0, -2).mean(dim=0)
    torch.testing.assert_close(operator.convection_norm.running_mean, expected)
