"""Steps that are recorded once and then repeated: on a GPU as a CUDA graph, on a CPU as a list of operations.

A training step of a small network is hundreds of operations, and Python and autograd take longer to decide on each of
them than torch takes to compute it. A recorded step skips the deciding. It is only used if it was found to write what
the plain step writes, to the last bit. `docs/your_own_operator.md` says what a step must not do to be recorded.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakMethod

import torch
from torch import Tensor

from tdegnn.torch_internals import OPERATIONS, Operation, leaves, storage_key, watch_operations

# Plain steps before one is recorded: libraries initialize themselves in the first ones.
NUM_WARM_UP = 3
# Bytes that the operations of a recorded step may write. Beyond, computing takes longer than deciding.
MOST_BYTES = 2**27


class Replayed:
    """A method without arguments that reads and writes fixed tensors, recorded after a few calls and then replayed.

    Args:
        run: The method. Its result is ignored. Its object is not kept alive.
        device: Where its tensors are.
    """

    def __init__(self, run: Callable[[], None], device: torch.device) -> None:
        # A strong reference would make a cycle. The object and all that is recorded would then wait for the garbage
        # collector, which does not know how large they are.
        self._method = WeakMethod(run)
        self._repeater = _CudaRepeater() if device.type == "cuda" else _CpuRepeater()
        self._num_calls = 0

    @property
    def is_replaying(self) -> bool:
        """Whether the next call replays a recorded step instead of running the method."""
        return self._repeater.is_replaying

    def __call__(self) -> None:
        """Make one step."""
        run = self._method()
        assert run is not None  # its object owns this one
        self._num_calls += 1
        if self._num_calls <= NUM_WARM_UP:
            self._repeater.warm_up(run)
        else:
            self._repeater.repeat(run)


class _CpuRepeater:
    """Records the first step, checks the recording in the second, and replays it from the third on."""

    def __init__(self) -> None:
        self._recorded: RecordedStep | None = None
        self._num_repeats = 0

    @property
    def is_replaying(self) -> bool:
        return self._recorded is not None and self._num_repeats > 1

    def warm_up(self, run: Callable[[], object]) -> None:
        run()

    def repeat(self, run: Callable[[], object]) -> None:
        if self._num_repeats == 0:
            self._recorded = RecordedStep.record(run)
        elif self._recorded is None:
            run()
        elif self._num_repeats > 1:
            self._recorded.replay()
        elif not self._recorded.reproduces(run):
            self._recorded = None
        self._num_repeats += 1


class _CudaRepeater:
    """Captures a CUDA graph and launches it."""

    def __init__(self) -> None:
        self._graph: torch.cuda.CUDAGraph | None = None

    @property
    def is_replaying(self) -> bool:
        return self._graph is not None

    def warm_up(self, run: Callable[[], object]) -> None:
        # A graph cannot be captured on the default stream, and the steps that prepare it must avoid that stream too.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            run()
        torch.cuda.current_stream().wait_stream(side)

    def repeat(self, run: Callable[[], object]) -> None:
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with _no_garbage_collection(), torch.cuda.graph(self._graph):
                run()
        self._graph.replay()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Delete no earlier CUDA graph while a new one is captured: that would spoil the capture."""
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()


class RecordedStep:
    """The operations of a step, in the order in which they were made.

    Args:
        calls: The operations, bound to the tensors that they read and write.
        changed: The tensors that existed before the step and that the step changes, as bytes.
    """

    def __init__(self, calls: Sequence[Callable[[], object]], changed: Sequence[Tensor]) -> None:
        self._calls, self._changed = tuple(calls), tuple(changed)

    def __len__(self) -> int:
        return len(self._calls)

    @staticmethod
    def record(run: Callable[[], object], most_bytes: int = MOST_BYTES) -> RecordedStep | None:
        """Run a step once. Return its recording, or None if it cannot be replayed.

        Args:
            run: The step. It reads and writes tensors that stay where they are. Only operations of torch are recorded.
            most_bytes: Bytes that its operations may write.
        """
        if not OPERATIONS.opens():
            run()
            return None
        recorder = _Recorder(most_bytes)
        with watch_operations(recorder.see):
            run()
        return recorder.finish()

    def replay(self) -> None:
        """Make all operations again."""
        with torch.no_grad():
            for call in self._calls:
                call()

    def reproduces(self, run: Callable[[], object]) -> bool:
        """Run the step once. Return whether a replay would have written the same, to the last bit."""
        before = [tensor.clone() for tensor in self._changed]
        run()
        after = [tensor.clone() for tensor in self._changed]
        self._restore(before)
        self.replay()
        is_same = all(map(torch.equal, after, self._changed))
        if not is_same:
            self._restore(after)
        return is_same

    def _restore(self, values: Sequence[Tensor]) -> None:
        for tensor, value in zip(self._changed, values, strict=True):
            tensor.copy_(value)


# Operations whose result does not depend on the values of their inputs, only on shapes.
OF_SHAPE_ALONE = {"ones_like", "zeros_like", "full_like", "empty_like", "new_ones", "new_zeros", "new_full"}
# Arguments that an operation changes without declaring it.
CHANGED_UNDECLARED = {"native_batch_norm": {"running_mean", "running_var"}}
REFUSED_TAGS = {
    torch.Tag.nondeterministic_seeded,  # draws other numbers every time
    torch.Tag.inplace_view,  # changes the shape of a tensor that other operations hold
    torch.Tag.data_dependent_output,  # hands a value to Python, which may decide by it
}


@dataclass(frozen=True)
class _Call:
    """An operation to be made again, unless its result is constant and nothing changes it.

    Attributes:
        make: Makes it again.
        constants: Storages that it fills with the same values every time.
    """

    make: Callable[[], object]
    constants: frozenset[int] = frozenset()


class _Recorder:
    """Sees the operations of one step.

    Args:
        most_bytes: Bytes that the operations may write.
    """

    def __init__(self, most_bytes: int) -> None:
        self._bytes_left, self._is_replayable = most_bytes, True
        self._calls: list[_Call] = []
        # By storage, which all views of a tensor share.
        self._made: set[int] = set()
        self._constant: set[int] = set()
        self._changed: dict[int, Tensor] = {}

    def see(self, operation: Operation) -> None:
        """Take in the next operation."""
        self._is_replayable = self._is_replayable and self._keep(operation)
        if not self._is_replayable:
            self._calls.clear()

    def finish(self) -> RecordedStep | None:
        """Return the recording, or None if an operation cannot be replayed."""
        if not self._is_replayable:
            return None
        # Constants that a later operation changes must be made anew before it changes them.
        needed = [call.make for call in self._calls if not call.constants or call.constants & self._changed.keys()]
        changed = [tensor for storage, tensor in self._changed.items() if storage not in self._made]
        return RecordedStep(needed, changed)

    def _keep(self, operation: Operation) -> bool:
        """Keep an operation. Return whether it can be replayed."""
        outputs = _results(operation.result)
        if _depends_on_more_than_shapes(operation) or not all(isinstance(output, Tensor) for output in outputs):
            return False
        seen = {storage_key(tensor) for tensor in operation.inputs}
        fresh = {storage_key(output) for output in outputs} - seen
        changed = operation.changed_arguments(CHANGED_UNDECLARED.get(operation.name, ()))
        if changed or operation.is_mutable:
            for tensor in changed:
                self._changed[storage_key(tensor)] = _bytes_of(tensor)
                self._constant.discard(storage_key(tensor))
            self._calls.append(_Call(partial(_copy, operation.call, outputs) if fresh else operation.call))
        elif not fresh:
            return True  # A view stays a view of the same storage.
        elif len(fresh) < len(outputs) or any(output.layout is not torch.strided for output in outputs):
            return False  # Views and new tensors together, or sparse tensors.
        else:
            is_constant = operation.name in OF_SHAPE_ALONE or seen <= self._constant
            self._constant |= fresh if is_constant else set()
            self._calls.append(_Call(_writing_into(outputs, operation), frozenset(fresh if is_constant else ())))
        self._made |= fresh
        self._bytes_left -= sum(output.untyped_storage().nbytes() for output in outputs) if fresh else 0
        return self._bytes_left >= 0


def _depends_on_more_than_shapes(operation: Operation) -> bool:
    """Return whether the shape of the result, or what Python does next, may be another one in the next step."""
    if REFUSED_TAGS & operation.tags:
        return True
    if torch.Tag.dynamic_output_shape not in operation.tags:
        return False
    # torch declares all indexing so, but only a mask selects a number of entries that depends on values.
    is_mask = (tensor.dtype in (torch.bool, torch.uint8) for tensor in operation.inputs[1:])
    return operation.name != "index" or any(is_mask)


def _writing_into(outputs: list[Tensor], operation: Operation) -> Callable[[], object]:
    """Return the fastest call that makes an operation again and writes its result into `outputs`."""
    expected = [_bytes_of(output).clone() for output in outputs]
    for way in operation.ways_into(outputs):
        # The outputs hold the right result already, so a way that works changes nothing.
        try:
            way()
        except (TypeError, ValueError, RuntimeError):
            continue
        if all(map(torch.equal, expected, map(_bytes_of, outputs))):
            return way
        for output, value in zip(outputs, expected, strict=True):
            _bytes_of(output).copy_(value)
    return partial(_copy, operation.call, outputs)


def _copy(call: Callable[[], object], outputs: list[Tensor]) -> None:
    for output, made in zip(outputs, _results(call()), strict=True):
        output.copy_(made)


def _results(result: Any) -> list[Any]:
    """Return what an operation returned, without the gaps that some have."""
    return [leaf for leaf in leaves(result) if leaf is not None]


def _bytes_of(tensor: Tensor) -> Tensor:
    """Return the whole storage of a tensor as bytes, which compare equal only to the last bit, NaN included."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
