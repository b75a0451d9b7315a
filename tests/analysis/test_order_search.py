from dataclasses import replace
from math import factorial

import networkx
import numpy as np
import pandas as pd
import polars
import pytest
import scipy.linalg
import torch

from tdegnn import Graph, InputError, Panel, simulate_heat, simulate_pendulum, simulate_third_order, simulate_wave
from tdegnn.analysis import order_judging, order_search
from tdegnn.analysis.order_limits import NUM_PIECES
from tdegnn.analysis.order_notes import UNEXPLAINED
from tdegnn.analysis.order_plots import plot_order
from tdegnn.analysis.order_search import find_order
from tdegnn.analysis.order_states import make_ready
from tdegnn.analysis.weak_form import difference_kernels, monomials, solve
from tdegnn.data.simulators.physics import random_graph, simulate_linear
from tdegnn.data.tables.series import panel_to_frame
from tdegnn.experiments.order_found import SYSTEMS, run_order
from tests.drawn_boxes import assert_texts_are_free

NAMES = ("heat", "wave", "damped wave", "third order", "pendulum")
FAST = {"num_resamples": 50}


def add_noise(states, share, seed=0):
    return states + share * states.std() * np.random.default_rng(seed).standard_normal(states.shape)


@pytest.fixture(scope="module")
def wave():
    return simulate_wave(seed=0)


@pytest.fixture(scope="module")
def damped_series():
    """One long series of a damped wave, with a little noise."""
    simulation = simulate_wave(random_graph(20), num_trajectories=1, num_steps=300, damping=0.3)
    return add_noise(simulation.states.numpy(), 0.002)[0], simulation.graph


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("system", NAMES)
def test_the_order_of_a_system_is_found(system, seed, noise):
    run = run_order(system, seed, noise)
    assert run.found.order == run.true_order
    assert run.found.agreement >= 0.95
    assert run.found.shares[run.true_order] >= 0.95
    assert run.found.noise_share == pytest.approx(noise, rel=0.15, abs=1e-6)


def shares_per_resample(monkeypatch, **by_order):
    """Let each order explain these shares of the resamples, whatever the data are: `order_3=[0.91, ...]`."""

    def judge(order, ready, resamples):
        shares = np.array(by_order[f"order_{order}"])
        return replace(order_judging.judge(order, ready, resamples), shares=shares, visible=shares)

    monkeypatch.setattr(order_search, "judge", judge)


def test_resamples_that_could_choose_order_four_tell_the_story_of_the_verdict(wave, monkeypatch):
    """90 % of them have an order four that explains enough, but order three explains 91 %: nearly enough."""
    ninety = np.repeat([0.999, 0.5], [18, 2])
    shares = {"order_1": np.full(20, 0.2), "order_2": np.full(20, 0.3), "order_4": ninety}
    for third, verdict, agreement in (
        (0.91, "The data cannot tell their order: order 3 explains 91 % (91 to 91 %), neither enough (95 %) nor", 0.0),
        (0.5, "Fourth order, in 90 % of the resamples.", 0.9),
    ):
        shares_per_resample(monkeypatch, **shares, order_3=np.full(20, third))
        found = find_order(wave.states, wave.graph, num_resamples=20)
        assert found.verdict.startswith(verdict)
        # The column of the resamples says the same: none of them chose an order that the verdict does not name.
        assert [trial.chosen for trial in found.trials] == [0, 0, 0, agreement]
        assert found.agreement == agreement


def frames_of(panel):
    """A panel as frames of pandas and polars, in all layouts."""
    wide, long = panel_to_frame(panel, "wide"), panel_to_frame(panel)
    by_index = wide.set_index("time")
    return {
        "wide": wide,
        "wide, times in the index": by_index,
        "long": long,
        "wide in polars": polars.from_pandas(wide),
        "long in polars": polars.from_pandas(long),
    }


@pytest.mark.parametrize(
    ("times", "step_size"), [(pd.date_range("2024-01-01", periods=200), 1.0), (np.arange(200) * 0.5, 0.5)]
)
@pytest.mark.parametrize("layout", frames_of(Panel.from_array(np.zeros((2, 1)))))
def test_a_frame_has_the_order_of_its_panel(damped_series, times, step_size, layout):
    states, graph = damped_series
    panel = Panel.from_array(states[:200, :, 0], times=times)
    found = find_order(frames_of(panel)[layout], graph, num_resamples=10)
    assert found.step_size == step_size
    assert found == find_order(panel, graph, num_resamples=10)
    assert found.order == 2


@pytest.mark.slow
def test_a_graph_is_whatever_a_panel_takes(damped_series):
    states, graph = damped_series
    found = find_order(states[:200], graph, num_resamples=10)
    edges = zip(*graph.edge_index.tolist(), strict=True)
    drawn = networkx.Graph(edges)
    assert find_order(states[:200], drawn, num_resamples=10) == found
    assert find_order(states[:200], networkx.to_numpy_array(drawn, range(20)), num_resamples=10) == found
    named = Panel.from_array(states[:200], nodes=[f"town {node}" for node in range(20)])
    by_name = networkx.relabel_nodes(drawn, lambda node: f"town {node}")
    assert find_order(named, by_name, num_resamples=10) == found


def test_a_frame_without_times_is_told_apart():
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((60, 3)), columns=[*"abc"])
    with pytest.raises(InputError, match=r"Numbers without times go in as an array: frame\.to_numpy\(\)\.$"):
        find_order(frame)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.001, 0.05])
def test_damping_is_told_from_none(wave, noise):
    damped = simulate_wave(seed=0, damping=0.3)
    (without,) = find_order(add_noise(wave.states.numpy(), noise), wave.graph, **FAST).derivatives
    (with_it,) = find_order(
        add_noise(damped.states.numpy(), noise), damped.graph, step_size=damped.step_size, **FAST
    ).derivatives
    assert without.low <= 0 <= without.high
    assert not without.takes_part
    # F'' + 0.3 F' at step 0.1.
    assert with_it.low <= 0.03 <= with_it.high
    assert with_it.low > 0.02
    assert with_it.takes_part
    assert with_it.rate == pytest.approx(0.3, rel=0.03)


@pytest.mark.slow
def test_all_weights_of_a_third_order_equation_are_found():
    simulation = simulate_third_order(seed=3)
    found = find_order(add_noise(simulation.states.numpy(), 0.01), simulation.graph, step_size=0.1, **FAST)
    assert [entry.rate for entry in found.derivatives] == pytest.approx([2.0, 1.0], rel=0.02)
    assert found.equation.startswith("F''' + ")
    assert found.equation.endswith(" F' = s(F; G)")


@pytest.mark.slow
def test_a_fourth_order_is_found_and_hidden_where_it_is_not_tried():
    simulation = simulate_linear("fourth order", (1.0, 3.0, 1.0), None, 24, 100, 0.1, seed=0)
    assert find_order(simulation.states, simulation.graph, **FAST).order == 4
    found = find_order(simulation.states, simulation.graph, max_order=3, **FAST)
    assert found.order is None
    assert "no order up to 3 explains enough" in found.reason


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("system", ["white noise", "random walk", "smooth noise"])
def test_chance_has_no_order(system, seed):
    found = run_order(system, seed).found
    assert found.order is None
    assert found.agreement < 0.05
    assert found.verdict.startswith("The data cannot tell their order: ")


@pytest.mark.slow
def test_chance_on_one_long_series_has_no_order():
    steps = np.random.default_rng(0).standard_normal((520, 20))
    for series in (steps, steps.cumsum(axis=0), steps.cumsum(axis=0).cumsum(axis=0)):
        assert find_order(series, random_graph(20), **FAST).order is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wave", "heat"])
def test_scale_and_levels_do_not_matter(name):
    simulation = {"wave": simulate_wave, "heat": simulate_heat}[name](seed=1)
    states = add_noise(simulation.states.numpy(), 0.01)
    levels = np.random.default_rng(0).uniform(-50, 50, (16, 1))
    plain = find_order(states, simulation.graph, **FAST)
    moved = find_order(1e4 * states + 1e4 * levels, simulation.graph, **FAST)
    assert moved.order == plain.order
    assert [trial.chosen for trial in moved.trials] == [trial.chosen for trial in plain.trials]
    shares = [share for share in plain.shares.values() if share is not None]
    assert [share for share in moved.shares.values() if share is not None] == pytest.approx(shares, rel=1e-3, abs=1e-3)


@pytest.mark.slow
def test_relabeling_the_nodes_does_not_matter(wave):
    states, order = wave.states.numpy(), np.random.default_rng(0).permutation(16)
    graph = Graph(np.argsort(order)[wave.graph.edge_index.numpy()], 16)
    plain, relabeled = find_order(states, wave.graph, **FAST), find_order(states[:, :, order], graph, **FAST)
    assert list(relabeled.shares.values()) == pytest.approx(list(plain.shares.values()), rel=1e-4, abs=1e-4)


@pytest.mark.slow
def test_the_step_length_only_scales_the_lower_derivatives():
    simulation = simulate_wave(seed=0, damping=0.3, num_steps=120)
    states = simulation.states.numpy()
    every, second = find_order(states, simulation.graph, **FAST), find_order(states[:, ::2], simulation.graph, **FAST)
    assert every.order == second.order == 2
    assert second.derivatives[0].weight == pytest.approx(2 * every.derivatives[0].weight, rel=0.02)
    in_time = find_order(states[:, ::2], simulation.graph, step_size=0.2, **FAST)
    assert in_time.derivatives[0].weight == second.derivatives[0].weight
    assert in_time.derivatives[0].rate == pytest.approx(0.3, rel=0.02)


@pytest.mark.slow
def test_more_noise_ends_in_doubt_not_in_error():
    simulation = simulate_heat(seed=0)
    for noise in (0.5, 1.0, 3.0):
        assert find_order(add_noise(simulation.states.numpy(), noise), simulation.graph, **FAST).order in (None, 1)
    hopeless = find_order(add_noise(simulation.states.numpy(), 30.0), simulation.graph, **FAST)
    assert hopeless.order is None
    assert "noise" in hopeless.reason


def test_the_pendulum_is_of_second_order_in_coordinates_too():
    simulation = simulate_pendulum(num_steps=400, features="coordinates")
    found = find_order(simulation.states, simulation.graph, max_order=2, num_resamples=20)
    assert found.order == 2


def test_two_species_of_first_order_are_not_one_of_second():
    """For F' = -G, G' = F, each channel alone is of second order, and both together are of first order."""
    times = 0.1 * np.arange(300)
    circle = np.stack([np.cos(times), np.sin(times)], axis=-1)[:, None]
    assert find_order(circle, **FAST).order == 1
    assert find_order(circle[..., :1], **FAST).order == 2


def test_nodes_without_a_graph_are_judged_by_themselves():
    times = 0.1 * np.arange(300)[:, None]
    found = find_order(np.sin(times + np.arange(3)), **FAST)
    assert found.verdict == "Second order, each node by itself, in 100 % of the resamples."
    assert found.equation == "F'' = s(F)"
    assert any("give the edges" in note for note in found.notes)
    no_edges = find_order(np.sin(times + np.arange(3)), Graph(np.empty((2, 0), int), 3), **FAST)
    assert (no_edges.order, no_edges.has_graph) == (2, False)


def test_gaps_are_filled_or_left_out_and_said(damped_series):
    series, graph = damped_series
    with_gaps = series.copy()
    with_gaps[np.random.default_rng(0).random(series.shape) < 0.01] = np.nan
    with_gaps[100:120, 4] = np.nan
    found = find_order(with_gaps, graph, **FAST)
    assert found.order == 2
    assert found.derivatives[0].weight == pytest.approx(0.03, rel=0.1)
    filled, left = found.notes[:2]
    assert filled.endswith("in gaps of at most 3 steps, were filled.")
    assert "in longer gaps or at an end, were not filled" in left


def test_a_gap_is_not_taken_for_a_value():
    """Windows that touch a long gap are left out, so the values in the gap have no influence."""
    simulation = simulate_heat(seed=0)
    states = simulation.states.numpy().copy()
    states[:, 30:40, 2] = np.nan
    plain = find_order(states, simulation.graph, **FAST)
    assert plain.order == 1
    assert plain.shares[1] > 0.999


@pytest.mark.parametrize("name", ["heat", "wave"])
def test_a_node_that_was_never_observed_is_not_taken_for_a_silent_one(name):
    """Its influence on its neighbors is unknown, and zero would be wrong."""
    simulate = {"heat": simulate_heat, "wave": simulate_wave}[name]
    simulation = simulate(random_graph(16, 0), seed=0)
    states = simulation.states.numpy().copy()
    states[:, :, [2, 5, 9]] = np.nan
    found = find_order(states, simulation.graph, **FAST)
    assert found.order == simulation.dynamics_order
    assert not any("never change" in note for note in found.notes)


def test_a_channel_that_never_changes_is_not_looked_at():
    steps = np.arange(300)[:, None]
    series = np.sin(0.1 * steps + np.arange(4))
    levels = np.broadcast_to(0.1 + np.arange(4), series.shape)
    graph = Graph([[0, 1, 2], [1, 2, 3]])
    found = find_order(np.stack([series, levels], axis=-1), graph, **FAST)
    assert found.order == 2
    assert found.shares == pytest.approx(find_order(series, graph, **FAST).shares)


def test_pieces_with_more_noise_are_judged_by_their_own():
    simulation = simulate_heat(seed=0)
    clean = simulation.states.numpy()
    random = np.random.default_rng(0)
    noise = np.where(np.arange(len(clean)) % 2, 0.3, 0.01)[:, None, None, None] * clean.std()
    found = find_order(clean + noise * random.standard_normal(clean.shape), simulation.graph)
    assert (found.order, found.agreement > 0.95) == (1, True)
    assert found.trials[0].high <= 1.02


def test_one_outlier_does_not_decide():
    random = np.random.default_rng(0)
    series = np.sin(0.1 * np.arange(520)[:, None] + np.arange(20)) + 0.02 * random.standard_normal((520, 20))
    series[260, 3] = 1.5
    found = find_order(series, **FAST)
    assert (found.order, found.agreement > 0.95) == (2, True)


@pytest.mark.parametrize("degree", [1, 2])
def test_polynomials_have_no_order_to_find(degree):
    series = np.arange(200.0)[:, None] ** degree * np.arange(1.0, 6.0)
    with pytest.raises(InputError, match=f"polynomials of degree {degree} in time have no order"):
        find_order(series, **FAST)


@pytest.mark.parametrize("unit", [1e-170, 1e160])
def test_the_unit_may_be_anything(unit):
    series = np.sin(0.1 * np.arange(300)[:, None] + np.arange(4))
    assert find_order(unit * series, **FAST).shares == pytest.approx(find_order(series, **FAST).shares)


@pytest.mark.slow
def test_filtered_chance_is_not_called_an_equation():
    """An octave of noise follows no equation, but is so smooth that lower derivatives explain 99 % of the fourth."""
    runs = [run_order("an octave of noise", seed) for seed in range(6)]
    assert [run.found.order for run in runs] == [None] * 6
    assert any("what is left is not noise: filtered chance looks like this too" in run.found.verdict for run in runs)


@pytest.mark.slow
def test_what_acts_from_outside_is_said():
    """Each oscillator is driven by a force that is not observed."""
    random = np.random.default_rng(0)
    force = 0.004 * np.sin(0.13 * np.arange(600)[:, None] + random.uniform(0, 6, 12))
    series = np.zeros((600, 12))
    series[:2] = random.standard_normal(12)
    for step in range(1, 599):
        series[step + 1] = 1.96 * series[step] - series[step - 1] + force[step]
    found = find_order(series, **FAST)
    assert (found.order, UNEXPLAINED in found.notes) == (2, True)
    assert UNEXPLAINED not in run_order("wave", 0).found.notes


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", ["plain", "random walk"])
def test_other_laplacians_are_seen_too(kind, order, noise):
    """`F' = -L F` and `F'' = -L F`, solved exactly, for L = D - A and for the Laplacian of a random walk."""
    graph = random_graph(16, 1)
    received = graph.received.toarray()
    degrees = received.sum(axis=1)
    plain = (np.diag(degrees) - received) / degrees.mean()
    laplacian = plain if kind == "plain" else np.eye(16) - received / degrees[:, None]
    companion = np.eye(16 * order, k=16)
    companion[-16:, :16] = -laplacian
    flow = scipy.linalg.expm(0.1 * companion)
    phases = [np.random.default_rng(0).standard_normal((24, 16 * order))]
    for _ in range(59):
        phases.append(phases[-1] @ flow.T)
    states = np.stack(phases, axis=1)[:, :, :16, None]
    assert find_order(add_noise(states, noise), graph, **FAST).order == order


def test_a_panel_brings_its_graph_and_its_targets(damped_series):
    series, graph = damped_series
    values = np.concatenate([series, np.random.default_rng(0).standard_normal(series.shape)], axis=-1)
    panel = Panel.from_array(values, graph=graph, channels=["height", "weather"])
    found = find_order(panel, **FAST)
    assert found.order == find_order(torch.as_tensor(series), graph, **FAST).order == 2
    assert found.has_graph
    assert any("were not used" in note for note in found.notes)


def test_silent_nodes_are_seen_but_not_judged():
    simulation = simulate_pendulum(num_steps=400)
    ready = make_ready(simulation.states, simulation.graph, 13)
    assert all(not piece.is_known[..., 0].any() for piece in ready.pieces)
    assert len(ready.pieces) == NUM_PIECES
    assert ready.notes == ("1 of 2 nodes never change: only the other nodes were judged.",)


def test_the_same_seed_gives_the_same_answer(damped_series):
    series, graph = damped_series
    first, second = (find_order(series, graph, seed=5, **FAST) for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_series_that_change_too_fast_are_said_to(wave):
    coarse = simulate_wave(seed=0, step_size=1.2)
    assert any("observe more often" in note for note in find_order(coarse.states, coarse.graph, **FAST).notes)
    assert not find_order(wave.states, wave.graph, **FAST).notes


def test_change_in_few_pieces_is_said():
    simulation = simulate_heat(random_graph(20), num_trajectories=1, num_steps=520, step_size=0.5)
    found = find_order(add_noise(simulation.states.numpy(), 0.1), simulation.graph, **FAST)
    assert found.order is None
    assert any("Nearly all change lies in" in note for note in found.notes)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("half_width", [3, 4, 8, 16])
def test_kernels_measure_differences_of_polynomials(order, half_width):
    kernels = difference_kernels(order, half_width)
    reach = kernels.shape[1] // 2
    times = np.arange(-reach, reach + 1, dtype=float)
    assert kernels[0].sum() == pytest.approx(1.0)
    for j in range(1, order + 1):
        for power in range(j):
            assert kernels[j] @ (times / reach) ** power == pytest.approx(0.0, abs=1e-12)
        # The j-th difference of t^j is j!: psi is not cut off, and its weights sum to one.
        assert kernels[j] @ times**j == pytest.approx(factorial(j))


def test_longer_kernels_let_less_noise_through():
    norms = [np.square(difference_kernels(3, width)[3]).sum() for width in (8, 16, 32)]
    # The variance falls as w^-7.
    assert norms[0] / norms[1] == pytest.approx(2**7, rel=0.2)
    assert norms[1] / norms[2] == pytest.approx(2**7, rel=0.1)


def test_monomials_are_those_up_to_degree_three():
    values = np.array([[2.0, 3.0]])
    assert monomials(values, 2)[0].tolist() == [2, 3, 4, 6, 9, 8, 12, 18, 27]
    assert monomials(values, 2, most=5)[0].tolist() == [2, 3, 4, 6, 9]
    assert monomials(values, 2, most=1)[0].tolist() == [2, 3]
    assert monomials(values, 1)[0].tolist() == [2, 3, 4, 8]


def test_solve_takes_noise_out_of_the_weights():
    """For y = 2 x with noise on both, plain least squares gives a weight of 1, half of the true one."""
    noise = np.diag([1.0, 1.0])
    observed = np.array([[1.0, 2.0], [2.0, 4.0]]) + noise
    assert solve(observed, 0 * noise) == pytest.approx([1.0], rel=1e-6)
    assert solve(observed, noise) == pytest.approx([2.0], rel=1e-6)
    # A direction lost in noise keeps as much as the noise, and gets a small weight.
    lost = np.array([[0.1, 0.2], [0.2, 0.4]]) + noise
    assert solve(lost, noise) == pytest.approx([0.2], rel=1e-6)


def test_the_report_is_complete(wave):
    found = find_order(wave.states, wave.graph, step_size=wave.step_size, **FAST)
    record = found.to_dict()
    assert record["order"] == 2
    assert record["reason"] is None
    assert record["verdict"] == "Second order, in 100 % of the resamples."
    assert record["equation"] == "F'' = s(F; G)"
    assert [trial["order"] for trial in record["trials"]] == [1, 2, 3, 4]
    assert record["derivatives"][0]["takes_part"] is False
    assert '"order": 2' in found.to_json()


@pytest.mark.slow
@pytest.mark.parametrize("max_order", [2, 4])
@pytest.mark.parametrize(
    ("simulate", "noise", "order"),
    [(simulate_wave, 0.0, 2), (simulate_wave, 0.05, 2), (simulate_third_order, 0.0, 3), (simulate_heat, 30.0, None)],
    ids=["wave", "noisy wave", "third order", "noise"],
)
def test_no_line_runs_through_a_label(simulate, noise, order, max_order):
    simulation = simulate(seed=0)
    states = add_noise(simulation.states.numpy(), noise)
    found = find_order(states, simulation.graph, max_order=max_order, **FAST)
    assert found.order == (order if order is None or order <= max_order else None)
    figure = plot_order(found)
    assert_texts_are_free(figure)
    assert len(figure.axes) == (1 if found.order is None else 2)
    assert all(panel.texts for panel in figure.axes)
    for label in figure.axes[0].texts:
        is_hidden = "hidden" in label.get_text()
        assert is_hidden or label.get_window_extent().y0 > figure.axes[0].transData.transform((0, 1.0))[1]


def test_a_share_just_below_the_threshold_is_not_drawn_as_if_it_reached_it(wave):
    found = find_order(wave.states, wave.graph, max_order=1, **FAST)
    figure = plot_order(replace(found, trials=(replace(found.trials[0], explained_share=0.9496),)))
    assert [label.get_text() for label in figure.axes[0].texts] == ["94.9 %"]


@pytest.mark.slow
def test_pictures_of_every_outcome_can_be_drawn(wave):
    noisy = add_noise(simulate_heat(seed=0).states.numpy(), 30.0)
    for states, num_panels in ((wave.states, 2), (simulate_heat(seed=0).states, 1), (noisy, 1)):
        assert len(plot_order(find_order(states, wave.graph, **FAST)).axes) == num_panels


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_order(np.zeros((100, 3))), "series that change, got constant ones"),
        (lambda: find_order(np.full((100, 3), np.nan)), "series that change"),
        (lambda: find_order([[1.0, np.inf]] * 100), "finite states, got an infinite one"),
        (lambda: find_order(np.zeros(100)), r"\(time, nodes\), .* got \(100,\)"),
        (lambda: find_order([[1, 2], [3]]), "a panel, a frame or an array of numbers, got list"),
        (lambda: find_order("abc"), "a panel, a frame or an array of numbers, got str. Read a file with read_panel"),
        (lambda: find_order(np.zeros((20, 3))), r"at least 52 steps \(4 pieces of 13.*got 20"),
        (lambda: find_order(np.zeros((100, 3)), Graph([[0], [1]])), "2 nodes, as in the graph, got 3"),
        (
            lambda: find_order(np.zeros((100, 3)), object()),
            "edges as a file, a frame, a matrix, a networkx graph, PyG data or a Graph, got object. Make a",
        ),
        (lambda: find_order(np.zeros((100, 3)), "graph"), "a file at graph, got none"),
        (
            lambda: find_order(np.zeros((100, 4)), networkx.path_graph(["x", "y"])),
            r"nodes \(such as '0'\), got 'x' in the networkx graph",
        ),
        (lambda: find_order(np.zeros((100, 3)), max_order=7), "max_order to be at most 6, got 7"),
        (lambda: find_order(np.zeros((100, 3)), max_order=0), "max_order to be at least 1, got 0"),
        (lambda: find_order(np.zeros((100, 3)), step_size=0.0), "step_size to be positive, got 0.0"),
        (lambda: find_order(np.zeros((100, 3)), num_resamples=1), "num_resamples to be at least 2, got 1"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_series_that_is_mostly_gaps_is_refused():
    series = np.random.default_rng(0).standard_normal((200, 4)).cumsum(axis=0)
    series[np.arange(200) % 10 < 6] = np.nan
    with pytest.raises(InputError, match="pieces of the series with half of their values"):
        find_order(series)


def test_all_systems_of_the_experiment_can_be_observed():
    for system in SYSTEMS.values():
        observed = system.observe(0)
        assert observed.states.shape[2] == observed.graph.num_nodes


@pytest.mark.slow
def test_the_step_of_numbered_times_is_that_of_the_equation():
    data = simulate_wave(damping=0.3)
    states = data.states[0, :, :, 0].numpy()
    times = data.step_size * np.arange(len(states))
    panel = Panel.from_array(states, times=times, graph=data.graph)
    assert find_order(panel).step_size == pytest.approx(data.step_size)
    assert find_order(states, data.graph).step_size == 1.0
    assert find_order(panel, step_size=2.0).step_size == 2.0


@pytest.mark.slow
def test_a_found_order_is_printed_in_words():
    data = simulate_wave(damping=0.3)
    found = find_order(data.states, data.graph, step_size=data.step_size)
    lines = str(found).splitlines()
    assert lines[:2] == [found.verdict, f"Equation: {found.equation}"]
    assert "order 2 99.9 %" in lines[2]


@pytest.mark.parametrize("value", [1e7, 1e20, 1e100])
def test_an_outlier_of_any_size_has_a_verdict(value):
    steps = np.arange(60)[:, None]
    values = np.sin(steps / 5 + np.arange(5)) + 0.01 * np.random.default_rng(0).standard_normal((60, 5))
    values[30, 2] = value
    found = find_order(values, Graph([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]), step_size=1.0, num_resamples=5)
    assert found.verdict
