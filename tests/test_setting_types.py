"""Settings of parts are refused if they are of another type than the argument; a user's own class is left alone."""

from typing import Literal

import numpy as np
import pytest
from torch import nn

from tdegnn import InputError, Part
from tdegnn.errors import check_types
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Family


def make(
    count: int = 1,
    rate: float | None = None,
    is_on: bool = False,
    kind: Literal["a", "b"] = "a",
    mode: float | Literal["auto"] = "auto",
    names: list | None = None,
    other: dict[str, int] | None = None,
    untyped=None,
): ...


@pytest.mark.parametrize(
    "settings",
    [
        dict(count=np.int64(3), rate=2, is_on=np.bool_(True), kind="b", mode="auto", names=("x",)),
        dict(rate=None, mode=np.float32(0.5), names=[1], other="anything", untyped=object()),
    ],
)
def test_values_of_the_right_type_are_taken(settings):
    check_types("part", make, settings)


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("count", "3", "a whole number, got '3'"),
        ("count", True, "a whole number, got True"),
        ("count", 2.5, "a whole number, got 2.5"),
        ("rate", "x", "a number or null, got 'x'"),
        ("rate", np.bool_(True), "a number or null, got "),
        ("rate", float("nan"), "finite, got nan"),
        ("is_on", "false", "true or false, got 'false'"),
        ("is_on", 1, "true or false, got 1"),
        ("kind", "c", "a or b, got 'c'"),
        ("kind", ["a"], r"a or b, got \['a'\]"),
        ("mode", "none", "a number or auto, got 'none'"),
        ("names", "x", "a list or null, got 'x'"),
    ],
)
def test_values_of_another_type_are_refused(setting, value, expected):
    with pytest.raises(InputError, match=f"Expected {setting} of part to be {expected}.* Correct it."):
        check_types("part", make, {setting: value})


def test_only_members_of_the_family_are_checked():
    class Own(nn.Module):
        def __init__(self, size: int = 1):
            super().__init__()
            self.size = size

    assert Family("thing", nn.Module, {}).make(Part(Own, size="large")).size == "large"
    with pytest.raises(InputError, match="size of Own to be a whole number, got 'large'"):
        Family("thing", nn.Module, {"own": Own}).make(Part(Own, size="large"))
    with pytest.raises(InputError, match="num_heads of gat to be a whole number, got 'many'"):
        OPERATORS.check_settings(Part("gat", num_heads="many"))


def test_a_part_in_the_settings_of_a_part_is_kept_as_a_record():
    inner = {"name": "attention", "settings": {"num_heads": 2}}
    record = OPERATORS.to_record(Part("grand", mixing=Part("attention", num_heads=2)))
    assert record == {"name": "grand", "settings": {"mixing": inner}}
    assert OPERATORS.from_record(record) == Part("grand", mixing=inner)
