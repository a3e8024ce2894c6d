"""HTML page of the report on a log: its content, and protection against hostile names."""

import re
import unicodedata
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from html.parser import HTMLParser
from operator import getitem

import pytest
from fixtures.log_answers import ANSWERS, NAMES, as_answer, better, wrong

from drcrm.arrays.formats import JOINERS, UNSAFE, shorten
from drcrm.logs.report.page import page
from drcrm.logs.report.texts import text

VOID = {"meta", "rect", "line", "circle", "path"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class Reader(HTMLParser):
    """A parsed page: its elements with their attributes, its text, and elements that are not closed."""

    def __init__(self, written: str):
        super().__init__()
        self.elements, self.words, self.open = [], [], []
        self.feed(written)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words).replace("\u202f", " "))


def text_of(answer: dict) -> str:
    return Reader(page(as_answer(answer))).text


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_page_is_complete_and_loads_nothing(kind):
    written = page(as_answer(ANSWERS[kind]()))
    reader = Reader(written)
    written.encode("utf-8")
    assert written.endswith("</html>\n")
    assert reader.open == []
    assert not {tag for tag, _ in reader.elements} & {"script", "img", "iframe", "object", "link", "a", "form", "base"}
    attributes = {name for _, attributes in reader.elements for name in attributes}
    assert not {name for name in attributes if name.startswith("on")} | attributes & {"src", "href", "srcdoc", "action"}
    assert "url(" not in written
    unsafe = {character for character in written if unicodedata.category(character) in UNSAFE}
    assert unsafe <= {"\n", *JOINERS}
    assert [values["content"] for _, values in reader.elements if "http-equiv" in values] == [POLICY]


def test_verdict_estimate_interval_and_reasons_come_first():
    written = page(as_answer(better()))
    heading = re.search(r"<h1>.*?</h1>", written)
    assert heading.start() < written.index('class="tile') < written.index("<details") < written.index("<table>")
    header = Reader(re.search(r"<header.*?</header>", written, re.DOTALL)[0]).text
    assert better()["verdict"]["sentence"] in header
    assert "+0.0272 (+0.0173 to +0.0371); certified at least +0.0142" in header
    assert "Certified at least 0.0623 with probability 0.95, adjusted for 11 candidates" in text_of(better())


@pytest.mark.parametrize(("is_reward", "left"), [(True, "← worse"), (False, "← better")])
def test_the_difference_is_drawn_on_its_better_side(is_reward, left):
    written = page(as_answer(better() | {"reward": is_reward}))
    line = re.search(r'<div class="line">.*?</div>', written, re.DOTALL)[0]
    dot, zero = (float(re.search(rf'{place}="([\d.]+)%"', line)[1]) for place in ("cx", 'logging" x1'))
    start, width = map(float, re.search(r'class="side" x="([\d.]+)%" width="([\d.]+)%"', line).groups())
    assert start < dot < start + width
    assert zero == pytest.approx(start if is_reward else width)
    assert left in Reader(written).text


def test_a_refused_verdict_shows_the_failed_checks():
    written = page(as_answer(wrong()))
    header = Reader(re.search(r"<header.*?</header>", written, re.DOTALL)[0]).text
    assert "mean weight 0.507, expected 1 in its interval" in header
    assert "propensity audit, arithmetic 0.502" in header
    assert "Certified nothing the propensities fail their audit" in Reader(written).text
    assert "at most a hint" in written


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_cannot_change_the_page(name):
    """The page shows the cleaned name, and has the same elements as with a harmless name."""
    readers = []
    for word in (name, "plain"):
        answer = better()
        answer["log"] |= {"name": word, "actions": [word]}
        answer["actions"][0] |= {"action": word}
        answer["slices"][0] |= {"slice": word}
        answer["explanation"]["nodes"][1] |= {"if": word or "none", "action": word}
        answer["diagnostics"][0] |= {"name": word, "sentence": word or "none", "source": word or "none"}
        answer["candidates"][4] |= {"label": word or "no label"}
        answer["verdict"] |= {"sentence": word or "none", "changes": [word or "none"], "cautions": [word or "none"]}
        readers.append(Reader(page(as_answer(answer))))
    if name:
        assert readers[0].text.count(re.sub(r"\s+", " ", shorten(name))) >= 4
    tags = [[tag for tag, _ in reader.elements if tag != "bdi"] for reader in readers]
    assert tags[0] == tags[1]


def number_places(value: object, path: tuple = ()) -> Iterator[tuple]:
    """Yield the path of each number in an answer that can be unknown: counts and bins cannot."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if key not in ("log", "histogram", "overlap", "confidence", "made", "nodes"):
            yield from number_places(inner, (*path, key))
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield path


@pytest.fixture(scope="module")
def small() -> dict:
    """An answer with every part, each of them short."""
    answer = better()
    answer["candidates"] = [answer["candidates"][0], answer["candidates"][4]]
    for key in ("diagnostics", "slices", "actions", "largest_rows"):
        del answer[key][1:]
    answer["weights"]["histogram"] = {"edges": [-1, 0, 1], "rows": [3, 4], "share": [0.2, 0.8]}
    answer["overlap"] = {"edges": [0, 0.5, 1], "logged": [3, 4], "policy": [4, 3]}
    return answer


@pytest.mark.parametrize("value", [None, -1e308])
def test_any_number_may_be_unknown_or_huge(small, value):
    for path in number_places(small):
        answer = deepcopy(small)
        reduce(getitem, path[:-1], answer)[path[-1]] = value
        assert not re.search(r"\bnan\b|\binf\b|>None", page(as_answer(answer)))
        assert text(as_answer(answer))


def test_the_breakeven_shift_is_a_share_of_the_traffic():
    text = text_of(better() | {"breakeven_shift": 0.2239})
    assert "down to a share of 80 % (κ = 0.223)" in text
    assert "This compares two worst cases" in text
    assert "Shift of the environment" not in text_of(better())


def test_blocks_are_the_first_section_with_their_dates_or_rows():
    tests = [{"change": -0.02, "low": -0.03, "high": -0.01}, {"change": None, "low": None, "high": None}]
    ends = {"2026-01-09 to 2026-01-17": ("2026-01-09T08:00:00", "2026-01-17T07:00:00")}
    ends |= {"2026-01-09 08:00:00 to 2026-01-09 09:00:00": ("2026-01-09T08:00:00", "2026-01-09T09:00:00")}
    ends |= {"rows 201 to 400": (201, 400), "3.5 to 7": (3.5, 7.0)}
    for words, (first, last) in ends.items():
        blocks = [{"first": first, "last": last, "rows": 200, **test} for test in tests]
        text = text_of({**better(), "blocks": blocks})
        assert "Difference by block better in 1 of 2 blocks Before each block" in text
        assert text.index("Difference by block") < text.index("What would change the verdict")
        assert "Way of learning: estimated" in text
        assert "rows of the blocks" in text
        assert "held-out rows" not in text
        assert "Learned policy" not in text
        assert words in text
    assert "Difference by block" not in text_of(better())


def test_the_tree_has_a_picture_a_text_for_screen_readers_and_a_table():
    written = page(as_answer(better()))
    reader = Reader(written)
    assert (
        "In 87 % of the 700 rows that the tree was not fitted to, its action is the policy's most likely" in reader.text
    )
    pictures = [attributes for tag, attributes in reader.elements if attributes.get("aria-labelledby")]
    assert [picture["role"] for picture in pictures] == ["img"]
    names = pictures[0]["aria-labelledby"].split()
    assert [attributes["id"] for tag, attributes in reader.elements if tag in ("title", "desc") and attributes] == names
    described = re.search('<desc id="tree-text">(.*?)</desc>', written, re.DOTALL)[1].replace("\u202f", " ")
    assert "age ≤ 30: politics in 80 % of decisions, 30 % of the rows (420), difference +0.010" in described
    shares = [attributes["width"] for _, attributes in reader.elements if attributes.get("class") == "fill grey"]
    assert {"30.00%", "70.00%"} <= set(shares)
    assert "Leaves as a table" in reader.text
