"""Steps recorded once and then repeated: as a CUDA graph, launched as one piece, or on a CPU as a list of operations.

A step of small networks is hundreds of operations, each of which takes longer to launch than to compute.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakMethod

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

# Steps that run plainly before one is recorded: libraries set themselves up in the first.
NUM_WARM_UP = 3


class Replayed:
    """A method without arguments that reads and writes fixed tensors; it is recorded and replayed.

    Args:
        run: The method. What it returns is ignored. Its object is not kept alive by this.
        device: Where its tensors are.
    """

    def __init__(self, run: Callable[[], None], device: torch.device) -> None:
        # Else it, and all that is recorded, would stay until garbage is collected, which does not see how large it is.
        self._method = WeakMethod(run)
        self._record = _CudaRecord() if device.type == "cuda" else _CpuRecord()
        self._num_calls = 0

    def __call__(self) -> None:
        """Run once."""
        run = self._method()
        assert run is not None  # its object has this one
        self._num_calls += 1
        if self._num_calls <= NUM_WARM_UP:
            self._record.warm_up(run)
        else:
            self._record.repeat(run)


class _CpuRecord:
    """A tape, if what is on it was found to do what the function does."""

    def __init__(self) -> None:
        self._tape: Tape | None = None
        self._is_recorded = self._is_checked = False

    def warm_up(self, run: Callable[[], object]) -> None:
        run()

    def repeat(self, run: Callable[[], object]) -> None:
        if not self._is_recorded:
            self._tape, self._is_recorded = Tape.record(run), True
        elif self._tape is None:
            run()
        elif not self._is_checked:
            self._is_checked = True
            if not self._tape.agrees_with(run):
                self._tape = None
        else:
            self._tape.play()


class _CudaRecord:
    """A CUDA graph."""

    def __init__(self) -> None:
        self._graph: torch.cuda.CUDAGraph | None = None

    def warm_up(self, run: Callable[[], object]) -> None:
        # Recording needs another stream than the usual one, and so do the steps that prepare it.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            run()
        torch.cuda.current_stream().wait_stream(side)

    def repeat(self, run: Callable[[], object]) -> None:
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with _nothing_deleted(), torch.cuda.graph(self._graph):
                run()
        self._graph.replay()


@contextmanager
def _nothing_deleted() -> Iterator[None]:
    """Collect no garbage meanwhile: an earlier record that is deleted while a new one is made spoils it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# Bytes that the operations of a step may write. Beyond, computing takes longer than deciding.
LARGEST = 2**27
# What gives the same whatever the values of its tensors are.
OF_SHAPE_ALONE = {"ones_like", "zeros_like", "full_like", "empty_like", "new_ones", "new_zeros", "new_full"}
# Arguments that an operation changes though it does not say so.
CHANGED_IN_SECRET = {"native_batch_norm": {"running_mean", "running_var"}}
# What is not the same when it is made again, or changes the shape of a tensor under those who look at it.
REFUSED_TAGS = {torch.Tag.nondeterministic_seeded, torch.Tag.inplace_view}


class Tape:
    """Operations in the order in which they were made.

    Args:
        calls: The operations, with the tensors they read and write.
        written: What was there before the first of them and what one of them changes, as bytes.
    """

    def __init__(self, calls: Sequence[Callable[[], object]], written: Sequence[Tensor]) -> None:
        self._calls, self._written = tuple(calls), tuple(written)

    def __len__(self) -> int:
        return len(self._calls)

    @staticmethod
    def record(run: Callable[[], object], largest: int = LARGEST) -> Tape | None:
        """Run a function once; return what it did, or None where that cannot be done again.

        Args:
            run: Reads and writes tensors that stay where they are. What else it does is not recorded.
            largest: Bytes that may be written.
        """
        recorder = _Recorder(largest)
        with recorder:
            run()
        return recorder.tape()

    def play(self) -> None:
        """Make all operations again."""
        with torch.no_grad():
            for call in self._calls:
                call()

    def agrees_with(self, run: Callable[[], object]) -> bool:
        """Run the function once, and say whether playing would have written the same, to the last bit."""
        before = [tensor.clone() for tensor in self._written]
        run()
        after = [tensor.clone() for tensor in self._written]
        self._write(before)
        self.play()
        is_same = all(map(torch.equal, after, self._written))
        if not is_same:
            self._write(after)
        return is_same

    def _write(self, values: Sequence[Tensor]) -> None:
        for tensor, value in zip(self._written, values, strict=True):
            tensor.copy_(value)


@dataclass
class _Call:
    """An operation to be made again, unless what it writes stays as it is.

    Attributes:
        make: Makes it again.
        constants: Storages it writes, where their values are the same every time.
    """

    make: Callable[[], object]
    constants: frozenset[int] = field(default=frozenset())


class _Recorder(TorchDispatchMode):
    """Sees every operation below autograd, those of the way back too."""

    def __init__(self, largest: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._bytes_left, self._can_be_played = largest, True
        self._calls: list[_Call] = []
        self._made: set[int] = set()
        self._constant: set[int] = set()
        self._changed: dict[int, Tensor] = {}

    def __torch_dispatch__(
        self, function: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if self._can_be_played:
            # Without their history: it would be kept too.
            seen = tree_map_only(Tensor, Tensor.detach, (args, dict(kwargs or {}), result))
            self._can_be_played = self._note(function, *seen)
        if not self._can_be_played:
            self._calls.clear()
        return result

    def tape(self) -> Tape | None:
        if not self._can_be_played:
            return None
        # Zeros that something was added to must be zeros again before it is added.
        needed = [call.make for call in self._calls if not call.constants or call.constants & self._changed.keys()]
        written = [tensor for storage, tensor in self._changed.items() if storage not in self._made]
        return Tape(needed, written)

    def _note(self, function: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
        """Keep an operation; return whether it can be made again."""
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        outputs = _results(result)
        if REFUSED_TAGS.intersection(function.tags) or not all(isinstance(output, Tensor) for output in outputs):
            return False
        seen, given = {_storage(tensor) for tensor in inputs}, {_storage(output) for output in outputs}
        fresh = given - seen
        written = _written_by(function, args, kwargs)
        if written or function._schema.is_mutable:
            for tensor in written:
                self._changed[_storage(tensor)] = _bytes_of(tensor)
                self._constant.discard(_storage(tensor))
            again = partial(function, *args, **kwargs)
            self._calls.append(_Call(partial(_copy, again, outputs) if fresh else again))
        elif not fresh:
            return True  # a view, which is one still
        elif len(fresh) < len(outputs) or any(output.layout is not torch.strided for output in outputs):
            return False  # views and new tensors together, or something sparse
        else:
            is_constant = function._overloadpacket.__name__ in OF_SHAPE_ALONE or seen <= self._constant
            self._constant |= fresh if is_constant else set()
            make = _into(outputs, function, args, kwargs)
            self._calls.append(_Call(make, frozenset(fresh if is_constant else ())))
        self._made |= fresh
        self._bytes_left -= sum(output.untyped_storage().nbytes() for output in outputs) if fresh else 0
        return self._bytes_left >= 0


def _into(
    outputs: list[Tensor], function: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[], object]:
    """The operation, writing into these tensors: by the fastest of the ways that torch has for it."""
    ways: list[Callable[[], object]] = []
    # A function of `torch` is called in half the time that the operation itself is called in.
    if callable(named := getattr(torch, function._overloadpacket.__name__, None)):
        ways.append(partial(named, *args, **kwargs, out=outputs[0] if len(outputs) == 1 else tuple(outputs)))
    names = [argument.name for argument in function._schema.arguments]
    for overload in map(partial(getattr, function._overloadpacket), function._overloadpacket.overloads()):
        arguments = overload._schema.arguments
        places = [argument.name for argument in arguments if argument.is_out]
        if len(places) == len(outputs) and [argument.name for argument in arguments if not argument.is_out] == names:
            ways.append(partial(overload, *args, **kwargs, **dict(zip(places, outputs, strict=True))))
    expected = [_bytes_of(output).clone() for output in outputs]
    for way in ways:
        # It writes what is there already, if it can at all.
        try:
            way()
        except (TypeError, ValueError, RuntimeError):
            continue
        if all(map(torch.equal, expected, map(_bytes_of, outputs))):
            return way
        for output, value in zip(outputs, expected, strict=True):
            _bytes_of(output).copy_(value)
    return partial(_copy, partial(function, *args, **kwargs), outputs)


def _results(result: Any) -> list[Any]:
    """All that an operation returned; some return nothing in some places."""
    return [leaf for leaf in tree_leaves(result) if leaf is not None]


def _copy(make: Callable[[], Any], outputs: list[Tensor]) -> None:
    for output, made in zip(outputs, _results(make()), strict=True):
        output.copy_(made)


def _written_by(function: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The arguments that an operation changes."""
    schema = function._schema.arguments
    named = dict(zip((argument.name for argument in schema), args, strict=False)) | kwargs
    changed = {argument.name for argument in schema if argument.alias_info and argument.alias_info.is_write}
    changed |= CHANGED_IN_SECRET.get(function._overloadpacket.__name__, set())
    leaves = tree_leaves([value for name, value in named.items() if name in changed])
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _storage(tensor: Tensor) -> int:
    """What tensors share that are views of each other."""
    if tensor.layout is torch.strided:
        dense = tensor
    else:
        dense = tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()
    return int(dense.untyped_storage()._cdata)


def _bytes_of(tensor: Tensor) -> Tensor:
    """All that a tensor is a view of, as bytes: equal ones are equal to the last bit, NaN included."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
