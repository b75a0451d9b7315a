"""Messages may have fewer digits than states. Everything else keeps all of them."""

import numpy as np
import pytest
import scipy.sparse
import torch

from tdegnn import DirectCoefficients, Forecaster, Graph, NodeClassifier, Panel, integrate
from tdegnn.adjacency import pattern_of
from tdegnn.edge_values import weighted_product
from tdegnn.messages import messages_in
from tdegnn.operators.diffusion import DiffusionOperator
from tdegnn.operators.registry import OPERATORS
from tdegnn.sparse import SparseMatrix, plain_products
from tdegnn.training.devices import choose_placement, place
from tdegnn.training.loop import fit
from tdegnn.training.node_training import NodeTraining
from tests.node_datasets import make_dataset
from tests.training.test_members import FAST, make_network

SHORT = torch.bfloat16
QUICK = dict(num_layers=2, order=2, hidden_channels=8, num_steps=12, network=None, baselines=False, device="cpu")


def rounded(values):
    return values.to(SHORT).to(values.dtype)


def make_matrix(dtype=torch.float32):
    entries = scipy.sparse.random_array((70, 80), density=0.1, rng=np.random.default_rng(0))
    return SparseMatrix.from_scipy(entries).to(torch.device("cpu"), dtype)


def make_graph(num_nodes=80):
    # With more than 64 nodes: the matrix of a smaller graph is dense.
    return Graph(np.random.default_rng(1).integers(0, num_nodes, (2, 5 * num_nodes)), num_nodes, direction="out")


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_product_rounds_what_it_gathers_and_nothing_else(batch):
    matrix, state = make_matrix(), torch.randn(*batch, 80, 5, requires_grad=True)
    with messages_in(SHORT):
        product = matrix @ state
    assert product.dtype == torch.float32
    torch.testing.assert_close(product, matrix @ rounded(state.detach()))
    assert not torch.equal(product, rounded(product))  # sums keep their digits
    gradient = torch.randn_like(product)
    (to_state,) = torch.autograd.grad(product, state, gradient)  # outside of the block, as a backward pass is
    torch.testing.assert_close(to_state, matrix.transposed @ rounded(gradient))


def test_outside_of_the_block_nothing_is_rounded():
    matrix, state = make_matrix(), torch.randn(80, 5)
    with messages_in(SHORT), messages_in(None):
        assert torch.equal(matrix @ state, make_matrix() @ state)


def test_attention_weighs_rounded_messages():
    graph, state = make_graph(), torch.randn(80, 5, requires_grad=True)
    pattern = pattern_of(graph, state)
    weights = torch.rand(pattern.columns.numel(), requires_grad=True)
    with messages_in(SHORT):
        received = weighted_product(pattern, weights, state)
    torch.testing.assert_close(received, weighted_product(pattern, weights, rounded(state)))
    gradient = torch.randn_like(received)
    (to_state,) = torch.autograd.grad(received, state, gradient)
    expected = pattern.with_values(weights.detach()).transposed @ rounded(gradient)
    torch.testing.assert_close(to_state, expected)


def test_an_exported_product_rounds_alike():
    matrix, state = make_matrix(), torch.randn(80, 5)
    with messages_in(SHORT):
        product = matrix @ state
        with plain_products():
            torch.testing.assert_close(matrix @ state, product)


@pytest.mark.parametrize("segment_length", [None, 2])
def test_states_and_c_keep_all_digits(segment_length):
    """One layer is that of the equation with rounded messages; more of them run through segments as without."""
    graph, state = make_graph(), torch.randn(80, 6)
    operator = place(DiffusionOperator(6, 4, step_size=0.5), choose_placement("cpu", "bf16-mixed"))
    assert operator.message_type == SHORT
    rate, _ = operator(state, graph, 0)  # called by itself, an operator rounds nothing
    one = integrate(state[None], graph, DirectCoefficients(1, 1), operator, num_layers=1, step_size=0.5)
    relaxed = torch.relu((0.5 * state + 0.5 * (graph._matrix("_relaxed", state) @ rounded(state))) @ operator.weight[0])
    torch.testing.assert_close(one.state, state + 0.5 * relaxed)
    assert not torch.equal(one.state, state + 0.5 * rate)

    history = torch.randn(2, 80, 6, requires_grad=True)
    rule = DirectCoefficients(2, 4)
    run = integrate(history, graph, rule, operator, num_layers=4, step_size=0.5, segment_length=segment_length)
    assert run.state.dtype == run.coefficients.dtype == torch.float32
    torch.testing.assert_close(run.coefficients.sum(dim=1), torch.ones(4))
    whole = integrate(history, graph, rule, operator, num_layers=4, step_size=0.5)
    weights = (history, operator.weight, *rule.parameters())
    for ours, expected in zip(
        torch.autograd.grad(run.state.square().sum(), weights),
        torch.autograd.grad(whole.state.square().sum(), weights),
        strict=True,
    ):
        assert torch.equal(ours, expected)


@pytest.mark.parametrize("operator", ["diffusion", "walks", "grand-nonlinear", "gread-bs", "sheaf-bundle", "cde"])
def test_every_kind_of_product_takes_short_messages(operator):
    graph, state = make_graph(), torch.randn(80, 6, requires_grad=True)
    torch.manual_seed(0)
    term = OPERATORS.make(operator, channels=6, num_layers=1, step_size=0.5)
    outputs = {}
    for precision in ("32-true", "bf16-mixed"):
        place(term, choose_placement("cpu", precision))
        end = integrate(state[None], graph, DirectCoefficients(1, 1), term, num_layers=1, step_size=0.5).state
        (gradient,) = torch.autograd.grad(end.square().sum(), state)
        outputs[precision] = torch.stack([end.detach(), gradient])
    gap = (outputs["32-true"] - outputs["bf16-mixed"]).norm() / outputs["32-true"].norm()
    assert 1e-5 < gap < 1e-2


def test_a_classifier_answers_the_same_when_loaded(tmp_path):
    data = make_dataset(num_nodes=80)
    model = NodeClassifier(precision="bf16-mixed", **QUICK).fit(data, run=tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    assert loaded.precision == "bf16-mixed"
    answers = loaded.predict_proba(data)
    assert np.array_equal(answers, model.predict_proba(data))
    exact = NodeClassifier(precision="32-true", **QUICK).fit(data)
    assert not np.array_equal(exact.predict_proba(), model.predict_proba())
    np.testing.assert_allclose(exact.predict_proba(), model.predict_proba(), atol=0.05)


def test_members_get_what_they_get_alone():
    data, placement = make_dataset(num_nodes=80), choose_placement("cpu", "bf16-mixed")
    steps = {}
    for seeds in ((0, 1), (0,), (1,)):
        networks = [make_network("direct", seed) for seed in seeds]
        training = NodeTraining(networks, [FAST] * len(seeds), data, seeds, placement)
        fit(training, num_steps=4)
        steps[seeds] = training.members.weights
    torch.testing.assert_close(steps[0, 1], torch.cat([steps[0,], steps[1,]]), rtol=1e-3, atol=1e-4)


def test_a_forecaster_answers_the_same_when_loaded(tmp_path):
    values = np.random.default_rng(0).normal(size=(80, 80)).cumsum(axis=0)
    panel = Panel.from_array(values, graph=make_graph())
    settings = dict(horizon=2, window=4, order=2, num_layers=2, hidden_channels=8, num_members=2, num_steps=8)
    model = Forecaster(precision="bf16-mixed", device="cpu", **settings).fit(panel, run=tmp_path / "run")
    assert np.array_equal(Forecaster.load(tmp_path / "run").predict().values, model.predict().values)
