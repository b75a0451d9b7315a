"""Wrong input to public functions, as a user sees it: `python -m tests.wrong_input` prints what is not refused well.

Run in a process of its own, where no shape checks of the test run come before the library's own.
"""

import sys

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GCNConv

import tdegnn
from tdegnn import (
    AttentionCoefficients,
    ConvOperator,
    DiffusionOperator,
    DirectCoefficients,
    FixedCoefficients,
    Graph,
    HiddenDiffusionOperator,
    InputError,
    PhysicalNetwork,
    StableAttention,
    StableCoefficients,
    StationaryNetwork,
    explain,
    integrate,
    roll_out,
    simulate_heat,
    simulate_pendulum,
    simulate_wave,
)
from tdegnn.analysis.order import explained_share
from tdegnn.analysis.plots import plot_coefficients_by_layer
from tdegnn.analysis.stencil import boundary, real_limit, sine_consistency, stability_region
from tdegnn.core.integrator import SpatialOperator
from tdegnn.data.simulators.physics import random_graph
from tdegnn.experiments.known_orders import run_known_order
from tdegnn.experiments.nested_orders import fit_nested_orders

PAIR = Graph([[0], [1]])
STATE = torch.zeros(2, 4)
EULER, FOUR = FixedCoefficients([1.0]), DiffusionOperator(4, 2, 0.1)


class Broadcasting(SpatialOperator):
    def forward(self, state, graph, layer, context=None):
        return state[None], context


def run(history=(STATE,), graph=PAIR, coefficients=EULER, operator=FOUR, num_layers=1, step_size=0.1, **more):
    return integrate(history, graph, coefficients, operator, num_layers=num_layers, step_size=step_size, **more)


# What is called, and what the message must say.
TABLE = [
    (lambda: Graph([[0], [1]], direction="up"), "direction to be 'out', 'in' or 'both', got 'up'"),
    (lambda: Graph([[0], [1]], 0), "num_nodes to be at least 1, got 0"),
    (lambda: Graph([[0], [1]], 2.7), "num_nodes to be a whole number, got 2.7"),
    (lambda: Graph([[-1], [-1]]), "from 0 on, got -1"),
    (lambda: Graph(np.empty((2, 0), int)), "at least one node"),
    (lambda: Graph([[0], [1]], edge_weight=torch.tensor([float("nan")], dtype=torch.bfloat16)), "got nan at edge 0"),
    (lambda: Graph.from_scipy(None), "adjacency matrix, got NoneType"),
    (lambda: Graph.from_scipy("abc"), "adjacency matrix"),
    (lambda: Graph.from_pyg(None), "got NoneType without one"),
    (lambda: Graph.from_pyg(HeteroData()), "got HeteroData without one"),
    (lambda: PAIR.propagate(torch.zeros(2, 4, dtype=torch.float16)), "float32 or float64, got torch.float16"),
    (lambda: PAIR.laplacian(torch.zeros(3, 4)), "2 nodes, channels), got (3, 4)"),
    (lambda: FixedCoefficients(["a"]), "a vector of numbers"),
    (lambda: FixedCoefficients(None), "a vector"),
    (lambda: FixedCoefficients([2.0, -0.5]), "sum to 1"),
    (lambda: StableCoefficients(2, multiplicity=3), "multiplicity to be at most the order 2, got 3"),
    (lambda: StableCoefficients(2, multiplicity=1.5), "multiplicity to be a whole number, got 1.5"),
    (lambda: StableCoefficients(2, margin=0.0), "margin to be above 0 and below 1, got 0.0"),
    (lambda: StableCoefficients(2, margin="a"), "margin to be a number, got 'a'"),
    (lambda: StableCoefficients.from_coefficients(["a"]), "a vector of numbers"),
    (lambda: StableCoefficients.from_coefficients([0.0, 1.0]), "below 1 - margin = 0.999, got one of 1"),
    (lambda: StableCoefficients.from_coefficients([1.5, -0.5], multiplicity=2), "1 as a 2-fold root, got [1.5, -0.5]"),
    (lambda: StableAttention(3, 8, margin=1.0), "margin to be above 0 and below 1, got 1.0"),
    (lambda: StableAttention(1, 8)((STATE,), 0), "states of 8 channels, for which this part was made, got 4"),
    (
        lambda: run(operator=GCNConv(4, 4)),
        "operator to be a SpatialOperator, got GCNConv. Derive it from",
    ),
    (lambda: run(operator=DiffusionOperator), "operator to be a SpatialOperator, got the class DiffusionOperator"),
    (lambda: run(step_size=torch.ones(3, 1, 1)), "step_size to be one number, got a tensor of shape (3, 1, 1)"),
    (lambda: StationaryNetwork(4, 2, 4, 1, [1.0], FOUR), "a TemporalCoefficients, got list. For a given vector: Fixed"),
    (
        lambda: StationaryNetwork(4, 2, 4, 2, EULER, FOUR)(np.zeros((2, 4)), PAIR),
        "SparseMatrix, got ndarray. Use",
    ),
    (lambda: stability_region([1.0], 0.5, [0.0]), "real to be a vector of finite numbers, got shape ()"),
    (lambda: stability_region([1.0], [0.0], None), "imaginary to be a vector"),
    (lambda: boundary([1.0], num_points=1), "num_points to be at least 2, got 1"),
    (lambda: real_limit([2.0, -0.5]), "sum to 1"),
    (lambda: DirectCoefficients(2.5), "order to be a whole number, got 2.5"),
    (lambda: DirectCoefficients(0), "order to be at least 1, got 0"),
    (lambda: AttentionCoefficients(3, "8"), "channels to be a whole number, got '8'"),
    (lambda: AttentionCoefficients(1, 8)((STATE,), 0), "states of 8 channels, for which this part was made, got 4"),
    (lambda: DiffusionOperator(8.5, 1, 0.1), "channels to be a whole number, got 8.5"),
    (lambda: DiffusionOperator(4, 1, float("nan")), "step_size to be finite, got nan"),
    (lambda: FOUR(torch.zeros(2, 3), PAIR, 0), "states of 4 channels, for which this part was made, got 3"),
    (lambda: FOUR(STATE.double(), PAIR, 0), "torch.float32 on cpu, as the parameters are, got torch.float64"),
    (lambda: HiddenDiffusionOperator(4, 8)(STATE.double(), PAIR, 0), "as the parameters are, got torch.float64"),
    (lambda: FOUR(STATE, PAIR, -1), "a layer from 0 to 1, for which this part was made, got layer -1"),
    (lambda: ConvOperator(5), "a PyG convolution or a sequence of them, got 5"),
    (lambda: ConvOperator(GCNConv), "a PyG convolution or a sequence of them"),
    (lambda: ConvOperator([GCNConv]), "Make an instance of it first"),
    (lambda: ConvOperator(nn.Linear(4, 4)), "forward takes (x, edge_index)"),
    (lambda: run(history=[[1.0]]), "a sequence of tensors, newest first, got list"),
    (lambda: run(history=np.zeros((1, 2, 4))), "got ndarray. Use torch.as_tensor"),
    (lambda: run(history=None), "got NoneType"),
    (lambda: run(history=torch.zeros(())), "got Tensor"),
    (lambda: run(history=[STATE.long()]), "float32 or float64, got torch.int64"),
    (lambda: run(coefficients=DirectCoefficients(2)), "at least 2 states (the order of the coefficients), got 1"),
    (lambda: run(coefficients=[2.0, -1.0]), "coefficients to be a TemporalCoefficients, got list"),
    (lambda: run(graph=Data(num_nodes=2)), "graph to be a Graph, got Data"),
    (lambda: run(num_layers=1.5), "num_layers to be a whole number, got 1.5"),
    (lambda: run(segment_length=1.5), "segment_length to be a whole number, got 1.5"),
    (lambda: run(segment_length="all"), "segment_length to be a whole number of at least 1 or \"auto\", got 'all'"),
    (lambda: run(step_size="a"), "step_size to be a number, got 'a'"),
    (lambda: run(step_size=float("inf")), "step_size to be finite, got inf"),
    (lambda: run(operator=Broadcasting()), "the operator to return shape (2, 4), as the state, got (1, 2, 4)"),
    (lambda: run(state_map=lambda state: state[:1]), "state_map to return shape (2, 4), as the state, got (1, 4)"),
    (lambda: PhysicalNetwork.of_order(2, 1, 8, 0.1)(simulate_pendulum(5).states[0, :2], PAIR), "Convert one of them"),
    (lambda: roll_out(PhysicalNetwork.of_order(1, 4, 8, 0.1), (STATE,), PAIR, 0), "num_steps to be at least 1, got 0"),
    (lambda: explain(None), "coefficients"),
    (lambda: explain(["a", "b"]), "a vector of numbers"),
    (lambda: explain([1.0] + [0.0] * 1100), "at most 64 coefficients, got 1101"),
    (lambda: explain([2, -1], tolerance=2), "at least 0 and below 1, got 2"),
    (lambda: sine_consistency([2, -1], num_points=0), "num_points to be at least 3, got 0"),
    (lambda: explained_share([], []), "finite errors and differences, got 0 values"),
    (lambda: explained_share([np.nan, 1], [1, 2]), "not all of them finite"),
    (lambda: plot_coefficients_by_layer(np.zeros((0, 3))), "(layers, order), got (0, 3)"),
    (lambda: simulate_pendulum(features="height"), "'angle' or 'coordinates', got 'height'"),
    (lambda: simulate_pendulum(num_steps=10.0), "num_steps to be a whole number, got 10.0"),
    (lambda: simulate_pendulum(initial_angle=np.nan), "initial_angle to be finite, got nan"),
    (lambda: simulate_wave(damping=np.nan), "damping to be finite, got nan"),
    (lambda: simulate_heat(seed=-1), "seed to be at least 0, got -1"),
    (lambda: random_graph(3), "num_nodes to be at least 5, got 3"),
    (lambda: run_known_order("pendulum"), "system to be one of heat, wave, damped wave, third order, got 'pendulum'"),
    (lambda: fit_nested_orders(torch.zeros(5, 2, 1), PAIR, 0.1), "(trajectories, time, nodes, channels)"),
]


def main():
    wrong = 0
    for call, message in TABLE:
        line = call.__code__.co_firstlineno
        try:
            call()
        except InputError as error:
            if message in str(error) and "\n" not in str(error):
                continue
            print(f"line {line}: expected {message!r}, got {error}")
        except Exception as error:
            print(f"line {line}: expected an InputError, got {type(error).__name__}: {error}")
        else:
            print(f"line {line}: not refused; expected {message!r}")
        wrong += 1
    print(f"tdegnn {tdegnn.__version__}: {len(TABLE) - wrong} of {len(TABLE)} wrong inputs refused well")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
