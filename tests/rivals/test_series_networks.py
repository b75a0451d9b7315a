import numpy as np
import pytest
import torch
from torch_geometric.nn import ChebConv

from tdegnn import InputError
from tdegnn.adjacency import averaging_matrix, diffusion_matrices
from tdegnn.nets.series_network import Frames
from tdegnn.rivals.series.chebyshev import ChebyshevConvolution
from tdegnn.rivals.series.registry import SERIES_NETWORKS
from tests.rivals.series_checkers import (
    BATCH,
    DOUBLE,
    HIDDEN,
    SIZES,
    check_series_network,
    make,
    random_frames,
    small_graph,
)

DIRECTIONS = ["out", "in", "both"]
# What only some of them know, other than by default.
SETTINGS = {"DCRNN": dict(num_hops=3), "GConvGRU": dict(num_hops=3), "GC-LSTM": dict(num_hops=1)}
SETTINGS |= {"DyGrAE": dict(num_rounds=3), "EvolveGCN-O": dict(num_layers=1), "AGCRN": dict(embedding_channels=3)}
NONE = torch.zeros(BATCH, SIZES.num_nodes, HIDDEN, **DOUBLE)
sigmoid, tanh, relu = torch.sigmoid, torch.tanh, torch.relu


@pytest.mark.slow
@pytest.mark.parametrize("name", SERIES_NETWORKS)
def test_every_network_keeps_the_contract(name):
    check_series_network(SERIES_NETWORKS[name], is_bound_to_nodes=name == "AGCRN")


@pytest.mark.parametrize("name", SERIES_NETWORKS)
def test_every_network_runs_where_its_weights_are(name, device):
    graph, frames = small_graph(), random_frames()
    expected = make(SERIES_NETWORKS[name], dropout=0.5).train()(frames, graph)
    network = make(SERIES_NETWORKS[name], dropout=0.5).train().to(device)
    answer = network(Frames(*(part.to(device) for part in frames)), graph)
    assert answer.device.type == device.type
    torch.testing.assert_close(answer.cpu(), expected)


@pytest.mark.parametrize("name", SERIES_NETWORKS)
def test_only_weights_are_saved(name):
    assert not set(make(SERIES_NETWORKS[name]).state_dict()) & {"seed", "step", "dropout"}


# Matrices, written down.


def received(graph):
    return torch.tensor(graph.received.toarray())


def divided(matrix, row_sums, column_sums):
    """Entries by the sums of their row and column; what is 0 / 0 is 0."""
    return torch.nan_to_num(matrix / row_sums[:, None] / column_sums[None, :])


def dense_propagation(graph):
    A = received(graph)
    return divided(A, A.sum(dim=1).sqrt(), A.sum(dim=0).sqrt())


def dense_convolution(graph):
    A = received(graph) + torch.eye(SIZES.num_nodes, **DOUBLE)
    return divided(A, A.sum(dim=1).sqrt(), A.sum(dim=1).sqrt())


def dense_mean(matrix):
    return divided(matrix, matrix.sum(dim=1), torch.ones(SIZES.num_nodes, **DOUBLE))


def dense_walks():
    A = received(small_graph("out"))
    return dense_mean(A), dense_mean(A.T)


# Cells, written down: weights are cut out of the networks' maps gate by gate.


def parts_of(linear, num_gates):
    """Weight (transposed) and bias of each gate."""
    weights = linear.weight.T.chunk(num_gates, dim=1)
    biases = [0.0] * num_gates if linear.bias is None else linear.bias.chunk(num_gates)
    return list(zip(weights, biases, strict=True))


def affine(state, part):
    weight, bias = part
    return state @ weight + bias


def chebyshev(state, part, P, num_hops):
    """`sum_k T_k(-P) F W_k + b`, with the polynomials themselves."""
    polynomials = [np.polynomial.chebyshev.cheb2poly([0] * k + [1]) for k in range(num_hops + 1)]
    powers = [torch.linalg.matrix_power(-P, k) for k in range(num_hops + 1)]
    terms = [sum(c * power for c, power in zip(p, powers, strict=False)) @ state for p in polynomials]
    return affine(torch.cat(terms, dim=-1), part)


def diffusion(state, part, walks, num_hops):
    terms = [state]
    for walk in walks:
        terms += [torch.linalg.matrix_power(walk, k) @ state for k in range(1, num_hops + 1)]
    return affine(torch.cat(terms, dim=-1), part)


def adaptive(state, pool, E):
    """`(I + softmax(relu(E E^T))) F (E W)`, node by node."""
    mixed = state + torch.softmax(relu(E @ E.T), dim=1) @ state
    weights = [sum(E[node, k] * pool[k] for k in range(E.shape[1])) for node in range(len(E))]
    return torch.stack([mixed[:, node] @ weights[node] for node in range(len(E))], dim=1)


def gru(H, x_products, gate_products, candidate_product):
    x_z, x_r, x_c = x_products
    h_z, h_r = gate_products
    z, r = sigmoid(x_z + h_z(H)), sigmoid(x_r + h_r(H))
    return z * H + (1 - z) * tanh(x_c + candidate_product(r * H))


def lstm(H, c, x_products, h_products):
    i, f, o, g = (x + h(H) for x, h in zip(x_products, h_products, strict=True))
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def products(convolve, parts):
    """The product of each gate, as a function of the state."""
    return [lambda state, part=part: convolve(state, part) for part in parts]


def run_dense_gru(network, frames, convolve):
    x, h = parts_of(network.input_product.linear, 3), parts_of(network.gate_product.linear, 2)
    (k,) = parts_of(network.candidate_product.linear, 1)
    H = NONE
    for X in frames.window.unbind(1):
        H = gru(H, [convolve(X, part) for part in x], products(convolve, h), products(convolve, [k])[0])
    return H


def read(network, frames, *states):
    """The forecast of each step from its own rows of the readout; there is one target."""
    future = torch.cat(frames.future.unbind(1), dim=-1)
    flat = torch.cat([*states, future], dim=-1) @ network.readout.weight.T + network.readout.bias
    return torch.stack([flat[..., [step]] for step in range(SIZES.horizon)], dim=1)


def make_case(name, direction):
    graph, frames = small_graph(direction), random_frames()
    settings = SETTINGS.get(name, {})
    network = make(SERIES_NETWORKS[name], **settings).eval()
    for parameter in network.parameters():
        # Biases and scores that start at zero would hide themselves.
        parameter.data += 0.1 * torch.randn_like(parameter)
    return network, graph, frames


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_dcrnn_is_its_equation(direction):
    network, graph, frames = make_case("DCRNN", direction)
    H = run_dense_gru(network, frames, lambda state, part: diffusion(state, part, dense_walks(), 3))
    torch.testing.assert_close(network(frames, graph), read(network, frames, H))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gconv_gru_is_its_equation(direction):
    network, graph, frames = make_case("GConvGRU", direction)
    P = dense_propagation(graph)
    H = run_dense_gru(network, frames, lambda state, part: chebyshev(state, part, P, 3))
    torch.testing.assert_close(network(frames, graph), read(network, frames, H))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gc_lstm_is_its_equation(direction):
    network, graph, frames = make_case("GC-LSTM", direction)
    P, x, h = dense_propagation(graph), parts_of(network.input_product, 4), parts_of(network.hidden_product.linear, 4)
    H = c = NONE
    for X in frames.window.unbind(1):
        convolutions = products(lambda state, part: chebyshev(state, part, P, 1), h)
        H, c = lstm(H, c, [affine(X, part) for part in x], convolutions)
    torch.testing.assert_close(network(frames, graph), read(network, frames, H))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_dygrae_is_its_equation(direction):
    network, graph, frames = make_case("DyGrAE", direction)
    M, inner = dense_mean(received(graph)), network.convolution
    gates, (candidate,) = parts_of(inner.gate_product, 2), parts_of(inner.candidate_product, 1)
    H = c = NONE
    for X in frames.window.unbind(1):
        F = network.embedding(X)
        for _ in range(3):
            messages = M @ F @ inner.message_map.weight.T
            x = [affine(messages, part) for part in parts_of(inner.input_product, 3)]
            F = gru(F, x, products(affine, gates), products(affine, [candidate])[0])
        x = [affine(F, part) for part in parts_of(network.input_product, 4)]
        H, c = lstm(H, c, x, products(affine, parts_of(network.hidden_product, 4)))
    torch.testing.assert_close(network(frames, graph), read(network, frames, H))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("num_layers", [1, 2])
def test_evolve_gcn_is_its_equation(direction, num_layers):
    graph, frames = small_graph(direction), random_frames()
    network = make(SERIES_NETWORKS["EvolveGCN-O"], num_layers=num_layers).eval()
    P, states = dense_convolution(graph), [network.embedding(X) for X in frames.window.unbind(1)]
    for evolving in network.weights:
        evolving.bias.data.normal_()
        # Columns of W as vectors, each product from the left as in the paper: `U_i W + B_i`.
        W, c = evolving.first.T, torch.zeros(HIDDEN, HIDDEN, **DOUBLE)
        U, B = evolving.product.weight.chunk(4, dim=0), evolving.bias.T.chunk(4, dim=0)
        for index, state in enumerate(states):
            i, f, o, g = (u @ W + b for u, b in zip(U, B, strict=True))
            c = sigmoid(f) * c + sigmoid(i) * tanh(g)
            W = sigmoid(o) * tanh(c)
            states[index] = relu(P @ state @ W)
    torch.testing.assert_close(network(frames, graph), read(network, frames, *states))


def tgcn_states(recurrence, graph, frames):
    P, gates = dense_convolution(graph), parts_of(recurrence.gate_product, 2)
    (candidate,) = parts_of(recurrence.candidate_product, 1)
    H, states = NONE, []
    for X in frames.window.unbind(1):
        convolved = [affine(P @ X, part) for part in parts_of(recurrence.convolution, 3)]
        x = [linear(part) for linear, part in zip(recurrence.input_products, convolved, strict=True)]
        H = gru(H, x, products(affine, gates), products(affine, [candidate])[0])
        states.append(H)
    return states


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_tgcn_is_its_equation(direction):
    network, graph, frames = make_case("T-GCN", direction)
    states = tgcn_states(network.recurrence, graph, frames)
    torch.testing.assert_close(network(frames, graph), read(network, frames, states[-1]))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a3tgcn_is_its_equation(direction):
    network, graph, frames = make_case("A3T-GCN", direction)
    states = tgcn_states(network.recurrence, graph, frames)
    attention = network.scores.exp() / network.scores.exp().sum()
    mean = sum(weight * state for weight, state in zip(attention, states, strict=True))
    torch.testing.assert_close(network(frames, graph), read(network, frames, mean))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_mpnn_lstm_is_its_equation(direction):
    network, graph, frames = make_case("MPNN-LSTM", direction)
    for _ in range(3):
        network.train()(frames, graph)  # batch norm has seen something
    network.eval()
    P = dense_convolution(graph)
    H, c = [NONE, NONE], [NONE, NONE]
    for X in frames.window.unbind(1):
        state, convolved = X, []
        for linear, norm in zip(network.convolutions, network.norms, strict=True):
            state = relu(P @ state @ linear.weight.T + linear.bias)
            scale = (norm.running_var + norm.eps).sqrt()
            state = (state - norm.running_mean) / scale * norm.weight + norm.bias
            convolved.append(state)
        state = torch.cat(convolved, dim=-1)
        for index in range(2):
            x = [affine(state, part) for part in parts_of(network.input_products[index], 4)]
            h = products(affine, parts_of(network.hidden_products[index], 4))
            H[index], c[index] = lstm(H[index], c[index], x, h)
            state = H[index]
    torch.testing.assert_close(network(frames, graph), read(network, frames, *H, *frames.window.unbind(1)))


def test_mpnn_lstm_normalizes_over_nodes_frames_and_windows():
    network, graph, frames = make_case("MPNN-LSTM", "both")
    network.train()(frames, graph)
    first, P = network.convolutions[0], dense_convolution(graph)
    rows = relu(P @ frames.window @ first.weight.T + first.bias).reshape(-1, HIDDEN)
    torch.testing.assert_close(network.norms[0].running_mean, 0.1 * rows.mean(dim=0))


def test_agcrn_is_its_equation():
    network, graph, frames = make_case("AGCRN", "out")
    E = network.embedding
    x, b = network.input_pool.chunk(3, dim=-1), network.bias_pool.chunk(3, dim=-1)
    convolutions = products(lambda state, pool: adaptive(state, pool, E), network.gate_pool.chunk(2, dim=-1))
    H = NONE
    for X in frames.window.unbind(1):
        inputs = [adaptive(X, pool, E) + E @ bias for pool, bias in zip(x, b, strict=True)]
        H = gru(H, inputs, convolutions, lambda state: adaptive(state, network.candidate_pool, E))
    torch.testing.assert_close(network(frames, graph), read(network, frames, H))


@pytest.mark.parametrize("num_hops", [1, 2, 4])
def test_the_chebyshev_convolution_is_that_of_pyg(num_hops):
    graph = small_graph("both")
    state = torch.randn(SIZES.num_nodes, 3, **DOUBLE)
    ours, pyg = ChebyshevConvolution(3, HIDDEN, num_hops).double(), ChebConv(3, HIDDEN, num_hops + 1).double()
    for linear, weight in zip(pyg.lins, ours.linear.weight.chunk(num_hops + 1, dim=1), strict=True):
        linear.weight.data = weight.detach()
    pyg.bias.data = ours.linear.bias.detach()
    edges, weights = graph.messages
    torch.testing.assert_close(ours(state, graph), pyg(state, edges, weights))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_means_follow_the_direction_and_walks_do_not(direction):
    graph, like = small_graph(direction), torch.zeros(1, **DOUBLE)
    torch.testing.assert_close(averaging_matrix(graph, like).to_dense(), dense_mean(received(graph)))
    for matrix, dense in zip(diffusion_matrices(graph, like), dense_walks(), strict=True):
        torch.testing.assert_close(matrix.to_dense(), dense)
    once, again = diffusion_matrices(graph, like), diffusion_matrices(graph, like)
    assert all(matrix is kept for matrix, kept in zip(once, again, strict=True))


@pytest.mark.parametrize(
    ("name", "num_parameters"),
    [
        # Readout: a state and 3 x 2 known numbers to 3 forecasts.
        ("DCRNN", 5 * 2 * 15 + 15 + 5 * 5 * 10 + 5 * 5 * 5 + 11 * 3 + 3),
        ("GConvGRU", 3 * 2 * 15 + 15 + 3 * 5 * 10 + 3 * 5 * 5 + 11 * 3 + 3),
        ("GC-LSTM", 2 * 20 + 20 + 3 * 5 * 20 + 11 * 3 + 3),
        ("DyGrAE", (2 * 5 + 5) + (5 * 5 + 5 * 15 + 15 + 5 * 15) + (5 * 20 + 20 + 5 * 20) + 11 * 3 + 3),
        ("EvolveGCN-O", (2 * 5 + 5) + 2 * (5 * 5 + 5 * 20 + 5 * 20) + (4 * 5 + 6) * 3 + 3),
        ("T-GCN", (2 * 15 + 15) + 3 * (5 * 5 + 5) + 5 * 15 + 11 * 3 + 3),
        ("A3T-GCN", (2 * 15 + 15) + 3 * (5 * 5 + 5) + 5 * 15 + 4 + 11 * 3 + 3),
        (
            "MPNN-LSTM",
            (2 * 5 + 5) + (5 * 5 + 5) + 4 * 5 + (15 * 20 + 20) + (10 * 20 + 20) + (2 * 5 + 4 * 2 + 6) * 3 + 3,
        ),
        ("AGCRN", 6 * 10 + 10 * (2 * 15 + 15 + 5 * 10 + 5 * 5) + 11 * 3 + 3),
    ],
)
def test_parameters_are_counted(name, num_parameters):
    assert sum(parameter.numel() for parameter in make(SERIES_NETWORKS[name]).parameters()) == num_parameters


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("T-GCN", dict(hidden_channels=0), "Expected hidden_channels to be at least 1, got 0"),
        ("A3T-GCN", dict(dropout=1.0), "Expected dropout to be at least 0 and below 1, got 1.0"),
        ("MPNN-LSTM", dict(sizes=SIZES._replace(window=0)), "Expected window to be at least 1, got 0"),
        ("DCRNN", dict(num_hops=0), "Expected num_hops to be at least 1, got 0"),
        ("GConvGRU", dict(num_hops=0), "Expected num_hops to be at least 1, got 0"),
        ("GC-LSTM", dict(num_hops=-1), "Expected num_hops to be at least 1, got -1"),
        ("DyGrAE", dict(num_rounds=0), "Expected num_rounds to be at least 1, got 0"),
        ("EvolveGCN-O", dict(num_layers=0), "Expected num_layers to be at least 1, got 0"),
        ("AGCRN", dict(embedding_channels=0), "Expected embedding_channels to be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(name, settings, message):
    with pytest.raises(InputError, match=message):
        make(SERIES_NETWORKS[name], **settings)
