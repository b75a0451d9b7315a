"""Batches of partitions: every training node once per epoch, halos, and an order that seed and step decide."""

import sys

import numpy as np
import pytest

from tdegnn import Graph, InputError
from tdegnn.batches.partitions import Partitions, Ranges
from tdegnn.batches.registry import BATCHES
from tdegnn.parts import Part

NODES = 400


def ring():
    sources = np.arange(NODES)
    return Graph(np.stack([sources, (sources + 1) % NODES]), NODES)


@pytest.mark.parametrize("kind", [Partitions, Ranges])
def test_each_training_node_is_inner_once_per_epoch(kind):
    training = np.arange(0, NODES, 3)
    plan = kind(num_parts=10, parts_per_batch=3).plan(ring(), training, 0)
    assert plan.num_batches == 4
    for epoch in range(2):
        batches = [plan.choose(4 * epoch + step) for step in range(4)]
        inner = np.concatenate([batch.nodes[batch.is_inner] for batch in batches])
        assert np.isin(training, inner).all()
        assert len(inner) == len(np.unique(inner))


def test_metis_cuts_few_edges():
    plan = Partitions(num_parts=8, parts_per_batch=1).plan(ring(), np.arange(NODES), 0)
    sizes = [int((~plan.choose(step).is_inner).sum()) for step in range(8)]
    assert max(sizes) <= 8


def test_a_batch_depends_on_seed_and_step_only():
    plans = [Ranges(num_parts=10, parts_per_batch=2).plan(ring(), np.arange(NODES), seed) for seed in (1, 1, 2)]
    plans[0].choose(3)
    first, again, other = (plan.choose(7) for plan in plans)
    assert np.array_equal(first.nodes, again.nodes)
    assert not np.array_equal(first.nodes, other.nodes)


def test_the_halo_is_as_wide_as_asked():
    for halo in (0, 1, 3):
        plan = Ranges(num_parts=4, parts_per_batch=1, halo=halo).plan(ring(), np.arange(NODES), 0)
        batch = plan.choose(0)
        assert (batch.is_inner.sum(), len(batch.nodes)) == (100, 100 + 2 * halo)


def test_parts_without_training_nodes_are_never_drawn():
    plan = Ranges(num_parts=4, parts_per_batch=1, halo=0).plan(ring(), np.arange(150), 0)
    assert plan.num_batches == 2
    assert {int(plan.choose(step).nodes[0]) for step in range(4)} == {0, 100}


def test_a_missing_package_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(InputError, match=r"^Expected the package pymetis.*pip install 'tdegnn\[large\]'.*$"):
        Partitions().plan(ring(), np.arange(NODES), 0)


def test_wrong_settings_are_refused():
    with pytest.raises(InputError, match="Expected num_parts of at most 400"):
        Ranges(num_parts=500).plan(ring(), np.arange(NODES), 0)
    with pytest.raises(InputError, match="Expected parts_per_batch of at most num_parts = 2, got 3"):
        Partitions(num_parts=2, parts_per_batch=3)
    with pytest.raises(InputError, match="Expected halo to be at least 0, got -1"):
        BATCHES.make(Part("partitions", halo=-1), num_layers=2)
    with pytest.raises(InputError, match="Expected batches to be one of partitions, ranges, neighborhoods"):
        BATCHES.make("partition", num_layers=2)
