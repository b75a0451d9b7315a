import pytest
import torch

from tdegnn import DirectCoefficients, FixedCoefficients, Graph, InputError
from tdegnn.nets.naive_skips import LastValueSkip, SeasonSkip
from tdegnn.nets.readouts import TwoLayerReadout
from tdegnn.nets.series_network import SeriesSizes
from tdegnn.nets.state_norms import LayerNorm
from tdegnn.nets.window_network import WindowNetwork
from tdegnn.operators.directed_diffusion import DirectedDiffusion
from tests.dense_matrices import scaled
from tests.rivals.series_checkers import (
    DOUBLE,
    SIZES,
    check_answers,
    check_dropout,
    check_every_frame_counts,
    check_members,
    check_windows_are_separate,
    check_wrong_shapes,
    random_frames,
    small_graph,
)

CHANNELS, LAYERS, STEP_SIZE = 5, 2, 0.7
CHECKS = (
    check_answers,
    check_windows_are_separate,
    check_every_frame_counts,
    check_dropout,
    check_members,
    check_wrong_shapes,
)


def network(rule=None, sizes=SIZES, **options):
    rule = DirectCoefficients(3) if rule is None else rule
    operator = DirectedDiffusion(CHANNELS, LAYERS, num_hops=2, row_exponent=-1.0, column_exponent=0.0)
    usual = dict(
        identity_channels=4,
        state_norm=LayerNorm(CHANNELS),
        readout=TwoLayerReadout(CHANNELS, sizes.horizon * sizes.num_targets),
        step_size=STEP_SIZE,
    )
    return WindowNetwork(sizes, CHANNELS, LAYERS, rule, operator, **usual | options).double()


def build(sizes, hidden_channels, **options):
    """As the networks of the zoo are built, for the checks that all networks share."""
    assert hidden_channels == CHANNELS
    return network(DirectCoefficients(min(3, sizes.window)), sizes, **options)


def transcription(model, frames, graph, c):
    """The network for one window, node by node and moment by moment."""
    sizes = model.sizes
    along = torch.as_tensor(graph.with_direction("out").received.toarray())
    walks = [scaled(matrix, -1.0, 0.0) for matrix in (along, along.T)]

    def linear(part, x):
        return x @ part.weight.T + part.bias

    window, future = (part[0] for part in frames)
    states = []
    for age in range(len(c)):
        moments = [max(0, moment - age) for moment in range(sizes.window)]
        seen = torch.cat([window[moment, :, : sizes.num_channels - sizes.num_waves] for moment in moments], dim=-1)
        num_plain = sizes.num_known - sizes.num_waves
        ahead = torch.cat([*future[:, :, :num_plain], future[0, :, num_plain:]], dim=-1)
        states.append(linear(model.embedding, torch.cat([seen, ahead, model.identity.vectors], dim=-1)))
    for layer in range(LAYERS):
        F = states[0]
        terms = [F, *(torch.linalg.matrix_power(walk, hop) @ F for walk in walks for hop in (1, 2))]
        s = torch.relu(linear(model.operator.maps[layer], torch.cat(terms, dim=-1)))
        newest = sum(weight * state for weight, state in zip(c, states, strict=True)) + STEP_SIZE * s
        centered = newest - newest.mean(dim=-1, keepdim=True)
        normal = centered / (centered.square().mean(dim=-1, keepdim=True) + model.state_norm.eps).sqrt()
        states = [normal * model.state_norm.weight + model.state_norm.bias, *states[:-1]]
    flat = linear(model.readout, torch.relu(linear(model.readout.hidden, states[0])))
    return torch.stack(flat.chunk(sizes.horizon, dim=-1))


@pytest.mark.parametrize("num_waves", [0, 1])
@pytest.mark.parametrize("order", [1, 3])
def test_it_is_its_equation(order, num_waves):
    sizes, graph = SIZES._replace(num_targets=2, num_waves=num_waves), small_graph("out")
    frames, model = random_frames(sizes, batch=1), network(DirectCoefficients(order), sizes).eval()
    raw = torch.tensor([1.5, -0.8, 0.4], **DOUBLE)[:order]
    with torch.no_grad():
        model.coefficients.raw.copy_(raw[None])
        expected = transcription(model, frames, graph, raw / raw.sum())
        torch.testing.assert_close(model(frames, graph)[0], expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract_of_all_networks(check):
    check(build)


def test_beside_a_skip_the_forecast_starts_as_the_skip():
    graph, frames = small_graph(), random_frames()
    model = network(skip=LastValueSkip(SIZES)).eval()
    newest = frames.window[:, -1:, :, : SIZES.num_targets]
    torch.testing.assert_close(model(frames, graph), newest.expand(-1, SIZES.horizon, -1, -1))
    model.reset_parameters()
    torch.testing.assert_close(model(frames, graph), newest.expand(-1, SIZES.horizon, -1, -1))


def test_without_identity_all_nodes_are_alike():
    graph = small_graph()
    frames = random_frames()
    same = type(frames)(*(part[:, :, :1].expand_as(part) for part in frames))
    model = network(FixedCoefficients([1.0]), identity_channels=0, step_size=0.0).eval()
    forecasts = model(same, graph)
    torch.testing.assert_close(forecasts, forecasts[:, :, :1].expand_as(forecasts))


def test_the_season_before_repeats_itself():
    sizes = SeriesSizes(window=5, horizon=7, num_nodes=2)
    frames = random_frames(sizes)
    forecasts = SeasonSkip(sizes, 3)(frames, Graph([[0], [1]]))
    for step in range(7):
        torch.testing.assert_close(forecasts[:, step], frames.window[:, 2 + step % 3])


@pytest.mark.parametrize(
    ("period", "message"),
    [(0, "a season for skip='season', got none"), (6, "a window of at least 6 steps, a season, .* got 5")],
)
def test_a_season_that_cannot_be_seen_is_refused(period, message):
    with pytest.raises(InputError, match=message):
        SeasonSkip(SeriesSizes(window=5, horizon=7, num_nodes=2), period)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(identity_channels=-1), "identity_channels to be at least 0, got -1"),
        (dict(rule=DirectCoefficients(9)), "order of at most .*, the number of frames in the window, got 9"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        network(**options)
