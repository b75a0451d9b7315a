from tdegnn.experiments.paper import NODE_ACCURACY
from tdegnn.experiments.protocols import PROTOCOLS


def test_every_published_system_has_a_note():
    assert set(PROTOCOLS) == set(NODE_ACCURACY)
    assert all(protocol.note.endswith(".") and "\n" not in protocol.note for protocol in PROTOCOLS.values())
