"""Does what a part is given fit what it was made for: so many channels, this precision, so many layers?"""

from __future__ import annotations

from torch import Tensor

from tdegnn.errors import InputError


def check_layer(layer: int, num_layers: int) -> None:
    """Raise an `InputError` where a part was not made for so many layers."""
    if not 0 <= layer < num_layers:
        raise InputError(
            f"Expected a layer from 0 to {num_layers - 1}, for which this part was made, got layer {layer}."
        )


def check_fits(state: Tensor, parameter: Tensor, channels: int) -> None:
    """Raise an `InputError` where `state` does not fit a part made for `channels` channels with this parameter."""
    if state.shape[-1] != channels:
        raise InputError(
            f"Expected states of {channels} channels, for which this part was made, got {state.shape[-1]}."
        )
    if (state.dtype, state.device) != (parameter.dtype, parameter.device):
        raise InputError(
            f"Expected states in {parameter.dtype} on {parameter.device}, as the parameters are, got {state.dtype} on "
            f"{state.device}. Convert one of them with .to(...)."
        )
