"""The demo's report in a browser, as wide as a screen and as a phone: every table shows its rows, every figure its ink.

`make demo` makes the report; Chromium comes with apt.
"""

from __future__ import annotations

import html
import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Error, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "results/demo/report.html"
WIDTHS = (1400, 390)
LEAST_INK = 0.01  # of a figure's pixels
LEAST_TEXT = 7  # pixels: of exponents; all else is a third larger
COMMANDS = "PYTHONPATH|MALLOC_|DRCRM_"  # what stands in the commands of jobs, and not beside captions
FLAGS = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium")
    assert found, "no chromium: apt-get install chromium"
    assert REPORT.exists(), f"no {REPORT.relative_to(ROOT)}: make demo"
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=[*FLAGS.split(), "--disable-sync"])
        yield started
        started.close()


def faults(browser: Browser, report: Path, width: int) -> list[str]:
    """What is wrong with a report, that of the demo or a copy of it, as wide as this."""
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    page, found = context.new_page(), []
    page.on("console", lambda said: found.append(f"console: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: found.append(f"error: {error}"))
    page.on("request", lambda asked: found.append(f"request: {asked.url}") if asked.url.startswith("http") else None)
    try:
        page.goto(report.as_uri())
        labels = "Object.entries(results).map(([path, found]) => [path, Object.values(found.labels)])"
        results = dict(page.evaluate(labels))
        found += first_page(page, next(ROOT / path for path in results if path.endswith(".html")))
        listed = []
        for category in sorted(page.evaluate("Object.keys(categories)")):
            page.evaluate("app.setView({navbarMode: 'menu'})")
            page.locator("nav").first.get_by_text(category, exact=True).click()
            for row in page.locator("nav tbody tr").all():
                shown = row.locator("td").all_inner_texts()[:-1]
                path = ROOT / next(path for path, known in results.items() if sorted(known) == sorted(shown))
                row.locator("a").first.click()
                look = table if path.suffix == ".html" else figure
                found += [f"{shown[0]}: {fault}" for fault in look(page, path)]
                listed.append(path)
            page.locator("nav tbody tr a").nth(1).click()
            found += caption(page, category)
        if {*listed} != {ROOT / path for path in results}:
            found.append("not all results are listed")
        order = [path.name for path in listed if path.suffix == ".html"]
        if order != sorted(order):
            found.append(f"tables are listed as {order}")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append("the page is wider than the screen")
    except Error as error:
        found.append(f"{error}")
    context.close()
    return found


def text_of(page: str) -> str:
    """What a page of html says, without white space."""
    said = re.sub(r"<[^>]*>", "", re.sub(r"<style>.*?</style>", "", page, flags=re.S))
    return "".join(html.unescape(said).split())


def first_page(page: Page, headline: Path) -> list[str]:
    """The sentences, the headline's table and the overview."""
    page.locator(".prose h1").wait_for()
    shown = "".join(page.locator(".prose").inner_text().split())
    expected = text_of(headline.read_text(encoding="utf-8"))
    return [
        *([] if expected in shown else [f"the first page has no {headline.name}: {shown[:200]}"]),
        *inked(page.locator(".prose svg").screenshot(), "the overview of the first page"),
    ]


def table(page: Page, path: Path) -> list[str]:
    """A table shows all that its file says, and nothing else."""
    frame = page.locator("iframe").element_handle().content_frame()
    frame.wait_for_load_state()
    shown = "".join(frame.locator("body").inner_text().split())
    return [] if shown == text_of(path.read_text(encoding="utf-8")) else [f"shows {shown[:80]!r}"]


def figure(page: Page, path: Path) -> list[str]:
    """A figure is drawn, and its text can be read."""
    image = page.locator(".grow img")
    image.evaluate("image => image.decode()")
    svg = path.read_text(encoding="utf-8")
    scale = image.bounding_box()["width"] / float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    least = scale * min(float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg))
    small = [f"its smallest text has {least:.1f} pixels"] if least < LEAST_TEXT else []
    return [*inked(image.screenshot(), "it"), *small]


def caption(page: Page, category: str) -> list[str]:
    """Beside a result stands its caption, and no command."""
    said, beside = page.locator("nav .prose").inner_text(), page.locator("nav").first.inner_text()
    return [
        *([] if len(said) > 60 else [f"{category}: no caption"]),
        *([f"{category}: a command beside the caption"] if re.search(COMMANDS, beside) else []),
    ]


def inked(picture: bytes, what: str) -> list[str]:
    """Whether a picture of something is blank."""
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("L"))
    return [] if (pixels < 200).mean() > LEAST_INK else [f"{what} is blank"]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_table_and_figure_can_be_read(browser, width):
    assert faults(browser, REPORT, width) == []


def test_no_command_is_in_the_report():
    assert not re.search(COMMANDS, REPORT.read_text(encoding="utf-8"))


PLANTED = (
    ("filename=01 Expected", "filename=01, Expected", "01 Expected Hamming loss by clipped SNIPS: shows 'Expected"),
    ('<script id="metadata">', '<script id="metadata">console.error("planted");', "console: planted"),
    (
        '<div id="loading-screen">',
        '<script src="http://localhost:9/x.js"></script><div id="loading-screen">',
        "request: http://localhost:9/x.js",
    ),
    ("filename=paired_digits.svg;base64,", "filename=paired_digits.svg;base64,AAAA", "EncodingError"),  # ends the walk
)


def test_faults_are_found(browser, tmp_path):
    """A comma in a name, an error, a request and a picture that is none."""
    page = REPORT.read_text(encoding="utf-8")
    for whole, planted, _ in PLANTED:
        assert page.count(whole) == 1
        page = page.replace(whole, planted)
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    found = faults(browser, tmp_path / "report.html", WIDTHS[0])
    for _, _, fault in PLANTED:
        assert any(fault in each for each in found)
