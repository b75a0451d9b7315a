"""What benchmarks compare is the same computation, and bytes are counted as they are."""

import pytest
import torch
from benchmarks import against_pyg, operators, roofline
from benchmarks.byte_counts import (
    Sizes,
    attention_bytes,
    graph_bytes,
    memory_terms,
    product_bytes,
    step_bytes,
    sum_bytes,
)
from benchmarks.memory import TensorCount, peak_bytes, saved_bytes
from benchmarks.node_steps import (
    CHANNELS,
    FEATURES,
    LAYERS,
    SYSTEMS,
    Nodes,
    edges_of,
    make_network,
    our_step,
    plain_step,
    pyg_step,
    rows_of,
)
from benchmarks.operator_costs import AMOUNTS, BYTES, EVERY, INDEXED, Costs
from benchmarks.operator_kernels import Kernels, kind_of_kernel, short_name
from benchmarks.operator_profile import in_one_thread
from benchmarks.operator_work import DENSE, KINDS, OTHER, SPARSE, Work, count_work
from torch import nn

from tdegnn import Graph
from tdegnn.core.combination import SMALL_STATE

CPU = torch.device("cpu")
RULES = pytest.mark.parametrize("rule", SYSTEMS)


@pytest.fixture(scope="module")
def nodes():
    """A graph with nodes that receive nothing, and states that are not stacked."""
    drawn = Nodes.draw(300, 500, CPU, torch.float64)
    assert (drawn.graph.received.sum(axis=1) == 0).any()
    assert drawn.graph.num_nodes * CHANNELS > SMALL_STATE["cpu"]
    return drawn


@RULES
def test_the_transcription_learns_as_our_network_does(rule, nodes):
    ours, plain = (make(SYSTEMS[rule], nodes) for make in (our_step, plain_step))
    losses = torch.stack([torch.stack([ours(), plain()]) for _ in range(4)])
    torch.testing.assert_close(losses[:, 0], losses[:, 1], rtol=1e-10, atol=0)
    assert losses[0, 0] != losses[1, 0]


# PyG and torch say that sparse matrices are in beta, and are not checked.
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta state", "ignore:Sparse invariant checks")
def test_pyg_computes_the_same_from_edges_and_from_a_matrix(nodes):
    by_edges, by_rows = (pyg_step(nodes, graph) for graph in (edges_of(nodes), rows_of(nodes)))
    for _ in range(3):
        torch.testing.assert_close(by_edges(), by_rows(), rtol=1e-10, atol=0)


def test_bytes_of_a_product_are_those_of_its_tensors():
    graph = Graph([[0, 1], [1, 2]], num_nodes=100)  # four messages, on a graph that is too large for a dense matrix
    state = torch.zeros(100, 3)
    matrix = graph._matrix("_normalized", state)
    index_bytes = matrix.columns.itemsize
    assert matrix.columns.numel() == 4
    indices = (101 + 4) * index_bytes
    assert product_bytes(matrix, channels=3) == indices + 4 * 4 + 4 * 3 * 4 + 100 * 3 * 4
    # Both halves of a symmetric matrix are the same tensors. The order of the transposed entries comes on top.
    assert graph_bytes(matrix) == indices + 4 * 4 + 4 * matrix.transposed_order.itemsize


def test_bytes_over_the_history_are_whole_states():
    sizes = Sizes(num_nodes=10, channels=3, num_layers=2, order=4)
    assert sizes.state == 120
    assert sum_bytes(sizes) == (5 * 120, 9 * 120)
    assert attention_bytes(sizes) == (9 * 120, 14 * 120)


def test_a_step_moves_the_bytes_of_its_layers(nodes):
    matrix = roofline.matrix_of(nodes)
    sizes = Sizes(nodes.graph.num_nodes, CHANNELS, num_layers=3, order=1, itemsize=8)
    layer = 2 * product_bytes(matrix, CHANNELS) + (2 + 3) * sizes.state + (2 + 3) * sizes.state
    assert step_bytes(matrix, sizes) == 3 * layer


@RULES
def test_terms_of_memory_are_what_autograd_saves_and_what_a_step_takes(rule, nodes):
    network, matrix = make_network(SYSTEMS[rule]).double().eval(), roofline.matrix_of(nodes)
    is_attending = rule == "attention"
    sizes = Sizes(nodes.graph.num_nodes, CHANNELS, LAYERS, network.coefficients.order, is_attending, itemsize=8)
    num_weights = sum(parameter.numel() for parameter in network.parameters())
    terms = memory_terms(matrix, sizes, FEATURES, num_weights)
    of_graph = [tensor for tensor in vars(matrix).values() if isinstance(tensor, torch.Tensor)]
    kept = [*network.parameters(), *network.buffers(), nodes.features, *of_graph]
    saved = saved_bytes(lambda: network(nodes.features, nodes.graph), kept)
    # Beside states, only numbers of the size of the weights are saved.
    assert 0 <= saved - terms["states"] - terms["saved for backward"] < 8 * num_weights
    step = our_step(SYSTEMS[rule], nodes)
    step()
    in_step = sum(terms[name] for name in ("states", "saved for backward", "gradients in flight"))
    peak = peak_bytes(step, CPU)
    assert terms["states"] + terms["saved for backward"] < peak < in_step + 4 * 8 * num_weights


def test_tensors_are_counted_while_they_live():
    with TensorCount() as count:
        first = torch.zeros(100)
        del first
        second = torch.zeros(50).view(5, 10).add_(1)
        assert count.now == 200
        del second
    assert (count.now, count.peak) == (0, 400)


def test_a_tensor_that_is_saved_twice_counts_once():
    state, weight = torch.zeros(8, 4), nn.Parameter(torch.zeros(4, 4))
    assert saved_bytes(lambda: state @ weight + state @ weight, [weight]) == 8 * 4 * 4


@pytest.mark.slow
def test_both_benchmarks_run_on_a_tiny_graph(monkeypatch, capsys):
    monkeypatch.setattr(against_pyg, "CORA", (300, 500))
    monkeypatch.setattr(against_pyg, "MILLION", (400, 900))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name, settings in {"EDGES": (2000, 3000), "COPIED": 2**12, "REPETITIONS": 1, "STEP_EDGES": 3000}.items():
        monkeypatch.setitem(getattr(roofline, name), "cpu", settings)
    compared = {name: numbers for name, *numbers in against_pyg.measure()}
    assert "left out" in capsys.readouterr().out
    assert sum("difference of losses" in name for name in compared) == 2
    assert all(value >= 0 for value, *_ in compared.values())
    # Ratios to PyG have a goal on the larger graph only.
    with_goal = {name for name, (_, _, *goal) in compared.items() if goal}
    large = next(iter(reversed(compared))).split(":")[0]
    to_pyg = {name for name in compared if name.startswith(large) and "ours / PyG, " in name}
    assert with_goal == to_pyg | {name for name in compared if "difference of losses" in name}
    measured = {name: numbers for name, *numbers in roofline.measure()}
    assert all(value > 0 and not goal for value, _, *goal in measured.values())
    assert sum("sum of terms / measured peak" in name for name in measured) == len(SYSTEMS)


def test_the_work_of_a_step_is_counted_by_kind():
    left, right = torch.zeros(3, 5), torch.zeros(5, 7)
    matrix = torch.eye(3).to_sparse_csr()

    def run():
        torch.relu(left @ right).view(7, 3)  # a view is no work
        torch.addmm(left.new_zeros(1), matrix, left, beta=0.0)

    work = count_work(run)
    assert work[DENSE] == Work(1, 4 * (15 + 35 + 21), 2 * 21 * 5)
    # Three entries: their values, their columns and four starts of rows.
    assert work[SPARSE] == Work(1, 3 * 4 + (3 + 4) * 8 + 4 * (1 + 15 + 15))
    assert work[OTHER].operations == 2  # relu, and the zero
    assert work[OTHER].num_bytes == 4 * (21 + 21 + 1)


def test_what_is_read_by_index_is_counted_apart():
    pattern, left = torch.eye(3).to_sparse_csr(), torch.ones(3, 2)

    def run():
        torch.sparse.sampled_addmm(pattern, left, left.mT, beta=0.0)
        left[torch.tensor([0, 2])].relu()

    work = count_work(run)
    assert (work[INDEXED].operations, work[OTHER].operations) == (2, 1)
    assert set(work) == {*KINDS}


def test_a_step_is_counted_as_many_times_however_often_it_was_made():
    step = operators.Step("diffusion", CPU, num_layers=1)
    step.run()
    assert count_work(step.run) == count_work(step.run)
    assert count_work(step.run)[SPARSE].operations == 2  # forward and backward


def test_shares_of_time_are_those_of_the_operations():
    left, right, matrix = torch.rand(300, 300), torch.rand(300, 300), torch.eye(300).to_sparse_csr()

    def run():
        (left @ right).view(-1)[:10].exp()  # views take no time
        torch.addmm(left, matrix, left, beta=0.0)

    num_threads = torch.get_num_threads()
    by_kind, by_name = in_one_thread(run)
    assert torch.get_num_threads() == num_threads
    assert set(by_name) == {"mm (dense)", "addmm (graph)", "exp"}
    assert list(by_name.values()) == sorted(by_name.values(), reverse=True)
    assert by_kind == {DENSE: by_name["mm (dense)"], SPARSE: by_name["addmm (graph)"], OTHER: by_name["exp"]}
    assert sum(by_kind.values()) == pytest.approx(1)
    assert by_kind[DENSE] > 5 * by_kind[OTHER]


def test_operators_beyond_the_goal_are_profiled():
    assert {"cde", "flode", "acm+"} <= {*operators.slow_operators()} <= {*operators.OPERATORS.names}
    assert not {"diffusion", "graff", "acm", "past-diffusion"} & {*operators.slow_operators()}


def test_costs_are_found_from_times_that_they_make():
    drawn = torch.Generator().manual_seed(0)
    works = [
        {kind: Work(*torch.randint(1, 10**6, (3,), generator=drawn).tolist()) for kind in KINDS} for _ in range(20)
    ]
    costs = Costs({EVERY: 3.0, BYTES: 0.5, **dict.fromkeys(list(AMOUNTS)[2:], 0.0), INDEXED: 40.0})
    times = [sum(costs.parts(work).values()) for work in works]
    assert Costs.fit(times, works).each == pytest.approx(costs.each, abs=1e-6)


# As torch's profiler names them.
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
KERNELS = {
    "void cusparse::csrmm_alg2_kernel<float, float>(int)": (SPARSE, "csrmm_alg2_kernel"),
    "_multiply_row": (SPARSE, "_multiply_row"),
    "void cusparse::sddmm_kernel<float>(int)": (INDEXED, "sddmm_kernel"),
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": (DENSE, "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n"),
    ELEMENTWISE: (OTHER, "CUDAFunctor_add"),
    "Memcpy DtoD (Device -> Device)": (OTHER, "Memcpy"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_have_a_kind_and_a_short_name(name):
    assert (kind_of_kernel(name), short_name(name)) == KERNELS[name]


def test_kernels_of_repeated_steps_are_added_up_per_step():
    kernels = Kernels.of([(name, 4.0) for name in KERNELS] * 2, repetitions=2)
    assert kernels.counts == {SPARSE: 2, INDEXED: 1, DENSE: 1, OTHER: 2}
    assert kernels.microseconds == {SPARSE: 8, INDEXED: 4, DENSE: 4, OTHER: 8}
    assert (kernels.total, kernels.by_name["CUDAFunctor_add"]) == (24, 4)


def test_kernels_are_left_out_without_a_cuda_device(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert list(operators.measure_kernels()) == []
    assert "left out" in capsys.readouterr().out


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_kernels_of_a_step_are_found():
    found = {name: value for name, value, *_ in operators.measure_kernels()}
    assert found[f"kernels of {SPARSE}, {operators.DIFFUSION}"] > 0
    assert 0 < found[f"time of {DENSE}, {operators.DIFFUSION}"] < found[f"first layer, {operators.DIFFUSION}"]
