"""Files of the repository outside docs/ as pages of the site, and notebooks to download, without a second copy of them.

Links between files are written as they work in the repository, for example `../results/README.md`. Here they become
links between pages. A link to a file that the site does not have stays as it is, and the strict build refuses it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# From a file of the repository to its page on the site.
OUTSIDE = {
    "results/README.md": "results.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    **{
        f"examples/{name}.ipynb": f"notebooks/{name}.ipynb"
        for name in ("my_graph", "my_operator", "my_series", "order_of_my_data")
    },
}
REPOSITORY_PATH = {page: path for path, page in OUTSIDE.items()}

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside docs/."""
    root = Path(config.config_file_path).parent
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(root / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Write the links of a page as the site needs them."""
    return rewrite_links(markdown, page.file.src_uri)


def rewrite_links(markdown: str, page: str) -> str:
    """Return the text of a page with links to pages in place of links to files of the repository.

    Args:
        markdown: The text.
        page: Where the page is on the site, for example `results.md`.
    """
    folder = posixpath.dirname(REPOSITORY_PATH.get(page, f"docs/{page}"))

    def to_page(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        if target in OUTSIDE:
            on_site = OUTSIDE[target]
        elif target.startswith("docs/"):
            on_site = target.removeprefix("docs/")
        else:
            return link[1]
        return posixpath.relpath(on_site, posixpath.dirname(page) or ".")

    return LINK.sub(to_page, markdown)
