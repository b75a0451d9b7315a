"""Text files in any encoding: as a stream of UTF-8, in pieces, and errors that name the line of a wrong byte."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tdegnn.errors import Argument, InputError

# Bytes that are decoded at once.
PIECE = 2**20


def find_undecodable(path: Path, encoding: str) -> InputError | None:
    """Return the error for text that is not in the stated encoding, or None if it is."""
    line = 1
    try:
        for piece in utf8_pieces(path, encoding):
            line += piece.count(b"\n")
    except UnicodeDecodeError as error:
        if "BOM" in error.reason:
            # So from Python 3.13 on. Before, it is a plain UnicodeError.
            return other_text(path, encoding, f"{encoding.upper()} stream does not start with BOM")
        line += error.object[: error.start].count(b"\n")
        return InputError(
            f"Expected {encoding} text in {path.name}, got the byte 0x{error.object[error.start]:02x} in "
            f"line {line}. Save it as 'CSV UTF-8', or pass its encoding, for example ",
            Argument("encoding", "latin-1"),
            ".",
        )
    except UnicodeError as error:
        return other_text(path, encoding, error)
    return None


def utf8_pieces(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield the text as UTF-8, piece by piece."""
    with Transcoded(path, encoding) as stream:
        while piece := stream.read_piece():
            yield piece


def other_text(path: Path, encoding: str, error: UnicodeError | str) -> InputError:
    """Return the error for text that is not in the stated encoding, if it is not known where."""
    return InputError(
        f"Expected {encoding} text in {path.name}, got other text: {error}. Pass its encoding, for example ",
        Argument("encoding", "utf-8"),
        ".",
    )


class Transcoded(io.RawIOBase):
    """A text file of any encoding, as a stream of UTF-8."""

    def __init__(self, path: Path, encoding: str) -> None:
        self._file = path.open("rb")
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._is_at_end = False
        self._left = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def read_piece(self) -> bytes:
        """Return the next bytes, which are empty only at the end."""
        piece = b""
        while not piece and not self._is_at_end:
            content = self._file.read(PIECE)
            self._is_at_end = not content
            piece = self._decoder.decode(content, final=self._is_at_end).encode("utf-8")
        return piece

    def readinto(self, target: Any) -> int:
        """Fill `target` and return the number of bytes."""
        self._left = self._left or self.read_piece()
        size = min(len(target), len(self._left))
        target[:size], self._left = self._left[:size], self._left[size:]
        return size
