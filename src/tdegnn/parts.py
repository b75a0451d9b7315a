"""Exchangeable parts of a network, given by name, as a class, or as an object.

A `Family` lists the parts of one kind by name: the rules for c, the spatial terms, the initial states, the skips. An
estimator takes any of them, or one of the user's own, and makes it once the sizes of the network are known.
"""

from __future__ import annotations

import copy
import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, TypeAlias

import torch
from torch import nn

from tdegnn.errors import InputError

# What a user may give for a part: a name, a class, a function, a `Part` of these with settings, or an object.
PartLike: TypeAlias = Any
# How a run folder or a recipe keeps a part: a name, or a name (of the family, or of a class) and settings.
PartRecord: TypeAlias = str | dict[str, Any]

_drawing = RLock()


class Part:
    """A part that is not made yet, with its settings.

    Args:
        kind: A name of the family, or a class (or function) that makes the part.
        settings: Arguments of the class. Sizes, such as `channels`, are filled in by the network.

    Example:
        >>> Part("diffusion", batch_norm=True)
        Part('diffusion', batch_norm=True)
    """

    def __init__(self, kind: str | Callable[..., Any], /, **settings: Any) -> None:
        self.kind, self.settings = kind, settings

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and (self.kind, self.settings) == (other.kind, other.settings)

    def __hash__(self) -> int:
        return hash((self.kind, repr(sorted(self.settings.items()))))

    def __repr__(self) -> str:
        kind = repr(self.kind) if isinstance(self.kind, str) else _name_of(self.kind)
        return f"Part({', '.join([kind, *(f'{name}={value!r}' for name, value in self.settings.items())])})"


class Family:
    """The parts of one kind, by name.

    Args:
        noun: The argument that takes them, for messages.
        base: The class that all of them derive from.
        members: The class of each name, or a `Part`: a class with settings of its own.
    """

    def __init__(self, noun: str, base: type[Any], members: Mapping[str, type[Any] | Part]) -> None:
        self.noun, self.base = noun, base
        self._members = {name: part if isinstance(part, Part) else Part(part) for name, part in members.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self._members)

    def make(self, given: PartLike, **sizes: Any) -> Any:
        """Make a part to the sizes of a network.

        Args:
            given: What the user gave. An object is copied, so that networks do not share weights.
            sizes: What the network knows. Each fills the argument of that name, unless it has a default.
        """
        if isinstance(given, nn.Module):
            return self._check(copy.deepcopy(given))
        part = self.resolve(given)
        assert not isinstance(part.kind, str)  # resolved
        arguments = inspect.signature(part.kind).parameters
        has_any = any(argument.kind is argument.VAR_KEYWORD for argument in arguments.values())
        unknown = [name for name in part.settings if name not in arguments and not has_any]
        if unknown:
            known = f"among {', '.join(arguments)}" if arguments else "to be none"
            raise InputError(f"Expected settings of {_name_of(part.kind)} {known}, got {unknown[0]!r}.")
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        named = [name for name, argument in arguments.items() if argument.kind not in variadic]
        needed = [
            name for name in named if arguments[name].default is inspect.Parameter.empty and name not in part.settings
        ]
        missing = [name for name in needed if name not in sizes]
        if missing:
            raise InputError(
                f"Expected a value for {missing[0]} of {_name_of(part.kind)}, got none. A network knows "
                f"{', '.join(sizes)}. Pass {self.noun}=Part({_name_of(part.kind)}, {missing[0]}=...)."
            )
        return self._check(part.kind(**{name: sizes[name] for name in needed}, **part.settings))

    def check(self, given: PartLike) -> None:
        """Raise an `InputError` for what cannot be a part of this family."""
        if not isinstance(given, nn.Module):
            self.resolve(given)

    def takes(self, given: PartLike, size: str) -> bool:
        """Whether a network decides this size of the part: an object, or a part with a setting for it, has its own."""
        if isinstance(given, nn.Module):
            return False
        part = self.resolve(given)
        assert not isinstance(part.kind, str)  # resolved
        argument = inspect.signature(part.kind).parameters.get(size)
        return argument is not None and argument.default is argument.empty and size not in part.settings

    def name_of(self, given: PartLike) -> str:
        """Return the name of a part for tables and messages: its name in the family, or that of the user's class."""
        record = self.to_record(given)
        return record if isinstance(record, str) else str(record.get("name") or record["class"])

    def to_record(self, given: PartLike) -> PartRecord:
        """Return what a run folder stores about a part: its name and settings, or the name of the user's class."""
        part = given if isinstance(given, Part) else Part(given)
        # A class of the library is stored by its name in the family.
        names = [name for name, known in self._members.items() if known == Part(part.kind)]
        name = part.kind if isinstance(part.kind, str) else next(iter(names), None)
        if name is None:
            own = {"class": _name_of(part.kind)}
            return {**own, "settings": part.settings} if part.settings else dict(own)
        self.check(Part(name))
        return {"name": name, "settings": part.settings} if part.settings else name

    def from_record(self, record: PartRecord, given: PartLike = None) -> PartLike:
        """Return the part that a run folder keeps.

        Code is never imported by a name in a file: the user must pass a custom class again.

        Args:
            record: What `to_record` returned.
            given: The user's class or object, if the part is one. A class takes the settings of the record.
        """
        if isinstance(record, str):
            record = {"name": record}
        settings = record.get("settings", {})
        if "name" in record:
            if given is not None and self.to_record(given) != self.to_record(Part(record["name"], **settings)):
                raise InputError(f"Expected no {self.noun}: the folder has {record['name']!r}. Leave it out.")
            return Part(record["name"], **settings) if settings else record["name"]
        own = record["class"]
        # A lambda has no name that could be typed.
        advice = f"In Python: load(path, {self.noun}={own if own.isidentifier() else '...'})."
        if given is None:
            raise InputError(f"Expected {self.noun}=, the class {own} of the training, got none. {advice}")
        if isinstance(given, str) or _name_of(given.kind if isinstance(given, Part) else given) != own:
            came = repr(given) if isinstance(given, str) else self.name_of(given)
            raise InputError(f"Expected {self.noun} to be a {own}, as in the training, got {came}. {advice}")
        if settings and not isinstance(given, nn.Module | Part):
            return Part(given, **settings)
        return given

    def resolve(self, given: PartLike) -> Part:
        """Return the part as a class (or function) with settings."""
        part = given if isinstance(given, Part) else Part(given)
        if isinstance(part.kind, str):
            if part.kind not in self._members:
                near = difflib.get_close_matches(part.kind, self._members, n=1)
                raise InputError(
                    f"Expected {self.noun} to be one of {', '.join(self._members)}, or a class of your own, got "
                    f"{part.kind!r}.{f' Did you mean {near[0]!r}?' if near else ''}"
                )
            known = self._members[part.kind]
            return Part(known.kind, **known.settings | part.settings)
        if isinstance(part.kind, nn.Module):
            raise InputError(
                f"Expected Part to hold a name or a class, got an object of {_name_of(part.kind)}. Pass the object "
                "itself, without Part."
            )
        is_wrong = isinstance(part.kind, type) and not issubclass(part.kind, self.base)
        if is_wrong or not callable(part.kind):
            raise self._refuse(f"the class {_name_of(part.kind)}" if is_wrong else repr(part.kind))
        undefined = sorted(getattr(part.kind, "__abstractmethods__", ()))
        if undefined:
            raise InputError(
                f"Expected {self.noun} to be a class with {', '.join(undefined)}, got {_name_of(part.kind)} without. "
                f"Define {undefined[0]} in it."
            )
        return part

    def _check(self, made: Any) -> Any:
        if not isinstance(made, self.base):
            raise self._refuse(f"an object of {type(made).__name__}")
        return made

    def _refuse(self, came: str) -> InputError:
        base = self.base.__name__
        return InputError(
            f"Expected {self.noun} to be a name ({', '.join(self._members)}) or derived from {base}, got {came}."
        )


def reset_parts(*parts: nn.Module | None) -> None:
    """Draw the weights of parts anew, in this order. Parts without weights, such as fixed coefficients, are skipped."""
    for part in parts:
        reset = getattr(part, "reset_parameters", None)
        if reset is not None:
            reset()


@contextmanager
def parts_must_fit() -> Iterator[None]:
    """Raise an `InputError` if a network cannot be run, because a part was made for other sizes.

    For the first run of a network, before there is a run folder. Torch's own error is kept as the cause.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise InputError(
            f"Expected parts that fit the network, got one that fails: {str(error).splitlines()[0].rstrip('.')}. Pass "
            "the class, which is made to the right sizes, or an object that was made for them."
        ) from error


@contextmanager
def drawing_weights(seed: int) -> Iterator[None]:
    """Draw weights from a seed, and leave torch's global generator as it was.

    Threads take turns, since torch's modules draw from one generator per process.
    """
    with _drawing:
        before = torch.get_rng_state()
        try:
            # Not `torch.manual_seed`, which seeds the generators of all devices: weights are drawn on the CPU.
            torch.default_generator.manual_seed(seed)
            yield
        finally:
            torch.set_rng_state(before)


def _name_of(kind: object) -> str:
    if isinstance(kind, nn.Module):
        return type(kind).__name__
    return getattr(kind, "__name__", type(kind).__name__)
