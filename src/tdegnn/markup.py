"""HTML from Python values. Text is escaped unless it is `Html`, so that no name of a node can become markup.

Notebooks show `_repr_html_` of panels, forecasts and reports of c, which are made here, and `Page`, a report
(`reports/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tdegnn.files import show_size, write_whole

# Elements that have no content and no closing tag.
EMPTY = frozenset({"input", "br", "meta", "circle", "line", "path"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *children: object, **attributes: str | float | bool | None) -> Html:
    """Return an element. Children that are not `Html` are escaped.

    Args:
        name: Name of the element.
        children: Its content.
        attributes: By name; a trailing underscore is dropped and others become hyphens (`class_`, `aria_label`). None
            and False leave an attribute out, True gives it without a value.
    """
    given = [(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()]
    texts = [
        f" {key}" if value is True else f' {key}="{escape(str(value))}"'
        for key, value in given
        if value is not None and value is not False
    ]
    opening = f"<{name}{''.join(texts)}>"
    return Html(opening if name in EMPTY else f"{opening}{join(*children)}</{name}>")


def join(*children: object) -> Html:
    """Return children one after the other, escaped unless they are `Html`."""
    return Html("".join(child if isinstance(child, Html) else escape(str(child)) for child in children))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str | None = None, class_: str | None = None
) -> Html:
    """Return a table whose first column names the rows."""
    head = element("tr", *(element("th", name, scope="col") for name in columns))
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", each) for each in rest))
        for first, *rest in rows
    ]
    title = () if caption is None else (element("caption", caption),)
    return element("table", *title, element("thead", head), element("tbody", *body), class_=class_)


@dataclass(frozen=True)
class Page:
    """A complete HTML page that needs no network. In a notebook it is shown in a frame.

    Attributes:
        html: The page.
    """

    html: Html

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, completely or not at all, and return its path."""
        target = Path(path)
        write_whole(target, self.html.encode())
        return target

    def __repr__(self) -> str:
        return f"Page({show_size(len(self.html.encode()))}). Call save('report.html') to write it."

    def _repr_html_(self) -> str:
        # Scripts of the page run in a frame of their own, which cannot reach the notebook.
        style = "width:100%;height:48rem;border:1px solid #8884"
        return element("iframe", srcdoc=self.html, sandbox="allow-scripts", title="Report", style=style)
