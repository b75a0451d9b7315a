"""Exchangeable parts of a network, given by name, as a class, or as an object.

A `Family` lists the parts of one kind by name: the rules for c, the spatial terms, the initial states, the skips. An
estimator takes any of them, or one of the user's own, and makes it once the sizes of the network are known.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, TypeAlias, TypeVar

import torch
from torch import nn

from tdegnn.errors import InputError, check_types, suggest

# What a user may give for a part: a name, a class, a function, a `Part` of these with settings, or an object.
PartLike: TypeAlias = Any
# How a run folder or a recipe keeps a part: a name, or a name (of the family, or of a class) and settings. Of an object
# it keeps the class, and that it was an object.
PartRecord: TypeAlias = str | dict[str, Any]
Network = TypeVar("Network", bound=nn.Module)

# Parts that cannot be drawn anew keep what they drew when they were made. That must not be what the embedding draws.
# Far from the seeds that people use, and below 2**32: torch's generator on the CPU ignores higher bits.
_MAKING = 0x9E3779B9
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
        if not isinstance(other, Part):
            return NotImplemented
        return self.kind == other.kind and _plain(self.settings) == _plain(other.settings)

    def __hash__(self) -> int:
        return hash((self.kind, repr(sorted(_plain(self.settings).items()))))

    def __repr__(self) -> str:
        kind = repr(self.kind) if isinstance(self.kind, str) else _name_of(self.kind)
        return f"Part({', '.join([kind, *_shown(self.settings)])})"

    def check_settings(self, made_by: Callable[..., Any]) -> None:
        """Raise an `InputError` for a setting that is no argument of the function that takes them."""
        arguments = _arguments_of(made_by)
        has_any = any(argument.kind is argument.VAR_KEYWORD for argument in arguments.values())
        unknown = [name for name in self.settings if name not in arguments and not has_any]
        if unknown:
            name = self.kind if isinstance(self.kind, str) else _name_of(self.kind)
            known = f"among {', '.join(arguments)}" if arguments else "to be none"
            raise InputError(
                f"Expected settings of {name} {known}, got {unknown[0]!r}.{suggest(unknown[0], arguments)}"
            )


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
        self.check_settings(part)
        assert not isinstance(part.kind, str)  # resolved
        arguments = inspect.signature(part.kind).parameters
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

    def check_settings(self, given: PartLike) -> None:
        """Raise an `InputError` for a setting that the part does not have, or of a wrong type if it is a member."""
        part = given if isinstance(given, Part) else Part(given)
        made_by = self.resolve(part).kind
        assert not isinstance(made_by, str)  # resolved
        part.check_settings(made_by)
        # What the types of a user's own class mean is up to the user.
        if any(known.kind == made_by for known in self._members.values()):
            check_types(part.kind if isinstance(part.kind, str) else _name_of(made_by), made_by, part.settings)

    def check_makes(self, given: PartLike, **sizes: Any) -> None:
        """Raise an `InputError` for a part that refuses its settings when it is made, here to some sizes.

        Args:
            given: What the user gave.
            sizes: As in `make`. Those that are not known yet may be any that usually fit.
        """
        with drawing_weights(0):
            self.make(given, **sizes)

    def takes(self, given: PartLike, size: str) -> bool:
        """Whether a network decides this size of the part: an object, or a part with a setting for it, has its own."""
        if isinstance(given, nn.Module):
            return False
        part = self.resolve(given)
        assert not isinstance(part.kind, str)  # resolved
        argument = inspect.signature(part.kind).parameters.get(size)
        return argument is not None and argument.default is argument.empty and size not in part.settings

    def own_size(self, given: PartLike, size: str, **sizes: Any) -> Any:
        """Return a size that a part has whatever the network says. None if the network decides.

        Args:
            given: What the user gave.
            size: The name of the size, which is an attribute of the part.
            sizes: What the network knows, as in `make`.
        """
        if self.takes(given, size):
            return None
        with drawing_weights(0):
            return getattr(self.make(given, **sizes), size)

    def name_of(self, given: PartLike) -> str:
        """Return the name of a part for tables and messages: its name in the family, or that of the user's class."""
        record = self.to_record(given)
        return record if isinstance(record, str) else str(record.get("name") or record["class"])

    def to_record(self, given: PartLike) -> PartRecord:
        """Return what a run folder stores about a part: its name and settings, or the name of the user's class."""
        if isinstance(given, nn.Module):
            return {"class": _name_of(given), "is_object": True}
        part = given if isinstance(given, Part) else Part(given)
        # A class of the library is stored by its name in the family.
        names = [name for name, known in self._members.items() if known == Part(part.kind)]
        name = part.kind if isinstance(part.kind, str) else next(iter(names), None)
        for setting, value in part.settings.items():
            # A file of settings holds no such number.
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"Expected {setting} of {name or _name_of(part.kind)} to be finite, got {value}.")
        settings = {"settings": _plain(part.settings)} if part.settings else {}
        if name is None:
            return {"class": _name_of(part.kind), **settings}
        self.check(Part(name))
        return {"name": name, **settings} if settings else name

    def from_record(self, record: PartRecord, given: PartLike = None) -> PartLike:
        """Return the part that a run folder keeps.

        Code is never imported by a name in a file: the user must pass a custom class again.

        Args:
            record: What `to_record` returned.
            given: The user's class or object, if the part is one. A class takes the settings of the record. An object
                must have been made as the one of the training was: a record does not keep what is in it.
        """
        record = self._check_record(record)
        settings = record.get("settings", {})
        if "name" in record:
            if given is not None and self.to_record(given) != self.to_record(Part(record["name"], **settings)):
                raise InputError(f"Expected no {self.noun}: the folder has {record['name']!r}. Leave it out.")
            return Part(record["name"], **settings) if settings else record["name"]
        own, is_object = record["class"], record.get("is_object", False)
        # A lambda has no name that could be typed.
        example = (f"{own}(...)" if is_object else own) if own.isidentifier() else "..."
        advice = f"In Python: load(path, {self.noun}={example})."
        if given is None:
            what = f"an object of {own} as in" if is_object else f"the class {own} of"
            raise InputError(f"Expected {self.noun}=, {what} the training, got none. {advice}")
        came = self.to_record(given)
        if came == {"class": own} and not is_object:
            return Part(given.kind if isinstance(given, Part) else given, **settings) if settings else given
        if came != record:
            hint = " Make it as it was made then: a record does not keep what is in an object." if is_object else ""
            raise InputError(
                f"Expected {self.noun} to be a {describe_record(record)}, as in the training, got "
                f"{describe_record(came)}. {advice}{hint}"
            )
        return given

    def resolve(self, given: PartLike) -> Part:
        """Return the part as a class (or function) with settings."""
        part = given if isinstance(given, Part) else Part(given)
        if isinstance(part.kind, str):
            if part.kind not in self._members:
                raise InputError(
                    f"Expected {self.noun} to be one of {', '.join(self._members)}, or a class of your own, got "
                    f"{part.kind!r}.{suggest(part.kind, self._members)}"
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

    def _check_record(self, record: Any) -> dict[str, Any]:
        """Return a record with its name or class by key. Raise an `InputError` for what a file cannot say of a part."""
        if isinstance(record, str):
            return {"name": record}
        if not (isinstance(record, dict) and any(isinstance(record.get(key), str) for key in ("name", "class"))):
            raise InputError(
                f"Expected {self.noun} to be one of {', '.join(self._members)}, or a table with such a name and "
                f"settings, got {record!r}. Correct it."
            )
        keys = ("name", "class", "settings", "is_object")
        unknown = [key for key in record if key not in keys]
        if unknown:
            raise InputError(
                f"Expected {self.noun} to have name and settings, got {unknown[0]!r}.{suggest(unknown[0], keys)}"
            )
        if not isinstance(record.get("settings", {}), dict):
            raise InputError(f"Expected settings of {self.noun} by name, got {record['settings']!r}. Correct it.")
        return record

    def _check(self, made: Any) -> Any:
        if not isinstance(made, self.base):
            raise self._refuse(f"an object of {type(made).__name__}")
        return made

    def _refuse(self, came: str) -> InputError:
        base = self.base.__name__
        return InputError(
            f"Expected {self.noun} to be a name ({', '.join(self._members)}) or derived from {base}, got {came}."
        )


def parts_to_record(families: Mapping[str, Family], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with their parts as JSON keeps them. A part that is None stays None.

    Args:
        families: The settings that are parts, and where each is found by name.
        settings: All settings.
    """
    parts = {name: family.to_record(settings[name]) for name, family in families.items() if settings[name] is not None}
    return {**settings, **parts}


def parts_from_record(
    families: Mapping[str, Family], record: Mapping[str, Any], own: Mapping[str, PartLike]
) -> dict[str, Any]:
    """Return settings with the parts that a record keeps.

    Args:
        families: The settings that are parts, and where each is found by name.
        record: What `parts_to_record` returned, perhaps without some of the parts.
        own: Parts of the user's own, by the setting that takes them.
    """
    settings = dict(record)
    for name, family in families.items():
        kept, given = settings.get(name), own.get(name)
        if kept is not None:
            settings[name] = family.from_record(kept, given)
        elif given is not None:
            raise InputError(f"Expected no {name}: the training had the default. Leave it out.")
    return settings


def reset_parts(*parts: nn.Module | None) -> None:
    """Draw the weights of parts anew, in this order. Parts without weights, such as fixed coefficients, are skipped."""
    for part in parts:
        reset = getattr(part, "reset_parameters", None)
        if reset is not None:
            reset()


def draw_network(make: Callable[[], Network], seed: int) -> Network:
    """Make a network, with weights drawn from the seed.

    Weights are drawn again once all parts are made: some rules draw more than others when they are made, and what the
    other parts start with must not depend on it.
    """
    with drawing_weights(seed + _MAKING):
        network = make()
    with drawing_weights(seed):
        reset_parts(network)
    return network


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

    Weights are drawn in float32, whatever the default type of the process: in another type, torch draws other numbers.
    Threads take turns, since torch's modules draw from one generator per process.
    """
    with _drawing:
        before, dtype = torch.get_rng_state(), torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.float32)
            # Not `torch.manual_seed`, which seeds the generators of all devices: weights are drawn on the CPU.
            torch.default_generator.manual_seed(seed)
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_rng_state(before)


def _arguments_of(made_by: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the arguments by name. A module without a constructor of its own has none: torch's would take any."""
    if isinstance(made_by, type) and getattr(made_by, "__init__") is nn.Module.__init__:  # noqa: B009 (as mypy asks)
        return {}
    return inspect.signature(made_by).parameters


def _name_of(kind: object) -> str:
    if isinstance(kind, nn.Module):
        return type(kind).__name__
    return getattr(kind, "__name__", type(kind).__name__)


def describe_record(record: PartRecord) -> str:
    """Return the record of a part for a message: its name or class, and its settings."""
    if isinstance(record, str):
        return record
    settings = f" with {', '.join(_shown(record['settings']))}" if "settings" in record else ""
    return f"{record.get('name') or record['class']}{' object' if 'is_object' in record else ''}{settings}"


def _shown(settings: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value!r}" for name, value in settings.items()]


def _plain(value: Any) -> Any:
    """Return a copy of settings as JSON gives them back: lists in place of tuples and arrays, records of parts."""
    if isinstance(value, Part) and isinstance(value.kind, str):
        return {"name": value.kind, "settings": _plain(value.settings)} if value.settings else value.kind
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value
