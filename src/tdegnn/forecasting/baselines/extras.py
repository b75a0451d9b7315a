"""Packages that only some baselines need, and how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tdegnn.errors import InputError


def import_extra(module: str, extra: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: The module, for example `statsforecast.models`.
        extra: The extra of this library that installs its package.

    Raises:
        InputError: The package is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".", maxsplit=1)[0]
        raise InputError(
            f"Expected the package {package}, got none ({error}). Install it: pip install 'tdegnn[{extra}]'"
        ) from error
