"""Notes of a result line say from which networks it was chosen, and whether these are the ones of today."""

import math

import pytest

from tdegnn.experiments.tried_networks import is_chosen_today, is_outdated
from tdegnn.forecasting.usual_networks import USUAL_NETWORKS, Trials, choose_tried, tried_in

# Both networks without vectors of nodes are never tried at once.
SCORES = {name: -float(place) for place, name in enumerate(USUAL_NETWORKS, start=1) if name != "alone-unnamed"}


def line_of(scores, **trials):
    return {"notes": ["A note.", choose_tried(USUAL_NETWORKS, Trials(scores, **trials)).reason]}


@pytest.mark.parametrize("trials", [{}, {"longer": {"walks": -1.0, "alone": -2.0}}])
def test_the_reason_of_a_choice_names_what_was_tried(trials):
    line = line_of(SCORES, **trials)
    assert tried_in(line["notes"]) == tuple(SCORES)
    assert is_chosen_today(line)
    assert not is_outdated(line)


def test_it_does_not_matter_which_network_lost_its_vectors_of_nodes():
    names = [name for name in USUAL_NETWORKS if name != "walks-unnamed"]
    assert is_chosen_today(line_of(dict.fromkeys(names, -1.0)))


def test_a_network_that_failed_was_tried():
    assert is_chosen_today(line_of(SCORES | {"frames": math.nan}))


@pytest.mark.parametrize("missing", [name for name in SCORES if name != "walks"])
def test_a_line_without_one_of_the_networks_is_outdated(missing):
    line = line_of({name: score for name, score in SCORES.items() if name != missing})
    assert is_outdated(line)
    assert not is_chosen_today(line)


def test_a_network_that_is_tried_no_more_makes_a_line_outdated():
    assert is_outdated(line_of(SCORES | {"wide": -9.0}))


@pytest.mark.parametrize("line", [{}, {"notes": []}, {"notes": ["Edges do not help on the held-out steps."]}])
def test_a_line_that_tried_nothing_is_not_outdated(line):
    assert tried_in(line.get("notes", [])) == ()
    assert not is_outdated(line)
