import numpy as np
import pytest
import torch

from tdegnn import Graph, InputError, Panel
from tdegnn.forecasting import linear_skip
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.linear_skip import SHARED_PENALTIES, LinearSkip, Penalties, fits_by_node, start_at_ridge
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.nets.series_network import SeriesSizes

GRAPH = Graph([[0, 1, 2], [1, 2, 3]], 4)
WINDOW = 3


def autoregressive_panel(weights: np.ndarray, num_steps: int = 300, noise: float = 0.3) -> Panel:
    """Series of four nodes, the next value of each a weighted sum of its last two."""
    draw = np.random.default_rng(0)
    values = draw.standard_normal((num_steps, 4))
    for step in range(2, num_steps):
        values[step] = weights[:, 0] * values[step - 1] + weights[:, 1] * values[step - 2]
        values[step] += noise * draw.standard_normal(4)
    return Panel.from_array(values, graph=GRAPH)


ALIKE = np.tile([0.5, -0.6], (4, 1))
DIFFERENT = np.array([[0.9, 0.0], [-0.9, 0.0], [0.0, 0.8], [0.0, -0.8]])


def start(panel: Panel, skip: str = "linear", num_networks: int = 1, penalties: Penalties | None = None):
    maker = FrameMaker.fit(panel[:200], WINDOW, per="all")
    windows = maker.windows(panel)
    training, validation = windows.predicting(range(WINDOW, 200)), windows.predicting(range(200, 250))
    config = SeriesConfig(skip=skip, order=2, num_steps=5)
    networks = [config.build(maker.sizes(4), seed) for seed in range(num_networks)]
    chosen = start_at_ridge(networks, training, validation, GRAPH, maker.target_scales, penalties)
    return networks, chosen, (training, validation, windows.predicting(range(250, 300))), maker, config


def error(network: torch.nn.Module, windows) -> float:
    frames, targets = windows.batch()
    with torch.no_grad():
        return float((network.eval()(frames, GRAPH) - targets).square().mean())


def test_shared_weights_are_those_of_a_ridge_regression_on_all_rows():
    (network,), chosen, (training, *_), _, _ = start(autoregressive_panel(ALIKE))
    assert chosen is not None
    frames, targets = training.batch()
    own, others = network.skip.inputs(frames, GRAPH)
    rows, wanted = torch.cat([own, others], dim=-1).double().flatten(0, 1), targets.double().flatten()
    # The same regression, as ordinary least squares with one more row for each penalized weight.
    penalty = chosen.shared**0.5 * torch.eye(rows.shape[1], dtype=torch.float64)
    expected = torch.linalg.lstsq(
        torch.cat([rows, penalty]), torch.cat([wanted, wanted.new_zeros(len(penalty))])[:, None]
    ).solution[:, 0]
    offset = own.shape[-1] - 1
    torch.testing.assert_close(network.skip.shared.bias[0].double(), expected[offset], atol=1e-5, rtol=1e-4)
    weights = torch.cat([expected[:offset], expected[offset + 1 :]])
    torch.testing.assert_close(network.skip.shared.weight[0].double(), weights, atol=1e-5, rtol=1e-4)


def test_the_penalty_is_the_best_of_all_on_validation():
    panel = autoregressive_panel(ALIKE, noise=2.0)
    (network,), chosen, (_, validation, _), _, _ = start(panel)
    others = [start(panel, penalties=Penalties(penalty, torch.inf))[0][0] for penalty in SHARED_PENALTIES]
    assert chosen is not None
    assert chosen.shared in SHARED_PENALTIES
    assert error(network, validation) == pytest.approx(min(error(other, validation) for other in others))


def test_a_network_starts_with_the_forecast_of_its_skip_whatever_its_seed():
    networks, _, (_, _, test), _, _ = start(autoregressive_panel(ALIKE), num_networks=2)
    frames, _ = test.batch()
    for network in networks:
        torch.testing.assert_close(network.eval()(frames, GRAPH), network.skip(frames, GRAPH))
        torch.testing.assert_close(network.skip(frames, GRAPH), networks[0].skip(frames, GRAPH))


def test_weights_by_node_find_what_nodes_do_differently_and_nothing_where_they_do_not():
    different, alike = autoregressive_panel(DIFFERENT), autoregressive_panel(ALIKE, noise=2.0)
    (shared,), _, (_, _, test), _, _ = start(different)
    (by_node,), chosen, *_ = start(different, "by-node")
    assert chosen is not None
    assert np.isfinite(chosen.own)
    assert error(by_node, test) < 0.4 * error(shared, test)
    (held,), held_penalties, *_ = start(alike, "by-node", penalties=Penalties(10.0, torch.inf))
    assert held_penalties == Penalties(10.0, torch.inf)
    assert not held.skip.by_node.any()


def test_what_was_not_observed_is_left_out():
    panel = autoregressive_panel(ALIKE)
    (whole,), *_ = start(panel, penalties=Penalties(1.0, torch.inf))
    values = panel.values.copy()
    values[150:200, 2] = np.nan
    (gaps,), *_ = start(Panel.from_array(values[..., 0], graph=GRAPH), penalties=Penalties(1.0, torch.inf))
    own = slice(0, WINDOW)
    # With a mask the window has two channels; the targets are every second of them.
    torch.testing.assert_close(
        gaps.skip.shared.weight[0, : 2 * WINDOW : 2], whole.skip.shared.weight[0, own], atol=0.1, rtol=0
    )
    assert torch.isfinite(gaps.skip.shared.weight).all()


def test_the_skip_stays_as_solved_while_the_layers_learn():
    networks, _, (training, validation, _), _, config = start(autoregressive_panel(ALIKE))
    before = {name: value.clone() for name, value in networks[0].named_parameters()}
    run = SeriesTraining(networks, [config.descent], GRAPH, training, validation)
    for _ in range(5):
        run.step()
    after = dict(run.members.network(0).named_parameters())
    assert all(torch.equal(after[name], before[name]) for name in before if name.startswith("skip."))
    assert not torch.equal(after["readout.weight"], before["readout.weight"])


def test_networks_without_a_skip_are_left_alone():
    panel = autoregressive_panel(ALIKE)
    networks, chosen, *_ = start(panel, "none")
    assert chosen is None
    assert not isinstance(networks[0].skip, LinearSkip)


def test_waves_of_the_past_are_not_seen_twice():
    from tdegnn.data.times.seasons import Season

    panel = autoregressive_panel(ALIKE)
    maker = FrameMaker.fit(panel[:200], WINDOW, seasons=[Season(12.0, 2)])
    sizes = maker.sizes(4)
    assert (sizes.num_channels, sizes.num_known, sizes.num_waves) == (5, 4, 4)
    # Three own lags, four waves, three lags of neighbors and three of the mean.
    assert LinearSkip(sizes).shared.in_features == 3 + 4 + 3 + 3


def test_weights_by_node_are_left_out_where_they_need_too_much_memory():
    few = SeriesSizes(window=4, horizon=2, num_nodes=100)
    assert fits_by_node(few)
    assert fits_by_node(few._replace(window=52, num_nodes=1_000))
    assert not fits_by_node(few._replace(window=52, num_nodes=100_000))


def test_blocks_of_windows_and_nodes_change_nothing(monkeypatch):
    panel = autoregressive_panel(DIFFERENT)
    panel.values[::7, 1] = np.nan
    (whole,), chosen, *_ = start(panel, "by-node")
    monkeypatch.setattr(linear_skip, "NUMBERS_AT_ONCE", 500)
    monkeypatch.setattr(linear_skip, "PRODUCTS_AT_ONCE", 2 * whole.skip.by_node.shape[1] ** 2)
    (by_blocks,), same, *_ = start(panel, "by-node")
    assert same == chosen
    for name, weights in whole.skip.state_dict().items():
        torch.testing.assert_close(by_blocks.skip.state_dict()[name], weights)


def test_of_very_many_windows_some_are_enough(monkeypatch):
    panel = autoregressive_panel(DIFFERENT, num_steps=300)
    (whole,), _, (training, validation, test), *_ = start(panel, "by-node")
    num_inputs = whole.skip.shared.in_features + 1
    monkeypatch.setattr(linear_skip, "LARGEST_WORK", len(training) * 4 * num_inputs**2 // 2)
    monkeypatch.setattr(linear_skip, "MOST_JUDGED_ROWS", len(validation) * 2)
    (part,), chosen, *_ = start(panel, "by-node")
    assert not torch.equal(part.skip.shared.weight, whole.skip.shared.weight)
    assert np.isfinite(chosen.own)
    assert error(part, test) == pytest.approx(error(whole, test), rel=0.1)


def test_no_windows_are_refused():
    maker = FrameMaker.fit(autoregressive_panel(ALIKE)[:200], WINDOW)
    none = maker.windows(autoregressive_panel(ALIKE)).predicting(range(10, 10))
    network = SeriesConfig(order=2).build(maker.sizes(4), 0)
    with pytest.raises(InputError, match="Expected at least one window, got none. Take a longer series or a shorter"):
        start_at_ridge([network], none, none, GRAPH, maker.target_scales)
