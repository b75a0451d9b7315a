"""Parts by name, as classes and as objects: what is kept of them, and what they are made again from."""

import numpy as np
import pytest
import torch
from torch import nn

from tdegnn import InputError, SpatialOperator
from tdegnn.core.coefficients import FixedCoefficients
from tdegnn.core.rules import COEFFICIENTS
from tdegnn.operators.diffusion import DiffusionOperator
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Part, draw_network, parts_from_record


class Scaled(SpatialOperator):
    """The Laplacian, times a number."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale

    def forward(self, state, graph, layer, context=None):
        return self.scale * graph.laplacian(state), context


def test_arrays_and_tuples_are_settings_like_lists():
    parts = [Part("leapfrog", values=values) for values in ([1.5, -0.5], (1.5, -0.5), np.array([1.5, -0.5]))]
    assert len(set(parts)) == 1
    kept = {"name": "leapfrog", "settings": {"values": [1.5, -0.5]}}
    for part in parts:
        assert COEFFICIENTS.to_record(part) == kept
        assert COEFFICIENTS.from_record(kept, part) == parts[0]
    assert COEFFICIENTS.to_record(Part(FixedCoefficients, values=np.array([1.0])))["settings"] == {"values": [1.0]}


def test_a_record_does_not_change_with_the_part():
    part = Part(Scaled, scale=[2.0])
    record = OPERATORS.to_record(part)
    part.settings["scale"].append(3.0)
    assert record == {"class": "Scaled", "settings": {"scale": [2.0]}}


def test_a_class_takes_the_settings_of_the_record_and_other_settings_are_refused():
    record = OPERATORS.to_record(Part(Scaled, scale=2.0))
    for given in (Scaled, Part(Scaled), Part(Scaled, scale=2.0)):
        assert OPERATORS.from_record(record, given) == Part(Scaled, scale=2.0)
    with pytest.raises(InputError, match="to be a Scaled with scale=2.0, as in the training, got Scaled with scale=3"):
        OPERATORS.from_record(record, Part(Scaled, scale=3.0))
    with pytest.raises(InputError, match="to be a Scaled with scale=2.0, as in the training, got Scaled object"):
        OPERATORS.from_record(record, Scaled(2.0))
    with pytest.raises(InputError, match="to be a Scaled, as in the training, got Scaled with scale=3"):
        OPERATORS.from_record(OPERATORS.to_record(Scaled), Part(Scaled, scale=3.0))


@pytest.mark.parametrize("kind", [Scaled, DiffusionOperator])
def test_an_object_is_loaded_from_an_object_since_its_settings_are_not_kept(kind):
    made = kind(3.0) if kind is Scaled else kind(4, 2, 0.5)
    record = OPERATORS.to_record(made)
    assert record == {"class": kind.__name__, "is_object": True}
    assert OPERATORS.from_record(record, made) is made
    with pytest.raises(InputError, match=f"to be a {kind.__name__} object, as in the training, got .* as it was made"):
        OPERATORS.from_record(record, kind)
    with pytest.raises(InputError, match=rf"an object of {kind.__name__} as in the .* operator={kind.__name__}\(...\)"):
        OPERATORS.from_record(record)


def test_a_class_with_the_name_of_a_class_of_the_library_is_another_class():
    own = type("DiffusionOperator", (Scaled,), {})
    record = OPERATORS.to_record(own)
    assert record == {"class": "DiffusionOperator"}
    assert OPERATORS.to_record(DiffusionOperator) == "diffusion"
    assert OPERATORS.from_record(record, own) is own
    with pytest.raises(InputError, match="to be a DiffusionOperator, as in the training, got diffusion"):
        OPERATORS.from_record(record, DiffusionOperator)


def test_settings_go_with_classes_not_with_objects():
    with pytest.raises(InputError, match="Expected Part to hold a name or a class, got an object of Scaled"):
        OPERATORS.make(Part(Scaled(), scale=2.0))


def test_a_part_that_a_record_does_not_speak_of_is_refused():
    with pytest.raises(InputError, match="Expected no operator: the training had the default. Leave it out"):
        parts_from_record({"operator": OPERATORS}, {}, {"operator": Scaled})


def test_what_cannot_be_drawn_anew_is_not_drawn_like_the_rest():
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(3))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept, self.weight = Kept(), nn.Parameter(torch.zeros(3))

        def reset_parameters(self):
            nn.init.uniform_(self.weight)

    before = torch.get_rng_state()
    one, again, other = (draw_network(Network, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.kept.weight, again.kept.weight)
    assert torch.equal(one.weight, again.weight)
    assert not torch.equal(one.kept.weight, other.kept.weight)
    assert not torch.equal(one.kept.weight, one.weight)
