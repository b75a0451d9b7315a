import decimal
import operator
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tdegnn import DirectCoefficients, InputError, integrate
from tdegnn.core import stable
from tdegnn.core.combination import join, mean_scores
from tdegnn.core.stable import StableAttention, StableCoefficients, _bounded
from tdegnn.core.stable_factors import safe_margin, stable_coefficients, stable_factors
from tdegnn.operators.diffusion import DiffusionOperator
from tests.core.checkers import (
    CHANNELS,
    check_coefficient_gradients,
    check_coefficients,
    random_history,
    small_graph,
)
from tests.core.test_coefficients import shaken

RULES = {
    "one state": lambda: StableCoefficients(1),
    "one free root": lambda: StableCoefficients(2),
    "leapfrog": lambda: StableCoefficients(2, multiplicity=2),
    "odd": lambda: StableCoefficients(4),
    "even": lambda: StableCoefficients(5, margin=0.1),
    "second order": lambda: StableCoefficients(5, multiplicity=2),
    "by layer": lambda: StableCoefficients(6, num_layers=2),
    "attention of two": lambda: StableAttention(2, CHANNELS),
    "attention of one": lambda: StableAttention(1, CHANNELS),
    "attention of second order": lambda: StableAttention(5, CHANNELS, multiplicity=2),
}
PAGE = Path(__file__).parents[2] / "docs" / "stability.md"
ORDERS = range(1, 13)
DRAWS_PER_ORDER = 8_400  # 100,800 in all
LARGEST = 1e3  # a tanh is 1 in float64 from 19 on
NUM_STEPS = 10_000


def random_parameters(count, num_free, seed=0):
    """Of all sizes from 0.01 to 1,000; in a tenth of the draws all are at one of the ends."""
    random = np.random.default_rng([seed, num_free])
    raw = random.uniform(-1, 1, (count, num_free)) * 10 ** random.uniform(-2, 3, (count, num_free))
    is_extreme = random.random((count, 1)) < 0.1
    return np.where(is_extreme, np.copysign(LARGEST, raw), raw)


def factors_by_hand(raw, margin):
    """The rows (a, b) as the docstring says, with one factor x + tanh v, b absent, where the number of roots is odd."""
    v, u = np.split(np.tanh(raw), [(raw.shape[1] + 1) // 2], axis=1)
    b = np.concatenate([u, np.zeros((len(raw), raw.shape[1] % 2))], axis=1)
    return (1 - margin) * (1 + b) * v, (1 - margin) ** 2 * b


def roots_of(c):
    companion = np.zeros((*c.shape, c.shape[-1]))
    companion[:, 0] = c
    companion[:, range(1, c.shape[1]), range(c.shape[1] - 1)] = 1.0
    return np.linalg.eigvals(companion)


@pytest.mark.parametrize("make", RULES.values(), ids=RULES)
def test_rule_gives_weights_that_sum_to_one(make, device):
    check_coefficients(shaken(make()), device)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one free root", "attention of two"])
def test_gradients_pass_gradcheck(name):
    check_coefficient_gradients(shaken(RULES[name]()))


@pytest.mark.parametrize("num_free", [1, 4, 7])
@pytest.mark.parametrize("multiplicity", [1, 3])
def test_gradients_of_long_products_pass_gradcheck(num_free, multiplicity):
    raw = torch.randn(2, num_free, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda r: stable_coefficients(r, multiplicity, 1e-3), raw)
    assert torch.autograd.gradgradcheck(lambda r: stable_coefficients(r, multiplicity, 1e-3), raw)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_any_parameters_give_a_stable_polynomial(order):
    margin = 1e-3
    multiplicities = range(1, min(order, 3) + 1)
    for multiplicity in multiplicities:
        draws = random_parameters(DRAWS_PER_ORDER // len(multiplicities), order - multiplicity)
        raw = torch.from_numpy(draws).requires_grad_()
        linear, constant = (part.detach().numpy() for part in stable_factors(raw, margin))
        assert (np.abs(constant) < 1).all()
        assert (np.abs(linear) < 1 + constant).all()

        expected = []
        for a, b in zip(*factors_by_hand(draws, margin), strict=True):
            polynomial = np.poly([1.0] * multiplicity)
            for factor in zip(np.ones_like(a), a, b, strict=True):
                polynomial = np.convolve(polynomial, factor)
            expected.append(-polynomial[1 : order + 1])
        coefficients = stable_coefficients(raw, multiplicity, margin)
        c = coefficients.detach().numpy()
        np.testing.assert_allclose(c, expected, rtol=0, atol=1e-12 * np.abs(c).max())
        np.testing.assert_allclose(c.sum(axis=1), 1.0, rtol=0, atol=1e-9)
        assert np.abs(roots_of(c)).max() <= 1 + 10 * np.finfo(float).eps ** (1 / order)

        if multiplicity < order:
            (coefficients * torch.randn_like(coefficients)).sum().backward()
            assert raw.grad.isfinite().all()


def growth_constants(raw, margin):
    """`prod (1 + |x|) / (1 - |x|)` over the roots x of the factors, from the formula for quadratic equations."""
    a, b = factors_by_hand(raw, margin)
    root = np.sqrt(a**2 - 4 * b + 0j)
    moduli = np.abs(np.concatenate([root - a, root + a], axis=1)) / 2
    return np.prod((1 + moduli) / (1 - moduli), axis=1)


def largest_of_free_runs(c):
    """The largest state of 10,000 steps without s, for each row of c, from initial states -1 to 1."""
    order, block = c.shape[1], 500
    weights = np.ascontiguousarray(c.T[::-1])  # of the oldest state first, as states follow each other
    states = np.empty((order + block, len(c)))
    states[:order] = np.random.default_rng(1).uniform(-1, 1, (order, len(c)))
    largest = np.ones(len(c))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(NUM_STEPS // block):
            for step in range(block):
                (weights * states[step : step + order]).sum(axis=0, out=states[step + order])
            newest = np.abs(states[order:])
            np.maximum(largest, np.where(np.isfinite(newest), newest, np.inf).max(axis=0), out=largest)
            states[:order] = states[block:].copy()
    return largest


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_free_runs_stay_bounded(order):
    # The product g of the free factors maps the states F to G, which x - 1 keeps constant from the initial states on.
    # So |G| <= sum|g| max|F0|, and F, which is G filtered by 1 / g, is at most sum|1/g| sum|g| max|F0|. Root by root
    # these two sums are at most 1 / (1 - |x|) and 1 + |x|.
    raw, margin = extreme_parameters(order - 1), StableCoefficients(order).margin
    constants = growth_constants(raw, margin)
    c = stable_coefficients(torch.from_numpy(raw), 1, margin).numpy()
    assert (largest_of_free_runs(c) <= 1.001 * constants).all()
    assert (constants <= 1.001 * (2 / margin) ** (order - 1)).all()


@pytest.mark.slow
def test_rounding_breaks_the_bound_with_a_margin_that_does_not_grow_with_the_order():
    raw = extreme_parameters(11)
    c = stable_coefficients(torch.from_numpy(raw), 1, 1e-3).numpy()
    assert (largest_of_free_runs(c) > 1.001 * growth_constants(raw, 1e-3)).sum() > 50


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_free_runs_in_float32_stay_bounded_with_the_margin_for_it(order):
    raw, margin = extreme_parameters(order - 1), safe_margin(order, num_steps=NUM_STEPS, dtype=torch.float32)
    assert 0 < margin < 0.9
    c = stable_coefficients(torch.from_numpy(raw).float(), 1, margin).double().numpy()
    assert (largest_of_free_runs(c) <= 1.001 * growth_constants(raw, margin)).all()


def worst_parameters(num_free):
    """All roots on one spot: at -1, at 1 (as far as there are pairs), and in pairs at angles between."""
    spots = [(LARGEST, LARGEST), (-LARGEST, LARGEST), (0.0, LARGEST), (0.5, LARGEST), (-1.0, 3.0)]
    num_linear = (num_free + 1) // 2
    return np.array([[v] * num_linear + [u] * (num_free - num_linear) for v, u in spots])


def extreme_parameters(num_free):
    """As many as any other test draws, and the worst ones."""
    return np.concatenate([random_parameters(DRAWS_PER_ORDER, num_free), worst_parameters(num_free)])


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_free_runs_with_a_small_margin_stay_bounded_in_exact_numbers(order):
    """What float64 makes of a dozen roots on one spot is rounding; with 150 digits the bound itself is seen."""
    margin = 1e-3
    raw = np.concatenate([worst_parameters(order - 1), random_parameters(3, order - 1, seed=2)])
    random = np.random.default_rng(0)
    with decimal.localcontext(prec=150):
        for a, b, constant in zip(*factors_by_hand(raw, margin), growth_constants(raw, margin), strict=True):
            polynomial = [decimal.Decimal(1), decimal.Decimal(-1)]
            for factor in zip(a.tolist(), b.tolist(), strict=True):
                parts = (decimal.Decimal(1), *map(decimal.Decimal, factor))
                longer = [decimal.Decimal(0)] * (len(polynomial) + 2)
                for place, value in enumerate(polynomial):
                    for shift, part in enumerate(parts):
                        longer[place + shift] += value * part
                polynomial = longer
            c = [-value for value in polynomial[1 : order + 1]]
            states = [decimal.Decimal(value) for value in random.uniform(-1, 1, order).tolist()]
            largest = decimal.Decimal(0)
            for _ in range(NUM_STEPS):
                newest = sum(map(operator.mul, c, states))
                states = [newest, *states[:-1]]
                largest = max(largest, abs(newest))
            assert largest <= decimal.Decimal(constant) * decimal.Decimal("1.001")


@pytest.mark.parametrize("order", [5, 6, 8, 10, 12])
def test_documented_margins_are_those_tested(order):
    assert f"| {order} | {StableCoefficients(order).margin:.3f} |" in PAGE.read_text()


def test_free_runs_of_divided_vectors_do_not_stay_bounded():
    raw = torch.randn(200, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    c = (raw / raw.sum(dim=1, keepdim=True)).numpy()
    assert (largest_of_free_runs(c) > 1e6).mean() > 0.5


def test_a_c_that_changes_may_grow_though_each_is_stable():
    raw = torch.atanh(torch.tensor([[-1.8 / 1.9, 0.9], [1.8 / 1.9, 0.9]], dtype=torch.float64))
    first, second = stable_coefficients(raw, 1, 1e-3).numpy()
    for c in (first, second):
        assert largest_of_free_runs(c[None]) < 1e3
    states = [1.0, 0.5, 0.0]
    for c in [first, second] * 20:
        states = [float(c @ states), *states[:2]]
    assert abs(states[0]) > 1e12


@pytest.mark.parametrize(
    ("order", "multiplicity", "expected"),
    [(1, 1, [1]), (4, 1, [1, 0, 0, 0]), (2, 2, [2, -1]), (3, 3, [3, -3, 1]), (5, 2, [2, -1, 0, 0, 0])],
)
def test_parameters_of_zero_are_the_pure_recursion(order, multiplicity, expected):
    for dtype in (torch.float32, torch.float64):
        c = stable_coefficients(torch.zeros(order - multiplicity, dtype=dtype), multiplicity, 1e-3)
        assert c.tolist() == expected


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("multiplicity", [1, 2])
def test_rule_starts_next_to_the_pure_recursion_and_can_leave_in_every_direction(order, multiplicity):
    num_free = order - multiplicity
    if num_free < 0:
        pytest.skip("there is no such recursion")
    rule = StableCoefficients(order, multiplicity).double()
    zero = torch.zeros(num_free, dtype=torch.float64)
    pure = stable_coefficients(zero, multiplicity, rule.margin)
    came = rule(random_history(order), 0)
    torch.testing.assert_close(came, pure, rtol=0, atol=(2.1e-4 if num_free > 3 else 0))

    def slopes(raw):
        return torch.linalg.svdvals(torch.func.jacrev(lambda r: stable_coefficients(r, multiplicity, 1e-3))(raw))

    if num_free > 3:
        assert slopes(rule.raw.detach()[0])[-1] > 1e-4
        # Factors alike: what one parameter does to c another one does too.
        assert slopes(zero)[-1] < 1e-12
    with torch.no_grad():
        rule.raw.add_(1.0)
    rule.reset_parameters()
    torch.testing.assert_close(rule(random_history(order), 0), came, rtol=0, atol=1e-6)


def test_a_large_margin_leaves_room_for_the_start():
    c = StableCoefficients(6, margin=0.95).double()(random_history(6), 0)
    torch.testing.assert_close(c, torch.eye(6, dtype=torch.float64)[0], rtol=0, atol=1e-6)


def random_stable_vector(order, multiplicity, random, is_repeated):
    """c from roots in a disc of radius 0.95: pairs, real ones, and, on request, three of each where they fit."""
    num_free = order - multiplicity
    roots = []
    while len(roots) < num_free:
        root = 0.95 * random.random() ** 0.5 * np.exp(2j * np.pi * random.random())
        fits = num_free - len(roots)
        new = [root, root.conjugate()] if fits > 1 and random.random() < 0.6 else [root.real + 0j]
        roots += new * 3 if is_repeated and 3 * len(new) <= fits else new
    return -np.poly([1.0] * multiplicity + roots).real[1:]


@pytest.mark.parametrize("is_repeated", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_a_stable_vector_is_factored_and_comes_back(order, is_repeated):
    random = np.random.default_rng(order)
    for multiplicity in range(1, min(order, 3) + 1):
        for _ in range(20):
            c = torch.from_numpy(random_stable_vector(order, multiplicity, random, is_repeated))
            rule = StableCoefficients.from_coefficients(c)
            assert rule.multiplicity == multiplicity
            assert rule.raw.dtype == torch.float64
            # A repeated root comes out of the factoring less exactly, the product of all does not.
            torch.testing.assert_close(rule(random_history(order), 0), c, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("values", "multiplicity"),
    [([1.0], 1), ([2.0, -1.0], 2), ([1.4, 0.2, -0.6], 2), ([1.97, -0.97], 1), ([1.0, 0.0, 0.0, 0.0, 0.0], 1)],
)
def test_known_integrators_are_factored(values, multiplicity):
    rule = StableCoefficients.from_coefficients(values, num_layers=2)
    assert (rule.multiplicity, rule.raw.dtype) == (multiplicity, torch.float32)
    c = rule(random_history(len(values)), 1)
    torch.testing.assert_close(c, torch.tensor(values, dtype=c.dtype), rtol=0, atol=1e-6)


def test_a_given_vector_keeps_roots_nearer_to_the_circle_than_the_margin():
    near = [1.9995, -0.9995]
    rule = StableCoefficients.from_coefficients(torch.tensor(near, dtype=torch.float64))
    assert rule.margin == pytest.approx(2.5e-4)
    torch.testing.assert_close(rule(random_history(2), 0).tolist(), near, rtol=0, atol=1e-9)
    assert StableCoefficients.from_coefficients([1.5, -0.5]).margin == StableCoefficients(2).margin


def test_the_margin_is_that_of_the_free_roots():
    assert [safe_margin(order) for order in (1, 2, 4)] == [1e-3] * 3
    assert safe_margin(6, 2) == pytest.approx((1e5 * 2**-52 * 64) ** (1 / 4))
    assert StableCoefficients(6, 2).margin == StableAttention(6, 4, 2).margin == safe_margin(6, 2)
    assert safe_margin(3, 3) == 1e-3
    assert safe_margin(6, num_steps=100) < safe_margin(6) < safe_margin(6, dtype=torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("order", [3, 4, 6, 8])
def test_a_vector_in_float32_keeps_its_multiplicity_and_its_digits(order):
    random = np.random.default_rng(order)
    for multiplicity in (1, 2):
        for _ in range(100):
            c = torch.from_numpy(random_stable_vector(order, multiplicity, random, is_repeated=False)).float()
            rule = StableCoefficients.from_coefficients(c)
            assert (rule.multiplicity, rule.raw.dtype) == (multiplicity, torch.float32)
            came = rule.double()(random_history(order), 0)
            assert (came - c.double()).abs().max() <= 2e-6 * max(1.0, float(c.abs().max()))


def test_roots_that_crowd_next_to_one_are_not_taken_for_it():
    c = torch.from_numpy(-np.poly([1.0, 0.99, 0.95, 0.9])[1:]).float()
    assert StableCoefficients.from_coefficients(c).multiplicity == 1
    # Eight roots from 0.8 to 1: as far as float32 can tell, two of them are 1. But that moves no digit of c.
    crowd = torch.from_numpy(-np.poly([1.0] + [0.9] * 4 + [0.8] * 3)[1:]).float()
    rule = StableCoefficients.from_coefficients(crowd)
    assert rule.multiplicity <= 2
    torch.testing.assert_close(rule.double()(random_history(8), 0), crowd.double(), rtol=0, atol=1e-5)


def test_a_rule_returns_to_the_vector_it_started_from():
    rule = StableCoefficients.from_coefficients([1.97, -0.97])
    with torch.no_grad():
        rule.raw += 1
    rule.reset_parameters()
    c = rule(random_history(2), 0)
    torch.testing.assert_close(c, torch.tensor([1.97, -0.97], dtype=c.dtype), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "make", [StableCoefficients, lambda *args, **kw: StableAttention(args[0], CHANNELS, *args[1:], **kw)]
)
def test_loaded_parameters_mean_the_same(make):
    given, other = shaken(make(6, margin=0.3)).double(), make(6).double()
    other.load_state_dict(given.state_dict())
    history = random_history(6)
    torch.testing.assert_close(other(history, 0), given(history, 0), rtol=0, atol=0)
    with pytest.raises(InputError, match="of a rule with multiplicity 2, got those of one with 1. Make the rule"):
        make(7, 2).load_state_dict(given.state_dict())


def test_orders_that_no_margin_keeps_stable_are_refused():
    assert safe_margin(35) < 1
    for call in (
        lambda: StableCoefficients(36),
        lambda: safe_margin(2000),
        lambda: safe_margin(12, dtype=torch.float32),
    ):
        with pytest.raises(InputError, match="no margin is wide enough. Pass margin=, or take a lower order."):
            call()
    assert StableCoefficients(40, margin=0.1).order == 40


def test_a_learned_vector_is_moved_onto_the_multiplicity_it_nearly_has():
    nearly = [1.97998, -0.95998, -0.02]
    assert StableCoefficients.from_coefficients(nearly, margin=1e-6).multiplicity == 1
    rule = StableCoefficients.from_coefficients(nearly, multiplicity=2)
    c = rule.double()(random_history(3), 0)
    torch.testing.assert_close(c, torch.tensor(nearly).double(), rtol=0, atol=1e-4)
    assert (c @ torch.arange(3.0).double()).item() == pytest.approx(-1, abs=1e-6)  # of a line, the next point


def test_float32_keeps_what_float64_gives():
    for order in ORDERS:
        raw = torch.from_numpy(random_parameters(500, order - 1))
        exact = stable_coefficients(raw, 1, 1e-3)
        came = stable_coefficients(raw.float(), 1, 1e-3).double()
        size = exact.abs().amax(dim=1)
        assert ((came - exact).abs().amax(dim=1) <= 2e-6 * size).all()
        assert ((came.sum(dim=1) - 1).abs() <= 2e-6 * size).all()


def gradients_of(state, parameters):
    return list(torch.autograd.grad(state.square().sum(), list(parameters), materialize_grads=True))


@pytest.mark.parametrize("make", RULES.values(), ids=RULES)
def test_members_of_a_batch_are_what_they_are_alone(make):
    rules = [shaken(make()).double() for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(rules)
    history = random_history(rules[0].order, len(rules))

    class Combined(torch.nn.Module):
        def __init__(self, rule):
            super().__init__()
            self.rule = rule

        def forward(self, *states):
            return self.rule.combine(states, 0)

    def one(parameters, buffers, *states):
        named = {f"rule.{name}": value for name, value in {**parameters, **buffers}.items()}
        return torch.func.functional_call(Combined(rules[0]), named, states)

    state, c = torch.func.vmap(one)(parameters, buffers, *history)
    has_parameters = any(tensor.requires_grad for tensor in (state, c))
    gradients = has_parameters and gradients_of(state, parameters.values())
    for index, rule in enumerate(rules):
        expected, weights = rule.combine(tuple(past[index] for past in history), 0)
        torch.testing.assert_close(state[index], expected)
        torch.testing.assert_close(c[index], weights)
        if has_parameters:
            alone = gradients_of(expected, rule.parameters())
            torch.testing.assert_close([gradient[index] for gradient in gradients], alone)


def test_factors_are_multiplied_out_once_an_integration(monkeypatch):
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return stable_coefficients(*arguments)

    monkeypatch.setattr(stable, "stable_coefficients", counted)
    rule, operator = StableCoefficients(4, num_layers=5), DiffusionOperator(CHANNELS, 5, 0.1)
    integrate(random_history(4, dtype=torch.float32), small_graph(), rule, operator, num_layers=5, step_size=0.1)
    assert len(calls) == 1


def test_vectors_by_layer_differ_by_layer():
    rule, history = shaken(StableCoefficients(3, num_layers=2)), random_history(3)
    assert not torch.equal(rule(history, 0), rule(history, 1))
    with pytest.raises(InputError, match="a layer from 0 to 1.*got layer 2"):
        rule(history, 2)


@pytest.mark.parametrize("multiplicity", [1, 2])
def test_attention_starts_as_the_plain_rule_whatever_it_sees(multiplicity):
    attention = StableAttention(6, CHANNELS, multiplicity).double()
    history = random_history(6, 3)
    expected = StableCoefficients(6, multiplicity).double()(history, 0)
    for weights in attention(history, 0).unbind(-1):
        torch.testing.assert_close(weights, expected, rtol=0, atol=1e-7)
    shaken(attention).reset_parameters()
    assert attention.slope.abs().max() == 0


def test_attention_sees_the_history_and_each_window_alone():
    rule, history = shaken(StableAttention(4, CHANNELS)).double(), random_history(4, 5)
    c = rule(history, 0)
    assert (c - c[:, :1]).abs().max() > 1e-3
    torch.testing.assert_close(c[:, 2], rule(tuple(state[2] for state in history), 0))


def test_attention_scores_are_those_of_the_paper_shortened():
    rule, history = StableAttention(3, CHANNELS).double(), random_history(3, 5)
    query, keys = rule.query(history[0]), [rule.key(state) for state in history]
    scores = torch.stack([(query * key).sum(dim=-1).mean(dim=-1) / CHANNELS**0.5 for key in keys])
    expected = scores / (1 + scores.square().sum(dim=0)).sqrt()
    torch.testing.assert_close(_bounded(mean_scores(join(rule.query, rule.key), history)), expected)


def test_attention_is_stable_whatever_its_parameters_and_states():
    random = torch.Generator().manual_seed(0)
    for order in (2, 5, 8):
        rule = StableAttention(order, CHANNELS).double()
        for size in (1.0, 100.0, LARGEST):
            with torch.no_grad():
                rule.slope.normal_(std=size, generator=random)
            c = rule(tuple(size * state for state in random_history(order, 200)), 0)
            assert np.abs(roots_of(c.detach().numpy().T)).max() <= 1 + 10 * np.finfo(float).eps ** (1 / order)
            torch.testing.assert_close(c.sum(dim=0), torch.ones(200, dtype=c.dtype), rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", [0.0, 1e20, 1e30, 1e38])
def test_attention_stays_finite_for_states_of_any_size(size):
    rule = shaken(StableAttention(3, CHANNELS))
    c = rule(tuple((state * size).float() for state in random_history(3)), 0)
    assert c.isfinite().all()
    assert c.sum().item() == pytest.approx(1, abs=1e-4)


def test_attention_keeps_its_digits_under_autocast(device):
    rule = shaken(StableAttention(3, CHANNELS)).to(device)
    history = random_history(3, dtype=torch.float32, device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        c = rule(history, 0)
    assert torch.equal(c, rule(history, 0))


def check_compiled(device):
    """Compile both rules and compare values and gradients with the plain ones; called in a process of its own."""
    torch.manual_seed(0)
    rules = torch.nn.ModuleList([StableCoefficients(5), StableAttention(6, CHANNELS, 2)]).double().to(device)
    shaken(rules)
    history = random_history(6, dtype=torch.float64, device=device)

    def combined(*states):
        return [rule.combine(states[: rule.order], 0) for rule in rules]

    results = []
    for run in (combined, torch.compile(combined, fullgraph=True)):
        tensors = [tensor for pair in run(*history) for tensor in pair]
        loss = sum(tensor.square().sum() for tensor in tensors)
        results.append((tensors, torch.autograd.grad(loss, list(rules.parameters()))))
    torch.testing.assert_close(*results)


@pytest.mark.slow
def test_compiled_rules_give_the_same_numbers_and_gradients(device):
    # In a process of its own: the compiler cannot look through the shape checks of this test run.
    code = "import sys; from tests.core.test_stable import check_compiled; check_compiled(sys.argv[1])"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, device.type], check=True, timeout=300)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StableCoefficients(0), "order to be at least 1, got 0"),
        (lambda: StableCoefficients(2, 0), "multiplicity to be at least 1, got 0"),
        (lambda: StableCoefficients(2, 3), "multiplicity to be at most the order 2, got 3"),
        (lambda: StableCoefficients(2, margin=0.0), "margin to be above 0 and below 1, got 0.0"),
        (lambda: StableCoefficients(2, margin=1.0), "margin to be above 0 and below 1, got 1.0"),
        (lambda: StableCoefficients(2, margin=float("nan")), "margin to be finite, got nan"),
        (lambda: StableCoefficients(2, num_layers=0), "num_layers to be at least 1, got 0"),
        (lambda: StableCoefficients(3).combine(random_history(2), 0), "a history of 3 states.*got 2"),
        (lambda: StableAttention(2, 0), "channels to be at least 1, got 0"),
        (lambda: StableAttention(2, 4, multiplicity=3), "at most the order 2, got 3"),
        (lambda: StableAttention(2, 4, margin=-1.0), "margin to be above 0"),
        (lambda: StableAttention(1, 9)(random_history(1), 0), "states of 9 channels.*got 4"),
        (lambda: StableAttention(1, 4)(random_history(1), 0), "in torch.float32 on cpu, as the parameters are"),
        (lambda: StableAttention(3, 4).combine(random_history(2), 0), "a history of 3 states.*got 2"),
        (lambda: StableCoefficients.from_coefficients([2.0, -0.5]), "sum to 1"),
        (
            lambda: StableCoefficients.from_coefficients([-0.08, 1.68, 0.153, 0.006, -0.759]),
            "apart from 1, have a modulus below 1 - margin = 0.994.*, got one of 1.40.*Take FixedCoefficients",
        ),
        (
            lambda: StableCoefficients.from_coefficients([0.0, 1.0]),
            "below.*= 0.999, got one of 1. Take FixedCoefficients",
        ),
        (
            lambda: StableCoefficients.from_coefficients([1.9995, -0.9995], margin=1e-3),
            "got one of 0.9995. Take a smaller margin, or, if 1 should be a root once more, pass multipl",
        ),
        (
            lambda: StableCoefficients.from_coefficients([1.5, -0.5], multiplicity=2),
            r"1 as a 2-fold root, got \[1.5, -0.5\], which have it 1-fold. Leave multiplicity out",
        ),
        (lambda: StableCoefficients.from_coefficients([2.0, -1.0], multiplicity=3), "at most the order 2, got 3"),
        (lambda: StableCoefficients.from_coefficients([2.0, -1.0], multiplicity=1), "modulus below.*got one of 1"),
    ],
)
def test_wrong_input_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_direct_vector_can_be_carried_over_once_it_is_stable():
    direct = DirectCoefficients(4).double()
    with torch.no_grad():
        direct.raw.copy_(torch.tensor([[2.0, -0.9, 0.1, -0.05]]))
    history = random_history(4)
    rule = StableCoefficients.from_coefficients(direct(history, 0))
    torch.testing.assert_close(rule(history, 0), direct(history, 0), rtol=0, atol=1e-8)
