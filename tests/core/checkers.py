"""One checker per family: what every rule for c, and every spatial operator, must do."""

import copy
from collections.abc import Callable
from typing import Any

import networkx
import numpy as np
import torch

from tdegnn import Graph, SpatialOperator, TemporalCoefficients
from tdegnn.core.combination import weighted_sum
from tdegnn.operators.past_diffusion import PastFeatures
from tdegnn.training_nodes import SeesTrainingNodes, TrainingNodes

NUM_NODES, CHANNELS = 7, 4
# Computes a rate as its equation is written, from dense matrices: `(operator, received, first, state, layer) -> rate`,
# where `received` is A' and `first` the state of layer 0.
Transcription = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor, int], torch.Tensor]


def small_graph(direction="both"):
    return Graph.from_networkx(networkx.gnp_random_graph(NUM_NODES, 0.5, seed=3, directed=True), direction)


def weighted_graph(direction="both"):
    """Directed and weighted; the last node is isolated."""
    edges = networkx.gnp_random_graph(NUM_NODES - 1, 0.4, seed=3, directed=True).edges
    index = torch.tensor(list(edges)).T
    weights = torch.linspace(0.5, 2.0, index.shape[1], dtype=torch.float64)
    return Graph(index, NUM_NODES, weights, direction)


def random_history(order, *batch, dtype=torch.float64, device="cpu"):
    return tuple(torch.randn(*batch, NUM_NODES, CHANNELS, dtype=dtype, device=device) for _ in range(order))


def check_coefficients(rule: TemporalCoefficients, device: torch.device) -> None:
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-9)):
        rule.to(device, dtype)
        for batch in ((), (3,), (2, 3)):
            history = random_history(rule.order, *batch, dtype=dtype, device=device)
            c = rule(history, 0)
            assert c.dtype == dtype
            assert c.shape in ((rule.order,), (rule.order, *batch))
            torch.testing.assert_close(c.sum(dim=0), torch.ones_like(c.sum(dim=0)), atol=tolerance, rtol=0)
            combined, same = rule.combine(history, 0)
            torch.testing.assert_close(same, c)
            torch.testing.assert_close(combined, weighted_sum(c, history))
            constant = tuple(torch.ones_like(state) for state in history)
            torch.testing.assert_close(rule.combine(constant, 0)[0], constant[0], atol=tolerance, rtol=0)
    assert f"order={rule.order}" in repr(rule)


def check_coefficient_gradients(rule: TemporalCoefficients) -> None:
    rule.double()
    parameters = dict(rule.named_parameters())
    for batch in ((), (2,)):
        history = [state.requires_grad_() for state in random_history(rule.order, *batch)]

        def combine(*values):
            given = {f"rule.{name}": value for name, value in zip(parameters, values[rule.order :], strict=True)}
            return torch.func.functional_call(_Combine(rule), given, (values[: rule.order],))

        inputs = (*history, *[parameter.detach().clone().requires_grad_() for parameter in parameters.values()])
        assert torch.autograd.gradcheck(combine, inputs)
        assert torch.autograd.gradgradcheck(combine, inputs)


class _Combine(torch.nn.Module):
    """`combine` as a forward pass, so that `functional_call` can give it other parameters."""

    def __init__(self, rule):
        super().__init__()
        self.rule = rule

    def forward(self, history):
        return self.rule.combine(history, 0)


class Repulsion(SpatialOperator):
    """An operator of a user's own: `s = tanh(w (F - P F))`."""

    def __init__(self, channels):
        super().__init__()
        self.strength = torch.nn.Parameter(torch.randn(channels))

    def reset_parameters(self):
        torch.nn.init.normal_(self.strength)

    def forward(self, state, graph, layer, context=None):
        return torch.tanh(self.strength * (state - graph.propagate(state))), context


def context_like(operator: SpatialOperator, state: torch.Tensor) -> Any:
    """What a network would pass to the operator in the first layer, for this state."""
    return PastFeatures(state.cos(), state.sin()) if operator.takes_past_features else None


def check_operator(operator: SpatialOperator, device: torch.device) -> None:
    operator.eval()

    def rate_of(state: torch.Tensor, graph: Graph) -> torch.Tensor:
        return operator(state, graph, 0, context_like(operator, state))[0]

    for dtype in (torch.float32, torch.float64):
        operator.to(device, dtype)
        for direction in ("out", "in", "both"):
            graph = small_graph(direction)
            (batched,) = random_history(1, 2, 3, dtype=dtype, device=device)
            given = context_like(operator, batched)
            rate, context = operator(batched, graph, 0, given)
            assert (rate.shape, rate.dtype) == (batched.shape, dtype)
            assert given is None or type(context) is type(given)
            # What an operator keeps for the next layer fits that layer.
            assert operator(rate, graph, 0, context)[0].shape == batched.shape
            alone = rate_of(batched[1, 2], graph)
            torch.testing.assert_close(rate[1, 2], alone)
    state = random_history(1)[0].to(device).requires_grad_()
    operator.double()
    graph = small_graph()
    # Gradients do not pass through a first state that is kept detached: it must not change with the state.
    kept = None if operator.takes_past_features else operator(state.detach().clone(), graph, 0)[1]

    def later_rate_of(values: torch.Tensor) -> torch.Tensor:
        given = context_like(operator, values) if operator.takes_past_features else kept
        return operator(values, graph, 0, given)[0]

    # On a GPU some convolutions add in an order that changes from run to run.
    assert torch.autograd.gradcheck(later_rate_of, (state,), nondet_tol=1e-10)


def see_training_nodes(part: SeesTrainingNodes, nodes: list[int], graph: Graph) -> Any:
    """Return a part that was told which nodes are trained on."""
    mask = np.zeros(graph.num_nodes, dtype=bool)
    mask[nodes] = True
    features, targets = np.ones((graph.num_nodes, 2)), np.zeros((graph.num_nodes, 3))
    part.see_training_nodes(TrainingNodes(features, graph, targets, mask))
    return part


def relabeled_graph(graph: Graph, numbers: torch.Tensor) -> Graph:
    """Return the graph with new numbers of its nodes."""
    weights = graph.edge_weight if graph.is_weighted else None
    return Graph(numbers[graph.edge_index], graph.num_nodes, weights, graph.direction)


def relabeled_module(module: torch.nn.Module, numbers: torch.Tensor) -> torch.nn.Module:
    """Return a copy of a module in which what is kept for each node moved with the node.

    An axis as long as there are nodes is one of nodes: tests have no other of this length, or they fail.
    """
    moved = copy.deepcopy(module)
    for values in (*moved.parameters(), *moved.buffers()):
        for axis, length in enumerate(values.shape):
            if length == len(numbers):
                values.data = values.data.index_select(axis, torch.argsort(numbers))
    return moved


def check_relabeling(operator: SpatialOperator, graphs: list[Graph]) -> None:
    """Nodes in another order have the same rates in that order, in the first layer and the second one."""
    operator = operator.double().eval()
    with torch.no_grad():  # some weights start at zero, where a wrong term would not be seen
        for parameter in operator.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    draw_statistics(operator)
    numbers = torch.tensor([3, 0, 6, 5, 1, 4, 2])
    order, moved = torch.argsort(numbers), relabeled_module(operator, numbers)
    for graph in graphs:
        renamed, states = relabeled_graph(graph, numbers), random_history(2)

        def rates(each: SpatialOperator, graph: Graph, states: list[torch.Tensor]) -> list[torch.Tensor]:
            found, context = [], context_like(each, states[0])
            for layer, state in enumerate(states):
                rate, context = each(state, graph, layer, context)
                found.append(rate)
            return found

        before, after = rates(operator, graph, states), rates(moved, renamed, [state[order] for state in states])
        for old, new in zip(before, after, strict=True):
            torch.testing.assert_close(new[numbers], old, atol=1e-9, rtol=1e-9)


def draw_statistics(module: torch.nn.Module) -> None:
    """Give each batch norm statistics as if it had seen something. At 0 and 1, it would do nothing."""
    for norm in module.modules():
        if isinstance(norm, torch.nn.BatchNorm1d):
            torch.nn.init.uniform_(norm.running_mean)
            torch.nn.init.uniform_(norm.running_var, 0.5, 2.0)


def check_equation(make: Callable[[], SpatialOperator], dense: Transcription, directions=("out", "in", "both")) -> None:
    """Rates of two layers, and their gradients, must equal those of a dense and slow transcription of the equation.

    With batch norm they must do so in training too, where statistics are those of the nodes.
    """
    operator = make().double()
    with torch.no_grad():  # some weights start at zero, where a wrong term would not be seen
        for parameter in operator.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    draw_statistics(operator)
    for direction in directions:
        for is_training in (False, True) if has_norm(operator) else (False,):
            _check_equation(operator.train(is_training), dense, weighted_graph(direction))


def _check_equation(operator: SpatialOperator, dense: Transcription, graph: Graph) -> None:
    received = torch.as_tensor(graph.received.toarray())
    states = [state.requires_grad_() for state in random_history(2)]
    context, layers = context_like(operator, states[0]), []
    for number, state in enumerate(states):
        rate, context = operator(state, graph, number, context)
        layers.append((rate, dense(operator, received, states[0], state, number)))
    weights = [parameter for parameter in operator.parameters() if parameter.requires_grad]
    for rate, expected in layers:
        torch.testing.assert_close(rate, expected, atol=1e-9, rtol=1e-9)
    came, wanted = (
        torch.autograd.grad(
            sum((column.sin() * column).sum() for column in columns), [*states, *weights], allow_unused=True
        )
        for columns in zip(*layers, strict=True)
    )
    for gradient, expected in zip(came, wanted, strict=True):
        assert (gradient is None) == (expected is None)
        if gradient is not None:
            torch.testing.assert_close(gradient, expected, atol=1e-9, rtol=1e-9)


def check_members(make: Callable[[], SpatialOperator]) -> None:
    """Operators under `vmap`, each with its own weights, must answer as they do alone.

    In two layers, of which the second one gets what the first one kept, and with batch norm in training too.
    """
    operators = [make().double() for _ in range(3)]
    for operator in operators:
        draw_statistics(operator)
    for graph in (small_graph(), weighted_graph("out")):
        for is_training in (False, True) if has_norm(operators[0]) else (False,):
            for operator in operators:
                operator.train(is_training)
            _check_members(operators, graph)
    _check_gradients_inside([operator.eval() for operator in operators])


def has_norm(module: torch.nn.Module) -> bool:
    return any(isinstance(inner, torch.nn.BatchNorm1d) for inner in module.modules())


def _check_members(operators: list[SpatialOperator], graph: Graph) -> None:
    """As in a training: the gradient is taken of all members together."""
    parameters, buffers = torch.func.stack_module_state(operators)
    states = torch.randn(len(operators), 2, NUM_NODES, CHANNELS, dtype=torch.float64, requires_grad=True)

    def loss(run: Callable[..., Any], state: torch.Tensor) -> torch.Tensor:
        total, context = 0.0, context_like(operators[0], state)
        for layer in range(2):
            rate, context = run(state, graph, layer, context)
            total, state = total + rate.square().sum(), state + 0.1 * rate
        return total

    def run_member(values: Any, constants: Any, state: torch.Tensor) -> torch.Tensor:
        return loss(lambda *given: torch.func.functional_call(operators[0], (values, constants), given), state)

    losses = torch.func.vmap(run_member)(parameters, buffers, states)
    learned = [name for name, values in parameters.items() if values.requires_grad]
    inputs = [states, *(parameters[name] for name in learned)]
    together = torch.autograd.grad(losses.sum(), inputs, allow_unused=True)
    for member, operator in enumerate(operators):
        own, state = copy.deepcopy(operator), states[member].detach().requires_grad_()
        alone = loss(own, state)
        torch.testing.assert_close(losses[member], alone)
        gradients = torch.autograd.grad(
            alone, [state, *(own.get_parameter(name) for name in learned)], allow_unused=True
        )
        for name, gradient, expected in zip(["state", *learned], together, gradients, strict=True):
            assert (gradient is None) == (expected is None), name
            if gradient is not None:
                torch.testing.assert_close(gradient[member], expected, msg=lambda said, name=name: f"{name}: {said}")
        # Batch norm in training has changed its statistics.
        for name, values in own.named_buffers():
            torch.testing.assert_close(buffers[name][member], values)


def _check_gradients_inside(operators: list[SpatialOperator]) -> None:
    """Each member takes its own gradient, inside of `vmap`."""
    parameters, buffers = torch.func.stack_module_state(operators)
    states = torch.randn(3, 2, NUM_NODES, CHANNELS, dtype=torch.float64)
    graph = small_graph()

    def loss(values, constants, state):
        given = (state, graph, 0, context_like(operators[0], state))
        return torch.func.functional_call(operators[0], (values, constants), given)[0].square().sum()

    together = torch.func.vmap(torch.func.grad(loss, argnums=(0, 2)))(parameters, buffers, states)
    for member, operator in enumerate(operators):
        own = ({**dict(operator.named_parameters())}, {**dict(operator.named_buffers())})
        alone = torch.func.grad(loss, argnums=(0, 2))(*own, states[member])
        torch.testing.assert_close(together[1][member], alone[1])
        for name, gradient in alone[0].items():
            torch.testing.assert_close(together[0][name][member], gradient)
