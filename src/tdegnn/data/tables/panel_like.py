"""A frame in place of a panel. `as_panel` in `panel.py` takes either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import pandas as pd

from tdegnn.data.panel import Panel
from tdegnn.data.tables.series import read_panel
from tdegnn.errors import Argument, InputError, name_kind


@runtime_checkable
class Frame(Protocol):
    """A frame of polars, or of any other library that hands its columns to Arrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the columns."""


PanelLike: TypeAlias = Panel | pd.DataFrame | Frame


def read_frame(frame: object, values: Sequence[str] = (), exogenous: Sequence[str] = ()) -> Panel:
    """Return the panel in a frame. Refuse anything else that was given in place of a panel.

    Args:
        frame: A pandas or polars frame, wide or long, as `read_panel` takes it.
        values: Columns of a long frame to forecast. Default: as in `read_panel`.
        exogenous: Columns of a long frame that help but are not forecast. Default: as in `read_panel`.
    """
    if isinstance(frame, pd.Series) or not isinstance(frame, pd.DataFrame | Frame):
        raise InputError(
            f"Expected a Panel, or a pandas or polars frame, got {name_kind(frame)}. Make a panel with read_panel, or "
            "of an array with Panel.from_array."
        )
    try:
        return read_panel(frame, value=values, exogenous=exogenous)
    except InputError as error:
        # `read_panel` takes the arguments that the message may speak of, the caller does not.
        has_arguments = any(isinstance(piece, Argument) for piece in error.message.pieces)
        raise InputError(error.message, *([" Do so in read_panel(frame, ...)."] if has_arguments else [])) from error
