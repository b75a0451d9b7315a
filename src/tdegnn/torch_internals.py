"""All private names of torch that this package uses, each with a public alternative.

A `Door` is a group of private names that serve one purpose. All doors are tried when this module is imported. If the
installed torch lacks one of the names, the door stays closed: the public alternative is used, with the same numbers
and less speed, and a `UserWarning` says so once per process. No other module uses a private name of torch.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function

if TYPE_CHECKING:
    from torch._ops import OpOverload

FunctionType = TypeVar("FunctionType", bound=type[Function])


class Door:
    """Private names of torch that serve one purpose.

    Args:
        consequence: What happens if they are missing, for the warning.
        names: Where torch has the names, from `torch` on.
    """

    def __init__(self, consequence: str, *names: str) -> None:
        self._consequence = consequence
        self._found = {name: _find(name) for name in names}
        self._has_warned = False

    def opens(self) -> bool:
        """Return whether this torch has all of the names. Warn once per process if it does not."""
        missing = [name for name, value in self._found.items() if value is None]
        if missing and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"torch {torch.__version__} has no {missing[0]}. {self._consequence} Results are the same. Update "
                "tdegnn, or install a version of torch that it was tested with.",
                UserWarning,
                stacklevel=3,
            )
        return not missing

    def __getitem__(self, name: str) -> Any:
        return self._found[name]


def _find(name: str) -> Any:
    """Return the object with a dotted name in torch, or None if there is none."""
    root, *path = name.split(".")
    found: Any = importlib.import_module(root)
    reached = root
    for step in path:
        reached = f"{reached}.{step}"
        if not hasattr(found, step):
            try:
                importlib.import_module(reached)
            except ImportError:
                return None
        found = getattr(found, step, None)
    return found


SIGNATURES = Door(
    "Calls of differentiable functions take a few microseconds longer.",
    # `Function.apply` looks at the signature of `forward` only if this function says that there is a `setup_context`.
    "torch.autograd.function._is_setup_context_defined",
)
TRANSFORMS = Door(
    "Sums over past states are not made in place and take longer.",
    "torch._C._functorch.maybe_current_level",
)
OPERATIONS = Door(
    "Training steps on the CPU are not recorded, and small networks train more slowly.",
    "torch.utils._python_dispatch.TorchDispatchMode",
    "torch.ops.aten.add.Tensor._schema.arguments",
    "torch.ops.aten.add.Tensor._overloadpacket.overloads",
    "torch.ops.aten.add.Tensor.tags",
    "torch._C.FunctionSchema.is_mutable",
    "torch._C.Argument.alias_info",
    "torch._C.Argument.is_out",
    "torch.UntypedStorage._cdata",
)


_ANY_POSITIONAL = inspect.Signature([inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL)])


def quick_to_call(function: FunctionType) -> FunctionType:
    """Declare once that `forward` takes its inputs by position and has no defaults.

    Otherwise torch inspects the signature of `forward` in every call to fill in defaults. At the size of Cora that
    alone takes a fiftieth of a training step.
    """
    if SIGNATURES.opens():
        function.forward.__signature__ = _ANY_POSITIONAL  # type: ignore[attr-defined]
    return function


def _unknown_level() -> int:
    """Answer as under a transform, which is always safe."""
    TRANSFORMS.opens()  # for its warning
    return 0


# The level of the transform of `torch.func` (`vmap`, `grad`) under which code runs, or None if there is none. This is
# torch's own function where torch has it, since every sum over past states calls it.
transform_level: Callable[[], int | None] = TRANSFORMS["torch._C._functorch.maybe_current_level"] or _unknown_level


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation below autograd, as it was called.

    Attributes:
        overload: What was called.
        args: Its arguments by position. Tensors are detached from the graph of autograd.
        kwargs: Its arguments by name, likewise.
        result: What it returned, likewise.
    """

    overload: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any

    @property
    def name(self) -> str:
        """Its name without the overload, such as `add`."""
        return str(self.overload._overloadpacket.__name__)

    @property
    def tags(self) -> set[torch.Tag]:
        """What torch declares about it."""
        return set(self.overload.tags)

    @property
    def is_mutable(self) -> bool:
        """Whether it declares that it changes an argument."""
        return bool(self.overload._schema.is_mutable)

    @property
    def inputs(self) -> list[Tensor]:
        """All tensors among its arguments."""
        return [leaf for leaf in leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor)]

    @property
    def call(self) -> Callable[[], Any]:
        """The same call with the same arguments, to be made again."""
        return partial(self.overload, *self.args, **self.kwargs)

    def changed_arguments(self, also: Iterable[str] = ()) -> list[Tensor]:
        """Return the tensors that it changes: those it declares, and the arguments named in `also`."""
        declared = self.overload._schema.arguments
        given = dict(zip((argument.name for argument in declared), self.args, strict=False)) | self.kwargs
        changed = {argument.name for argument in declared if argument.alias_info and argument.alias_info.is_write}
        values = [value for name, value in given.items() if name in changed | {*also}]
        return [leaf for leaf in leaves(values) if isinstance(leaf, Tensor)]

    def ways_into(self, outputs: list[Tensor]) -> Iterator[Callable[[], object]]:
        """Yield calls that may write its result into `outputs`, the fastest first. A call may also fail."""
        packet = self.overload._overloadpacket
        # A function of `torch` is called in half the time that the operation itself takes to call.
        if callable(named := getattr(torch, self.name, None)):
            yield partial(named, *self.args, **self.kwargs, out=outputs[0] if len(outputs) == 1 else tuple(outputs))
        names = [argument.name for argument in self.overload._schema.arguments]
        for other in map(partial(getattr, packet), packet.overloads()):
            arguments = other._schema.arguments
            places = [argument.name for argument in arguments if argument.is_out]
            if len(places) == len(outputs) and [each.name for each in arguments if not each.is_out] == names:
                yield partial(other, *self.args, **self.kwargs, **dict(zip(places, outputs, strict=True)))


def watch_operations(see: Callable[[Operation], None]) -> AbstractContextManager[object]:
    """Call `see` after every operation, also in the backward pass. The door `OPERATIONS` must be open."""
    mode: Any = OPERATIONS["torch.utils._python_dispatch.TorchDispatchMode"]

    class Watcher(mode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, overload: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            result = overload(*args, **(kwargs or {}))
            # Detached, since whoever keeps the operation must not keep the graph of autograd.
            see(Operation(overload, *map(_detached, (args, dict(kwargs or {}), result))))
            return result

    watcher: AbstractContextManager[object] = Watcher()
    return watcher


def leaves(values: Any) -> list[Any]:
    """Return what is in nested lists, tuples and dictionaries, in order."""
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return [leaf for value in values for leaf in leaves(value)]
    return [values]


def _detached(values: Any) -> Any:
    """Detach all tensors in nested lists, tuples and dictionaries."""
    if isinstance(values, Mapping):
        return {name: _detached(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        parts = [_detached(value) for value in values]
        return parts if isinstance(values, list) else tuple(parts)
    return values.detach() if isinstance(values, Tensor) else values


def storage_key(tensor: Tensor) -> int:
    """Return a number that tensors share if they are views of one another."""
    if tensor.layout is torch.strided:
        dense = tensor
    else:
        dense = tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()
    return int(dense.untyped_storage()._cdata)
