from functools import partial

import pytest
import torch

from tdegnn import FixedCoefficients, Graph, InputError, integrate
from tdegnn.adjacency import pattern_of
from tdegnn.edge_values import row_sums
from tdegnn.operators.edge_attention import AttentionMixing, make_mixing
from tdegnn.operators.grand import GrandOperator, NonlinearGrandOperator
from tdegnn.operators.grand_plus_plus import GrandPlusPlusOperator
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Part
from tests.core.checkers import (
    CHANNELS,
    NUM_NODES,
    check_equation,
    random_history,
    see_training_nodes,
    small_graph,
    weighted_graph,
)
from tests.dense_matrices import scaled, with_loops

CONSTANT, ATTENTION = "constant", {"name": "attention", "settings": {"num_heads": 2, "attention_channels": 6}}
SQUAREPLUS = {"name": "attention", "settings": {"num_heads": 3, "attention_channels": 6, "normalization": "squareplus"}}


def dense_mixing(mixing, received, state):
    """G as a dense matrix."""
    if mixing.self_loops:
        received = with_loops(received)
    if not isinstance(mixing, AttentionMixing):
        return scaled(received, -1.0, 0.0)
    is_edge, heads = received != 0, []
    queries, keys = mixing.query_map(state), mixing.key_map(state)
    width = queries.shape[1] // mixing.num_heads
    scores = [
        queries[:, start : start + width] @ keys[:, start : start + width].T / width**0.5
        for start in range(0, queries.shape[1], width)
    ]
    largest = torch.stack(scores)[:, is_edge].max()
    for score in scores:
        shifted = score - largest
        positive = (
            torch.exp(shifted) if mixing.normalization == "softmax" else (shifted + (shifted**2 + 4).sqrt()) / 2
        ) * is_edge
        sums = positive.sum(dim=1, keepdim=True)
        heads.append(positive / torch.where(sums > 0, sums, 1.0))
    return torch.stack(heads).mean(dim=0)


def dense_grand(operator, received, first, state, layer):
    mixed = dense_mixing(operator.mixing, received, first) @ state
    return operator.raw_rate.sigmoid() * (mixed - state) + operator.source_scale * first.detach()


def dense_nonlinear(operator, received, first, state, layer):
    mixed = dense_mixing(operator.mixing, received, state) @ state
    return operator.raw_rate.sigmoid() * (mixed - state) + operator.source_scale * first.detach()


def dense_plus_plus(operator, received, first, state, layer):
    source = torch.zeros_like(first)
    source[[1, 4]] = first[[1, 4]] - first[[1, 4]].mean(dim=0)
    return dense_grand(operator, received, first, state, layer) + source


DENSE = {"grand": dense_grand, "grand-nonlinear": dense_nonlinear, "grand++": dense_plus_plus}


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("mixing", [CONSTANT, ATTENTION, SQUAREPLUS], ids=["constant", "softmax", "squareplus"])
def test_grand_equals_its_equation(mixing, self_loops):
    check_equation(lambda: GrandOperator(CHANNELS, mixing=mixing, self_loops=self_loops), dense_grand)


def test_nonlinear_grand_equals_its_equation():
    check_equation(lambda: NonlinearGrandOperator(CHANNELS, mixing=ATTENTION), dense_nonlinear)


def test_grand_plus_plus_equals_its_equation():
    check_equation(
        lambda: see_training_nodes(
            GrandPlusPlusOperator(CHANNELS, NUM_NODES, 0.5, mixing=ATTENTION), [1, 4], small_graph()
        ),
        dense_plus_plus,
    )


def test_grand_plus_plus_with_a_source_at_the_start_equals_its_equation():
    def dense(operator, received, first, state, layer):
        source = torch.zeros_like(first)
        source[[1, 4]] = first[[1, 4]] - first[[1, 4]].mean(dim=0)
        from_state = first + source if layer == 0 else state
        mixed = dense_mixing(operator.mixing, received, first + source) @ from_state
        rate = operator.raw_rate.sigmoid() * (mixed - from_state) + operator.source_scale * first.detach()
        return rate + source / 0.5 if layer == 0 else rate

    make = partial(GrandPlusPlusOperator, CHANNELS, NUM_NODES, 0.5, mixing=ATTENTION, source="start")
    check_equation(lambda: see_training_nodes(make(), [1, 4], small_graph()), dense)


@pytest.mark.parametrize("normalization", ["softmax", "squareplus"])
def test_attention_starts_uniform(normalization):
    mixing = AttentionMixing(CHANNELS, self_loops=True, normalization=normalization).double()
    graph, (state,) = weighted_graph(), random_history(1, 2)
    pattern = pattern_of(graph, state, self_loops=True)
    weights = mixing.weigh(state, graph)
    assert weights.shape == (2, pattern.columns.numel())
    ones = torch.ones_like(weights)
    torch.testing.assert_close(row_sums(pattern, weights), row_sums(pattern, ones) ** 0)
    uniform = make_mixing("constant", CHANNELS, self_loops=True).mix(None, state, graph.without_weights())
    torch.testing.assert_close(mixing.mix(weights, state, graph), uniform, atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", ["grand", "grand-nonlinear", "grand++"])
@pytest.mark.parametrize("mixing", [CONSTANT, ATTENTION], ids=["constant", "attention"])
def test_a_constant_state_does_not_diffuse(name, mixing):
    operator = OPERATORS.make(Part(name, mixing=mixing), channels=CHANNELS, num_nodes=NUM_NODES, step_size=0.5).double()
    state = torch.arange(CHANNELS, dtype=torch.float64).expand(NUM_NODES, CHANNELS)
    rate, _ = operator(state, weighted_graph(), 0)
    torch.testing.assert_close(rate, torch.zeros_like(rate))


def test_linear_grand_keeps_the_first_attention_and_nonlinear_does_not():
    graph, (first, later) = small_graph(), random_history(2)
    changed = {}
    for name in ("grand", "grand-nonlinear"):
        operator = OPERATORS.make(name, channels=CHANNELS).double()
        torch.nn.init.normal_(operator.mixing.query_map.weight)
        torch.nn.init.normal_(operator.mixing.key_map.weight)
        _, context = operator(first, graph, 0)
        rates = [operator(later, graph, 1, kept)[0] for kept in (context, None)]
        changed[name] = not torch.allclose(*rates)
        assert torch.equal(context.state, first)
        assert not context.state.requires_grad
    assert changed == {"grand": True, "grand-nonlinear": False}


def test_the_source_of_grand_plus_plus_touches_training_nodes_only():
    graph, (first, later) = small_graph(), random_history(2)
    operator = see_training_nodes(GrandPlusPlusOperator(CHANNELS, NUM_NODES, 0.5).double(), [0, 2, 5], graph)
    without = GrandPlusPlusOperator(CHANNELS, NUM_NODES, 0.5).double()
    without.load_state_dict({**operator.state_dict(), "is_training": torch.zeros(NUM_NODES)})
    contexts = [each(first, graph, 0)[1] for each in (operator, without)]
    rates = [each(later, graph, 1, kept)[0] for each, kept in zip((operator, without), contexts, strict=True)]
    source = rates[0] - rates[1]
    expected = torch.zeros_like(first)
    expected[[0, 2, 5]] = first[[0, 2, 5]] - first[[0, 2, 5]].mean(dim=0)
    torch.testing.assert_close(source, expected)
    torch.testing.assert_close(source.sum(dim=0), torch.zeros(CHANNELS, dtype=torch.float64))
    # Which nodes were trained on is stored, and drawing weights anew does not forget it.
    operator.reset_parameters()
    assert operator.state_dict()["is_training"].tolist() == [1, 0, 1, 0, 0, 1, 0]


def test_a_graph_without_edges_has_nothing_to_receive():
    graph, (state,) = Graph(torch.zeros(2, 0, dtype=torch.int64), NUM_NODES), random_history(1)
    for mixing in (CONSTANT, ATTENTION, SQUAREPLUS):
        rate, _ = GrandOperator(CHANNELS, mixing=mixing).double()(state, graph, 0)
        torch.testing.assert_close(rate, torch.zeros_like(state))
        rate, _ = GrandOperator(CHANNELS, mixing=mixing, self_loops=False).double()(state, graph, 0)
        torch.testing.assert_close(rate, -state / 2)


def test_integrate_drives_grand():
    """With h = 2, sg(a) = 1/2 and a constant G, a step is the mean over neighbors."""
    graph, (state,) = small_graph(), random_history(1)
    operator = GrandOperator(CHANNELS, mixing="constant", self_loops=False).double()
    received = torch.as_tensor(graph.received.toarray())
    walk = received / received.sum(dim=1, keepdim=True)
    came = integrate((state,), graph, FixedCoefficients([1.0]), operator, num_layers=3, step_size=2.0)
    torch.testing.assert_close(came.state, walk @ walk @ walk @ state)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GrandOperator(0), "channels to be at least 1, got 0"),
        (lambda: GrandOperator(4, mixing="atention"), "mixing to be one of constant, attention, .* mean 'attention'"),
        (lambda: make_mixing({"name": "attention", "settings": [2]}, 4, True), r"mixing to be a name or .*: \[2\]}"),
        (lambda: make_mixing({"name": 3}, 4, True), "mixing to be a name or .*, got {.name.: 3}"),
        (lambda: GrandOperator(4, mixing={"num_heads": 2}), r'mixing to be a name or {"name": .*}, got {.num_heads'),
        (
            lambda: GrandOperator(4, mixing={"name": "attention", "settings": {"heads": 2}}),
            "Expected settings of AttentionMixing among .*num_heads, .*, got 'heads'",
        ),
        (lambda: AttentionMixing(4, True, num_heads=3), "attention_channels to be a multiple of num_heads = 3, got 64"),
        (lambda: AttentionMixing(4, True, normalization="max"), "normalization to be one of softmax, squareplus, got"),
        (lambda: GrandPlusPlusOperator(4, 9, 0.5, source="end"), "source to be one of rate, start, got 'end'"),
        (lambda: GrandPlusPlusOperator(4, 0, 0.5), "num_nodes to be at least 1, got 0"),
        (
            lambda: GrandPlusPlusOperator(4, 9, 0.5)(random_history(1, dtype=torch.float32)[0], small_graph(), 0),
            "Expected a graph of 9 nodes, .* got 7. Make a part for this graph.",
        ),
        (
            lambda: see_training_nodes(GrandPlusPlusOperator(4, 9, 0.5), [0], small_graph()),
            "a graph of 9 nodes, .* got 7",
        ),
        (lambda: GrandOperator(5)(random_history(1, dtype=torch.float32)[0], small_graph(), 0), "5 channels, .* got 4"),
    ],
)
def test_wrong_use_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
