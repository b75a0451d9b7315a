import subprocess
import sys

import pytest
import torch

from tdegnn import (
    AttentionCoefficients,
    DiffusionOperator,
    DirectCoefficients,
    FixedCoefficients,
    Graph,
    InputError,
    SpatialOperator,
    integrate,
)
from tdegnn.core.integrator import as_history, push, replace_newest
from tests.core.checkers import CHANNELS, random_history, small_graph
from tests.golden import CASES, graph_of, tensor_of


class LinearOperator(SpatialOperator):
    """`s(F) = rate F`, and a context that counts its calls."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, state, graph, layer, context=None):
        return self.rate * state, None if context is None else context + 1


def rule_of(case):
    if case["rule"] == "fixed":
        return FixedCoefficients(case["coefficients"])
    if case["rule"] == "direct":
        rule = DirectCoefficients(3).double()
        with torch.no_grad():
            rule.raw[0] = tensor_of(case["raw"])
        return rule
    rule = AttentionCoefficients(3, 4).double()
    with torch.no_grad():
        for name in ("query", "key"):
            getattr(rule, name).weight.copy_(tensor_of(case[f"{name}_weight"]))
            getattr(rule, name).bias.copy_(tensor_of(case[f"{name}_bias"]))
    return rule


@pytest.mark.parametrize("case", CASES["layer"], ids=lambda case: case["rule"])
def test_one_layer_agrees_with_golden_cases(case, device):
    operator = DiffusionOperator(4, 1, case["step_size"]).double()
    with torch.no_grad():
        operator.weight[0] = tensor_of(case["spatial_weight"])
    result = integrate(
        tensor_of(case["history"]).to(device),
        graph_of(case),
        rule_of(case).to(device),
        operator.to(device),
        num_layers=1,
        step_size=case["step_size"],
    )
    close = {"atol": 1e-9, "rtol": 0}
    torch.testing.assert_close(result.coefficients[0].cpu(), tensor_of(case["coefficients"]), **close)
    torch.testing.assert_close(result.state.cpu(), tensor_of(case["next_state"]), **close)


def test_order_one_is_forward_euler():
    (start,) = random_history(1)
    result = integrate(
        (start,), small_graph(), FixedCoefficients([1.0]), LinearOperator(-2.0), num_layers=5, step_size=0.1
    )
    torch.testing.assert_close(result.state, start * (1 - 0.2) ** 5)


def test_order_two_is_leapfrog():
    now, before = random_history(2)
    states = [before, now]
    for _ in range(6):
        states.append(2 * states[-1] - states[-2] + 0.1 * (-3.0) * states[-1])
    rule = FixedCoefficients([2.0, -1.0])
    result = integrate((now, before), small_graph(), rule, LinearOperator(-3.0), num_layers=6, step_size=0.1)
    torch.testing.assert_close(result.state, states[-1])
    torch.testing.assert_close(result.history[1], states[-2])
    assert result.coefficients.shape == (6, 2)


@pytest.mark.parametrize("make", [lambda: DirectCoefficients(3), lambda: AttentionCoefficients(3, CHANNELS)])
def test_without_a_spatial_term_constants_stay(make):
    constant = torch.ones(7, CHANNELS)
    result = integrate([constant] * 3, small_graph(), make(), LinearOperator(0.0), num_layers=9, step_size=0.5)
    torch.testing.assert_close(result.state, constant)


def test_only_the_newest_states_are_used():
    now, before, ignored = random_history(3)
    arguments = dict(num_layers=3, step_size=0.1)
    rule, operator = FixedCoefficients([2.0, -1.0]), LinearOperator(-1.0)
    long = integrate((now, before, ignored), small_graph(), rule, operator, **arguments)
    short = integrate(torch.stack([now, before]), small_graph(), rule, operator, **arguments)
    torch.testing.assert_close(long.state, short.state)


def test_context_travels_from_layer_to_layer():
    class Remembering(LinearOperator):
        def forward(self, state, graph, layer, context=None):
            assert context == layer
            return super().forward(state, graph, layer, context)

    integrate(
        random_history(1),
        small_graph(),
        FixedCoefficients([1.0]),
        Remembering(0.0),
        num_layers=3,
        step_size=1.0,
        context=0,
    )


def test_state_map_replaces_the_current_state_also_in_the_history():
    now, before = random_history(2)
    rule, operator = FixedCoefficients([2.0, -1.0]), LinearOperator(1.0)
    mapped = integrate(
        (now, before), small_graph(), rule, operator, num_layers=1, step_size=0.1, state_map=lambda s: 0 * s
    )
    torch.testing.assert_close(mapped.state, -before)
    assert (mapped.history[1] == 0).all()


@pytest.mark.parametrize("make", [lambda: DirectCoefficients(3), lambda: AttentionCoefficients(3, CHANNELS)])
def test_many_windows_on_one_graph_are_each_integrated_alone(make, device):
    rule, operator = make().to(device, torch.float64), DiffusionOperator(CHANNELS, 2, 0.2).to(device, torch.float64)
    history = random_history(3, 2, 4, device=device)
    together = integrate(history, small_graph(), rule, operator, num_layers=2, step_size=0.2)
    alone = integrate([s[1, 3] for s in history], small_graph(), rule, operator, num_layers=2, step_size=0.2)
    torch.testing.assert_close(together.state[1, 3], alone.state)


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: DirectCoefficients(2), lambda: AttentionCoefficients(2, CHANNELS)])
def test_gradients_of_a_whole_integration_pass_gradcheck(make):
    rule, operator = make().double(), DiffusionOperator(CHANNELS, 2, 0.1).double()
    history = [state.requires_grad_() for state in random_history(2)]

    def final_state(*states):
        return integrate(states, small_graph(), rule, operator, num_layers=2, step_size=0.1).state

    assert torch.autograd.gradcheck(final_state, history)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["direct", "attention"])
def test_compiled_integration_gives_the_same_numbers_and_gradients(rule, device):
    # In a process of its own: the compiler cannot look through the shape checks of this test run.
    command = [sys.executable, "-W", "ignore", "-m", "tests.core.compile_check", rule, device.type]
    subprocess.run(command, check=True, timeout=300)


def test_wrong_input_is_refused():
    graph, operator = Graph([[0], [1]]), LinearOperator(0.0)
    arguments = dict(num_layers=1, step_size=0.1)
    state = torch.zeros(2, 1)
    with pytest.raises(InputError, match="at least 2 states.*got 1"):
        integrate([state], graph, DirectCoefficients(2), operator, **arguments)
    with pytest.raises(InputError, match=r"2 nodes, channels\), got \(3, 1\)"):
        integrate([torch.zeros(3, 1)], graph, DirectCoefficients(1), operator, **arguments)
    with pytest.raises(InputError, match="float32 or float64, got torch.int64"):
        integrate([torch.zeros(2, 1, dtype=torch.int64)], graph, DirectCoefficients(1), operator, **arguments)
    with pytest.raises(InputError, match="num_layers to be at least 1, got 0"):
        integrate([state], graph, DirectCoefficients(1), operator, num_layers=0, step_size=0.1)


@pytest.mark.parametrize("num_channels", [4, 128])
def test_a_rule_in_more_digits_leaves_the_states_as_they_are(num_channels):
    history, graph = torch.ones(2, 200, num_channels), Graph([[0, 1], [1, 2]], 200)
    rule = DirectCoefficients(2).double()
    result = integrate(history, graph, rule, LinearOperator(-1.0), num_layers=3, step_size=0.1)
    assert {state.dtype for state in result.history} == {torch.float32}


@pytest.mark.parametrize(
    ("result", "what"), [(lambda state: state, "Tensor"), (lambda state: (state, 1, 2), "3 things")]
)
def test_an_operator_that_forgets_the_context_is_told(result, what):
    class Forgetful(SpatialOperator):
        def forward(self, state, graph, layer, context=None):
            return result(state)

    with pytest.raises(InputError, match=f"to return .rate, context., got {what}. Return both."):
        integrate(
            torch.ones(1, 3, 4),
            Graph([[0, 1], [1, 2]]),
            DirectCoefficients(1),
            Forgetful(),
            num_layers=1,
            step_size=1.0,
        )


def test_newest_states_come_first():
    history = as_history(torch.arange(6.0).reshape(3, 2, 1), 2)
    assert [state[0, 0].item() for state in history] == [0.0, 2.0]
    newer = push(history, torch.full((2, 1), 9.0))
    assert [state[0, 0].item() for state in newer] == [9.0, 0.0]
    assert replace_newest(history, newer[0])[1] is history[1]


def test_too_short_or_uneven_histories_are_refused():
    with pytest.raises(InputError, match="at least 3 states.*got 2"):
        as_history(torch.zeros(2, 4, 1), 3)
    with pytest.raises(InputError, match=r"alike, got \(4, 1\) torch.float32 on cpu and \(5, 1\)"):
        as_history([torch.zeros(4, 1), torch.zeros(5, 1)], 2)
    with pytest.raises(InputError, match="torch.float64"):
        as_history([torch.zeros(4, 1), torch.zeros(4, 1).double()], 2)
