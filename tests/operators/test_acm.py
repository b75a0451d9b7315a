import pytest
import torch

from tdegnn import Graph, InputError
from tdegnn.operators.registry import OPERATORS
from tests.core.checkers import CHANNELS, NUM_NODES, check_equation, random_history
from tests.dense_matrices import scaled, with_loops

NAMES = ["acm", "acmii", "acm+", "acmii+"]
SIZES = dict(channels=CHANNELS, num_layers=2, num_nodes=NUM_NODES)


def acm(operator, received, first, state, layer):
    backbone, identity = operator.backbone, torch.eye(NUM_NODES, dtype=state.dtype)
    low = scaled(with_loops(received), -1.0, 0.0)
    maps = backbone.weight[layer].split(CHANNELS, dim=1)
    filters = zip((low, identity - low, identity), maps, strict=True)
    if "ii" in type(backbone).__name__:
        parts = [matrix @ torch.relu(state @ own) for matrix, own in filters]
    else:
        parts = [torch.relu(matrix @ state @ own) for matrix, own in filters]
    has_structure = "Plus" in type(backbone).__name__
    if has_structure:
        parts.append(torch.relu(received @ backbone.structure_weight[layer]))
    gates = [torch.sigmoid(part @ vector) for part, vector in zip(parts, backbone.part_vectors[layer], strict=True)]
    weights = torch.softmax(torch.stack(gates, dim=1) @ backbone.part_mixing[layer] / len(parts), dim=1)
    mixed = sum(weights[:, number, None] * part for number, part in enumerate(parts))
    return (1 if has_structure else 3) * mixed - state


DENSE = dict.fromkeys(NAMES, acm)


@pytest.mark.parametrize("name", NAMES)
def test_acm_is_its_equation(name):
    check_equation(lambda: OPERATORS.make(name, **SIZES), acm)


@pytest.mark.parametrize("name", NAMES)
def test_only_the_variants_with_structure_ask_for_the_number_of_nodes(name):
    assert OPERATORS.takes(name, "num_nodes") == name.endswith("+")


@pytest.mark.parametrize("name", NAMES)
def test_weights_start_in_the_released_ranges(name):
    backbone = OPERATORS.make(name, **SIZES | {"channels": 64}).backbone
    backbone.reset_parameters()
    bounds = {"weight": 1 / 8, "structure_weight": 1 / 8, "part_vectors": 1.0}
    bounds["part_mixing"] = backbone.num_parts**-0.5
    for parameter_name, parameter in backbone.named_parameters():
        bound = bounds[parameter_name]
        assert 0.5 * bound < parameter.abs().max() <= bound


def test_another_graph_is_refused():
    operator, graph = OPERATORS.make("acm+", **SIZES).double(), Graph([[0, 1], [1, 2]])
    with pytest.raises(InputError, match="Expected a graph of 7 nodes, .* got 3"):
        operator(random_history(1)[0][:3], graph, 0)
    rate, _ = OPERATORS.make("acm", **SIZES).double()(random_history(1)[0][:3], graph, 0)
    assert rate.shape == (3, CHANNELS)
