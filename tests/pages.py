"""The pages for people, and what is in them: code blocks, links, headings."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "results/README.md")]
    + list((ROOT / "docs").rglob("*.md"))
)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text, and the number of the line that it starts in."""

    language: str
    text: str
    line: int

    @property
    def commands(self):
        """The commands of a block for the shell, without comments. Lines that end with a backslash are joined."""
        lines = re.sub(r"\s*\\\n\s*", " ", self.text).splitlines()
        return [command for line in lines if (command := re.sub(r"(^|\s)#.*", "", line).strip())]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def blocks_of(page):
    text = page.read_text(encoding="utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in FENCED.finditer(text)]


def prose_of(page):
    """The text of a page without code, in which brackets are no links."""
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("](", "] ("), FENCED.sub("", page.read_text("utf-8")))


def links_of(page):
    return LINK.findall(prose_of(page))


def anchors_of(page):
    """The anchors of the headings, as forges make them: small letters, no punctuation, a number if they repeat."""
    anchors = []
    for heading in re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text("utf-8")), flags=re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        anchors.append(anchor if anchor not in anchors else f"{anchor}-{anchors.count(anchor)}")
    return anchors


def find_dead_links(page):
    """Links of a page to files, or headings of pages, that do not exist. Links into the network are not followed."""
    dead = []
    for link in links_of(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        is_page = target.suffix == ".md"
        if not target.exists() or (anchor and is_page and anchor not in anchors_of(target)):
            dead.append(link)
    return dead
