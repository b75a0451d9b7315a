from functools import partial

import pytest
import torch

from tdegnn import InputError
from tdegnn.operators.gread import REACTIONS, GreadOperator
from tdegnn.operators.registry import OPERATORS
from tests.core.checkers import CHANNELS, check_equation, check_members, random_history, small_graph
from tests.operators.test_grand import ATTENTION, dense_mixing


def dense_gread(operator, received, first, state, layer):
    mixing = dense_mixing(operator.mixing, received, first)
    reaction = {
        "f": state * (1 - state),
        "ac": state * (1 - state**2),
        "z": state * (state - state**2),
        "st": first.detach(),
        "bs": mixing @ state - mixing @ mixing @ state,
        "fb": state + mixing @ state,
    }[operator.reaction]
    diffusion = operator.raw_rate.sigmoid() * (mixing @ state - state)
    return diffusion + reaction @ torch.diag(operator.reaction_scale)


DENSE = {f"gread-{reaction}": dense_gread for reaction in REACTIONS}


@pytest.mark.parametrize("reaction", REACTIONS)
def test_gread_equals_its_equation(reaction):
    check_equation(lambda: GreadOperator(CHANNELS, reaction=reaction, mixing=ATTENTION), dense_gread)


def test_gread_with_a_constant_mean_equals_its_equation():
    check_equation(lambda: GreadOperator(CHANNELS, mixing="constant", self_loops=False), dense_gread)


def test_gread_with_a_rate_per_channel_equals_its_equation():
    make = partial(GreadOperator, CHANNELS, rate_per_channel=True)
    check_equation(make, dense_gread)
    check_members(make)


def test_the_source_term_adds_the_first_state():
    graph, (first, later) = small_graph(), random_history(2)
    operator = OPERATORS.make("gread-st", channels=CHANNELS).double()
    _, context = operator(first, graph, 0)
    rate, _ = operator(later, graph, 1, context)
    with torch.no_grad():
        operator.reaction_scale.zero_()
        diffusion, _ = operator(later, graph, 1, context)
        operator.reaction_scale.fill_(1.0)
        torch.testing.assert_close(operator(later, graph, 1, context)[0] - diffusion, first)
    assert not torch.allclose(rate, diffusion)


def test_the_reaction_starts_with_a_scale_from_minus_one_to_one_per_channel():
    scale = GreadOperator(1000).reaction_scale
    assert (scale.abs() <= 1).all()
    assert scale.min() < -0.9
    assert scale.max() > 0.9


def test_each_reaction_is_a_system_with_its_own_equation():
    operators = [OPERATORS.make(f"gread-{name}", channels=CHANNELS) for name in REACTIONS]
    assert [operator.reaction for operator in operators] == list(REACTIONS)
    assert len({operator.equation for operator in operators}) == 6
    assert "reaction='fb'" in repr(operators[-1])


def test_an_unknown_reaction_is_refused():
    with pytest.raises(InputError, match="reaction to be one of f, ac, z, st, bs, fb, got 'sb'"):
        GreadOperator(CHANNELS, reaction="sb")
