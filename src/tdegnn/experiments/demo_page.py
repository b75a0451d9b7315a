"""A page about one run of the demo: the verdicts, the tables and the pictures in a single HTML file.

The file needs nothing else: pictures are inside it, and nothing is loaded from the network.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tdegnn.files import read_whole, write_whole

STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1f2937; background: #fff; max-width: 62rem; margin: 2.5rem auto;
  padding: 0 1.25rem; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
.verdict { border-left: 4px solid #2563eb; background: #eff6ff; padding: .75rem 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid #e5e7eb; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; height: auto; }
figure { margin: 1rem 0; }
figcaption, footer { color: #4b5563; font-size: .9rem; }
"""


@dataclass(frozen=True)
class PageTable:
    """A table: its header and its rows. The first column is text, the others are numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_html(self) -> str:
        """Return the table in HTML."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.header)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in self.rows)
        return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'


@dataclass(frozen=True)
class PagePicture:
    """A picture in a PNG file, and a sentence that says what it shows."""

    path: Path
    caption: str

    def to_html(self) -> str:
        """Return the picture in HTML, with its content."""
        content, caption = b64encode(read_whole(self.path)).decode(), escape(self.caption)
        image = f'<img alt="{caption}" src="data:image/png;base64,{content}">'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>\n"


@dataclass(frozen=True)
class PageSection:
    """A part of the page: a headline, the verdict, and what it rests on."""

    title: str
    verdict: str
    parts: Sequence[PageTable | PagePicture]

    def to_html(self) -> str:
        """Return the section in HTML."""
        parts = "".join(part.to_html() for part in self.parts)
        return f'<h2>{escape(self.title)}</h2>\n<p class="verdict">{escape(self.verdict)}</p>\n{parts}'


def write_page(path: Path, title: str, sections: Sequence[PageSection], footer: str) -> Path:
    """Write the page and return its path."""
    content = "".join(section.to_html() for section in sections)
    page = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{content}"
        f"<footer>{escape(footer)}</footer>\n</body>\n</html>\n"
    )
    write_whole(path, page.encode())
    return path
