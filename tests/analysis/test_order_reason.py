"""The words for every reason why data cannot tell their order."""

import pytest

from tdegnn.analysis.order_reason import find_reason
from tdegnn.analysis.order_trials import OrderTrial, lacks_a_term, percent_reached


def trial(order, share, chosen=0.0, *, visible=None, high=None):
    """A result with an interval of two percent on either side, unless more is visible or another end is given."""
    if share is None:
        return OrderTrial(order, None, None, None, None, 0.0, 0.9, ())
    visible = share if visible is None else visible
    high = min(visible + 0.02, 1.0) if high is None else high
    return OrderTrial(order, share, max(share - 0.02, 0.0), high, visible, chosen, 0.01, (3, 6))


@pytest.mark.parametrize(
    ("trials", "able", "reason"),
    [
        ([trial(1, None)], 1.0, "noise (5% of the signal) hides even the first differences"),
        (
            [trial(1, 0.5)],
            0.123,
            "only 12 % of the resamples could judge, the others saw little but noise (5% of the signal)",
        ),
        (
            [trial(1, 0.95, 0.745), trial(2, 0.9), trial(3, 0.99, 0.02)],
            1.0,
            "the resamples disagree: order 1 in 74 %, no order in 23 %",
        ),
        # The resamples may not choose order four, because order three nearly explains enough.
        (
            [trial(1, 0.2), trial(2, 0.3), trial(3, 0.91), trial(4, 0.98)],
            1.0,
            "order 3 explains 91 % (89 to 93 %), neither enough (95 %) nor clearly too little (below 90 %), so order 4 "
            "is not chosen, though it explains 98 % (96 to 100 %)",
        ),
        # The least that an order may explain is not enough to rule it out.
        (
            [trial(1, 0.2), trial(2, 0.7, visible=0.92), trial(3, 0.999)],
            1.0,
            "order 2 explains 70 % (68 to 94 %), neither enough (95 %) nor clearly too little (below 90 %), so order 3 "
            "is not chosen, though it explains 99 % (97 to 100 %)",
        ),
        (
            [trial(1, 0.2), trial(2, 0.3), trial(3, 0.5), trial(4, 0.96, high=0.97)],
            1.0,
            "order 4 explains 96 %, and what is left is not noise: filtered chance looks like this too",
        ),
        (
            [trial(1, 0.85), trial(2, 0.3)],
            1.0,
            "no order up to 2 explains enough, at most 85 % (order 1) where 95 % are needed, so a nonlinear coupling "
            "of the nodes, something not in the data, or chance is at work",
        ),
        (
            [trial(1, 0.85), trial(2, None)],
            1.0,
            "no order up to 1 explains enough, at most 85 % (order 1) where 95 % are needed, so a nonlinear coupling "
            "of the nodes, something not in the data, or chance is at work, and noise (5% of the signal) hides the "
            "higher ones",
        ),
        (
            [trial(1, 0.5), trial(2, 0.3)],
            1.0,
            "no order up to 2 explains enough, at most 50 % (order 1) where 95 % are needed, so chance, or something "
            "not in the data, is at work",
        ),
        (
            [trial(1, 0.5), trial(2, None)],
            1.0,
            "no order up to 1 explains enough, at most 50 % (order 1) where 95 % are needed, and noise (5% of the "
            "signal) hides the higher ones",
        ),
    ],
)
def test_the_reason_is_said_in_words(trials, able, reason):
    assert find_reason(trials, noise_share=0.05, able=able) == reason


def test_a_low_order_that_explains_much_may_lack_a_term():
    """Smoothness alone explains as much of the third difference."""
    assert [lacks_a_term(trial(order, 0.85)) for order in (1, 2, 3)] == [True, True, False]
    assert not lacks_a_term(trial(1, 0.79))
    # What explains enough does not explain nearly enough.
    assert [lacks_a_term(trial(2, share)) for share in (0.9499, 0.95, 0.96)] == [True, False, False]


@pytest.mark.parametrize(
    ("share", "whole", "tenths"),
    [
        (0.9496, "94 %", "94.9 %"),
        (0.95, "95 %", "95.0 %"),
        (0.29, "29 %", "29.0 %"),  # 100 * 0.29 is less than 29 in numbers of 64 bits
        (1.0, "100 %", "100.0 %"),
        (0.0, "0 %", "0.0 %"),
    ],
)
def test_a_share_below_a_threshold_never_appears_to_reach_it(share, whole, tenths):
    assert (percent_reached(share), percent_reached(share, 1)) == (whole, tenths)
