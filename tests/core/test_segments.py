"""Layers that are computed again in the backward pass: the same numbers as without segments, in less memory."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from tdegnn import DiffusionOperator, FixedCoefficients, Graph, InputError, integrate
from tdegnn.core.rules import COEFFICIENTS
from tdegnn.core.segments import cut_into_segments
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Part
from tests.core.checkers import CHANNELS, NUM_NODES, context_like, random_history, small_graph

NUM_LAYERS = 7
ORDER = 3
SIZES = dict(channels=CHANNELS, hidden_channels=16, num_layers=NUM_LAYERS, step_size=0.3, num_nodes=NUM_NODES)
LENGTHS = [1, 2, 3, 7, 100, "auto"]
CLOSE = dict(rtol=1e-12, atol=1e-12)


def make(operator="diffusion", rule="direct"):
    torch.manual_seed(4)
    made = OPERATORS.make(operator, **SIZES).double()
    coefficients = COEFFICIENTS.make(rule, order=ORDER, **SIZES).double()
    with torch.no_grad():
        # Away from where they start, so that all of them have a gradient.
        for parameter in (*made.parameters(), *coefficients.parameters()):
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made, coefficients


def run(operator, rule, segment_length, **others):
    """Integrate, and return numbers of both passes: states, c, gradients, and the buffers after it."""
    torch.manual_seed(5)
    history = [state.requires_grad_() for state in random_history(rule.order)]
    result = integrate(
        history,
        small_graph(),
        rule,
        operator,
        num_layers=NUM_LAYERS,
        step_size=0.3,
        context=context_like(operator, history[0].detach()),
        segment_length=segment_length,
        **others,
    )
    loss = result.state.square().sum() + result.coefficients.square().sum() + result.history[-1].sum()
    parts = [operator, rule, *(other for other in others.values() if isinstance(other, nn.Module))]
    inputs = [*history, *(parameter for part in parts for parameter in part.parameters())]
    gradients = torch.autograd.grad(loss, inputs, materialize_grads=True)
    buffers = [buffer.clone() for part in parts for buffer in part.buffers()]
    return [*result.history, result.coefficients, *gradients, *buffers]


def check_same(make_parts, segment_length, **others):
    """Each run has its own copies: a pass may move buffers."""
    expected, came = (run(*make_parts(), length, **copy.deepcopy(others)) for length in (None, segment_length))
    torch.testing.assert_close(came, expected, **CLOSE)
    assert all(number.isfinite().all() for number in expected if number.is_floating_point())


@pytest.mark.parametrize("segment_length", LENGTHS)
@pytest.mark.parametrize("rule", ["euler", "direct", "attention", "stable"])
def test_segments_change_no_state_and_no_gradient(rule, segment_length):
    check_same(lambda: make(rule=rule), segment_length)


@pytest.mark.parametrize("rule", COEFFICIENTS.names)
def test_segments_suit_every_rule(rule):
    check_same(lambda: make(rule=rule), 3)


@pytest.mark.parametrize("operator", [*OPERATORS.names, Part("diffusion", batch_norm=True)], ids=str)
def test_segments_suit_every_operator(operator):
    check_same(lambda: make(operator), 2)


@pytest.mark.parametrize("segment_length", [1, 2, 3])
def test_running_means_move_once_per_layer(segment_length):
    check_same(lambda: make("cde", "attention"), segment_length, after_layer=nn.BatchNorm1d(CHANNELS).double())


def test_dropout_of_torch_draws_the_same_again():
    check_same(make, 2, state_map=nn.Dropout(0.5))


def test_each_layer_may_have_its_own_state_map():
    maps = [nn.Linear(CHANNELS, CHANNELS).double() for _ in range(NUM_LAYERS)]
    check_same(make, 2, state_map=maps)
    with pytest.raises(InputError, match="^Expected one state_map or 7, one per layer, got 2.$"):
        run(*make(), None, state_map=maps[:2])


@pytest.mark.parametrize("segment_length", LENGTHS)
def test_every_state_is_shown_once_and_in_order(segment_length):
    seen = {None: [], segment_length: []}
    for length, states in seen.items():
        run(*make(), length, on_state=states.append)
    assert len(seen[segment_length]) == NUM_LAYERS
    torch.testing.assert_close(seen[segment_length], seen[None], **CLOSE)


class _Integrating(nn.Module):
    """`integrate` as a module, so that `functional_call` can give its parts other parameters."""

    def __init__(self, operator, rule, segment_length):
        super().__init__()
        self.operator, self.rule, self.segment_length = operator, rule, segment_length

    def forward(self, *history):
        result = integrate(
            history,
            small_graph(),
            self.rule,
            self.operator,
            num_layers=NUM_LAYERS,
            step_size=0.3,
            segment_length=self.segment_length,
        )
        return result.state


@pytest.mark.parametrize("rule", ["gated-attention", "stable-attention"])
def test_parameters_of_functional_call_are_those_of_the_backward_pass_too(rule):
    history, gradients = random_history(ORDER), []
    for segment_length in (None, 2):
        module = _Integrating(*make(rule=rule), segment_length)
        torch.manual_seed(6)
        given = {name: torch.randn_like(parameter).requires_grad_() for name, parameter in module.named_parameters()}
        state = functional_call(module, given, history)
        gradients.append(torch.autograd.grad(state.square().sum(), list(given.values()), materialize_grads=True))
    torch.testing.assert_close(gradients[1], gradients[0], **CLOSE)


def test_a_retained_graph_can_be_differentiated_again():
    operator, rule = make(Part("diffusion", batch_norm=True), "attention")
    state = _Integrating(operator, rule, 2)(*random_history(ORDER))
    first, second = (torch.autograd.grad(state.sum(), operator.weight, retain_graph=keep)[0] for keep in (True, False))
    torch.testing.assert_close(second, first, rtol=0, atol=0)


def test_segments_inside_of_a_transform_are_refused():
    module = _Integrating(*make(), 2)
    with pytest.raises(InputError, match="^Expected segments of layers outside of torch.func.vmap and grad, got some"):
        vmap(module)(*random_history(ORDER, 2))
    with torch.no_grad():  # nothing is kept for a backward pass
        assert vmap(module)(*random_history(ORDER, 2)).isfinite().all()


@pytest.mark.parametrize("segment_length", [0, -1])
def test_a_segment_must_have_a_layer(segment_length):
    with pytest.raises(InputError, match=f"^Expected segment_length to be at least 1, got {segment_length}.$"):
        run(*make(), segment_length)


@pytest.mark.parametrize(
    ("segment_length", "sizes"),
    [(1, [1] * 7), (2, [2, 2, 2, 1]), (3, [3, 3, 1]), (7, [7]), (100, [7]), ("auto", [3, 3, 1])],
)
def test_layers_are_cut_into_segments(segment_length, sizes):
    segments = list(cut_into_segments(7, segment_length))
    assert [len(segment) for segment in segments] == sizes
    assert [layer for segment in segments for layer in segment] == list(range(7))


def saved_bytes(rule, num_layers, segment_length):
    """Return how many bytes are kept for the backward pass. What layers share, such as the graph, counts once."""
    kept = {}

    def count(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    torch.manual_seed(7)
    history = [torch.randn(500, 32, requires_grad=True) for _ in range(rule.order)]
    operator = DiffusionOperator(32, num_layers, step_size=0.3)
    graph = Graph(torch.randint(500, (2, 2000)), 500)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        result = integrate(
            history, graph, rule, operator, num_layers=num_layers, step_size=0.3, segment_length=segment_length
        )
    assert result.state.requires_grad  # its graph holds what was counted
    return sum(kept.values())


@pytest.mark.parametrize("rule", [FixedCoefficients([1.0]), FixedCoefficients([2.0, -1.0])], ids=["euler", "leapfrog"])
def test_memory_grows_as_the_root_of_the_number_of_layers(rule):
    whole, cut = (saved_bytes(rule, 64, length) for length in (None, "auto"))
    assert cut < whole / 3
    assert saved_bytes(rule, 256, "auto") < 2.5 * cut
    assert saved_bytes(rule, 256, None) > 3.5 * whole
