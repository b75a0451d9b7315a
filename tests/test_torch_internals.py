"""Private names of torch are used in one module, and results are the same if torch lacks them."""

import ast
import importlib.util
import re
import sys
import warnings
from pathlib import Path

import pytest
import torch

import tdegnn
from tdegnn import AttentionCoefficients, DirectCoefficients, torch_internals
from tdegnn.core import combination
from tdegnn.torch_internals import OPERATIONS, SIGNATURES, TRANSFORMS, Door
from tdegnn.training.replay import NUM_WARM_UP, Replayed

SOURCE = Path(tdegnn.__file__).parent
PRIVATE = re.compile(r"^torch\.(\w+\.)*_(?!_)|\._schema|\._overloadpacket|\._cdata|\._values\b|forward\.__signature__")


def dotted_names(path):
    """Every dotted name that a module uses, without comments and docstrings."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


@pytest.mark.slow
def test_no_other_module_uses_a_private_name_of_torch():
    users = {
        str(path.relative_to(SOURCE)): name
        for path in SOURCE.rglob("*.py")
        for name in dotted_names(path)
        if PRIVATE.search(name)
    }
    assert [*users] == ["torch_internals.py"], users


def test_this_torch_has_all_of_them():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(door.opens() for door in (SIGNATURES, TRANSFORMS, OPERATIONS))


def test_a_missing_name_is_warned_about_once():
    door = Door("Steps take longer.", "torch.Tensor", "torch._no_such.name")
    with pytest.warns(UserWarning, match=r"has no torch._no_such.name. Steps take longer. Results are the same"):
        assert not door.opens()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not door.opens()


def import_anew(patch):
    """A second copy of the module, made from the torch of this moment."""
    spec = importlib.util.spec_from_file_location("torch_internals_anew", torch_internals.__file__)
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


class HiddenName:
    """Hides one attribute of a module or class of torch."""

    def __init__(self, original, hidden):
        self._original, self._hidden = original, hidden

    def __getattr__(self, name):
        if name == self._hidden:
            raise AttributeError(name)
        return getattr(self._original, name)


def without_signatures(monkeypatch):
    monkeypatch.setattr(torch.autograd, "function", HiddenName(torch.autograd.function, "_is_setup_context_defined"))


def without_transforms(monkeypatch):
    monkeypatch.setattr(torch._C, "_functorch", HiddenName(torch._C._functorch, "maybe_current_level"))


def without_operations(monkeypatch):
    monkeypatch.setattr(torch, "UntypedStorage", HiddenName(torch.UntypedStorage, "_cdata"))


@pytest.mark.parametrize(
    ("hide", "door"),
    [(without_signatures, "SIGNATURES"), (without_transforms, "TRANSFORMS"), (without_operations, "OPERATIONS")],
)
def test_a_missing_name_is_found_when_the_module_is_imported(hide, door):
    with pytest.MonkeyPatch.context() as patch:
        hide(patch)
        anew = import_anew(patch)
    # torch has the name again, but the module looked for it only once.
    with pytest.warns(UserWarning, match="Results are the same"):
        assert not getattr(anew, door).opens()
    others = {"SIGNATURES", "TRANSFORMS", "OPERATIONS"} - {door}
    assert all(getattr(anew, other).opens() for other in others)


def close(monkeypatch, door):
    closed = Door("It takes longer.", "torch._no_such.name")
    monkeypatch.setattr(torch_internals, door, closed)
    return closed


def test_functions_without_a_signature_of_their_own_give_the_same(monkeypatch):
    def make():
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(values):
                return 2 * values

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, gradient):
                return 2 * gradient

        return Twice

    quick = torch_internals.quick_to_call(make())
    assert hasattr(quick.forward, "__signature__")
    close(monkeypatch, "SIGNATURES")
    with pytest.warns(UserWarning, match="It takes longer") as caught:
        plain, another = torch_internals.quick_to_call(make()), torch_internals.quick_to_call(make())
    assert len(caught) == 1
    assert not hasattr(plain.forward, "__signature__")
    values = torch.randn(3, requires_grad=True)
    results = [torch.autograd.grad(made.apply(values).square().sum(), values)[0] for made in (quick, plain, another)]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize(
    ("make", "small_state"),
    [
        (lambda: DirectCoefficients(3), {}),
        (lambda: AttentionCoefficients(3, 4), {}),
        (lambda: AttentionCoefficients(3, 4), combination.SMALL_STATE),
    ],
)
def test_sums_that_are_not_made_in_place_give_the_same(monkeypatch, make, small_state):
    monkeypatch.setattr(combination, "SMALL_STATE", small_state)
    rule, history = make(), [torch.randn(5, 4, requires_grad=True) for _ in range(3)]

    def results():
        total, c = rule.combine(tuple(history), 0)
        return (total, c, *torch.autograd.grad(total.square().sum() + c[1], history))

    in_place = results()
    close(monkeypatch, "TRANSFORMS")
    monkeypatch.setattr(combination, "transform_level", torch_internals._unknown_level)
    with pytest.warns(UserWarning, match="It takes longer") as caught:
        plain = [*results(), *results()]
    assert len(caught) == 1
    for one, other in zip([*in_place, *in_place], plain, strict=True):
        assert torch.equal(one, other)


class Descent:
    def __init__(self):
        self.weights, self.num_calls = torch.linspace(-1.0, 1.0, 6), 0

    def step(self):
        self.num_calls += 1
        weights = self.weights.detach().requires_grad_()
        (gradient,) = torch.autograd.grad((weights.exp() - 1.0).square().sum(), weights)
        self.weights -= 0.01 * gradient


def test_steps_that_are_not_recorded_give_the_same(monkeypatch):
    num_steps = NUM_WARM_UP + 5

    def train():
        descent = Descent()
        replayed = Replayed(descent.step, torch.device("cpu"))
        for _ in range(num_steps):
            replayed()
        return descent

    recorded = train()
    assert recorded.num_calls < num_steps
    closed = Door("It takes longer.", "torch._no_such.name")
    monkeypatch.setattr("tdegnn.training.replay.OPERATIONS", closed)
    with pytest.warns(UserWarning, match="It takes longer") as caught:
        descents = [train(), train()]
    assert len(caught) == 1
    plain = descents[0]
    assert plain.num_calls == num_steps
    assert torch.equal(plain.weights, recorded.weights)
