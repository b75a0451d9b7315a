"""With which versions something was computed: what a result line and a run folder write down."""

from __future__ import annotations

import platform
from importlib.metadata import version

from tdegnn.version import __version__

PACKAGES = ("torch", "torch-geometric", "numpy", "scipy")


def describe_versions() -> dict[str, str]:
    """Versions of this package, of Python, and of the packages that compute."""
    packages = {package: version(package) for package in PACKAGES}
    return {"tdegnn": __version__, "python": platform.python_version(), **packages}
