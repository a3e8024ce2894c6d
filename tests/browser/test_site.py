"""The documentation in a browser, on a wide screen and a phone: it fits, links lead somewhere, pictures are drawn.

Needs the site: ``make site``.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urldefrag

from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "results/site"
WIDTHS = (1400, 390)
FACTS = """async () => {
  const pictures = [...document.images];
  pictures.forEach(picture => picture.loading = "eager");
  await Promise.all(pictures.map(picture => picture.decode().catch(() => null)));
  return {
    links: [...document.links].map(link => link.href),
    ids: [...document.querySelectorAll("[id]")].map(element => element.id),
    missing: pictures.filter(picture => !picture.naturalWidth).map(picture => picture.src),
    unnamed: pictures.filter(picture => !picture.hasAttribute("alt")).map(picture => picture.src),
  };
}"""


def visit(browser: Browser, site: Path) -> dict[str, Mapping]:
    """Return the facts of each page, and its width on each screen, by the page's address."""
    context = browser.new_context(offline=True)
    page, facts = context.new_page(), {}
    for path in sorted(site.rglob("*.html")):
        if "_static" not in path.parts:
            page.goto(path.as_uri(), wait_until="domcontentloaded")
            facts[path.as_uri()] = page.evaluate(FACTS) | {"widths": {}}
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                facts[path.as_uri()]["widths"][width] = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    return facts


def problems(facts: Mapping[str, Mapping]) -> Iterator[str]:
    """Yield what is wrong with the pages: their width, pictures, and links within the site."""
    for address, page in facts.items():
        name = address.rpartition("site/")[2]
        for width, of_page in page["widths"].items():
            if of_page > width:
                yield f"{name} is wider than a screen of {width} pixels: {of_page}"
        yield from (f"{name}: no picture {source}" for source in page["missing"])
        yield from (f"{name}: a picture without a description, {source}" for source in page["unnamed"])
        for link in sorted(set(page["links"])):
            if not is_answered(link, facts):
                yield f"{name}: no target of {link}"


def is_answered(link: str, facts: Mapping[str, Mapping]) -> bool:
    """Return whether a link leaves the site, or leads to a file and a place in it that exist."""
    address, place = urldefrag(link)
    if not link.startswith("file:"):
        return True
    if address in facts:
        return place in ("", *facts[address]["ids"]) or unquote(place) in facts[address]["ids"]
    return Path(unquote(address.removeprefix("file://"))).is_file()


def test_every_page_can_be_read_and_followed(browser):
    assert (SITE / "index.html").exists(), "results/site is missing. Run: make site"
    facts = visit(browser, SITE)
    assert len(facts) > 100
    assert list(problems(facts)) == []


def test_problems_are_found(browser, tmp_path):
    page = '<p style="width: 2000px" id="here">x</p><img src="none.png"><a href="#there"></a><a href="gone.html"></a>'
    (tmp_path / "page.html").write_text(f'{page}<a href="#here"></a><a href="https://example.org"></a>')
    found = list(problems(visit(browser, tmp_path)))
    expected = [
        "is wider than a screen of 1400",
        "is wider than a screen of 390",
        "no picture",
        "a picture without",
        "no target",
        "no target",
    ]
    assert all(problem in line for problem, line in zip(expected, found, strict=True))
