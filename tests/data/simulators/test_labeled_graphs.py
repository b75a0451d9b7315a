"""Simulated classes: the features or the edges carry the labels, as asked."""

import numpy as np
import pytest

from tdegnn import InputError
from tdegnn.data.simulators.labeled_graphs import simulate_labels


def agreement(drawn, offset=0):
    """Return the share of edges that lead to the class that is `offset` further."""
    source, target = drawn.graph.edge_index.numpy()
    num_classes = drawn.labels.max() + 1
    return np.mean((drawn.labels[source] + offset) % num_classes == drawn.labels[target])


def test_edges_follow_their_rule():
    # A graph that hears both sides holds each edge twice, so the next class is seen from one end only.
    own, nothing = (simulate_labels(2000, 4, 0, neighbors=rule) for rule in ("own", "any"))
    following = simulate_labels(2000, 4, 0, neighbors="next", direction="out")
    assert agreement(own) == pytest.approx(0.8 + 0.2 / 4, abs=0.02)
    assert agreement(nothing) == pytest.approx(1 / 4, abs=0.02)
    ahead, behind = agreement(following, 1), agreement(following, 3)
    assert max(ahead, behind) == pytest.approx(0.85, abs=0.02)


def test_features_are_as_far_apart_as_asked():
    apart, alike = (simulate_labels(2000, 2, 0, distance=distance) for distance in (3.0, 0.0))
    gaps = [
        each.features[each.labels == 0].mean(0) - each.features[each.labels == 1].mean(0) for each in (apart, alike)
    ]
    far, near = (np.linalg.norm(gap) for gap in gaps)
    assert far > 5
    assert near < 0.5


def test_classes_have_their_shares_and_all_exist():
    drawn = simulate_labels(1000, 3, 1, shares=(0.8, 0.15, 0.05))
    assert np.bincount(drawn.labels) / 1000 == pytest.approx([0.8, 0.15, 0.05], abs=0.04)
    assert set(simulate_labels(5, 5, 0, shares=(1.0, 1.0, 1.0, 1.0, 1e-9)).labels) == {*range(5)}


def test_a_seed_is_one_graph():
    first, again, other = (simulate_labels(50, 2, seed, distance=1.0) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.features, again.features)
    np.testing.assert_array_equal(first.graph.edge_index, again.graph.edge_index)
    assert (first.features != other.features).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(shares=(0.5, 0.2, 0.3)), "Expected 2 shares above 0, one per class, got"),
        (dict(distance=np.nan), "distance"),
    ],
)
def test_wrong_settings_are_one_line(settings, message):
    with pytest.raises(InputError, match=message):
        simulate_labels(10, 2, 0, **settings)
