"""Every rival for nodes, with its published settings, is its equation."""

from pathlib import Path

import pytest

from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tests.rivals.dense_checkers import check_equation
from tests.transcriptions import check_all_have_one, transcriptions_of

TRANSCRIPTIONS = transcriptions_of(Path(__file__).parent)


def test_every_rival_has_a_transcription():
    check_all_have_one([*NODE_NETWORKS], TRANSCRIPTIONS, "rivals")


@pytest.mark.parametrize("name", TRANSCRIPTIONS)
def test_a_rival_is_its_equation(name):
    check_equation(NODE_NETWORKS[name], TRANSCRIPTIONS[name])
