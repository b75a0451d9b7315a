"""Parts by name, class and object: how they are made, kept and refused; and weights drawn from a seed."""

import json
import threading

import numpy as np
import pytest
import torch
from torch import nn

from tdegnn import DiffusionOperator, Forecaster, Graph, InputError, NodeClassifier, Panel, Part, SpatialOperator
from tdegnn.core.coefficients import DirectCoefficients, FixedCoefficients
from tdegnn.core.rules import COEFFICIENTS
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Family, drawing_weights, parts_must_fit, reset_parts


class Shape(nn.Module):
    """The base of a small family."""


class Box(Shape):
    def __init__(self, channels, num_layers=3, *, filled=False):
        super().__init__()
        self.channels, self.num_layers, self.filled = channels, num_layers, filled
        self.weight = nn.Parameter(torch.rand(channels))

    def reset_parameters(self):
        nn.init.uniform_(self.weight)


class Ball(Shape):
    def __init__(self, channels, radius):
        super().__init__()
        self.channels, self.radius = channels, radius


class Anything(Shape):
    def __init__(self, channels, **others):
        super().__init__()
        self.channels, self.others = channels, others


class Dot(Shape):
    def __init__(self):
        super().__init__()


def make_box(channels):
    return Box(channels, filled=True)


SHAPES = Family("shape", Shape, {"box": Box, "full-box": Part(Box, filled=True), "ball": Ball})


def test_a_part_shows_its_kind_and_settings():
    assert repr(Part("box", filled=True)) == "Part('box', filled=True)"
    assert repr(Part(Box, num_layers=2)) == "Part(Box, num_layers=2)"
    assert Part("box", filled=True) == Part("box", filled=True) != Part("box")
    assert len({Part("box"), Part("box"), Part(Box)}) == 2
    assert Part("box") != "box"
    assert len({Part("box", sides=[1, 2]), Part("box", sides=[1, 2])}) == 1  # settings need not be hashable


def test_a_family_lists_its_names():
    assert SHAPES.names == ("box", "full-box", "ball")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("box", (5, 3, False)),
        ("full-box", (5, 3, True)),
        (Box, (5, 3, False)),
        (Part("box", filled=True), (5, 3, True)),
        (Part(Box, num_layers=7), (5, 7, False)),
        (Part("full-box", filled=False), (5, 3, False)),
        (Part("box", channels=2), (2, 3, False)),
        (make_box, (5, 3, True)),
        (Part(make_box, channels=4), (4, 3, True)),
    ],
)
def test_sizes_fill_only_what_has_no_default_and_no_setting(given, expected):
    made = SHAPES.make(given, channels=5, num_layers=9, step_size=0.1)
    assert (made.channels, made.num_layers, made.filled) == expected


def test_a_class_that_takes_any_setting_gets_those_of_the_user_alone():
    made = SHAPES.make(Part(Anything, color="red"), channels=5, num_layers=9)
    assert (made.channels, made.others) == (5, {"color": "red"})


def test_an_object_is_copied():
    given = Box(2)
    made = SHAPES.make(given, channels=5)
    assert made is not given
    assert made.channels == 2
    assert torch.equal(made.weight, given.weight)
    nn.init.zeros_(made.weight)
    assert given.weight.all()


def test_a_family_knows_which_sizes_the_network_decides():
    assert SHAPES.takes("box", "channels")
    assert not SHAPES.takes("box", "num_layers")
    assert not SHAPES.takes(Part("box", channels=3), "channels")
    assert not SHAPES.takes(Box(3), "channels")
    assert not SHAPES.takes("box", "order")
    assert COEFFICIENTS.takes("direct", "order")
    assert not COEFFICIENTS.takes("leapfrog", "order")


NAMES = r"\(box, full-box, ball\)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("bax", "shape to be one of box, full-box, ball, or a class of your own, got 'bax'. Did you mean 'box'.$"),
        ("zzz", "shape to be one of box, full-box, ball, or a class of your own, got 'zzz'.$"),
        (Part("bax"), "got 'bax'. Did you mean 'box'"),
        (3, f"shape to be a name {NAMES} or derived from Shape, got 3"),
        (Part(3), f"shape to be a name {NAMES} or derived from Shape, got 3"),
        (["box"], f"shape to be a name {NAMES} or derived from Shape, got .'box'."),
        (nn.Linear, f"shape to be a name {NAMES} or derived from Shape, got the class Linear"),
        (nn.Linear(2, 2), f"shape to be a name {NAMES} or derived from Shape, got an object of Linear"),
        (lambda channels: nn.ReLU(), f"shape to be a name {NAMES} or derived from Shape, got an object of ReLU"),
        (Part(Box(2)), "Part to hold a name or a class, got an object of Box. Pass the object itself, without Part"),
        (Part(Part("box")), r"or derived from Shape, got Part\('box'\)"),
        (Part("box", color="red"), "settings of Box among channels, num_layers, filled, got 'color'"),
        (Part(Dot, color="red"), "settings of Dot to be none, got 'color'"),
        ("ball", "value for radius of Ball, got none. A network knows channels. Pass shape=Part.Ball, radius=...."),
        (Part(Ball), "value for radius of Ball, got none"),
    ],
)
def test_what_is_no_part_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        SHAPES.make(given, channels=5)


def test_a_wrong_part_is_refused_before_it_is_made():
    SHAPES.check("box")
    SHAPES.check(Box)
    for given, message in [("bax", "Did you mean 'box'"), (nn.Linear, "got the class Linear"), (None, "got None")]:
        with pytest.raises(InputError, match=message):
            SHAPES.check(given)


def test_a_class_without_its_methods_is_refused():
    class Unfinished(SpatialOperator):
        pass

    for given in (Unfinished, SpatialOperator):
        message = f"operator to be a class with forward, got {given.__name__} without. Define forward in it"
        with pytest.raises(InputError, match=message):
            OPERATORS.make(given, channels=2)


RECORDS = [
    ("box", "box"),
    (Box, "box"),
    (Part("box"), "box"),
    (Part("box", filled=True), {"name": "box", "settings": {"filled": True}}),
    (Part(Box, num_layers=2), {"name": "box", "settings": {"num_layers": 2}}),
    (Anything, {"class": "Anything"}),
    (Part(Anything, color="red"), {"class": "Anything", "settings": {"color": "red"}}),
    (make_box, {"class": "make_box"}),
    (Anything(3), {"class": "Anything", "is_object": True}),
]


@pytest.mark.parametrize(("given", "record"), RECORDS)
def test_a_record_names_the_part_and_its_settings(given, record):
    assert SHAPES.to_record(given) == record
    assert json.loads(json.dumps(record)) == record
    assert SHAPES.name_of(given) == (record if isinstance(record, str) else record.get("name") or record["class"])


@pytest.mark.parametrize(("given", "record"), RECORDS)
def test_a_part_comes_back_from_its_record(given, record):
    own = given.kind if isinstance(given, Part) else given
    is_own = isinstance(record, dict) and "class" in record
    back = SHAPES.from_record(record, own if is_own else None)
    assert SHAPES.to_record(back) == record
    made, expected = (SHAPES.make(each, channels=5, radius=1.0) for each in (back, given))
    assert type(made) is type(expected)
    assert {name: value for name, value in vars(made).items() if not name.startswith("_")} == {
        name: value for name, value in vars(expected).items() if not name.startswith("_")
    }


def test_a_part_by_name_may_be_given_again_but_not_another():
    assert SHAPES.from_record("box", "box") == "box"
    assert SHAPES.from_record("box", Box) == "box"
    for other in ("ball", Anything, Part("box", filled=True)):
        with pytest.raises(InputError, match="Expected no shape: the folder has 'box'. Leave it out"):
            SHAPES.from_record("box", other)
    with pytest.raises(InputError, match="shape to be one of box, full-box, ball, or a class of your own, got 'cone'"):
        SHAPES.make(SHAPES.from_record("cone"), channels=1)


def test_a_class_of_the_users_own_must_be_given_again():
    record = {"class": "Anything", "settings": {"color": "red"}}
    pass_it = r"In Python: load\(path, shape=Anything\)"
    with pytest.raises(InputError, match=f"shape=, the class Anything of the training, got none. {pass_it}"):
        SHAPES.from_record(record)
    wanted = "shape to be a Anything with color='red', as in the training"
    others = [(Ball, "ball"), (make_box, "make_box"), (Box(2), "Box object"), (Anything(3), "Anything object")]
    for other, came in [*others, (Part(Anything, color="blue"), "Anything with color='blue'")]:
        with pytest.raises(InputError, match=f"{wanted}, got {came}. {pass_it}"):
            SHAPES.from_record(record, other)
    with pytest.raises(InputError, match="shape to be one of box, full-box, ball, or a class of your own"):
        SHAPES.from_record(record, "Anything")
    with pytest.raises(InputError, match=r"In Python: load\(path, shape=\.\.\.\)"):
        SHAPES.from_record({"class": "<lambda>"})


def test_a_class_takes_the_settings_of_the_record_and_an_object_stands_for_an_object():
    record = {"class": "Anything", "settings": {"color": "red"}}
    assert SHAPES.from_record(record, Anything) == Part(Anything, color="red")
    assert SHAPES.from_record(record, Part(Anything, color="red")) == Part(Anything, color="red")
    given = Anything(3)
    assert SHAPES.from_record({"class": "Anything", "is_object": True}, given) is given
    with pytest.raises(InputError, match=r"Anything object, as in the training, got Anything. .*shape=Anything\(...\)"):
        SHAPES.from_record({"class": "Anything", "is_object": True}, Anything)


def test_the_families_of_the_library_make_all_their_parts():
    sizes = dict(channels=4, hidden_channels=8, num_layers=2, step_size=0.5, order=3, num_nodes=6)
    for family in (OPERATORS, COEFFICIENTS):
        for name in family.names:
            assert isinstance(family.make(name, **sizes), family.base)
            assert family.to_record(name) == name
    assert isinstance(COEFFICIENTS.make("leapfrog", **sizes), FixedCoefficients)
    assert COEFFICIENTS.make("leapfrog", **sizes).order == 2
    assert COEFFICIENTS.make(DirectCoefficients, **sizes).order == 3
    assert OPERATORS.make("diffusion", **sizes).num_layers == 2


def test_parts_are_drawn_anew_in_order_and_those_without_weights_are_skipped():
    one, two = Box(3), Box(3)
    with drawing_weights(1):
        reset_parts(one, None, nn.ReLU(), two)
    with drawing_weights(1):
        expected = torch.rand(3), torch.rand(3)
    assert torch.equal(one.weight, expected[0])
    assert torch.equal(two.weight, expected[1])


def test_drawing_weights_leaves_the_generator_as_it_was():
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    with drawing_weights(7):
        first = torch.rand(4)
        with drawing_weights(8):  # one thread may draw inside
            torch.rand(4)
        rest = torch.rand(4)
    assert torch.equal(torch.rand(4), expected)
    with drawing_weights(7):
        assert torch.equal(torch.cat([first, rest]), torch.rand(8))
    torch.manual_seed(5)
    with pytest.raises(KeyError), drawing_weights(7):
        raise KeyError
    assert torch.equal(torch.rand(4), expected)


def test_threads_that_draw_weights_take_turns():
    def draw(seed, times=1):
        with drawing_weights(seed):
            return torch.stack([torch.rand(3) for _ in range(50 * times)])

    expected = [draw(seed) for seed in range(4)]
    before, drawn = torch.get_rng_state(), {}
    threads = [
        threading.Thread(target=lambda seed=seed: drawn.update({seed: [draw(seed) for _ in range(20)]}))
        for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, each in drawn.items():
        assert all(torch.equal(weights, expected[seed]) for weights in each)
    assert len(drawn) == 4
    assert torch.equal(torch.get_rng_state(), before)


def test_a_network_that_cannot_be_run_has_a_part_that_does_not_fit():
    message = "parts that fit the network, got one that fails: mat1 .*. Pass the class"
    with pytest.raises(InputError, match=message), parts_must_fit():
        torch.rand(2, 3) @ torch.rand(2, 3)
    with pytest.raises(torch.OutOfMemoryError), parts_must_fit():
        raise torch.OutOfMemoryError
    with pytest.raises(InputError, match="^own$"), parts_must_fit():
        raise InputError("own")


# In an estimator. Mistakes leave no run folder behind.


class Repulsion(SpatialOperator):
    def __init__(self, channels):
        super().__init__()
        self.gate = nn.Linear(channels, channels)

    def forward(self, state, graph, layer, context=None):
        return torch.sigmoid(self.gate(state)) * graph.laplacian(state), context


class Narrow(Repulsion):
    def forward(self, state, graph, layer, context=None):
        return state[..., :1], context


class OneThing(Repulsion):
    def forward(self, state, graph, layer, context=None):
        return state


class ThreeThings(Repulsion):
    def forward(self, state, graph, layer, context=None):
        return state, context, None


class Strong(Repulsion):
    def __init__(self, channels, strength):
        super().__init__(channels)


NUMBERS = np.random.default_rng(0).normal(size=(40, 6)).cumsum(axis=0)
CYCLE = Graph([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])


def fit_nodes(run, **parts):
    model = NodeClassifier(hidden_channels=8, num_steps=1, device="cpu", **parts)
    return model.fit(NUMBERS[:3].T.astype(np.float32), [0, 1] * 3, graph=CYCLE, run=run)


def fit_series(run, **parts):
    sizes = dict(window=3, order=2, horizon=1, hidden_channels=8)
    model = Forecaster(**sizes, num_steps=1, num_members=2, device="cpu", **parts)
    return model.fit(Panel.from_array(NUMBERS, graph=CYCLE), run=run)


@pytest.mark.parametrize("fit", [fit_nodes, fit_series])
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (dict(operator="difusion"), "got 'difusion'. Did you mean 'diffusion'"),
        (dict(coefficients="direkt"), "got 'direkt'. Did you mean 'direct'"),
        (dict(system="TDE-GNN"), "system to be one of DE-GNN, TDE-GNN_D, TDE-GNN_A, TDE-GNN_S, got 'TDE-GNN'"),
        (dict(system="TDE-GNN_A", coefficients="attention"), "Expected system or coefficients, got both.*[Ll]eave"),
        (dict(operator=nn.Linear), "derived from SpatialOperator, got the class Linear"),
        (dict(operator=Repulsion(5)), "parts that fit the network, got one that fails: .*5.*. Pass the class"),
        (dict(operator=Narrow), r"operator to return shape \(.*8\), as the state, got \(.*1\)"),
        (dict(operator=OneThing), r"operator to return \(rate, context\), got Tensor. Return both"),
        (dict(operator=ThreeThings), r"operator to return \(rate, context\), got 3 things. Return both"),
        (dict(operator=Strong), "value for strength of Strong, got none.*Pass operator=Part.Strong, strength="),
        (dict(operator=Part("diffusion", norm=True)), "settings of DiffusionOperator among .*batch_norm, got 'norm'"),
    ],
)
def test_a_mistake_with_parts_is_one_line_and_leaves_no_folder(fit, parts, message, tmp_path):
    with pytest.raises(InputError, match=message) as caught:
        fit(tmp_path / "run", **parts)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("fit", "kind"), [(fit_nodes, NodeClassifier), (fit_series, Forecaster)])
def test_weights_of_another_operator_are_told_from_those_that_the_settings_name(fit, kind, monkeypatch, tmp_path):
    fit(tmp_path / "run", operator="diffusion")
    monkeypatch.setitem(OPERATORS._members, "diffusion", OPERATORS.resolve("hidden-diffusion"))
    wrong = (
        r"weights of the operator diffusion, as config.json of .*run says, with operator.difference_map.weight .*; got "
        r"weights.safetensors with .*operator.weight \(.*\) instead. Restore both files from one copy, or train again.$"
    )
    with pytest.raises(InputError, match=wrong):
        kind.load(tmp_path / "run")


@pytest.mark.parametrize(("fit", "kind"), [(fit_nodes, NodeClassifier), (fit_series, Forecaster)])
def test_a_class_that_changed_since_the_training_is_noticed(fit, kind, tmp_path):
    fit(tmp_path / "run", operator=Repulsion)

    class Changed(Repulsion):
        def __init__(self, channels):
            super().__init__(channels)
            self.more = nn.Linear(2, 2)

    Changed.__name__ = "Repulsion"
    assert isinstance(kind.load(tmp_path / "run", operator=Repulsion), kind)
    wrong = (
        r"weights of the operator Repulsion, as config.json of .*run says, with operator.more.bias \(2,\), .*; got "
        r"weights.safetensors with none of them instead. Pass Repulsion as it was in the training, or train again.$"
    )
    with pytest.raises(InputError, match=wrong):
        kind.load(tmp_path / "run", operator=Changed)
    with pytest.raises(InputError, match="got diffusion. In Python: load.path, operator=Repulsion"):
        kind.load(tmp_path / "run", operator=DiffusionOperator)
