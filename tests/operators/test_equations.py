"""Every operator of the registry, with the settings that it has there, is its equation."""

from pathlib import Path

import pytest

from tdegnn.operators.registry import OPERATORS
from tdegnn.training_nodes import SeesTrainingNodes
from tests.core.checkers import CHANNELS, NUM_NODES, check_equation, small_graph
from tests.operators.test_diffusion import STEP_SIZE
from tests.operators.test_grand import see
from tests.transcriptions import check_all_have_one, transcriptions_of

SIZES = dict(channels=CHANNELS, hidden_channels=5, num_layers=2, step_size=STEP_SIZE, num_nodes=NUM_NODES)
TRANSCRIPTIONS = transcriptions_of(Path(__file__).parent)


def make(name):
    operator = OPERATORS.make(name, **SIZES)
    return see(operator, [1, 4], small_graph()) if isinstance(operator, SeesTrainingNodes) else operator


def test_every_operator_has_a_transcription():
    check_all_have_one(OPERATORS.names, TRANSCRIPTIONS, "operators")


def test_an_operator_without_a_transcription_is_named():
    with pytest.raises(AssertionError, match=r"got none of repulsion. Write it in tests/operators/test_NAME.py"):
        check_all_have_one([*OPERATORS.names, "repulsion"], TRANSCRIPTIONS, "operators")


@pytest.mark.parametrize("name", TRANSCRIPTIONS)
def test_an_operator_is_its_equation(name):
    check_equation(lambda: make(name), TRANSCRIPTIONS[name])
