"""Tables as they are written: CSV that a spreadsheet can open without running anything, and Parquet."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pandas as pd

from tdegnn.data.tables.csv_files import FORMULA

PLAIN_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def to_csv(frame: pd.DataFrame, float_format: str | None = None) -> str:
    """Return a frame as CSV. Text that a spreadsheet would run as a formula begins with an apostrophe."""
    texts = [name for name in frame.columns if frame[name].dtype.kind == "O"]
    safe = frame.assign(**{name: frame[name].map(_escape) for name in texts})
    safe.columns = [_escape(name) for name in frame.columns]
    text = str(safe.to_csv(index=False, float_format=float_format, lineterminator="\n"))
    if "\r" not in text:
        return text
    # Python 3.11 does not quote this line break by itself.
    quoting = csv.QUOTE_NONNUMERIC
    return str(safe.to_csv(index=False, float_format=float_format, lineterminator="\n", quoting=quoting))


def to_parquet(frame: pd.DataFrame) -> bytes:
    """Return a frame as Parquet, which keeps all text as it is."""
    stream = io.BytesIO()
    frame.to_parquet(stream, index=False)
    return stream.getvalue()


def _escape(cell: Any) -> Any:
    is_formula = isinstance(cell, str) and FORMULA.match(cell) and not PLAIN_NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell
