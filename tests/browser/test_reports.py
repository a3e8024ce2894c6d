"""Reports in a browser, as wide as a screen and as a phone: nothing is cut off, and all text and figures can be read.

The demo's report needs ``make demo``; the browser is Chromium (``apt-get install chromium``).
"""

import html
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fixtures.log_answers import ANSWERS, as_answer, better
from PIL import Image
from playwright.sync_api import Browser, Error, Page

from drcrm.logs.report.page import page as log_page

WIDTHS = (1400, 390)
HEIGHT = 900
MIN_LOG_TEXT = 11  # pixels
MIN_CHART_INK = 0.002  # of a chart's pixels
PROBLEMS = """([width, minText]) => {
  const elements = [...document.querySelectorAll("body *")];
  const name = element => element.tagName + " " + element.className;
  const cut = elements.filter(element => {
    const box = element.getBoundingClientRect();
    const scrolls = element.closest(".scroll, pre");
    return (box.right > width + 1 || box.left < -1) && !scrolls;
  });
  const small = elements.filter(element =>
    [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())
    && parseFloat(getComputedStyle(element).fontSize) < minText);
  const overlapping = [...document.querySelectorAll("svg.axis, svg.chart, .sides")].filter(chart => {
    const boxes = [...chart.querySelectorAll("text, span")].map(text => text.getBoundingClientRect());
    return boxes.some((a, i) => boxes.slice(i + 1).some(b =>
      a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1));
  });
  const stacks = [...document.querySelectorAll(".stack")].filter(table => table.scrollWidth > table.clientWidth + 1);
  return [
    ...document.documentElement.scrollWidth > width ? ["the page is wider than the screen"] : [],
    ...cut.map(element => "cut off: " + name(element)),
    ...small.map(element => "too small: " + element.textContent),
    ...overlapping.map(chart => "overlapping labels: " + chart.textContent),
    ...stacks.map(table => "a table is cut off: " + name(table)),
  ];
}"""


def log_problems(browser: Browser, html: str, width: int, folder: Path) -> list[str]:
    """Return what is wrong with a page at this width of the screen."""
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, offline=True)
    page, messages = context.new_page(), []
    page.on("console", lambda message: messages.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: messages.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (messages.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.goto(path.as_uri())
    box = page.locator("header").bounding_box()
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    messages += page.evaluate(PROBLEMS, [width, MIN_LOG_TEXT])
    messages += ["the verdict is not on the first screen"] * (box["y"] + box["height"] >= HEIGHT)
    messages += ["a script of a name has run"] * (page.title() == "hit")
    messages += blank_charts(page)
    context.close()
    return messages


def blank_charts(page: Page) -> list[str]:
    """Return a message for each chart without ink."""
    charts = page.locator("svg.chart, svg.square, td.picture, .gain .line").all()
    inks = [(np.asarray(Image.open(io.BytesIO(chart.screenshot())).convert("L")) < 190).mean() for chart in charts]
    return [f"blank: chart {index}" for index, ink in enumerate(inks) if ink < MIN_CHART_INK]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ANSWERS)
def test_a_page_can_be_read(browser, tmp_path, kind, width):
    expected = ("blank", "a table") if kind == "hostile" else ()
    messages = log_problems(browser, log_page(as_answer(ANSWERS[kind]())), width, tmp_path)
    assert [message for message in messages if not message.startswith(expected)] == []


LOG_PLANTED = {
    "<section>": ('<div style="width: 2000px">x</div><section>', "the page is wider than the screen"),
    "<h1>": ('<h1 style="font-size: 8px">small', "too small: "),
    "<footer>": ('<footer><img src="http://localhost:9/x.png">', "console: "),
    "<main>": ('<main><script>alert(1)</script><div style="height: 900px"></div>', "the verdict is not"),
    '<div class="line">': ('<div class="line"></div><div>', "blank: "),
}


def test_problems_of_log_pages_are_found(browser, tmp_path):
    page = log_page(as_answer(better()))
    for place, (planted, _) in LOG_PLANTED.items():
        assert place in page
        page = page.replace(place, planted, 1)
    messages = log_problems(browser, page, WIDTHS[0], tmp_path)
    for _, problem in LOG_PLANTED.values():
        assert any(message.startswith(problem) for message in messages)


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
