"""The type of the numbers that travel along edges, if they have fewer digits than the states.

A product with a graph reads a state once per message, which is most of what a step reads. Messages of 16 bits
(bfloat16) halve that. Only they are rounded: sums of messages, states, their history and c keep all digits, so that c
still sums to one and `[2, -1]` still makes differences of states.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_message_type: ContextVar[torch.dtype | None] = ContextVar("_message_type", default=None)


@contextmanager
def messages_in(number_type: torch.dtype | None) -> Iterator[None]:
    """Inside the `with` block, products with graphs round what they gather to this type. If None, they do not."""
    token = _message_type.set(number_type)
    try:
        yield
    finally:
        _message_type.reset(token)


def message_type() -> torch.dtype | None:
    """Return the type that messages are rounded to here, or None. A backward pass rounds gradients as well."""
    # A compiler cannot read a context variable, nor set one: it refuses `messages_in`.
    return None if torch.compiler.is_compiling() else _message_type.get()


def as_messages(values: Tensor) -> Tensor:
    """Return values in the type of messages."""
    number_type = message_type()
    return values if number_type is None else values.to(number_type)
