"""Every rival for nodes, with its published settings, is its equation, and answers the same after it was saved."""

from pathlib import Path

import pytest
import torch

from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tests.rivals.checkers import make, small_graph, sparse_features, train_alone
from tests.rivals.dense_checkers import check_equation
from tests.transcriptions import check_all_have_one, transcriptions_of

TRANSCRIPTIONS = transcriptions_of(Path(__file__).parent)


def test_every_rival_has_a_transcription():
    check_all_have_one([*NODE_NETWORKS], TRANSCRIPTIONS, "rivals")


@pytest.mark.parametrize("name", TRANSCRIPTIONS)
def test_a_rival_is_its_equation(name):
    check_equation(NODE_NETWORKS[name], TRANSCRIPTIONS[name])


@pytest.mark.parametrize("name", NODE_NETWORKS)
def test_a_trained_rival_answers_the_same_after_saving(name, tmp_path):
    graph, features = small_graph(), sparse_features()
    network = make(NODE_NETWORKS[name], seed=1)
    expected = train_alone(network, features, graph)
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    loaded = make(NODE_NETWORKS[name], seed=2).eval()
    assert not torch.allclose(loaded(features, graph), expected)
    loaded.load_state_dict(torch.load(tmp_path / "weights.pt"))
    assert torch.equal(loaded(features, graph), expected)
