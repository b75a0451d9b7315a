"""Tables that commands write: CSV that opens in a spreadsheet, or Parquet; whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from tdegnn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def prepare_table(path: Path) -> None:
    """Make the folder of a table that will be written; refuse a name that says no format. Before any long work."""
    from tdegnn.training.whole_files import explained

    if path.suffix not in (".csv", ".parquet"):
        raise InputError(f"Expected a file that ends in .csv or .parquet, got {path.name}. Rename it.")
    if path.is_dir():
        raise InputError(f"Expected a file to write to, got the folder {path}. Name a file in it.")
    with explained(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as the ending of `path` says."""
    from tdegnn.training.whole_files import write_whole

    prepare_table(path)
    if path.suffix == ".parquet":
        stream = io.BytesIO()
        frame.to_parquet(stream, index=False)
        write_whole(path, stream.getvalue())
        return
    text = _with_plain_days(frame).to_csv(index=False, float_format="%.8g", lineterminator="\n")
    # Spreadsheets take a file with other letters for UTF-8 only where it says so at its start.
    write_whole(path, text.encode("utf-8" if text.isascii() else "utf-8-sig"))


def _with_plain_days(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with days as days, without a time of day or a time zone, which spreadsheets do not understand."""
    days = {}
    for name in frame.select_dtypes(["datetime", "datetimetz"]):
        wall = frame[name].dt.tz_localize(None)
        if (wall == wall.dt.normalize()).all():
            days[name] = wall.dt.strftime("%Y-%m-%d")
    return frame.assign(**days)
