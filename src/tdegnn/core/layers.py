"""The index of a layer, for parts that have weights of their own for each layer."""

from __future__ import annotations

from tdegnn.errors import InputError


def check_layer(layer: int, num_layers: int) -> None:
    """Raise an `InputError` where a part was not made for so many layers."""
    if not 0 <= layer < num_layers:
        raise InputError(
            f"Expected a layer from 0 to {num_layers - 1}, for which this part was made, got layer {layer}."
        )
