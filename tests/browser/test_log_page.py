"""Report on a log in a browser, as wide as a screen and as a phone: nothing is cut off, and all text can be read."""

import io
from pathlib import Path

import numpy as np
import pytest
from fixtures.log_answers import ANSWERS, as_answer, better
from PIL import Image
from playwright.sync_api import Browser, Page

from drcrm.logs.report.page import page as log_page

WIDTHS = (1400, 390)
HEIGHT = 900
MIN_TEXT = 11  # pixels
MIN_INK = 0.002  # of a chart's pixels
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


def problems(browser: Browser, html: str, width: int, folder: Path) -> list[str]:
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
    messages += page.evaluate(PROBLEMS, [width, MIN_TEXT])
    messages += ["the verdict is not on the first screen"] * (box["y"] + box["height"] >= HEIGHT)
    messages += ["a script of a name has run"] * (page.title() == "hit")
    messages += blank_charts(page)
    context.close()
    return messages


def blank_charts(page: Page) -> list[str]:
    """Return a message for each chart without ink."""
    charts = page.locator("svg.chart, svg.square, td.picture, .gain .line").all()
    inks = [(np.asarray(Image.open(io.BytesIO(chart.screenshot())).convert("L")) < 190).mean() for chart in charts]
    return [f"blank: chart {index}" for index, ink in enumerate(inks) if ink < MIN_INK]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ANSWERS)
def test_a_page_can_be_read(browser, tmp_path, kind, width):
    expected = ("blank", "a table") if kind == "hostile" else ()
    messages = problems(browser, log_page(as_answer(ANSWERS[kind]())), width, tmp_path)
    assert [message for message in messages if not message.startswith(expected)] == []


PLANTED = {
    "<section>": ('<div style="width: 2000px">x</div><section>', "the page is wider than the screen"),
    "<h1>": ('<h1 style="font-size: 8px">small', "too small: "),
    "<footer>": ('<footer><img src="http://localhost:9/x.png">', "console: "),
    "<main>": ('<main><script>alert(1)</script><div style="height: 900px"></div>', "the verdict is not"),
    '<div class="line">': ('<div class="line"></div><div>', "blank: "),
}


def test_problems_are_found(browser, tmp_path):
    page = log_page(as_answer(better()))
    for place, (html, _) in PLANTED.items():
        assert place in page
        page = page.replace(place, html, 1)
    messages = problems(browser, page, WIDTHS[0], tmp_path)
    for _, problem in PLANTED.values():
        assert any(message.startswith(problem) for message in messages)
