import pytest
import torch

from tdegnn import InputError
from tdegnn.rivals.next_state import GraphLSTM, NaivePredictor
from tests.core.checkers import CHANNELS, random_history, small_graph


def transcribed(model, history, graph):
    """The equations of the cell, gate by gate, on dense matrices."""
    propagation = graph.propagate(torch.eye(graph.num_nodes, dtype=torch.float64))
    hidden = cell = torch.zeros(graph.num_nodes, model.hidden_channels, dtype=torch.float64)
    for state in history[::-1]:
        seen = torch.cat([state, propagation @ state], dim=1)
        kept = torch.cat([hidden, propagation @ hidden], dim=1)
        gates = seen @ model.input_map.weight.T + model.input_map.bias + kept @ model.hidden_map.weight.T
        i, f, o, g = gates.split(model.hidden_channels, dim=1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
    return history[0] + hidden @ model.readout.weight.T + model.readout.bias


@pytest.mark.parametrize("order", [1, 2, 3])
def test_cell_is_its_equation(order):
    model, graph = GraphLSTM(order, CHANNELS, 5).double(), small_graph("out")
    history = random_history(order)
    torch.testing.assert_close(model(history, graph), transcribed(model, history, graph))


def test_windows_may_be_batched():
    model, history = GraphLSTM(2, CHANNELS, 5).double(), random_history(2, 3)
    together = model(history, small_graph())
    torch.testing.assert_close(together[1], model(tuple(state[1] for state in history), small_graph()))


def test_order_zero_is_refused():
    with pytest.raises(InputError, match="order to be at least 1, got 0"):
        GraphLSTM(0, 1, 1)


def test_naive_repeats_the_newest_state():
    history = random_history(1)
    assert NaivePredictor()(history, small_graph()) is history[0]
