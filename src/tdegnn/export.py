"""Export of a trained function: to a program of `torch.export`, and to ONNX, for runtimes without this library.

Graph, weights and scales are constants of the program, and the sizes of its inputs are fixed. Sparse products become
gathered and added rows (`sparse.plain_products`), which take memory for each edge and channel. ONNX needs the packages
of the extra `onnx`.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tdegnn.errors import InputError
from tdegnn.files import write_whole
from tdegnn.sparse import plain_products

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.export import ExportedProgram


def export_program(function: nn.Module, inputs: Mapping[str, Tensor]) -> ExportedProgram:
    """Return the function as a program, for inputs of these names and sizes.

    Args:
        function: A module whose arguments have the names of the inputs.
        inputs: Examples of the inputs.
    """
    function = function.eval()
    with torch.no_grad(), plain_products():
        # Once before: what networks keep of a graph is then computed, and not a part of the program.
        function(**inputs)
        try:
            return torch.export.export(function, (), dict(inputs))
        except Exception as error:  # of many kinds: whatever a part does that cannot be traced
            raise InputError(
                f"Expected parts that torch.export can follow, got some that it cannot ({_first_line(error)}). Use "
                "other parts."
            ) from error


def write_onnx(program: ExportedProgram, path: str | Path) -> Path:
    """Write a program as an ONNX file, completely or not at all, and return its path.

    Args:
        program: From `export_program`.
        path: The file.
    """
    try:
        import onnx  # noqa: F401
        from onnxscript import opset18
    except ImportError as error:
        raise InputError(
            f"Expected the packages of ONNX, got none ({error.name}). Run: pip install 'tdegnn[onnx]'."
        ) from error
    try:
        with _quiet():
            exported = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                custom_translation_table={torch.ops.aten.copysign.Tensor: _copysign_of(opset18)},
            )
        assert exported is not None  # without a file name, the program is returned
        content = exported.model_proto.SerializeToString()
    except Exception as error:  # a part that ONNX has no word for, or more than 2 GB
        raise InputError(
            f"Expected parts that ONNX can express, got some that it cannot ({_first_line(error)}). Use other parts."
        ) from error
    write_whole(Path(path), content)
    return Path(path)


def _copysign_of(opset: Any) -> Callable[[Any, Any], Any]:
    """Return `torch.copysign` in ONNX, which has no such operation."""

    def copysign(size: Any, sign: Any) -> Any:
        positive = opset.Abs(size)
        return opset.Where(opset.Less(sign, opset.CastLike(0.0, sign)), opset.Neg(positive), positive)

    return copysign


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what the exporter says about itself."""
    logger = logging.getLogger("onnxscript")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
