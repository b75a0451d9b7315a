"""The documentation site builds without a warning, holds every public name, and needs nothing from the network."""

import os
import re
import runpy
import subprocess
import sys
import zlib

import pytest

import tdegnn
from tdegnn.core.rules import COEFFICIENTS
from tdegnn.forecasting import linear_skip
from tdegnn.forecasting.intervals import INTERVALS
from tdegnn.forecasting.losses import LOSSES
from tdegnn.nets import node_skips
from tdegnn.nets.input_maps import INPUT_MAPS
from tdegnn.nets.readouts import READOUTS
from tdegnn.nets.state_norms import STATE_NORMS
from tdegnn.nets.stationary import INITIAL_STATES
from tdegnn.operators.registry import OPERATORS
from tests.pages import ROOT

PARTS = {
    "coefficients": [COEFFICIENTS],
    "input_maps": [INPUT_MAPS],
    "initial_states": [INITIAL_STATES],
    "state_norms": [STATE_NORMS],
    "readouts": [READOUTS],
    "skips": [node_skips.SKIPS, linear_skip.SKIPS],
    "losses": [LOSSES],
    "intervals": [INTERVALS],
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


@pytest.mark.slow
def test_the_reference_has_every_public_name_and_every_operator(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", maxsplit=4)[4]
    documented = {line.split()[0] for line in zlib.decompress(inventory).decode().splitlines()}
    public = {f"{getattr(tdegnn, name).__module__}.{name}" for name in tdegnn.__all__ if name != "__version__"}
    made_by = {OPERATORS.resolve(name).kind for name in OPERATORS.names}
    operators = {f"{kind.__module__}.{kind.__name__}" for kind in made_by if isinstance(kind, type)}
    assert public | operators <= documented


@pytest.mark.slow
def test_the_gallery_has_every_operator(site):
    page = (site / "zoo.html").read_text("utf-8")
    assert [name for name in OPERATORS.names if f"<td><code>{name}</code></td>" not in page] == []


@pytest.mark.slow
def test_a_browser_loads_nothing_from_the_network(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?([^\" >]+)", page.read_text("utf-8"))
        assert [address for address in loaded if re.match(r"(https?:)?//", address)] == []


@pytest.mark.slow
def test_pages_outside_the_docs_are_linked_both_ways(site):
    assert 'href="results.html"' in (site / "honest_benchmarks.html").read_text("utf-8")
    assert 'href="stability.html"' in (site / "results.html").read_text("utf-8")


@pytest.mark.slow
def test_notebooks_can_be_downloaded(site):
    for notebook in (ROOT / "examples").glob("*.ipynb"):
        assert (site / "notebooks" / notebook.name).read_bytes() == notebook.read_bytes()
        assert f'href="../notebooks/{notebook.name}"' in (site / "start" / f"{notebook.stem}.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "link", "on_site"),
    [
        ("order.md", "../results/README.md#depthparquet", "results.md#depthparquet"),
        ("start/my_graph.md", "../../CONTRIBUTING.md", "../contributing.md"),
        ("results.md", "../docs/images/depth.png", "images/depth.png"),
        ("changelog.md", "docs/order.md", "order.md"),
        ("start/my_graph.md", "../../examples/my_graph.ipynb", "../notebooks/my_graph.ipynb"),
        ("parts/skips.md", "../forecaster.md#the-network", "../forecaster.md#the-network"),
        ("order.md", "#how-it-is-found", "#how-it-is-found"),
        ("order.md", "https://example.org/docs/a.md", "https://example.org/docs/a.md"),
        ("order.md", "../pyproject.toml", "../pyproject.toml"),
    ],
)
def test_links_between_files_become_links_between_pages(page, link, on_site):
    rewrite_links = runpy.run_path(str(ROOT / "docs" / "hooks.py"))["rewrite_links"]
    assert rewrite_links(f"see [this]({link})", page) == f"see [this]({on_site})"


@pytest.mark.parametrize("page", PARTS)
def test_the_page_of_a_part_lists_every_name(page):
    table = (ROOT / "docs" / "parts" / f"{page}.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (?:\w+ \| )?`([\w-]+)` \|.*`(\w+)` \|$", table, flags=re.MULTILINE)
    made_by = {name: family.resolve(name).kind.__name__ for family in PARTS[page] for name in family.names}
    assert dict(listed) == made_by
