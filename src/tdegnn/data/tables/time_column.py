"""The column of times of a table: which it is by name, and how it is read, as texts, dates or numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Bool, Int

from tdegnn.data.tables.csv_files import MISSING
from tdegnn.data.tables.table import Table
from tdegnn.data.times.time_texts import in_zone, read_times
from tdegnn.data.times.times import Place
from tdegnn.errors import InputError

TIME_NAMES = ("time", "timestamp", "datetime", "date", "ds", "day", "week", "month", "year", "step")
# A number with a decimal comma, in a column of times.
DECIMAL_COMMA = re.compile(r"^([+-]?\d+),(\d+)$")


@dataclass(frozen=True)
class TimeColumn:
    """The column of times of a table, and how to read it."""

    table: Table
    column: int
    time_format: str | None
    time_zone: str | None
    decimal: str

    def read(self, rows: Int[np.ndarray, " rows"]) -> pd.Index:
        """Return the times of some rows."""
        array = self.table.column(self.column)
        if pa.types.is_dictionary(array.type) or pa.types.is_string(array.type):
            texts = self.table.texts(self.column).take(pa.array(rows)).to_pylist()
            self._check_present(np.array([text is None or text in MISSING for text in texts]), rows)
            if self.decimal == ",":
                texts = [DECIMAL_COMMA.sub(r"\1.\2", text) for text in texts]
            return self._read_texts(texts, rows)
        if pa.types.is_date(array.type):
            array = array.cast(pa.timestamp("s" if pa.types.is_date32(array.type) else "ms"))
        chosen = array.take(pa.array(rows)).to_pandas()
        # pandas has no index of float16. Through text, so that 0.1 stays 0.1.
        typed = pd.Index(chosen.astype(str).astype(np.float64) if pa.types.is_float16(array.type) else chosen)
        self._check_present(np.asarray(typed.isna()), rows)
        if isinstance(typed, pd.DatetimeIndex):
            return in_zone(typed, self.time_zone, self.place(rows))
        is_whole = pa.types.is_floating(array.type) and bool((np.isfinite(typed) & (typed == np.floor(typed))).all())
        if pa.types.is_integer(array.type) or is_whole:
            return self._read_texts([str(int(number)) for number in typed], rows)
        if not pa.types.is_floating(array.type) or self.time_format or self.time_zone:
            raise InputError(
                f"Expected dates in column {self.name!r} of {self.table.source}, got {array.type}. Convert it first."
            )
        return typed

    def place(self, rows: Int[np.ndarray, " rows"]) -> Place:
        """Return a function that returns the place of the time of the i-th of these rows."""
        return lambda position: self.table.place(int(rows[position]))

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.table.names[self.column]

    def _read_texts(self, texts: list[str], rows: Int[np.ndarray, " rows"]) -> pd.Index:
        try:
            return read_times(texts, self.place(rows), self.time_format, self.time_zone)
        except InputError as error:
            raise InputError(f"In column {self.name!r}: ", error.message) from error

    def _check_present(self, is_missing: Bool[np.ndarray, " rows"], rows: Int[np.ndarray, " rows"]) -> None:
        if is_missing.any():
            place = self.place(rows)(int(np.argmax(is_missing)))
            raise InputError(f"Expected a time in every row, got none in {place}. Remove the row, or write the time.")
