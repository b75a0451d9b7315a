import pytest
import torch

from tdegnn import InputError
from tdegnn.operators.alone import AloneOperator
from tdegnn.operators.past_diffusion import PastDiffusion
from tdegnn.operators.registry import OPERATORS
from tdegnn.operators.together import TogetherOperator
from tdegnn.parts import Part
from tests.core.checkers import CHANNELS, NUM_NODES, check_equation, random_history, small_graph
from tests.operators.test_directed_diffusion import directed_diffusion
from tests.operators.test_learned_adjacency import dense_learned_adjacency

SIZES = dict(channels=CHANNELS, num_layers=2, step_size=0.3, num_nodes=NUM_NODES)


def alone(operator, received, first, state, layer):
    return torch.relu(state @ operator.maps[layer].weight.T + operator.maps[layer].bias)


def walks_and_learned_adjacency(operator, *given):
    walks, learned = operator.terms
    return directed_diffusion(walks, *given) + dense_learned_adjacency(learned, *given)


DENSE = {"alone": alone, "together": walks_and_learned_adjacency}


def test_alone_is_its_equation():
    check_equation(lambda: AloneOperator(CHANNELS, 2), alone)


def test_terms_together_are_the_sum_of_their_rates_and_keep_their_contexts():
    operator = OPERATORS.make(Part("together", terms=["walks", "learned-adjacency", "grand"]), **SIZES).double()
    (state,), graph = random_history(1), small_graph()
    rate, contexts = operator(state, graph, 0)
    apart = [term(state, graph, 0) for term in operator.terms]
    torch.testing.assert_close(rate, sum(each for each, _ in apart))
    assert contexts[0] is None
    torch.testing.assert_close(contexts[1].matrix, apart[1][1].matrix)
    again, _ = operator(state, graph, 1, contexts)
    torch.testing.assert_close(
        again, sum(term(state, graph, 1, own)[0] for term, own in zip(operator.terms, contexts, strict=True))
    )
    assert operator.is_bound_to_nodes  # as the learned adjacency is


@pytest.mark.parametrize(
    ("terms", "message"),
    [([], "at least one term, got none"), ([PastDiffusion(CHANNELS, 2, 0.3)], "no past features, got PastDiffusion")],
)
def test_wrong_terms_are_refused(terms, message):
    with pytest.raises(InputError, match=message):
        TogetherOperator(terms)


def test_an_unknown_term_is_refused_by_name():
    with pytest.raises(InputError, match="operator to be one of diffusion, .*, got 'walk'"):
        OPERATORS.make(Part("together", terms=["walk"]), **SIZES)
