"""The page on a log in a browser, as wide as a screen and as a phone: nothing is cut off, and all can be read.

Chromium comes with apt.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from log_answers import ANSWERS, better
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from drcrm.reports.log_report.page import page as log_page

WIDTHS = (1280, 390)
HEIGHT = 900
LEAST_TEXT = 11  # pixels
LEAST_INK = 0.002  # of a picture's pixels
FLAGS = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update"

WIDER = """width => [...document.querySelectorAll("body *")].filter(each => {
  const box = each.getBoundingClientRect();
  return (box.right > width + 1 || box.left < -1) && !each.closest(".scroll, .stack, pre, details:not([open])");
}).map(each => each.tagName + " " + each.className)"""
SMALL = """least => [...document.querySelectorAll("body *")].filter(each =>
  [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim())
  && parseFloat(getComputedStyle(each).fontSize) < least
).map(each => each.textContent)"""
OVER_EACH_OTHER = """() => [...document.querySelectorAll("svg.axis, svg.chart, .sides")].flatMap(picture => {
  const boxes = [...picture.querySelectorAll("text, span")].map(each => each.getBoundingClientRect());
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1
  ).map(b => picture.textContent));
})"""
CUT = (
    """() => [...document.querySelectorAll(".stack")].filter(each => each.scrollWidth > each.clientWidth + 1).length"""
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium")
    assert found, "no chromium: apt-get install chromium"
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=[*FLAGS.split(), "--disable-sync"])
        yield started
        started.close()


def faults(browser: Browser, path: Path, width: int) -> list[str]:
    """What is wrong with a page, as wide as this."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, offline=True)
    page, found = context.new_page(), []
    page.on("console", lambda said: found.append(f"console: {said.text}"))
    page.on("pageerror", lambda error: found.append(f"error: {error}"))
    page.on("dialog", lambda asked: (found.append(f"dialog: {asked.message}"), asked.dismiss()))
    page.on("request", lambda asked: found.append(f"request: {asked.url}") if asked.url.startswith("http") else None)
    page.goto(path.as_uri())
    if page.evaluate("document.documentElement.scrollWidth") > width:
        found.append("the page is wider than the screen")
    found += [f"cut off: {each}" for each in page.evaluate(WIDER, width)]
    found += [f"too small: {each}" for each in page.evaluate(SMALL, LEAST_TEXT)]
    found += [f"over each other: {each}" for each in page.evaluate(OVER_EACH_OTHER)]
    found += ["a table that stacks is cut off"] * bool(page.evaluate(CUT))
    found += blank(page)
    context.close()
    return found


def blank(page: Page) -> list[str]:
    """The pictures without ink."""
    pictures = page.locator("svg.chart, svg.square, td.picture, .gain .line").all()
    inks = [(np.asarray(Image.open(io.BytesIO(each.screenshot())).convert("L")) < 190).mean() for each in pictures]
    return [f"blank: picture {place}" for place, ink in enumerate(inks) if ink < LEAST_INK]


def written(folder: Path, text: str) -> Path:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ANSWERS)
def test_a_page_can_be_read(browser, tmp_path, kind, width):
    found = faults(browser, written(tmp_path, log_page(ANSWERS[kind]())), width)
    assert [fault for fault in found if kind != "hostile" or not fault.startswith(("blank", "a table"))] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ANSWERS)
def test_the_verdict_is_on_the_first_screen(browser, tmp_path, kind, width):
    page = browser.new_page(viewport={"width": width, "height": HEIGHT})
    page.goto(written(tmp_path, log_page(ANSWERS[kind]())).as_uri())
    box = page.locator("header").bounding_box()
    assert box["y"] + box["height"] < HEIGHT
    assert page.title() != "hit"
    page.close()


PLANTED = {
    "<section>": ('<div style="width: 2000px">x</div><section>', "the page is wider than the screen"),
    "<h1>": ('<h1 style="font-size: 8px">small', "too small: "),
    "<footer>": ('<footer><img src="http://localhost:9/x.png">', "console: "),
    "<main>": ("<main><script>alert(1)</script>", "console: "),
    '<div class="line">': ('<div class="line"></div><div>', "blank: "),
}


@pytest.mark.parametrize("place", PLANTED)
def test_faults_are_found(browser, tmp_path, place):
    planted, fault = PLANTED[place]
    page = log_page(better())
    assert place in page
    found = faults(browser, written(tmp_path, page.replace(place, planted, 1)), WIDTHS[0])
    assert any(each.startswith(fault) for each in found)
