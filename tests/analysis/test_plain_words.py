"""The order in one sentence for everybody."""

from dataclasses import replace

import pytest

from tdegnn import explain
from tdegnn.analysis.plain_words import say_order


@pytest.mark.parametrize(
    ("c", "states", "words"),
    [
        (
            [1.0],
            "latent",
            "newest one alone, as heat does when it spreads: an equation of first order, and small errors do",
        ),
        ([0.99, 0.01], "latent", "almost alone, as heat does when it spreads: nearly of first order, and small errors"),
        (
            [2.0, -1.0],
            "physical",
            "From step to step, the observed values keep the speed they have, as a swinging pendulum",
        ),
        ([3.0, -3.0, 1.0], None, "The states keep their speed and its changes: an equation of third order"),
        ([0.5, 0.5], "latent", "depend on the last 2 of them at once, mostly like an equation of first order, and"),
        ([0.5, 1.2, -0.7], "latent", "errors become 1.12 times as large with each layer, which says something"),
        ([0.5, 1.2, -0.7], "physical", "but small errors become 1.12 times as large with each step."),
        ([0.0, 2.0, 0.0, -1.0], "latent", "but small errors slowly add up, which says something about the few layers"),
        ([0.0, 2.0, 0.0, -1.0], "physical", "but small errors slowly add up."),
    ],
)
def test_the_order_in_plain_words(c, states, words):
    sentence = say_order(replace(explain(c), states=states))
    assert words in sentence
    assert sentence.count(". ") == 0
    assert sentence.endswith(".")


@pytest.mark.parametrize("states", ["latent", "physical", None])
@pytest.mark.parametrize("c", [[2.0, -1.0], [16.6, -15.6], [0.0, 2.0, 0.0, -1.0]])
def test_unstable_layers_are_told_from_forecasts(c, states):
    report = replace(explain(c), states=states)
    is_about_layers = states == "latent" and not report.is_stable
    assert ("nothing about the forecasts or classes that come out." in say_order(report)) == is_about_layers
