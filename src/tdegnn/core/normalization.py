"""Division of a raw vector by its sum, `c = raw / sum(raw)`, guarded where the sum comes near zero.

Paper: both coefficient rules divide by the raw sum and say nothing of a sum that vanishes, which does happen
in training. Deviation: a sum smaller than 1 % of `sum |raw|` is held there with its sign, and what is then
missing from `sum c = 1` is added to the weight of the current state. A zero vector gives Euler, (1, 0, ..., 0).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tdegnn.functions import quick_to_call

RELATIVE_FLOOR = 1e-2


def normalize_sum(raw: Float[Tensor, "order *batch"]) -> Float[Tensor, "order *batch"]:
    """Scale `raw` along its first axis so that it sums to one. Finite for every finite input, as is its gradient."""
    coefficients: Tensor = _NormalizeSum.apply(raw)  # type: ignore[no-untyped-call]
    return coefficients


class Guarded(NamedTuple):
    """A raw vector, divided by what stands for its sum.

    Attributes:
        quotient: `raw / sum(raw)`, or what is nearest to it where the sum is held.
        scale: The size that was taken out of `raw`.
        divisor: The sum of `raw / scale`, held away from zero.
        is_free: Whether it is that sum, and not held.
    """

    quotient: Float[Tensor, "order *batch"]
    scale: Float[Tensor, "1 *batch"]
    divisor: Float[Tensor, "1 *batch"]
    is_free: Bool[Tensor, "1 *batch"]


def guard(raw: Float[Tensor, "order *batch"]) -> Guarded:
    """Divide `raw` by its sum, which is held where it comes near zero."""
    # c does not depend on the scale of raw, so the scale is a constant to the gradient. Taking it out keeps huge
    # values from overflowing. Its own floor keeps 1 / scale, a factor of the gradient, finite.
    smallest_scale = torch.finfo(raw.dtype).tiny * 1e8
    scale = torch.linalg.vector_norm(raw.detach(), torch.inf, dim=0, keepdim=True).clamp(min=smallest_scale)
    scaled = raw / scale
    total = scaled.sum(dim=0, keepdim=True)
    size = total.abs()
    # The largest entry of `scaled` is 1 unless raw is below the smallest scale; there Euler takes over smoothly.
    floor = RELATIVE_FLOOR * torch.linalg.vector_norm(scaled, 1, dim=0, keepdim=True).clamp(min=1.0)
    divisor = torch.copysign(torch.maximum(size, floor), total)
    return Guarded(scaled / divisor, scale, divisor, size >= floor)


def coefficients_of(guarded: Guarded) -> Float[Tensor, "order *batch"]:
    """The values of `normalize_sum`: the first is what the others leave of one."""
    past = guarded.quotient[1:]
    return torch.cat([1.0 - past.sum(dim=0, keepdim=True), past])


def pull_back(guarded: Guarded, gradient: Float[Tensor, "order *batch"]) -> Float[Tensor, "order *batch"]:
    """Gradient with respect to `raw`, given the one with respect to the coefficients.

    To be differentiated once more, `guarded` must have been computed under autograd.
    """
    quotient, scale, divisor, is_free = guarded
    # How the divisor follows each entry: as the sum does, or as the floor does where the sum is held.
    slope = (RELATIVE_FLOOR * torch.sign(quotient)).masked_fill(is_free, 1.0)
    # The first coefficient is what the others leave of one.
    to_quotient = gradient - gradient[:1]
    to_divisor = (to_quotient * quotient).sum(dim=0, keepdim=True)
    return torch.addcmul(to_quotient, to_divisor, slope, value=-1) / divisor / scale


@quick_to_call
class _NormalizeSum(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(raw: Tensor) -> Tensor:
        return coefficients_of(guard(raw))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (raw,) = ctx.saved_tensors
        return pull_back(guard(raw), gradient)
