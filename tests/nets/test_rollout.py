import pytest
import torch

from tdegnn import FixedCoefficients, Graph, HiddenDiffusionOperator, InputError, PhysicalNetwork, roll_out
from tdegnn.nets.rollout import PinnedPredictor

GRAPH = Graph([[0], [1]])


def straight_line():
    """Leapfrog without forces: what moves goes on moving."""
    operator = HiddenDiffusionOperator(1, 2)
    torch.nn.init.zeros_(operator.readout.weight)
    return PhysicalNetwork(FixedCoefficients([2.0, -1.0]), operator, step_size=0.1)


def test_a_free_run_feeds_on_its_own_predictions():
    history = (torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [0.0]]))
    path = roll_out(straight_line(), history, GRAPH, 4)
    assert path[:, :, 0].tolist() == [[2.0, 4.0], [3.0, 6.0], [4.0, 8.0], [5.0, 10.0]]
    assert not path.requires_grad


def test_pinned_nodes_stay():
    predictor = PinnedPredictor(straight_line(), torch.tensor([True, False]))
    history = (torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [0.0]]))
    path = roll_out(predictor, history, GRAPH, 3)
    assert path[:, :, 0].tolist() == [[1.0, 4.0], [1.0, 6.0], [1.0, 8.0]]


def test_too_few_states_or_steps_are_refused():
    state = torch.zeros(2, 1)
    with pytest.raises(InputError, match="at least 2 states"):
        roll_out(straight_line(), (state,), GRAPH, 3)
    with pytest.raises(InputError, match="num_steps to be at least 1, got 0"):
        roll_out(straight_line(), (state, state), GRAPH, 0)
