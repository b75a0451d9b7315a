"""Give networks the weights of a run folder, and make no network that is larger than those weights.

The settings in a folder may come from anyone: a single number could ask for more memory than there is. The sizes of
the files are known, so nothing larger than them is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tdegnn.errors import InputError, list_some
from tdegnn.parts import PartRecord, describe_record
from tdegnn.runs.run_folder import CONFIG, WEIGHTS

# The shape of a tensor, and whether its numbers are floating-point.
_Kind: TypeAlias = tuple[torch.Size, bool]
# Functions that make a tensor of given sizes.
_OF_SIZES: tuple[Callable[..., Any], ...] = (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn)
# Tensors up to this many numbers are always made: parts may need some that are not stored.
ALWAYS_MADE = 2**24


class _TooLargeError(Exception):
    """A tensor that is larger than all stored weights."""


class _Limited(TorchFunctionMode):
    """Lets functions of torch make tensors of this many numbers in all."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._left -= _size_asked(func, args, kwargs or {})
        if self._left < 0:
            raise _TooLargeError
        return func(*args, **(kwargs or {}))


def _size_asked(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Return how many numbers a function of torch makes, if it makes a tensor of given sizes."""
    sizes = args if args else (kwargs.get("size", ()),)
    first = sizes[0] if sizes else ()
    if function in (torch.eye, torch.arange):
        return int(first) ** (2 if function is torch.eye else 1) if isinstance(first, int) else 0
    if function not in (*_OF_SIZES, torch.full):
        return 0
    whole = first if isinstance(first, tuple | list) else (first,) if function is torch.full else sizes
    return math.prod(size for size in whole if isinstance(size, int))


@contextmanager
def making_what_is_stored(stored: Mapping[str, Tensor], path: Path) -> Iterator[None]:
    """Raise an `InputError` when networks are made that are much larger than the weights in a run folder.

    Args:
        stored: The weights.
        path: The folder.
    """
    # Twice, since a part may draw its weights into a new tensor.
    most = ALWAYS_MADE + 2 * sum(tensor.numel() for tensor in stored.values())
    try:
        with _Limited(most):
            yield
    except _TooLargeError as error:
        raise InputError(
            f"Expected weights.safetensors of {path} to hold the network that config.json describes, got a smaller one."
            " Restore both from a copy or train again."
        ) from error


def check_members(stored: Mapping[str, Tensor], num_members: int, path: Path) -> None:
    """Raise an `InputError` unless the weights in a run folder have one row per member."""
    for name, tensor in stored.items():
        if tensor.dim() == 0 or len(tensor) != num_members:
            raise InputError(
                f"Expected weights of {num_members} networks, as in config.json of {path}, got {name} of shape "
                f"{tuple(tensor.shape)}. Restore both files from a copy or train again."
            )


def take_weights(
    network: nn.Module, stored: Mapping[str, Tensor], member: int, path: Path, parts: Mapping[str, PartRecord | None]
) -> None:
    """Give a network the weights and buffers of one member.

    Args:
        network: The network.
        stored: The weights, one row per member.
        member: The number of the row.
        path: The run folder.
        parts: The parts of the network as the settings of the folder name them, by the attribute that holds them.
    """
    own = dict([*network.named_parameters(), *network.named_buffers()])
    needed = {name: (tensor.shape, tensor.is_floating_point()) for name, tensor in own.items()}
    found = {name: (tensor.shape[1:], tensor.is_floating_point()) for name, tensor in stored.items()}
    others = [name for name in sorted(needed | found) if needed.get(name) != found.get(name)]
    if others:
        raise _of_another_network(others, needed, found, path, parts)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(stored[name][member])


def _of_another_network(
    others: Sequence[str],
    needed: Mapping[str, _Kind],
    found: Mapping[str, _Kind],
    path: Path,
    parts: Mapping[str, PartRecord | None],
) -> InputError:
    """Return the error about weights of another network: what the settings name, what it needs and what there is."""
    wrong = {name.partition(".")[0] for name in others}
    # The operator first: other parts may be made to fit it.
    part = next((name for name in ("operator", *parts) if name in wrong and parts.get(name) is not None), None)
    record = None if part is None else parts[part]
    within = [name for name in others if part is None or name.startswith(f"{part}.")]
    named = "the network" if record is None else f"the {(part or '').replace('_', ' ')} {describe_record(record)}"
    needs, has = (_list_shapes([name for name in within if name in known], known) for known in (needed, found))
    text = f"Expected weights of {named}, as {CONFIG} of {path} says, with {needs}; got {WEIGHTS} with {has} instead. "
    if isinstance(record, dict) and "class" in record:
        return InputError(f"{text}Pass {record['class']} as it was in the training, or train again.")
    return InputError(f"{text}Restore both files from one copy, or train again.")


def _list_shapes(names: Sequence[str], kinds: Mapping[str, _Kind]) -> str:
    """Return names of weights with their shapes, for a message."""
    return list_some([f"{name} {tuple(kinds[name][0])}" for name in names], 4) or "none of them"


def check_coefficients(found: Any, num_layers: int, order: int, path: Path) -> None:
    """Raise an `InputError` unless there are coefficients of this many layers and of this order.

    Called before the network is made: the number of layers need not show in the shapes of weights.
    """
    if found.shape != (num_layers, order):
        raise InputError(
            f"Expected coefficients of shape {(num_layers, order)}, by the settings in {path}, got {found.shape}. "
            "Restore config.json and coefficients.npz from a copy or train again."
        )
