from tdegnn.experiments.paper import PUBLISHED_ACCURACY
from tdegnn.experiments.protocols import PROTOCOLS
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.table1 import summarize
from tests.gaps_page import large_gaps
from tests.zoo import LINES


def test_every_published_system_has_a_note():
    assert set(PROTOCOLS) == set(PUBLISHED_ACCURACY)
    for protocol in PROTOCOLS.values():
        for note in (protocol.note, *protocol.gaps.values()):
            assert note.endswith(".")
            assert "\n" not in note


def test_every_large_gap_says_what_is_known_of_its_cause_and_no_small_one_does():
    gaps = large_gaps(summarize(read_lines(LINES)))
    assert set(gaps) == {(system, name) for system, protocol in PROTOCOLS.items() for name in protocol.gaps}
    # A number that is made as ours is, is reached.
    assert not {key: gap for key, gap in gaps.items() if gap < 0 and PROTOCOLS[key[0]].is_ours}
