"""Report of the demo in a browser, as wide as a screen and as a phone: tables show their rows, figures are drawn.

Needs the report (``make demo``) and Chromium (``apt-get install chromium``).
"""

import html
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Error, Page

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "results/demo/report.html"
WIDTHS = (1400, 390)
MIN_INK = 0.01  # of a figure's pixels
MIN_TEXT = 7  # pixels, for exponents; all other text is a third larger
COMMANDS = "PYTHONPATH|MALLOC_|DRCRM_"  # parts of the commands of jobs, which captions must not show


def problems(browser: Browser, report: Path, width: int) -> list[str]:
    """Return what is wrong with the demo's report, or a copy of it, at this width of the screen."""
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    page, messages = context.new_page(), []
    page.on("console", lambda log: messages.append(f"console: {log.text}") if log.type == "error" else None)
    page.on("pageerror", lambda error: messages.append(f"error: {error}"))
    page.on("request", lambda request: messages.extend([f"request: {request.url}"] * request.url.startswith("http")))
    try:
        page.goto(report.as_uri())
        for message in visit_results(page):
            messages.append(message)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            messages.append("the page is wider than the screen")
    except Error as error:
        messages.append(f"{error}")
    context.close()
    return messages


def visit_results(page: Page) -> Iterator[str]:
    """Open the first page and every result, and yield what is wrong with them."""
    labels = "Object.entries(results).map(([path, result]) => [path, Object.values(result.labels)])"
    results = {ROOT / path: sorted(values) for path, values in page.evaluate(labels)}
    yield from check_first_page(page, next(path for path in results if path.suffix == ".html"))
    visited = []
    for category in sorted(page.evaluate("Object.keys(categories)")):
        page.evaluate("app.setView({navbarMode: 'menu'})")
        page.locator("nav").first.get_by_text(category, exact=True).click()
        for row in page.locator("nav tbody tr").all():
            row_labels = row.locator("td").all_inner_texts()[:-1]
            path = next(path for path, values in results.items() if values == sorted(row_labels))
            row.locator("a").first.click()
            check = check_table if path.suffix == ".html" else check_figure
            yield from (f"{row_labels[0]}: {message}" for message in check(page, path))
            visited.append(path)
        page.locator("nav tbody tr a").nth(1).click()
        yield from check_caption(page, category)
    tables = [path.name for path in visited if path.suffix == ".html"]
    if set(visited) != set(results):
        yield "not all results are listed"
    if tables != sorted(tables):
        yield f"tables are listed as {tables}"


def squeeze(text: str) -> str:
    return "".join(text.split())


def text_of(path: Path) -> str:
    """Return the text of an HTML file without white space."""
    page = re.sub(r"<style>.*?</style>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return squeeze(html.unescape(re.sub(r"<[^>]*>", "", page)))


def check_first_page(page: Page, headline: Path) -> list[str]:
    """Check the headline's table and the overview."""
    page.locator(".prose h1").wait_for()
    has_table = text_of(headline) in squeeze(page.locator(".prose").inner_text())
    messages = check_ink(page.locator(".prose svg").screenshot(), "the overview of the first page")
    return messages if has_table else [*messages, f"the first page has no {headline.name}"]


def check_table(page: Page, path: Path) -> list[str]:
    """Check that a table shows the text of its file and no other text."""
    frame = page.locator("iframe").element_handle().content_frame()
    frame.wait_for_load_state()
    text = squeeze(frame.locator("body").inner_text())
    return [] if text == text_of(path) else [f"shows {text[:80]!r}"]


def check_figure(page: Page, path: Path) -> list[str]:
    """Check that a figure is drawn and its text is readable."""
    image = page.locator(".grow img")
    image.evaluate("image => image.decode()")
    svg = path.read_text(encoding="utf-8")
    scale = image.bounding_box()["width"] / float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    smallest = scale * min(float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg))
    messages = [f"its smallest text has {smallest:.1f} pixels"] if smallest < MIN_TEXT else []
    return [*check_ink(image.screenshot(), "it"), *messages]


def check_caption(page: Page, category: str) -> list[str]:
    """Check that a result has a caption without commands."""
    caption, panel = page.locator("nav .prose").inner_text(), page.locator("nav").first.inner_text()
    messages = [f"{category}: no caption"] if len(caption) <= 60 else []
    return [*messages, f"{category}: a command in the caption"] if re.search(COMMANDS, panel) else messages


def check_ink(picture: bytes, name: str) -> list[str]:
    """Check that a picture is not blank."""
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("L"))
    return [] if (pixels < 200).mean() > MIN_INK else [f"{name} is blank"]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_table_and_figure_can_be_read(browser, width):
    assert problems(browser, REPORT, width) == []


PLANTED = (
    ("filename=01 Expected", "filename=01, Expected", "01 Expected Hamming loss by clipped SNIPS: shows 'Expected"),
    ('<script id="metadata">', '<script id="metadata">console.error("planted");', "console: planted"),
    (
        '<div id="loading-screen">',
        '<script src="http://localhost:9/x.js"></script><div id="loading-screen">',
        "request: http://localhost:9/x.js",
    ),
    ("filename=grid_digits.svg;base64,", "filename=grid_digits.svg;base64,AAAA", "EncodingError"),  # ends the visit
)


def test_problems_are_found(browser, tmp_path):
    page = REPORT.read_text(encoding="utf-8")
    assert not re.search(COMMANDS, page)
    for text, planted, _ in PLANTED:
        assert page.count(text) == 1
        page = page.replace(text, planted)
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    messages = problems(browser, tmp_path / "report.html", WIDTHS[0])
    for _, _, problem in PLANTED:
        assert any(problem in message for message in messages)
