"""Every operator of the registry, with the settings that it has there, is its equation, in any order of the nodes."""

from pathlib import Path

import pytest
import torch

from tdegnn.operators.registry import OPERATORS
from tdegnn.training_nodes import SeesTrainingNodes
from tests.core.checkers import (
    CHANNELS,
    NUM_NODES,
    check_equation,
    check_relabeling,
    random_history,
    relabeled_graph,
    see_training_nodes,
    small_graph,
    weighted_graph,
)
from tests.operators.test_diffusion import STEP_SIZE
from tests.transcriptions import check_all_have_one, transcriptions_of

SIZES = dict(channels=CHANNELS, hidden_channels=5, num_layers=2, step_size=STEP_SIZE, num_nodes=NUM_NODES)
TRANSCRIPTIONS = transcriptions_of(Path(__file__).parent)


def make(name):
    operator = OPERATORS.make(name, **SIZES)
    return see_training_nodes(operator, [1, 4], small_graph()) if isinstance(operator, SeesTrainingNodes) else operator


def test_every_operator_has_a_transcription():
    check_all_have_one(OPERATORS.names, TRANSCRIPTIONS, "operators")


def test_an_operator_without_a_transcription_is_named():
    with pytest.raises(AssertionError, match=r"got none of repulsion. Write it in tests/operators/test_NAME.py"):
        check_all_have_one([*OPERATORS.names, "repulsion"], TRANSCRIPTIONS, "operators")


@pytest.mark.parametrize("name", TRANSCRIPTIONS)
def test_an_operator_is_its_equation(name):
    check_equation(lambda: make(name), TRANSCRIPTIONS[name])


@pytest.mark.parametrize("name", OPERATORS.names)
def test_relabelling_nodes_changes_nothing(name):
    check_relabeling(make(name), [weighted_graph(direction) for direction in ("out", "in", "both")])


@pytest.mark.parametrize("name", [name for name in OPERATORS.names if make(name).is_bound_to_nodes])
def test_what_is_kept_of_nodes_moves_with_them(name):
    """Or the test above would say nothing about it."""
    operator, graph, (state,) = make(name).double(), weighted_graph(), random_history(1)
    numbers = torch.arange(NUM_NODES).roll(1)
    left_behind, _ = operator(state[torch.argsort(numbers)], relabeled_graph(graph, numbers), 0)
    assert not torch.allclose(left_behind[numbers], operator(state, graph, 0)[0])
