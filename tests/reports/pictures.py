"""Makes the pictures of `docs/report.md` from three pages: of a forecaster, of a classifier, and of several runs.

`python -m tests.reports.pictures FORECASTER.html CLASSIFIER.html SEVERAL.html`
"""

import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.reports.conftest import find_browser

IMAGES = Path(__file__).parents[2] / "docs" / "images"
# Name, which of the pages, width, height, colors, and the element at the top.
PICTURES = [
    ("report_400_light", 0, 400, 1500, "light", "figure.series"),
    ("report_400_dark", 0, 400, 1700, "dark", "#explorer"),
    ("report_1000_light", 0, 1000, 1960, "light", "body"),
    ("report_1000_dark", 1, 1000, 1300, "dark", "body"),
    ("report_1800_light", 2, 1800, 1700, "light", "body"),
    ("report_1800_dark", 0, 1800, 1260, "dark", "#explorer"),
]
# The largest width of a picture: those in the documentation are small files.
WIDEST = 1200


def main(pages: list[str]) -> None:
    """Open each page at each size, and write pictures of a part of it."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        for name, number, width, height, scheme, top in PICTURES:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(Path(pages[number]).resolve().as_uri())
            page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
            if top == "#explorer":
                page.locator("#explorer .preset").select_option(label="damped, order 3")
            page.locator(top).first.evaluate("(element) => element.scrollIntoView()")
            page.wait_for_timeout(200)
            picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
            if picture.width > WIDEST:
                picture = picture.resize((WIDEST, picture.height * WIDEST // picture.width), Image.Resampling.LANCZOS)
            picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
                IMAGES / f"{name}.png", optimize=True
            )
            page.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
