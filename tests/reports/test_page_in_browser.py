"""The page in a real browser: sizes, colors, interactions, accessibility, print, and the numbers of the explorer."""

from pathlib import Path

import numpy as np
import pytest

from tdegnn import explain
from tdegnn.analysis.stencil import apply_stencil
from tdegnn.reports.explorer import KNOWN
from tests.reports.conftest import HOSTILE, NAMES

pytestmark = pytest.mark.slow

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
# Texts, controls and pictures that are wider than their place, and cards that overlap.
FAULTS = """() => {
  const faults = [];
  const name = (each) => `${each.tagName}.${each.className}: ${each.textContent.slice(0, 40)}`;
  if (document.documentElement.scrollWidth > innerWidth) faults.push("the page is wider than the screen");
  for (const each of document.querySelectorAll(".card, .controls, .weight, dl, h2, h3, h4, p")) {
    if (each.scrollWidth > each.clientWidth + 1) faults.push(`cut off: ${name(each)}`);
  }
  for (const plot of document.querySelectorAll(".plot")) {
    const [outer, svg] = [plot.getBoundingClientRect(), plot.querySelector("svg")?.getBoundingClientRect()];
    if (!svg) faults.push("an empty picture");
    else if (svg.width > outer.width + 1 || svg.height < 40) faults.push(`a picture of ${svg.width} x ${svg.height}`);
  }
  const cards = [...document.querySelectorAll(".card")].filter((each) => !each.parentElement.closest(".card"));
  const boxes = cards.map((each) => each.getBoundingClientRect());
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {
    const isApart = a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
    if (!isApart) faults.push(`overlap: ${name(cards[i])} and ${name(cards[i + 1 + j])}`);
  }));
  for (const svg of document.querySelectorAll(".plot svg")) {
    const isShown = (each) => each.textContent && each.getAttribute("opacity") !== "0";
    const labels = [...svg.querySelectorAll(".role-axis-label text")].filter(isShown);
    const places = labels.map((each) => each.getBoundingClientRect());
    places.forEach((a, i) => places.slice(i + 1).forEach((b) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 2 && down > 4) faults.push(`labels overlap: ${labels[i].textContent}`);
    }));
  }
  return faults;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 1800])
def test_nothing_overlaps_or_is_cut_off(open_page, width, scheme):
    page = open_page("both", width, scheme)
    assert page.evaluate(FAULTS) == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    is_dark = sum(int(part) for part in background[4:-1].split(",")) < 384
    assert is_dark == (scheme == "dark")


@pytest.mark.parametrize(
    ("style", "fault"),
    [
        (".card { width: 150vw; }", "wider than the screen"),
        (".card { margin-bottom: -80px; }", "overlap: "),
        ("h4 { font-size: 90px; }", "cut off: "),
    ],
)
def test_faults_of_a_layout_would_be_found(open_page, style, fault):
    page = open_page("classifier", 400)
    page.add_style_tag(content=style)
    assert any(fault in found for found in page.evaluate(FAULTS))


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1000, "light")])
def test_axe_finds_no_serious_fault(open_page, width, scheme):
    page = open_page("both", width, scheme)
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [
        (each["id"], each["nodes"][0]["html"])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found["passes"]) > 20


def test_names_of_nodes_stay_text(open_page):
    page = open_page("both")
    assert page.evaluate("window.broken") is None
    options = page.locator("figure.series .node option")
    assert options.all_text_contents() == [" ".join(name.split()) if "\u2028" not in name else name for name in NAMES]
    assert page.locator("table .pick", has_text=HOSTILE).count() == 1
    assert "<b>red</b>" in page.locator("figure", has_text="Confusion matrix").inner_text()


def test_a_node_is_found_and_chosen(open_page):
    page = open_page("forecaster")
    series, status = page.locator("figure.series"), page.locator("figure.series .status")
    before = series.locator("svg").inner_html()
    series.locator(".find").fill("sou")
    assert series.locator(".node option").all_text_contents() == ["South"]
    assert status.inner_text().startswith("South: mean absolute error")
    assert "1 node matches the search" in status.inner_text()
    assert series.locator("svg").inner_html() != before
    series.locator(".find").fill("nothing like it")
    assert 'No node is called like "nothing like it"' in status.inner_text()
    page.locator(".pick", has_text="North").click()
    assert status.inner_text().startswith("North: mean absolute error")
    assert series.locator(".node option").count() == len(NAMES)


def test_a_node_is_chosen_in_the_graph(open_page):
    page = open_page("forecaster")
    graph = page.locator("figure", has_text="Graph of the nodes")
    graph.locator(".mark-symbol.role-mark path").nth(4).click()
    assert page.locator("figure.series .status").inner_text().startswith("South: mean absolute error")


def test_the_forecasts_can_be_zoomed(open_page):
    page = open_page("forecaster")
    series = page.locator("figure.series")
    ends = "() => tdegnnCharts.views.get(document.querySelector('figure.series .plot')).scale('x').domain().map(Number)"
    whole = page.evaluate(ends)
    series.get_by_role("button", name="Zoom in").press("Enter")
    near = page.evaluate(ends)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2)
    series.get_by_role("button", name="Later").click()
    later = page.evaluate(ends)
    assert later[0] > near[0]
    assert later[1] <= whole[1]
    series.locator(".plot").scroll_into_view_if_needed()
    box = series.locator(".plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 120, box["y"] + 80, steps=4)
    page.mouse.up()
    assert page.evaluate(ends)[0] < later[0]
    series.get_by_role("button", name="Show all steps").click()
    assert page.evaluate(ends) == whole


# Left and right ends of what is drawn in a color, by kind of mark.
DRAWN = """(color) => Object.fromEntries(["area", "rule"].map((kind) => {
  const groups = [...document.querySelectorAll(`figure.series .mark-${kind}.role-mark`)];
  const marks = groups.flatMap((group) => [...group.querySelectorAll("path, line")]);
  const own = marks.filter((each) => [each.getAttribute("fill"), each.getAttribute("stroke")].includes(color));
  return [kind, own.map((each) => each.getBoundingClientRect()).map((box) => [box.left, box.right])];
}))"""
POINTS = """(color) => [...document.querySelectorAll("figure.series .mark-symbol.role-mark path")]
  .filter((each) => each.getAttribute("fill") === color)
  .map((each) => each.getBoundingClientRect()).map((box) => (box.left + box.right) / 2)"""


def test_intervals_begin_at_the_first_forecast_and_end_at_the_last(open_page):
    page = open_page("forecaster")
    ((left, right),) = page.evaluate(DRAWN, "var(--orange)")["area"]
    points = page.evaluate(POINTS, "var(--orange)")
    assert len(points) == 3
    assert (left, right) == (pytest.approx(min(points), abs=1), pytest.approx(max(points), abs=1))


def test_the_interval_of_a_single_step_is_seen(open_page):
    drawn = open_page("one step").evaluate(DRAWN, "var(--orange)")
    assert (len(drawn["area"]), len(drawn["rule"])) == (0, 1)


def test_colors_can_be_switched_and_numbers_opened(open_page):
    page = open_page("classifier", scheme="dark")
    assert page.locator("#theme").inner_text() == "Light colors"
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    numbers = page.locator("figure", has_text="Confusion matrix").locator("details")
    numbers.locator("summary").press("Enter")
    assert numbers.locator("tbody tr").count() == 3


def random_vectors():
    """Vectors whose roots are apart from each other, so that float64 knows them well."""
    random, vectors = np.random.default_rng(0), [list(c) for _, c in KNOWN]
    while len(vectors) < 60:
        others = random.normal(size=random.integers(1, 6)) * random.choice([0.3, 1.0, 2.0])
        vectors.append([1 - float(others.sum()), *others.tolist()])
    return [
        *vectors,
        [1.4, 0.2, -0.6, 0.0],
        [1.0, 0.0],
        [0.99, 0.005, 0.005],
        [2.0, -2.0, 1.0],
        [3.0, -3.0, 1.0, 0.0, 0.0],
    ]


# Repeated roots besides 1, of which float64 knows half the digits. The words must be the same all the same.
REPEATED = [[0.0, 2.0, 0.0, -1.0], [1.0, -0.25, 0.25], [2.0, -1.25, 0.25], [-1.0, 1.0, 1.0]]


def test_the_explorer_agrees_with_the_library(open_page):
    page = open_page("forecaster")
    vectors = random_vectors()
    constants = "JSON.parse(document.querySelector('#explorer .constants').textContent)"
    found = page.evaluate(f"(vectors) => vectors.map((c) => tdegnnStencil.explain(c, {constants}))", vectors)
    for c, there in zip(vectors, found, strict=True):
        here = explain(c)
        assert there["verdict"] == here.verdict, c
        assert (there["isStable"], there["rootMultiplicity"]) == (here.is_stable, here.root_multiplicity)
        for name, numbers in (
            ("maxRootModulus", here.max_root_modulus),
            ("derivativeCoefficients", here.derivative_coefficients),
            ("stencilWeights", here.stencil_weights),
            ("secondDerivativeShare", here.second_derivative_share),
        ):
            np.testing.assert_allclose(there[name], numbers, rtol=1e-9, atol=1e-9, err_msg=f"{name} of {c}")
        roots = np.array([complex(*root) for root in there["roots"]])
        gaps = abs(np.array(here.roots)[:, None] - roots[None])
        assert gaps.min(axis=1).max() < 1e-9, c
        assert gaps.min(axis=0).max() < 1e-9, c


def test_the_words_agree_for_repeated_roots(open_page):
    page = open_page("forecaster")
    constants = "JSON.parse(document.querySelector('#explorer .constants').textContent)"
    found = page.evaluate(f"(vectors) => vectors.map((c) => tdegnnStencil.explain(c, {constants}).verdict)", REPEATED)
    assert found == [explain(c).verdict for c in REPEATED]
    assert sum(verdict.startswith("Unstable (a repeated root") for verdict in found) == 2


def test_the_stencil_acts_as_in_the_library(open_page):
    page = open_page("forecaster")
    signal = np.random.default_rng(0).normal(size=40).tolist()
    for c in ([1.4, 0.2, -0.6], [2.0, -1.0], [1.0]):
        there = page.evaluate("([c, signal]) => tdegnnStencil.applyStencil(c, signal)", [c, signal])
        np.testing.assert_allclose(there, apply_stencil(c, np.array(signal)), rtol=0, atol=1e-9)


def shown(page):
    """The vector of the explorer, which must sum to one, and the verdict on it."""
    c = page.evaluate("JSON.parse(document.getElementById('explorer').dataset.c)")
    assert sum(c) == pytest.approx(1, abs=1e-9)
    verdict = page.locator("#explorer .verdict").inner_text()
    assert verdict == explain(c).verdict
    return c, verdict


def test_roots_move_with_the_keyboard(open_page):
    page = open_page("forecaster")
    page.locator("#explorer .preset").select_option(label="BDF2")
    before, verdict = shown(page)
    assert verdict.startswith("Stable")
    root = page.locator("#explorer .root[tabindex]")
    root.focus()
    root.press("ArrowRight")
    assert shown(page)[0] != before
    assert float(root.get_attribute("aria-valuenow")) == pytest.approx(1 / 3 + 0.02, abs=1e-4)
    root.press("Shift+ArrowLeft")
    assert float(root.get_attribute("aria-valuenow")) == pytest.approx(1 / 3 + 0.019, abs=1e-4)
    assert "modulus" in root.get_attribute("aria-valuetext")
    page.locator("#explorer .preset").select_option(label="leapfrog")
    assert shown(page)[1].startswith("Stable: a pure second-order")
    page.locator("#explorer .root[tabindex]").press("ArrowRight")
    assert shown(page)[1].startswith("Unstable (largest root modulus 1.02)")


def test_a_pair_of_roots_is_dragged_together(open_page):
    page = open_page("forecaster", height=1400)
    page.locator("#explorer .preset").select_option(label="unstable")
    page.locator("#explorer .length").fill("3")
    boxes = page.locator("#explorer .weight input[type=number]")
    boxes.nth(0).fill("-0.5")
    boxes.nth(1).fill("0.25")
    c, _ = shown(page)
    np.testing.assert_allclose(c, [1.25, -0.5, 0.25])
    pair = page.locator("#explorer .root[tabindex]")
    assert pair.count() == 1
    pair.scroll_into_view_if_needed()
    box = pair.locator("circle").nth(0).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 70, box["y"] - 40, steps=5)
    page.mouse.up()
    moved, _ = shown(page)
    assert not np.allclose(moved, c)
    roots = [root for root in explain(moved).roots if abs(root.imag) > 1e-9]
    assert len(roots) == 2
    assert roots[0] == pytest.approx(np.conj(roots[1]))


def test_weights_are_set_and_the_first_one_follows(open_page):
    page = open_page("classifier")
    page.locator("#explorer .preset").select_option(label="leapfrog")
    assert shown(page) == ([2.0, -1.0], "Stable: a pure second-order recursion, 1 is a 2-fold root.")
    before = page.locator("#explorer .acting svg").inner_html()
    page.locator("#explorer .weight input[type=range]").fill("0.5")
    assert shown(page)[0] == [0.5, 0.5]
    assert page.locator("#explorer .acting svg").inner_html() != before
    page.locator("#explorer .signal").select_option("step")
    page.locator("#explorer .length").fill("4")
    page.locator("#explorer .length").press("Tab")
    assert shown(page)[0] == [0.5, 0.5, 0.0, 0.0]


def test_paper_gets_everything_but_the_controls(open_page):
    page = open_page("both", scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert not page.locator("#explorer").is_visible()
    assert not page.locator("figure.series .controls").is_visible()
    assert page.locator("figure.series svg").is_visible()
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 less its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    paper = page.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert 3 <= paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") + paper.count(b"/Type /Page/") <= 20
