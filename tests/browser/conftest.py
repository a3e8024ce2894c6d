"""A browser for the tests of pages. Needs Chromium: ``apt-get install chromium``."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

FLAGS = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "Chromium is missing. Install it with: apt-get install chromium"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=[*FLAGS.split(), "--disable-sync"])
        yield browser
        browser.close()
