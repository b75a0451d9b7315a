import pytest

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.rivals.nodes.latent_space import relations_of, use_published_relations


@pytest.mark.slow
def test_a_benchmark_has_the_published_relations(mirror):
    dataset = load_nodes("cora")
    assert use_published_relations(dataset)
    use_published_relations(dataset)  # the same ones again
    *others, identity = relations_of(dataset.graph)
    together = sum(others)
    # Neighbors in the graph and in the latent space, less the pairs that are both.
    assert together.nnz == together.sum() == 10_556 + 9_566 - 17
    assert together.multiply(dataset.graph.received).nnz == dataset.graph.num_edges
    assert (len(others), identity.nnz) == (8, dataset.num_nodes)
    assert not use_published_relations(load_nodes("squirrel"))
