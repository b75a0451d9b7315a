"""Import the whole library."""

import importlib
import importlib.util
import pkgutil

import tdegnn


def import_everything():
    """Import every module, but kernels and what calls them only where there is Triton."""
    has_triton = importlib.util.find_spec("triton") is not None
    for module in pkgutil.walk_packages(tdegnn.__path__, "tdegnn."):
        needs_triton = module.name.startswith(("tdegnn.kernels.", "tdegnn.core.kernel_history"))
        if has_triton or module.name == "tdegnn.kernels.usable" or not needs_triton:
            importlib.import_module(module.name)
