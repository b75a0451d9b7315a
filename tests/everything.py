"""Import the whole library."""

import importlib
import importlib.util
import pkgutil

import tdegnn


def import_everything():
    """Import every module, but kernels only where there is Triton."""
    has_triton = importlib.util.find_spec("triton") is not None
    for module in pkgutil.walk_packages(tdegnn.__path__, "tdegnn."):
        if has_triton or module.name == "tdegnn.kernels.usable" or not module.name.startswith("tdegnn.kernels."):
            importlib.import_module(module.name)
