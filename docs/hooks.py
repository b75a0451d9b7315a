"""Files of the repository outside docs/ as pages of the site, and notebooks to download, without a second copy of them.

Links between files are written as they work in the repository, for example `../results/README.md`. Here they become
links between pages. A link to a file that the site does not have stays as it is, and the strict build refuses it.

Two pages say what is in the registry of operators. Their lists are written here, so that a new operator needs no line
in them.
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

# Where a page lists what the registry of operators has.
REGISTERED = "<!-- operators of the registry -->"

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside docs/."""
    root = Path(config.config_file_path).parent
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(root / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Write the lists and links of a page as the site needs them."""
    return rewrite_links(list_registered(markdown, page.file.src_uri), page.file.src_uri)


def list_registered(markdown: str, page: str) -> str:
    """Return the text of a page with what the registry of operators has, if the page lists it.

    Args:
        markdown: The text.
        page: Where the page is on the site, for example `zoo.md`.
    """
    lists = {"zoo.md": operator_table, "parts/operators.md": references_to_operators}
    return markdown.replace(REGISTERED, lists[page](markdown)) if page in lists else markdown


def operator_table(_: str) -> str:
    """Return all operators with equation and citation, as a table, and one with our numbers."""
    from tdegnn.experiments.zoo import collect_zoo, tabulate_by_rule

    entries = [entry for entry in collect_zoo() if entry.kind == "operator"]
    rows = [[f"`{entry.name}`", f"`{entry.equation}`", entry.citation] for entry in entries]
    (header, *numbers), others = tabulate_by_rule(entries)
    names = ", ".join(f"`{name}`" for name in others)
    return "\n\n".join(
        [
            _as_table(["operator", "s(F; G)", "citation"], rows),
            "Our test accuracy in percent: c = [1] / the best learned rule by validation.",
            _as_table(header, [[f"`{name}`", *own] for name, *own in numbers]),
            f"Not trained on the benchmarks by a recipe of their own, so without numbers: {names}.",
        ]
    )


def _as_table(header: list[str], rows: list[list[str]]) -> str:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in [header, ["---"] * len(header), *rows]]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def references_to_operators(markdown: str) -> str:
    """Return a reference to each module of an operator that the page lacks, in the order of the registry."""
    from tdegnn.operators import registry

    kinds = [registry.OPERATORS.resolve(name).kind for name in registry.OPERATORS.names]
    # What the registry makes itself is made of classes of other files.
    modules = dict.fromkeys(kind.__module__ for kind in kinds if kind.__module__ != registry.__name__)
    shown = set(re.findall(r"^::: (\S+)", markdown, flags=re.MULTILINE))
    return "\n\n".join(f"::: {module}" for module in modules if module not in shown)


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
