import pytest
import torch

from tdegnn import DirectCoefficients, FixedCoefficients, InputError, explain, roll_out, simulate_wave
from tdegnn.data.panel import Panel
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.nets.physical import PhysicalNetwork
from tdegnn.nets.physical_series import PhysicalSeriesNetwork
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.operators.past_diffusion import PastDiffusion
from tdegnn.training.devices import choose_placement
from tdegnn.training.loop import fit
from tdegnn.training.members import GroupDescent, GroupedAdam
from tests.core.checkers import NUM_NODES, Repulsion, small_graph

SIZES = SeriesSizes(window=4, horizon=3, num_nodes=NUM_NODES, num_channels=2, num_known=1, num_targets=1)


def make_frames(batch=5):
    window = torch.randn(batch, 4, NUM_NODES, 2, dtype=torch.float64)
    return Frames(window, torch.zeros(batch, 3, NUM_NODES, 1, dtype=torch.float64))


def test_forecasts_are_a_free_run_on_the_targets():
    network = PhysicalSeriesNetwork(SIZES, 8, DirectCoefficients(2), step_size=0.1).double()
    torch.nn.init.normal_(network.coefficients.raw)
    frames, graph = make_frames(), small_graph()
    newest, before = frames.window[:, 3, :, :1], frames.window[:, 2, :, :1]
    predictor = PhysicalNetwork(network.coefficients, network.operator, 0.1)
    expected = roll_out(predictor, (newest, before), graph, 3).movedim(0, 1)
    torch.testing.assert_close(network(frames, graph), expected)
    assert network.integrate(frames, graph).coefficients.shape == (1, 2)


def test_any_operator_works_in_place_of_the_usual_one():
    operator = Repulsion(1)
    network = PhysicalSeriesNetwork(SIZES, 8, FixedCoefficients([1.0]), operator=operator, step_size=0.5).double()
    frames, graph = make_frames(), small_graph()
    newest = frames.window[:, -1, :, :1]
    expected = newest + 0.5 * torch.tanh(operator.strength * (newest - graph.propagate(newest)))
    torch.testing.assert_close(network(frames, graph)[:, 0], expected)
    before = operator.strength.clone()
    network.reset_parameters()
    assert not torch.equal(operator.strength, before)


def test_physical_states_have_no_past_features():
    operator = PastDiffusion(1, 1, 0.5)
    with pytest.raises(InputError, match="not take past features, got PastDiffusion. Take another"):
        PhysicalSeriesNetwork(SIZES, 8, FixedCoefficients([1.0]), operator=operator)


def test_what_is_no_target_is_not_seen():
    network = PhysicalSeriesNetwork(SIZES, 8, FixedCoefficients([2.0, -1.0])).double()
    frames, graph = make_frames(), small_graph()
    other = Frames(torch.cat([frames.window[..., :1], frames.window[..., 1:] + 9.0], dim=-1), frames.future + 9.0)
    assert torch.equal(network(frames, graph), network(other, graph))


def test_an_order_above_the_window_is_refused():
    with pytest.raises(InputError, match="an order of at most 4, the number of frames in the window, got 5"):
        PhysicalSeriesNetwork(SIZES, 8, DirectCoefficients(5))


@pytest.mark.slow
def test_a_wave_is_found_to_be_of_second_order():
    data = simulate_wave()
    panel = Panel.from_array(data.states[0], graph=data.graph)
    maker = FrameMaker.fit(panel[:48], 4)
    windows = maker.windows(panel, dtype=torch.float64)
    network = PhysicalSeriesNetwork(maker.sizes(panel.num_nodes), 16, DirectCoefficients(2), step_size=data.step_size)
    training = SeriesTraining(
        [network], [GroupedAdam(*[GroupDescent(0.01)] * 3)], data.graph, windows.predicting(range(4, 48)),
        windows.predicting(range(48, 60)), placement=choose_placement("cpu", "64-true"),
    )  # fmt: skip
    fit(training, num_steps=800, validate_every=50)
    trained = training.members.network(0)
    c = trained.integrate(windows.batch(slice(0, 1))[0], data.graph).coefficients[0].detach()
    assert c.tolist() == pytest.approx([2.0, -1.0], abs=0.02)
    assert explain(c.numpy(), tolerance=0.02).root_multiplicity == 2
