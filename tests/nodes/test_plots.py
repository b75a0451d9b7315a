"""The picture of a classifier can be read, wherever its dots lie."""

import numpy as np
import pytest

from tdegnn.nodes.plots import plot_classes
from tests.drawn_boxes import assert_texts_are_free, marks_of


@pytest.mark.parametrize("num_classes", [2, 3, 12])
@pytest.mark.parametrize("seed", range(3))
def test_no_dot_and_no_line_runs_through_a_text(num_classes, seed):
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.full(num_classes, 0.4), size=30)
    figure = plot_classes(
        [f"class {code}" for code in range(num_classes)], random.integers(num_classes, size=30), probabilities
    )
    assert_texts_are_free(figure)
    # Two lines, and a dot for each bin.
    assert len(list(marks_of(figure.axes[1]))) > 3


def test_what_dots_and_lines_are_is_said_below_the_panels():
    figure = plot_classes(["no", "yes"], np.array([0, 1]), np.array([[0.6, 0.4], [0.1, 0.9]]))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "as sure as it is right",
        "what was reached (area of a dot: share of the nodes)",
    ]
    assert not figure.axes[1].texts
