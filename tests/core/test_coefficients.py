import pytest
import torch

from tdegnn import (
    AttentionCoefficients,
    DirectCoefficients,
    FixedCoefficients,
    GatedAttention,
    InputError,
    MixedCoefficients,
)
from tdegnn.core.rules import COEFFICIENTS
from tests.core.checkers import (
    CHANNELS,
    check_coefficient_gradients,
    check_coefficients,
    random_history,
)

RULES = {
    "euler": lambda: FixedCoefficients([1.0]),
    "leapfrog": lambda: FixedCoefficients([2.0, -1.0]),
    "direct": lambda: DirectCoefficients(3),
    "direct by layer": lambda: DirectCoefficients(3, num_layers=2),
    "attention": lambda: AttentionCoefficients(3, CHANNELS),
    "gated attention": lambda: GatedAttention(3, CHANNELS),
    "attention of one": lambda: AttentionCoefficients(1, CHANNELS),
    "mixed": MixedCoefficients,
    "mixed by layer": lambda: MixedCoefficients(num_layers=2),
}


def shaken(rule):
    """The rule away from its special starting point."""
    with torch.no_grad():
        for parameter in rule.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return rule


@pytest.mark.parametrize("make", RULES.values(), ids=RULES)
def test_rule_gives_weights_that_sum_to_one(make, device):
    check_coefficients(shaken(make()), device)


@pytest.mark.slow
@pytest.mark.parametrize("make", RULES.values(), ids=RULES)
def test_gradients_pass_gradcheck(make):
    check_coefficient_gradients(shaken(make()))


def test_direct_coefficients_start_as_euler():
    assert DirectCoefficients(4)(random_history(4), 0).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_gated_attention_starts_as_euler_and_opens_to_attention():
    rule, history = GatedAttention(3, CHANNELS).double(), random_history(3, dtype=torch.float64)
    state, c = rule.combine(history, 0)
    assert torch.equal(state, history[0])
    assert all((part == start).all() for part, start in zip(c, (1.0, 0.0, 0.0), strict=True))
    torch.nn.init.ones_(rule.gate)
    attention = AttentionCoefficients(3, CHANNELS).double()
    attention.load_state_dict({name: tensor for name, tensor in rule.state_dict().items() if name != "gate"})
    for ours, plain in zip(rule.combine(history, 0), attention.combine(history, 0), strict=True):
        torch.testing.assert_close(ours, plain)
    rule.reset_parameters()
    assert float(rule.gate.detach()) == 0.0


def test_mixed_coefficients_go_from_euler_to_leapfrog():
    rule, history = COEFFICIENTS.make("mixed", order=5, num_layers=4), random_history(2, dtype=torch.float32)
    assert (rule.order, rule.num_layers) == (2, None)
    assert rule(history, 3).tolist() == [1.5, -0.5]
    for raw, expected in ((-200.0, [1.0, -0.0]), (200.0, [2.0, -1.0])):
        torch.nn.init.constant_(rule.raw, raw)
        assert rule(history, 0).tolist() == expected
    rule.reset_parameters()
    assert rule(history, 0).tolist() == [1.5, -0.5]


def test_direct_coefficients_by_layer_differ_by_layer():
    rule = shaken(DirectCoefficients(3, num_layers=2))
    history = random_history(3)
    assert not torch.equal(rule(history, 0), rule(history, 1))
    with pytest.raises(InputError, match="a layer from 0 to 1.*got layer 2"):
        rule(history, 2)


def paper_attention(rule, history):
    """The paper's rule transcribed: an o x o map a node, averaged over nodes, the row of the current layer."""
    stacked = torch.stack(history, dim=-2)  # (*batch, nodes, order, channels)
    query, key = rule.query(stacked), rule.key(stacked)
    scores = (query @ key.transpose(-1, -2) / rule.channels**0.5).mean(dim=-3)  # (*batch, order, order)
    row = scores[..., 0, :]
    return (row / row.sum(dim=-1, keepdim=True)).movedim(-1, 0)


@pytest.mark.parametrize("batch", [(), (5,)])
def test_attention_is_the_paper_map_with_its_gradients(batch):
    rule = shaken(AttentionCoefficients(3, CHANNELS)).double()
    history = random_history(3, *batch)
    ours, theirs = rule(history, 0), paper_attention(rule, history)
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(ours)
    gradients = torch.autograd.grad((ours * weights).sum(), list(rule.parameters()))
    expected = torch.autograd.grad((theirs * weights).sum(), list(rule.parameters()))
    for gradient, reference in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, reference)


def test_attention_of_a_window_does_not_depend_on_its_batch():
    rule = shaken(AttentionCoefficients(3, CHANNELS)).double()
    history = random_history(3, 4)
    alone = rule(tuple(state[2] for state in history), 0)
    torch.testing.assert_close(rule(history, 0)[:, 2], alone)


def test_attention_has_query_and_key_only():
    assert sum(parameter.numel() for parameter in AttentionCoefficients(8, 64).parameters()) == 8_320


def test_attention_starts_with_a_sum_away_from_zero():
    for seed in range(20):
        torch.manual_seed(seed)
        c = AttentionCoefficients(4, 16)(tuple(torch.randn(50, 16) for _ in range(4)), 0)
        assert c.abs().max() < 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedCoefficients([2.0, -0.5]), r"sum to 1, got \[2.0, -0.5\] with sum 1.5"),
        (lambda: FixedCoefficients([float("nan"), 1.0]), "sum to 1"),
        (lambda: FixedCoefficients(torch.ones(2, 2)), r"a vector, got shape \(2, 2\)"),
        (lambda: FixedCoefficients([]), "at least 1, got 0"),
        (lambda: DirectCoefficients(0), "order to be at least 1, got 0"),
        (lambda: DirectCoefficients(2, num_layers=0), "num_layers to be at least 1, got 0"),
        (lambda: AttentionCoefficients(2, 0), "channels to be at least 1, got 0"),
        (lambda: AttentionCoefficients(1, 9)(random_history(1), 0), "states of 9 channels.*got 4"),
        (
            lambda: AttentionCoefficients(1, 4)(random_history(1), 0),
            "in torch.float32 on cpu, as the parameters are, got",
        ),
        (lambda: AttentionCoefficients(3, 4).combine(random_history(2), 0), "a history of 3 states.*got 2"),
        (lambda: DirectCoefficients(3).combine(random_history(2), 0), "a history of 3 states.*got 2"),
    ],
)
def test_wrong_sizes_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("size", [1e20, 1e30, 1e38])
def test_attention_stays_finite_for_huge_states(size):
    rule = AttentionCoefficients(3, CHANNELS)
    c = rule(tuple((state * size).float() for state in random_history(3)), 0)
    assert c.isfinite().all()
    assert c.sum().item() == pytest.approx(1, abs=1e-4)


def test_attention_keeps_its_digits_under_autocast():
    rule, history = AttentionCoefficients(3, CHANNELS), random_history(3, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        c = rule(history, 0)
    assert torch.equal(c, rule(history, 0))


@pytest.mark.parametrize("make", [lambda: DirectCoefficients(2), lambda: AttentionCoefficients(2, CHANNELS)])
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_members_may_share_either_state(make, axes):
    rule = shaken(make()).double()
    now, before = (state if axis == 0 else state[0] for state, axis in zip(random_history(2, 5), axes, strict=True))
    together = torch.func.vmap(lambda *history: rule.combine(history, 0)[0], in_dims=axes)(now, before)
    first = [state[0] if axis == 0 else state for state, axis in zip((now, before), axes, strict=True)]
    torch.testing.assert_close(together[0], rule.combine(tuple(first), 0)[0])
