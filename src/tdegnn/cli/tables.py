"""Tables that commands write: CSV for spreadsheets, or Parquet. A file is written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tdegnn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def check_table(path: Path) -> None:
    """Raise an `InputError` if no table can be written to `path`. Called before any long work."""
    _check_file(path, (".csv", ".parquet"))


def check_picture(path: Path) -> None:
    """Raise an `InputError` if no picture can be written to `path`. Called before any long work."""
    _check_file(path, (".png", ".pdf", ".svg"))


def _check_file(path: Path, endings: tuple[str, ...]) -> None:
    if path.suffix not in endings:
        listed = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise InputError(f"Expected a file that ends in {listed}, got {path.name}. Rename it.")
    if path.is_dir():
        raise InputError(f"Expected a file to write to, got the folder {path}. Name a file in it.")
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InputError(f"Expected a folder that can be written to, got {nearest}. Choose another folder.")


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or Parquet, according to the ending of `path`."""
    from tdegnn.data.tables.written_tables import to_csv, to_parquet
    from tdegnn.files import write_whole

    check_table(path)
    if path.suffix == ".parquet":
        write_whole(path, to_parquet(frame))
        return
    text = to_csv(_with_plain_times(frame), float_format="%.8g")
    # Spreadsheets need a mark at the start to read the file as UTF-8.
    write_whole(path, text.encode("utf-8" if text.isascii() else "utf-8-sig"))


def _with_plain_times(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with whole days as dates, without time zones, which spreadsheets do not understand.

    Times that are numbers keep all digits, other numbers do not need them.
    """
    plain = {}
    if "time" in frame and frame["time"].dtype.kind == "f":
        plain["time"] = frame["time"].map(repr)
    for name in frame.select_dtypes(["datetime", "datetimetz"]):
        wall = frame[name].dt.tz_localize(None)
        if (wall == wall.dt.normalize()).all():
            plain[name] = wall.dt.strftime("%Y-%m-%d")
    return frame.assign(**plain)
