"""One checker for the family: what every network for series must do."""

import numpy as np
import pytest
import torch

from tdegnn import Graph, InputError
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.training.devices import choose_placement
from tdegnn.training.members import GroupDescent, GroupedAdam, Members

SIZES = SeriesSizes(window=4, horizon=3, num_nodes=6, num_channels=2, num_known=2, num_targets=1)
BATCH, HIDDEN = 2, 5
DOUBLE = dict(dtype=torch.float64)


def small_graph(direction="out"):
    """Edges with weights and a direction; node 5 has none."""
    edges = [[0, 1, 2, 3, 0, 4], [1, 2, 0, 1, 4, 3]]
    return Graph(edges, SIZES.num_nodes, [0.5, 2.0, 1.0, 3.0, 1.5, 0.7], direction)


def random_frames(sizes=SIZES, batch=BATCH):
    return Frames(
        torch.randn(batch, sizes.window, sizes.num_nodes, sizes.num_channels, **DOUBLE),
        torch.randn(batch, sizes.horizon, sizes.num_nodes, sizes.num_known, **DOUBLE),
    )


def make(build, seed=0, sizes=SIZES, **settings):
    """A network in float64; the same weights for the same seed."""
    torch.manual_seed(seed)
    return build(sizes, **(dict(hidden_channels=HIDDEN, seed=seed) | settings)).double()


def check_series_network(build, *, is_bound_to_nodes=False):
    """Check everything that all networks have in common."""
    check_answers(build)
    check_windows_are_separate(build)
    check_every_frame_counts(build)
    check_future_counts(build)
    check_dropout(build)
    check_members(build)
    check_wrong_shapes(build)
    if not is_bound_to_nodes:
        check_relabeling(build)


def check_answers(build):
    """Shape and precision; any sizes; weights are drawn anew; state is saved."""
    graph, frames = small_graph(), random_frames()
    network, other = make(build, seed=1).eval(), make(build, seed=2).eval()
    answer = network(frames, graph)
    assert (answer.shape, answer.dtype) == ((BATCH, SIZES.horizon, SIZES.num_nodes, 1), torch.float64)
    assert not torch.allclose(answer, other(frames, graph))
    other.load_state_dict(network.state_dict())
    assert torch.equal(answer, other(frames, graph))
    single = other.float()(Frames(*(part.float() for part in frames)), graph)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), answer, atol=1e-5, rtol=1e-4)
    network.reset_parameters()
    assert not torch.allclose(answer, network(frames, graph))
    assert f"window={SIZES.window}, horizon={SIZES.horizon}" in repr(network)
    smallest = SeriesSizes(window=1, horizon=1, num_nodes=SIZES.num_nodes)
    widest = SIZES._replace(num_channels=HIDDEN + 1, num_targets=2)
    for sizes in (smallest, widest):
        answer = make(build, sizes=sizes).eval()(random_frames(sizes), graph)
        assert answer.shape == (BATCH, sizes.horizon, sizes.num_nodes, sizes.num_targets)


def check_windows_are_separate(build):
    """A window in a batch gets the forecast it gets alone, and a second pass gives the same as the first."""
    graph, frames = small_graph(), random_frames()
    network = make(build).eval()
    together = network(frames, graph)
    assert torch.equal(network(frames, graph), together)
    alone = [network(Frames(*(part[[index]] for part in frames)), graph) for index in range(BATCH)]
    torch.testing.assert_close(torch.cat(alone), together)


def check_every_frame_counts(build):
    """Another value in any frame is another forecast, and so are the first two frames in another order."""
    graph, frames = small_graph(), random_frames()
    network = make(build).eval()
    before = network(frames, graph)
    for index in range(SIZES.window):
        window = frames.window.clone()
        window[:, index] += 1.0
        assert not torch.allclose(network(frames._replace(window=window), graph), before, rtol=0, atol=1e-6)
    swapped = frames.window[:, [1, 0, *range(2, SIZES.window)]]
    assert not torch.allclose(network(frames._replace(window=swapped), graph), before, rtol=0, atol=1e-6)


def check_future_counts(build):
    """What is known of a node's future changes the forecast of that node, and of no other."""
    graph, frames = small_graph(), random_frames()
    network = make(build).eval()
    future = frames.future.clone()
    future[:, 0, 2] += 1.0
    moved = (network(frames._replace(future=future), graph) - network(frames, graph)).abs().amax(dim=(0, 1, 3))
    assert (moved > 1e-9).tolist() == [node == 2 for node in range(SIZES.num_nodes)]


def check_dropout(build):
    """Masks are a function of seed and step, which a pass goes on by; evaluation has none; nothing else is random."""
    graph, frames = small_graph(), random_frames()
    network = make(build, dropout=0.5).train()
    first = network(frames, graph)
    assert not torch.allclose(first, network(frames, graph))
    network.step.zero_()
    assert torch.equal(first, network(frames, graph))
    assert not torch.allclose(first, make(build).train()(frames, graph))
    network.step.zero_()
    network.seed += 1
    assert not torch.allclose(first, network(frames, graph))
    # Batch norm remembers what it saw in training, so a fresh network is asked.
    assert torch.equal(make(build, dropout=0.5).eval()(frames, graph), make(build).eval()(frames, graph))


def check_members(build):
    """A member of a batch is trained as it would be alone, and all its weights learn."""
    graph, frames = small_graph(), random_frames()
    targets = torch.randn(BATCH, SIZES.horizon, SIZES.num_nodes, SIZES.num_targets, **DOUBLE)
    networks = [make(build, seed, dropout=dropout) for seed, dropout in enumerate((0.5, 0.2, 0.0))]
    together = train(networks, frames, graph, targets)
    for member, network in enumerate(networks):
        alone = train([network], frames, graph, targets)
        torch.testing.assert_close(together.evaluate(frames, graph)[[member]], alone.evaluate(frames, graph))
        torch.testing.assert_close(together.weights[[member]], alone.weights)
        torch.testing.assert_close(together.network(member)(frames, graph), alone.evaluate(frames, graph)[0])
        for name, parameter in network.named_parameters():
            assert not torch.equal(parameter, alone.parameters()[name][0]), f"{name} does not learn"


def train(networks, frames, graph, targets):
    """A few steps without decay, so that only what has a gradient moves."""
    group = GroupDescent(learning_rate=0.02)
    descents = [GroupedAdam(group, group, group)] * len(networks)
    members = Members(networks, descents, choose_placement("cpu", "64-true"))
    for _ in range(3):
        members.step(lambda answers: (answers - targets).square().flatten(1).mean(dim=1), frames, graph)
    return members


def check_relabeling(build):
    """Nodes in another order get the same forecasts in that order."""
    graph, frames = small_graph(), random_frames()
    network = make(build).eval()
    permutation = torch.as_tensor(np.roll(np.arange(SIZES.num_nodes), 2))
    old_of_new = torch.argsort(permutation)
    renamed = Graph(permutation[graph.edge_index], SIZES.num_nodes, graph.edge_weight, graph.direction)
    moved = network(Frames(*(part[:, :, old_of_new] for part in frames)), renamed)
    torch.testing.assert_close(moved[:, :, permutation], network(frames, graph))


def check_wrong_shapes(build):
    """Windows, futures and graphs of other sizes are refused."""
    graph, frames = small_graph(), random_frames()
    network = make(build)
    with pytest.raises(InputError, match=r"Expected windows of shape .*4, 6, 2.* got \(3, 6, 2\)"):
        network(frames._replace(window=frames.window[:, 1:]), graph)
    with pytest.raises(InputError, match=r"a future of .*3, 6, 2.* and \(3, 6, 1\)"):
        network(frames._replace(future=frames.future[..., :1]), graph)
    with pytest.raises(InputError, match="on 6 nodes, got .* on 5"):
        network(Frames(*(part[:, :, :5] for part in frames)), Graph([[0], [1]], 5))
