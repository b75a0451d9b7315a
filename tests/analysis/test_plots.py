import numpy as np
import pytest

from tdegnn import InputError, explain
from tdegnn.analysis.plots import (
    plot_coefficients_by_layer,
    plot_consistency,
    plot_roots,
    plot_stability_regions,
    save_figure,
)

VECTORS = {"stable": [1.4, 0.2, -0.6], "unstable": [-0.08, 1.68, 0.153, 0.006, -0.759]}


def test_roots_outside_the_disc_are_drawn_apart(tmp_path):
    figure = plot_roots({name: explain(vector) for name, vector in VECTORS.items()})
    stable, unstable = figure.axes
    assert [len(points.get_offsets()) for points in stable.collections] == [3]
    assert [len(points.get_offsets()) for points in unstable.collections] == [3, 2]
    assert save_figure(figure, tmp_path / "new" / "roots.png").stat().st_size > 10_000


def test_consistency_has_a_panel_for_each_vector():
    figure = plot_consistency(VECTORS)
    assert [len(panel.lines) for panel in figure.axes] == [2, 2]


def test_pictures_of_a_vector_say_what_they_show():
    regions = plot_stability_regions({"c = 1": [1.0]}, num_points=11)
    consistency = plot_consistency({"c = 2, -1": [2, -1]})
    assert " ".join(regions.get_suptitle().split()) == (
        "How strongly neighbors may act before states grow without bound, for these weights c (hλ: step size times the "
        "rate at which neighbors change states)"
    )
    assert [text.get_text() for text in regions.legends[0].get_texts()] == [
        "states stay bounded",
        "one part of a state neither grows nor decays",
    ]
    assert consistency.get_suptitle().startswith("Which derivative the weights c measure: a sine goes in")
    assert regions.axes[0].get_title("left") == "c = 1"
    assert consistency.axes[0].get_title("left") == "c = 2, -1\n100.0% second derivative"


def test_coefficients_by_layer_show_every_layer_and_state():
    figure = plot_coefficients_by_layer(np.eye(8)[:, :3])
    assert figure.axes[0].images[0].get_array().shape == (3, 8)


def test_nothing_to_draw_is_refused():
    with pytest.raises(InputError, match="at least one thing to draw"):
        plot_roots({})
    with pytest.raises(InputError, match=r"\(layers, order\), got \(3,\)"):
        plot_coefficients_by_layer(np.ones(3))
