"""A network in blocks returns what it returns on the whole graph, for every operator, rule, norm and readout."""

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import numpy as np
import pytest
import torch

from tdegnn import InputError, Part
from tdegnn.core.rules import COEFFICIENTS
from tdegnn.nets import in_blocks
from tdegnn.nets.in_blocks import BlockShare, Surroundings, cut_into_blocks, run_in_blocks
from tdegnn.nets.readouts import READOUTS
from tdegnn.nodes.settings import NodeConfig
from tdegnn.operators.registry import OPERATORS
from tests.forked import Forked
from tests.pages import ROOT
from tests.test_subgraph import LOCAL, NODES, make_graph, make_operator

FEATURES = np.random.default_rng(3).random((NODES, 5))


def check(**settings):
    graph = make_graph("both", is_weighted=False)
    config = NodeConfig(hidden_channels=8, num_layers=3, order=3, step_size=0.5, **settings)
    network = config.build_network(5, 2, 0, NODES).double().eval()
    features = torch.as_tensor(FEATURES)
    blocks = cut_into_blocks(graph, 100)
    assert len(blocks) > 3
    found = run_in_blocks(network, lambda nodes: features[nodes], graph, blocks)
    with torch.no_grad():
        torch.testing.assert_close(found.outputs, network(features, graph), rtol=1e-9, atol=1e-9)
        whole = network.integrate(features, graph)
    torch.testing.assert_close(found.integration.coefficients, whole.coefficients, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("operator", LOCAL)
def test_every_local_operator(operator):
    check(operator=operator)


@pytest.mark.parametrize("rule", COEFFICIENTS.names)
def test_every_rule(rule):
    check(coefficients=rule)


@pytest.mark.parametrize("readout", READOUTS.names)
def test_every_readout(readout):
    check(readout=readout, state_norm="layer-norm", input_map="perceptron")


@pytest.mark.parametrize("kept_size", [0, 300])
def test_surroundings_that_are_not_kept_are_made_again(kept_size, monkeypatch):
    monkeypatch.setattr(in_blocks, "KEPT_SIZE", kept_size)
    check(operator="diffusion")


def test_surroundings_of_the_first_blocks_are_kept_up_to_a_size(monkeypatch):
    graph = make_graph("both", is_weighted=False)
    blocks = cut_into_blocks(graph, 100)
    surroundings = Surroundings(graph)
    sizes = [len(nodes) + around.num_edges for nodes, around in (surroundings.of(block, 1) for block in blocks)]
    monkeypatch.setattr(in_blocks, "KEPT_SIZE", sizes[0] + sizes[1])
    surroundings = Surroundings(graph)
    first = [surroundings.of(block, 1)[1] for block in blocks]
    second = [surroundings.of(block, 1)[1] for block in blocks]
    kept = [before is after for before, after in zip(first, second, strict=True)]
    assert kept == [True, True, *[False] * (len(blocks) - 2)]
    assert surroundings.of(blocks[0], 2)[1] is not first[0]


MEMORY_OF_A_RUN = """
import numpy as np
import torch
from benchmarks.memory import peak_bytes
from tdegnn import Graph
from tdegnn.nets.in_blocks import Surroundings, cut_into_blocks, run_in_blocks
from tdegnn.nodes.settings import NodeConfig

num_nodes, channels = 4000, 32
graph = Graph(np.stack([np.arange(num_nodes - 1), np.arange(1, num_nodes)]), num_nodes)
features, blocks, surroundings = torch.ones(num_nodes, 5), cut_into_blocks(graph, 600), Surroundings(graph)
for order in (1, 2, 4):
    config = NodeConfig(hidden_channels=channels, num_layers=4, order=order, step_size=0.5)
    network = config.build_network(5, 2, 0, num_nodes).eval()
    run = lambda: run_in_blocks(network, lambda nodes: features[nodes], graph, blocks, surroundings=surroundings)
    run()  # what is kept of the graph is made once
    print(peak_bytes(run, torch.device("cpu")) / (4 * num_nodes * channels))
"""


@pytest.mark.slow
def test_memory_is_that_of_the_history_and_of_one_state_more():
    # In a process of its own: checks of types, which tests have switched on, hold the arguments of functions.
    process = Forked(MEMORY_OF_A_RUN)
    printed, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint
    # The oldest state is free before the rate needs room. Of order 1 there are the state, the sum and the rate. Outputs
    # and what a block needs are less than half a state.
    states = [float(line) for line in printed.splitlines()]
    assert [int(count) for count in states] == [3, 3, 5]
    words = " ".join((ROOT / "docs" / "large_graphs.md").read_text().split())
    assert "`order + 1` times nodes, channels and four bytes, and three times at order 1" in words
    assert all(count % 1 < 0.5 for count in states)


class Sharers:
    """Threads that add up their rows, as processes do."""

    def __init__(self, total):
        self._rows, self._barrier = {}, Barrier(total, timeout=60)

    def join(self, number, rows):
        self._rows[number] = rows.clone()
        self._barrier.wait()
        rows.copy_(sum(self._rows[other] for other in sorted(self._rows)))
        self._barrier.wait()


@pytest.mark.parametrize("operator", ["near-identity", "gread-bs", "gcnii", "sheaf-diagonal"])
@pytest.mark.parametrize("total", [1, 2, 3])
def test_processes_that_share_the_blocks_get_the_outputs_of_all_nodes(operator, total):
    graph = make_graph("both", is_weighted=False)
    config = NodeConfig(hidden_channels=8, num_layers=3, order=3, operator=operator, coefficients="attention")
    network = config.build_network(5, 2, 0, NODES).double().eval()
    features = torch.as_tensor(FEATURES)
    shares = [cut_into_blocks(graph, 100, BlockShare(number, total)) for number in range(total)]
    shares.append([])  # and one that has no block to compute
    sharers = Sharers(len(shares))

    def run(number):
        join = partial(sharers.join, number)
        return run_in_blocks(network, lambda nodes: features[nodes], graph, shares[number], join).outputs

    with ThreadPoolExecutor(len(shares)) as pool:
        found = list(pool.map(run, range(len(shares))))
    with torch.no_grad():
        expected = network(features, graph)
    for outputs in found:
        torch.testing.assert_close(outputs, expected, rtol=1e-9, atol=1e-9)


def test_blocks_are_all_nodes_once():
    graph = make_graph("in")
    for size in (1, 30, 10**6):
        blocks = cut_into_blocks(graph, size)
        assert np.array_equal(np.concatenate(blocks), np.arange(NODES))
    assert len(blocks) == 1


@pytest.mark.parametrize(
    "operator",
    ["flode", "learned-adjacency", "grand++", "together", Part("graff", standardized=True),
     Part("grand", mixing={"name": "attention", "settings": {"normalization": "squareplus"}})],
)  # fmt: skip
def test_operators_that_look_at_all_nodes_are_refused(operator):
    with pytest.raises(InputError, match="which looks at all nodes at once. Train without batches"):
        check(operator=operator)


def test_the_page_on_large_graphs_names_the_operators_that_are_refused():
    words = " ".join((ROOT / "docs" / "large_graphs.md").read_text().split())
    (named,) = re.findall(r"look at all nodes at once are refused, such as ([^.]*?), `graff` with ", words)
    # A new operator needs no change of the page.
    refused = {f"`{name}`" for name in OPERATORS.names if make_operator(name).reach is None}
    assert {"`flode`", "`grand++`", "`learned-adjacency`", "`together`"} == {*named.split(", ")} <= refused
