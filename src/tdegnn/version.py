"""The version of this package, in one place."""

from __future__ import annotations

import platform
from importlib.metadata import version

__version__ = "0.1.0"

PACKAGES = ("torch", "torch-geometric", "numpy", "scipy")


def describe_versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the packages that compute."""
    packages = {package: version(package) for package in PACKAGES}
    return {"tdegnn": __version__, "python": platform.python_version(), **packages}
