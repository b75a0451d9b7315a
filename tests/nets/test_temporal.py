import pytest
import torch

from tdegnn import AttentionCoefficients, DirectCoefficients, FixedCoefficients, GatedAttention, Graph, InputError
from tdegnn.forecasting.linear_skip import LinearSkip
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.nets.temporal import TemporalNetwork
from tdegnn.operators.hidden_diffusion import HiddenDiffusionOperator
from tdegnn.operators.past_diffusion import PastDiffusion, PastFeatures
from tdegnn.operators.with_past import WithPastFeatures
from tdegnn.training.devices import choose_placement
from tdegnn.training.members import GroupDescent, GroupedAdam, Members
from tests.core.checkers import Repulsion
from tests.rivals.series_checkers import (
    DOUBLE,
    SIZES,
    check_dropout,
    check_every_frame_counts,
    check_future_counts,
    check_relabeling,
    check_windows_are_separate,
    check_wrong_shapes,
    make,
    random_frames,
    small_graph,
)

CHANNELS, LAYERS, STEP_SIZE = 5, 3, 0.3
LEARNING = GroupDescent(0.02, 0.1)
RULES = {
    "fixed": lambda: FixedCoefficients([1.0]),
    "direct": lambda: DirectCoefficients(3),
    "attention": lambda: AttentionCoefficients(3, CHANNELS),
    "gated attention": lambda: GatedAttention(2, CHANNELS),
}
SKIPS = {
    "none": lambda sizes: None,
    "linear": LinearSkip,
    "by node": lambda sizes: LinearSkip(sizes, is_by_node=True),
}


def network(rule, sizes=SIZES, skip="none", **options):
    parts = (sizes, CHANNELS, LAYERS, rule)
    return TemporalNetwork(*parts, **dict(step_size=STEP_SIZE, skip=SKIPS[skip](sizes)) | options).double()


def builder(rule, skip="linear"):
    """As the networks of the zoo are built, for the checks that all networks share."""

    def build(sizes, hidden_channels, **options):
        assert hidden_channels == CHANNELS
        built = network(RULES[rule](), sizes, skip, **options)
        randomize(built.skip)
        if built.skip is not None:
            randomize(built.readout)  # zero beside a skip, at first
        return built

    return build


def randomize(module):
    """Other weights than those of the start, which are zero in a skip."""
    with torch.no_grad():
        for parameter in module.parameters() if module is not None else ():
            parameter.normal_(std=0.3)


def dense_laplacian(graph):
    """I - P, with zero rows where a node receives nothing."""
    A = torch.tensor(graph.received.toarray())
    rows, columns = A.sum(dim=1), A.sum(dim=0)
    P = torch.nan_to_num(A / rows[:, None].sqrt() / columns[None].sqrt())
    return torch.diag((rows > 0).double()) - P


def algorithm_two(model, frames, graph, c):
    """A plain transcription for one window: state, features of the past, their updates, the readout."""
    L, h, layers = dense_laplacian(graph), STEP_SIZE, model.operator

    def linear(part, x):
        return x @ part.weight.T if part.bias is None else x @ part.weight.T + part.bias

    window, future = (part[0] for part in frames)  # (time, nodes, channels)
    order = len(c)
    states = [torch.relu(linear(model.embedding, window[-1 - p])) for p in range(order)]
    past = torch.relu(linear(model.past_embedding, torch.cat(list(window), dim=-1)))
    time = linear(model.time_embedding, torch.cat(list(future), dim=-1))
    for layer in range(LAYERS):
        F = states[0]
        s = torch.relu(linear(layers.state_maps[layer], F - h * L @ F) + linear(layers.past_maps[layer], past))
        newest = sum(weight * state for weight, state in zip(c, states, strict=True)) + h * s
        states = [newest, *states[:-1]]
        if layer < LAYERS - 1:
            past = torch.relu(linear(layers.updates[layer], torch.cat([past, newest, time], dim=-1)))
    flat = linear(model.readout, states[0])  # (nodes, horizon x targets)
    return torch.stack(flat.chunk(model.sizes.horizon, dim=-1))


@pytest.mark.parametrize("direction", ["out", "both"])
@pytest.mark.parametrize("order", range(1, SIZES.window + 1))
def test_it_is_algorithm_two_of_the_paper(order, direction):
    sizes, graph = SIZES._replace(num_targets=2), small_graph(direction)
    frames = random_frames(sizes, batch=1)
    model = network(DirectCoefficients(order), sizes).eval()
    raw = torch.tensor([1.5, -0.8, 0.4, 0.3], **DOUBLE)[:order]
    with torch.no_grad():
        model.coefficients.raw.copy_(raw[None])
        expected = algorithm_two(model, frames, graph, raw / raw.sum())
        torch.testing.assert_close(model(frames, graph)[0], expected, atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(model.integrate(frames, graph).coefficients, (raw / raw.sum()).expand(LAYERS, order))


def test_attention_weighs_each_window_on_its_own():
    graph, frames = small_graph(), random_frames()
    model = network(RULES["attention"]()).eval()
    coefficients = model.integrate(frames, graph).coefficients.detach()  # (layers, order, batch)
    assert not torch.allclose(coefficients[..., 0], coefficients[..., 1])
    # In the first layer c is known from the outside: so a rule with that c must give the same.
    model.num_layers = 1
    for window in range(2):
        alone = Frames(*(part[[window]] for part in frames))
        twin = network(FixedCoefficients(coefficients[0, :, window]))
        twin.load_state_dict(model.state_dict() | twin.coefficients.state_dict(prefix="coefficients."), strict=False)
        twin.num_layers = 1
        torch.testing.assert_close(twin.eval()(alone, graph)[0], model(frames, graph)[window])


def test_the_skip_is_added_to_the_forecast_of_the_layers():
    graph, frames = small_graph(), random_frames()
    model = network(RULES["direct"](), skip="by node").eval()
    randomize(model.skip)
    bare = network(RULES["direct"]()).eval()
    bare.load_state_dict({name: part for name, part in model.state_dict().items() if not name.startswith("skip")})
    torch.testing.assert_close(model(frames, graph), bare(frames, graph) + model.skip(frames, graph))


@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("window", [1, 5])
@pytest.mark.parametrize("horizon", [1, 4])
@pytest.mark.parametrize(("num_channels", "num_known", "num_targets"), [(1, 0, 1), (3, 2, 2)])
def test_any_window_horizon_and_channels_will_do(skip, window, horizon, num_channels, num_known, num_targets):
    sizes = SeriesSizes(window, horizon, 6, num_channels, num_known, num_targets)
    frames, graph = random_frames(sizes, batch=3), small_graph()
    model = network(DirectCoefficients(window), sizes, skip)
    forecast = model(frames, graph)
    assert (forecast.shape, forecast.dtype) == ((3, horizon, 6, num_targets), torch.float64)
    assert forecast.isfinite().all()
    integration = model.integrate(frames, graph)
    assert (len(integration.history), integration.coefficients.shape) == (window, (LAYERS, window))


@pytest.mark.parametrize("rule", RULES)
def test_it_keeps_the_contract_of_all_networks(rule):
    """A relabeled graph gives the relabeled forecast; dropout only in training; windows do not meet."""
    build = builder(rule)
    check_relabeling(build)
    check_dropout(build)
    check_windows_are_separate(build)
    check_every_frame_counts(build)
    check_wrong_shapes(build)


def test_what_is_known_of_a_future_moves_no_other_forecast_after_one_update():
    """With two layers the time reaches the state of its own node alone; diffusion would come in the third."""

    def build(sizes, hidden_channels, **options):
        network = TemporalNetwork(sizes, hidden_channels, 2, DirectCoefficients(2), **options)
        network.reset_parameters()  # not those of the constructor, which depend on the order of its parts
        return network

    check_future_counts(build)


@pytest.mark.parametrize(("num_layers", "reached"), [(1, [0, 4]), (2, [0, 2, 4]), (3, [0, 1, 2, 4])])
def test_a_layer_reaches_one_neighbor_further(num_layers, reached):
    """Node 0 points to 4 and so receives from it, 2 from 0, 1 from 2."""
    graph, frames = small_graph("out"), random_frames()
    model = TemporalNetwork(SIZES, CHANNELS, num_layers, FixedCoefficients([1.0]), step_size=STEP_SIZE).double()
    window = frames.window.clone()
    window[:, :, 4] += 1.0
    moved = (model(frames._replace(window=window), graph) - model(frames, graph)).abs().amax(dim=(0, 1, 3))
    assert (moved > 1e-9).nonzero().flatten().tolist() == reached


def train(networks, device, num_steps=4):
    groups = [GroupedAdam(LEARNING, GroupDescent(0.01, 0.1), GroupDescent(0.03), skip=LEARNING)] * len(networks)
    torch.manual_seed(1)
    frames = Frames(*(part.to(device) for part in random_frames()))
    targets = torch.randn(2, SIZES.horizon, SIZES.num_nodes, 1, **DOUBLE).to(device)
    members = Members(networks, groups, choose_placement(device.type, "64-true"))
    for _ in range(num_steps):
        members.step(lambda answers: (answers - targets).square().flatten(1).mean(dim=1), frames, small_graph())
    return members, frames


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_members_trained_together_get_what_they_get_alone(rule, device):
    networks = [
        make(builder(rule, "by node"), seed, step_size=h, dropout=dropout)
        for seed, h, dropout in [(0, 0.1, 0.5), (1, 1.0, 0.0), (2, 0.5, 0.2)]
    ]
    together, frames = train(networks, device)
    for member, alone in enumerate(networks):
        single, _ = train([alone], device)
        torch.testing.assert_close(together.weights[[member]], single.weights)
        torch.testing.assert_close(
            together.evaluate(frames, small_graph())[member], single.network(0)(frames, small_graph())
        )


def test_the_operator_is_past_diffusion_unless_another_is_given():
    usual = network(RULES["direct"]())
    given = network(RULES["direct"](), operator=PastDiffusion(CHANNELS, LAYERS, STEP_SIZE))
    assert type(usual.operator) is type(given.operator) is PastDiffusion
    given.load_state_dict(usual.state_dict())
    frames, graph = random_frames(), small_graph()
    assert torch.equal(usual.eval()(frames, graph), given.eval()(frames, graph))


@pytest.mark.slow
@pytest.mark.parametrize("make_operator", [lambda: Repulsion(CHANNELS), lambda: HiddenDiffusionOperator(CHANNELS, 7)])
def test_any_operator_works_and_members_get_what_they_get_alone(make_operator, device):
    def build(seed):
        torch.manual_seed(seed)
        made = network(RULES["attention"](), operator=make_operator(), dropout=0.2, seed=seed)
        made.reset_parameters()
        return made

    networks = [build(seed) for seed in range(3)]
    assert isinstance(networks[0].operator, WithPastFeatures)
    together, frames = train(networks, device)
    for member, alone in enumerate(networks):
        single, _ = train([alone], device)
        torch.testing.assert_close(together.weights[[member]], single.weights)
        answer = together.evaluate(frames, small_graph())[member]
        torch.testing.assert_close(answer, single.network(0)(frames, small_graph()))
        # All weights learn: those of the operator, and those of the past features.
        learned = single.network(0).cpu().state_dict()
        same = [name for name, start in alone.state_dict().items() if torch.equal(learned[name], start)]
        assert not same


def test_all_weights_learn():
    start = make(builder("attention", "by node"))
    members, _ = train([start], torch.device("cpu"))
    for name, parameter in start.named_parameters():
        assert not torch.equal(parameter, members.parameters()[name][0].to(parameter)), f"{name} does not learn"


@pytest.mark.parametrize("rule", RULES)
def test_it_runs_where_its_weights_are(rule, device):
    graph, frames = small_graph(), random_frames()
    expected = make(builder(rule), dropout=0.5).train()(frames, graph)
    model = make(builder(rule), dropout=0.5).train().to(device)
    answer = model(Frames(*(part.to(device) for part in frames)), graph)
    assert answer.device.type == device.type
    torch.testing.assert_close(answer.cpu(), expected)


def test_rules_start_with_the_same_weights():
    states = []
    for rule in ("fixed", "direct", "attention"):
        model = network(RULES[rule]())
        torch.manual_seed(7)
        model.reset_parameters()
        states.append({name: part for name, part in model.state_dict().items() if not name.startswith("coefficients")})
    for other in states[1:]:
        assert all(torch.equal(part, other[name]) for name, part in states[0].items())


def test_the_learned_vector_starts_as_the_network_with_euler():
    graph, frames = small_graph(), random_frames()
    euler, learned = network(RULES["fixed"]()).eval(), network(RULES["direct"]()).eval()
    shared = {name: part for name, part in euler.state_dict().items() if not name.startswith("coefficients")}
    learned.load_state_dict(learned.state_dict() | shared)
    torch.testing.assert_close(learned(frames, graph), euler(frames, graph))


def test_only_weights_are_saved():
    assert not set(network(RULES["direct"]()).state_dict()) & {"seed", "step", "dropout", "step_size"}


def test_past_features_are_brought_up_to_date_with_the_new_state():
    operator, graph = PastDiffusion(4, 3, 0.5).double(), small_graph()
    state, features, time = (torch.randn(2, 6, 4, **DOUBLE) for _ in range(3))
    rate, context = operator(state, graph, 0, PastFeatures(features, time))
    assert context.features is features  # the first layer sees them as they were embedded
    diffused = state - 0.5 * dense_laplacian(graph) @ state
    seen = operator.state_maps[0](diffused) + operator.past_maps[0](features)
    torch.testing.assert_close(rate, torch.relu(seen))
    later = state + rate
    rate, context = operator(later, graph, 1, context)
    expected = torch.relu(operator.updates[0](torch.cat([features, later, time], dim=-1)))
    torch.testing.assert_close(context.features, expected)
    assert context.time is time
    seen = operator.state_maps[1](later - 0.5 * dense_laplacian(graph) @ later) + operator.past_maps[1](expected)
    torch.testing.assert_close(rate, torch.relu(seen))
    assert len(operator.updates) == 2  # features after the last layer would reach nothing
    assert "channels=4, num_layers=3, step_size=0.5" in repr(operator)


def test_a_layer_that_is_not_there_is_refused():
    state = torch.zeros(6, 4)
    with pytest.raises(InputError, match="layer"):
        PastDiffusion(4, 2, 0.5)(state, small_graph(), 2, PastFeatures(state, state))


@pytest.mark.parametrize("skip", ["linear", "by node"])
def test_a_skip_starts_with_a_forecast_of_zero(skip):
    part = SKIPS[skip](SIZES).double()
    assert not part(random_frames(), small_graph()).any()
    randomize(part)
    assert part(random_frames(), small_graph()).any()
    part.reset_parameters()
    assert not part(random_frames(), small_graph()).any()


def test_a_skip_is_a_linear_regression_on_lags():
    """Written down for each window, step and node: its own channels, the future, its neighbors, the mean of all."""
    sizes, graph = SIZES._replace(num_channels=3, num_targets=2), small_graph()
    frames = random_frames(sizes)
    part = LinearSkip(sizes, is_by_node=True).double()
    randomize(part)
    forecast = part(frames, graph)
    P = torch.tensor(graph.received.toarray())
    P = torch.nan_to_num(P / P.sum(dim=1)[:, None].sqrt() / P.sum(dim=0)[None].sqrt())
    for window, future, answer in zip(*frames, forecast, strict=True):
        targets = window[..., :2]
        for node in range(sizes.num_nodes):
            own = torch.cat([window[:, node].reshape(-1), future[:, node].reshape(-1)])
            neighbors = torch.stack([P[node] @ frame for frame in targets]).reshape(-1)
            of_all = targets.mean(dim=1).reshape(-1)
            expected = part.shared.weight @ torch.cat([own, neighbors, of_all]) + part.shared.bias
            expected = expected + torch.cat([own, torch.ones(1, **DOUBLE)]) @ part.by_node[node]
            torch.testing.assert_close(answer[:, node], expected.view(sizes.horizon, 2))


def test_a_skip_for_all_nodes_does_not_know_which_node_it_is():
    assert LinearSkip(SIZES).by_node.numel() == 0
    assert LinearSkip(SIZES, is_by_node=True).by_node.shape[0] == SIZES.num_nodes
    check_relabeling(builder("direct", "linear"))
    with pytest.raises(AssertionError, match="close"):
        check_relabeling(builder("direct", "by node"))


def test_nothing_known_of_the_future_is_no_input():
    sizes = SIZES._replace(num_known=0)
    model = network(RULES["direct"](), sizes)
    assert not model.time_embedding(torch.zeros(2, 6, 0, **DOUBLE)).any()
    randomize(model)
    model.reset_parameters()
    assert not model.time_embedding.bias.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(rule=DirectCoefficients(5)), "of at most 4, the number of frames in the window, got 5. Take a longer"),
        (dict(layers=0), "num_layers to be at least 1, got 0"),
        (dict(step_size=float("nan")), "step_size to be finite, got nan"),
        (dict(dropout=1.0), "dropout to be at least 0 and below 1, got 1.0"),
        (dict(sizes=SIZES._replace(window=0)), "window to be at least 1, got 0"),
        (dict(sizes=SIZES._replace(num_known=-1)), "num_known to be at least 0, got -1"),
        (dict(channels=0), "hidden_channels to be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    given = dict(sizes=SIZES, channels=CHANNELS, layers=LAYERS, rule=DirectCoefficients(2)) | options
    parts = [given.pop(name) for name in ("sizes", "channels", "layers", "rule")]
    with pytest.raises(InputError, match=message):
        TemporalNetwork(*parts, **given)


def test_a_graph_of_other_nodes_is_refused():
    with pytest.raises(InputError, match="on 6 nodes, got .* on 5"):
        network(RULES["direct"]())(Frames(*(part[:, :, :5] for part in random_frames())), Graph([[0], [1]], 5))
