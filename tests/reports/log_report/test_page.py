"""The page and the text on a user's log: numbers as the reader has them, names that stay names, what is missing."""

from __future__ import annotations

import ast
import json
import math
import re
import tomllib
import unicodedata
from collections.abc import Iterator
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_answers import ANSWERS, NAMES, SCRIPT, better, cannot, diagnosed, hostile, not_shown, wrong

from drcrm.reports.log_report import page as log_page
from drcrm.reports.log_report.answer import Answer, Interval
from drcrm.reports.log_report.figures import MOST_BINS, Scale, calibration, gauge, histogram, merged, two_bars
from drcrm.reports.log_report.formatting import clean, columns, decimals_for, name, number, padded, percent, short
from drcrm.reports.log_report.page import page, text

VOID = {"meta", "rect", "line", "circle", "path"}
FLOATS = st.floats(-1e99, 1e99)


class Read(HTMLParser):
    """A page as a browser reads it: its elements with their attributes, its text, what is not closed."""

    def __init__(self, said: str):
        super().__init__()
        self.elements, self.words, self.open, self.skip = [], [], [], 0
        self.feed(said)
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


def said(answer: dict) -> str:
    return Read(page(answer)).text


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_page_is_whole_and_loads_nothing(kind):
    written = page(ANSWERS[kind]())
    read = Read(written)
    written.encode("utf-8")
    assert written.endswith("</html>\n")
    assert read.open == []
    tags = {tag for tag, _ in read.elements}
    assert not tags & {"script", "img", "iframe", "object", "link", "a", "form", "base"}
    attributes = {attribute for _, each in read.elements for attribute in each}
    assert not {each for each in attributes if each.startswith("on")} | attributes & {"src", "href", "srcdoc", "action"}
    assert "url(" not in written
    assert [each["content"] for tag, each in read.elements if "http-equiv" in each] == [
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    ]
    assert page(ANSWERS[kind]()) == written


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_went_through_json_is_the_same(kind):
    answer = ANSWERS[kind]()
    assert page(json.loads(json.dumps(answer))) == page(answer)


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_text_cannot_steer_a_terminal(kind):
    written = text(ANSWERS[kind]())
    assert written.endswith("\n")
    kinds = {unicodedata.category(each) for each in written.replace("\n", "").replace("\u200d", "")}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    if kind != "hostile":
        assert max(map(len, written.splitlines())) <= 100


TITLES = {
    "better": "Better than what runs now",
    "not_shown": "Not shown to be better",
    "wrong": "The log is wrong",
    "cannot": "The log cannot say",
    "diagnosed": "No fault found, 1 caution",
}


@pytest.mark.parametrize("kind", TITLES)
def test_the_verdict_stands_first(kind):
    answer = ANSWERS[kind]()
    written = page(answer)
    heading = re.search(r"<h1>.*?</h1>", written)
    assert heading[0].endswith(f"</span>{TITLES[kind]}</h1>")
    assert heading.start() < written.index('class="tile') < written.index("<table>")
    sentence = (answer["verdict"] or {}).get("sentence", "")
    assert sentence in said(answer)
    assert text(answer).startswith(TITLES[kind])


def test_a_verdict_without_a_word_is_what_the_checks_say():
    answer = wrong() | {"verdict": None}
    assert Answer(answer).verdict[:2] == ("wrong", "2 checks of 9 fail")
    assert Answer({}).verdict.title == "No verdict"
    good = diagnosed()
    good["diagnostics"] = [each | {"level": "good"} for each in good["diagnostics"]]
    assert Answer(good).verdict[:2] == ("better", "No fault found")
    assert "All 9 checks are good." in text(good)


def test_what_explains_a_verdict_is_whole():
    """On the page and on a terminal, however long it is; on the page thresholds, sources and reasons too."""
    answer, essays = (
        cannot(),
        iter(f"{letter} " + " ".join(f"{letter}{word}" for word in range(900)) for letter in "abcdefghijkl"),
    )
    both = [next(essays) for _ in range(6)]
    failing, caution = (next(c for c in answer["diagnostics"] if c["level"] == level) for level in ("fail", "caution"))
    failing["sentence"], caution["sentence"] = both[:2]
    answer["verdict"] = {"verdict": "the log cannot say", "sentence": both[2], "changes": [both[3]] * 6}
    answer["log"]["skipped"] = {both[4]: 3}
    answer["candidates"][0]["label"] = "short"
    answer["candidates"].append(answer["candidates"][0] | {"chosen": True})
    one_line = " ".join(text(answer).split())
    alone = [next(essays) for _ in range(6)]
    failing["threshold"], caution["threshold"], failing["source"], answer["log"]["split"] = alone[:4]
    for candidate, why in zip(answer["candidates"], alone[4:], strict=True):
        candidate["certificate"] = {"refused": why}
    written = said(answer)
    for essay in both[:5]:
        assert essay in one_line
    for essay in both[:5] + alone:
        assert essay in written
    assert one_line.count(both[3]) == written.count(both[3]) == 6


def test_cautions_have_a_heading_of_their_own():
    answer = better()
    answer["verdict"] |= {"changes": [], "cautions": ["Mind that it drifts.", "Judged by the rows held out."]}
    written = said(answer)
    assert "What would change the verdict" not in written + text(answer)
    assert "Cautions Mind that it drifts. Judged by the rows held out." in written
    assert text(answer).endswith("\n\nCautions:\n- Mind that it drifts.\n- Judged by the rows held out.\n")
    assert "caution: R² of the cost model" not in text(answer)
    assert "caution: R² of the cost model" in text(better())


def test_an_unknown_verdict_is_said_as_it_is():
    assert Answer({"verdict": {"verdict": "no idea"}}).verdict[:2] == ("open", "No idea")


def test_rewards_are_costs_turned_round():
    cost, reward = better() | {"reward": False}, better()
    for one, other in zip(Answer(cost).candidates, Answer(reward).candidates, strict=True):
        left, right = Answer(cost).headline(one)[1], Answer(reward).headline(other)[1]
        assert right == Interval(-left.value, -left.high, -left.low)
        assert right.low < right.value < right.high
        assert Answer(reward).bound(other) == -Answer(cost).bound(one)
    assert "at least 0.0623" in said(reward)
    assert "at most −0.0623" in said(cost)
    assert "0.0662 to 0.0906" in said(reward)
    assert "−0.0906 to −0.0662" in said(cost)


def test_the_difference_has_its_better_side_where_the_unit_has_it():
    """Its dot is as far from what runs now as the value says, towards better."""
    for answer, left in ((better(), "← worse"), (better() | {"reward": False}, "← better")):
        written = page(answer)
        line = re.search(r'<div class="line">.*?</div>', written)[0]
        dot, now = (float(re.search(rf'{each}="([\d.]+)%"', line)[1]) for each in ("cx", 'now" x1'))
        side = re.search(r'class="side" x="([\d.]+)%" width="([\d.]+)%"', line)
        start, width = float(side[1]), float(side[2])
        assert start < dot < start + width
        assert now == pytest.approx(start if answer["reward"] else width)
        assert left in Read(written).text
    assert "+0.0272 (+0.0173 to +0.0371); certified at least +0.0142" in said(better()).replace("  ", " ")


def test_where_what_runs_now_stays_the_best_other_candidate_is_shown():
    answer = not_shown()
    found = Answer(answer)
    assert found.stays
    assert found.judged["label"] == "KL-DRO, DR"
    assert found.judged["value"] == 0.1  # the least bound of the difference
    assert "The best other candidate, KL-DRO, DR , radius 0.1 . Difference to what runs now, in cost" in said(answer)


def test_a_refused_certificate_says_why():
    assert "Certified nothing the propensities fail their audit" in said(wrong()).replace("  ", " ")


def test_what_is_promised_says_what_it_rests_on():
    """Imitated propensities, and a bound of the difference without a certificate."""
    assert "at most 14.44 with probability 0.95, for all 4 candidates at once, as far as the imitated" in said(
        not_shown()
    )
    assert "imitated" not in said(better())
    answer = wrong() | {"verdict": None, "diagnostics": []}
    assert "; bound: at least +0.0142" in said(answer)
    assert "rows held out; more" in said(better())
    assert "rows of the log; more" in said(better() | {"log": {}})


def test_every_candidate_stands_in_the_table_on_request():
    inner = page(better()).split("<summary>Every candidate by every estimate</summary>")[1].split("</details>")[0]
    assert inner.count("<tr>") == 1 + 11
    assert "−" not in inner
    assert "0.0784 ± 0.0062" in Read(inner).text
    assert "0.0852" in inner  # DM, which has no error


def test_what_fails_stands_beside_the_verdict():
    banner = Read(re.search(r"<header.*?</header>", page(wrong()), re.S)[0]).text
    assert "mean weight 0.507, expected 1 within its interval" in banner
    assert "propensity audit, arithmetic 0.502" in banner
    assert "read them as a hint at most" in said(wrong())
    assert "read them as a hint at most" not in said(better())


def test_checks_stand_by_how_bad_they_are():
    levels = re.findall(r'class="badge (\w+)"', page(wrong()))
    assert levels == ["fail"] * 2 + ["caution"] + ["good"] * 6
    assert "2 failed, 1 to be cautious about, 6 good." in said(wrong())
    assert text(wrong()).index("FAIL: mean weight 0.507") < text(wrong()).index("caution: R² of the cost model")


def test_diagnose_has_no_policy():
    written = said(diagnosed())
    assert "What is done now" in written
    for absent in ("candidate", "policy judged", "Weights of the rows", "Without support", "certified"):
        assert absent not in written
    assert "certified" not in text(diagnosed())


def test_one_policy_is_the_one_that_is_judged():
    written = said(cannot())
    assert "The policy judged, estimated" in written
    assert "The policy Estimated reward" in written
    assert "44 %" in written
    assert "What runs now" in text(cannot()).replace("what", "What")


def test_rows_are_named_by_their_number():
    section = said(better()).split("What the estimate rests on")[1]
    assert "8812 14.2 1 1.7 %" in section.replace("  ", " ")


def test_other_candidates_and_actions_are_counted():
    answer = better()
    answer["actions"] *= 200
    written = said(answer)
    assert "3 other candidates in the table below." in written
    assert "988 other actions: together" in written
    assert "and 992 others" not in written
    answer["log"]["actions"] = [str(each) for each in range(1000)]
    assert "and 992 others" in said(answer)


@pytest.mark.parametrize("each", NAMES, ids=range(len(NAMES)))
def test_a_name_stays_a_name(each):
    """Wherever it stands, the page says it as it is cleaned, and has the elements of a page with another name."""
    pages = []
    for word in (each, "plain"):
        answer = better()
        answer["log"] |= {"name": word, "actions": [word]}
        answer["actions"][0] |= {"action": word}
        answer["slices"][0] |= {"slice": word}
        answer["diagnostics"][0] |= {"name": word, "sentence": word or "none"}
        answer["candidates"][4] |= {"label": word or "no label"}
        answer["verdict"] |= {"sentence": word or "none", "changes": [word or "none"], "cautions": [word or "none"]}
        pages.append(Read(page(answer)))
    if each:
        assert pages[0].text.count(re.sub(r"\s+", " ", short(each))) >= 4
    tags = [[tag for tag, _ in read.elements if tag != "bdi"] for read in pages]
    assert tags[0] == tags[1]


def test_the_whole_of_a_long_name_is_a_title():
    assert name("x" * 50) == f'<bdi title="{"x" * 50}">{"x" * 26}…{"x" * 13}</bdi>'
    assert name('a"<') == "<bdi>a&quot;&lt;</bdi>"


@pytest.mark.parametrize("each", NAMES, ids=range(len(NAMES)))
def test_clean_names_are_clean_already(each):
    assert clean(clean(each)) == clean(each)
    assert len(short(each)) <= 40
    assert short(each)


def paths(value: object, at: tuple = ()) -> Iterator[tuple]:
    """All places in an answer."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from paths(inner, (*at, key))


def planted(answer: dict, path: tuple, value: object) -> dict:
    changed = deepcopy(answer)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


def small() -> dict:
    """An answer with every part, each of them short."""
    answer = better()
    answer["candidates"] = [answer["candidates"][0], answer["candidates"][4]]
    for key in ("diagnostics", "calibration", "slices", "actions", "largest_rows"):
        del answer[key][1:]
    answer["weights"]["histogram"] = {"edges": [-1, 0, 1], "rows": [3, 4], "share": [0.2, 0.8]}
    answer["overlap"] = {"edges": [0, 0.5, 1], "logged": [3, 4], "policy": [4, 3]}
    return answer


@pytest.mark.parametrize("value", [None, math.nan, -1e308, True, {}, SCRIPT, [None, 3, "x"]], ids=range(7))
def test_anything_may_be_missing_or_odd(value):
    """Each place of an answer in turn."""
    answer = small()
    for path in paths(answer):
        changed = planted(answer, path, value)
        written = page(changed)
        assert not re.search(r"\bnan\b|\binf\b|>None", written)
        assert written.count("<script") == 0
        assert text(changed)


@pytest.mark.parametrize("answer", [{}, {"command": "learn"}, {"candidates": [{}]}, {"log": {}, "diagnostics": [{}]}])
def test_what_is_nearly_nothing_is_a_page(answer):
    assert Read(page(answer)).open == []
    assert text(answer).strip()


NUMBERS = {
    0: "0",
    1: "1",
    -1: "−1",
    0.0123456: "0.0123",
    9.999: "10",
    123.4: "123",
    1e300: "–",
    1234567: "1\u202f234\u202f567",
    1e9: "1.00e+09",
    -2.5e-7: "−2.50e−07",
    math.inf: "–",
    math.nan: "–",
    None: "–",
    "3": "–",
    0.1: "0.1",
    100: "100",
}


@pytest.mark.parametrize("value", NUMBERS)
def test_numbers_have_three_digits(value):
    assert number(value) == NUMBERS[value]


def test_numbers_that_are_compared_have_the_digits_of_their_error():
    assert decimals_for([0.0061, 0.0044]) == 4
    assert decimals_for([0.52, 9.5]) == 2
    assert decimals_for([120.0]) == 0
    assert decimals_for([None, 0.0], [0.25]) == 3
    assert decimals_for([1e-30]) == 6
    assert decimals_for([]) == 2
    assert number(-0.00001, 2) == "0.00"
    assert number(-12034.51, 1) == "−12\u202f034.5"
    assert number(0.0272, 3, sign=True) == "+0.027"
    assert number(0.0, 3, sign=True) == "0.000"


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.0004, "< 0.1 %"),
        (0.0994, "9.9 %"),
        (0.0999, "10 %"),
        (-0.02, "−2.0 %"),
        (None, "–"),
    ],
)
def test_shares_in_percent(share, expected):
    assert percent(share) == expected


def test_columns_of_a_terminal():
    assert columns("日本") == 4
    assert columns("k\u0302") == 1
    assert columns(padded("日本", 6)) == 6
    assert padded("1", 3, right=True) == "  1"


def test_columns_of_the_text_stand_under_each_other():
    answer = better()
    answer["candidates"][0]["label"] = "日本語の方策"
    lines = [line for line in text(answer).splitlines() if line.endswith("  DR")]
    assert len(lines) == 10
    assert {columns(line) for line in lines} == {columns(lines[0])}


@settings(deadline=None, max_examples=200)
@given(st.lists(FLOATS, min_size=1, max_size=6), st.lists(FLOATS, max_size=3), FLOATS)
def test_a_scale_holds_its_core_in_order(others, core, value):
    scale = Scale.over(others, core)
    assert all(scale.inside(each) for each in core)
    assert 0 <= float(scale.at(value).rstrip("%")) <= 100
    ticks = scale.ticks()
    assert len(ticks) <= 6
    assert ticks == sorted(ticks)
    assert all(scale.inside(tick) for tick in ticks)
    assert "nan" not in gauge(scale, Interval(value, *sorted([value, 1.0])), "blue", value, value)


def test_one_wild_candidate_does_not_flatten_the_others():
    answer = better()
    answer["candidates"][1]["estimates"]["dr"] = {"value": 5.0, "low": -1e6, "high": 1e6}
    table = page(answer).split("<h2>The candidates</h2>")[1]
    reach = re.search(r'class="reach strong" x1="([\d.]+)%" x2="([\d.]+)%"', table)
    assert float(reach[2]) - float(reach[1]) > 10


def test_a_gauge_says_the_numbers_it_was_given():
    scale = Scale(0.0, 10.0)
    picture = gauge(scale, Interval(5.0, 4.0, 12.0), "blue", 3.0, 2.0)
    assert 'class="dot blue" cx="50.00%"' in picture
    assert 'x1="40.00%" x2="100.00%"' in picture
    assert picture.count("<path") == 1  # beyond the right end
    assert 'class="bound blue" x="30.00%"' in picture
    assert 'class="now" x1="20.00%"' in picture
    assert "dot" not in gauge(scale, Interval(), "blue")


def test_ticks_of_a_logarithmic_scale():
    assert Scale(0.04, 1.5, log=True).ticks() == pytest.approx([0.05, 0.1, 0.2, 0.5, 1])
    assert Scale(1e-6, 1.0, log=True).ticks() == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3, 1e-2])


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_merging_bins_keeps_what_is_in_them(sizes):
    edges = list(range(len(sizes) + 1))
    kept, [merged_sizes] = merged(edges, sizes)
    assert len(merged_sizes) == len(kept) - 1 <= MOST_BINS
    assert math.fsum(merged_sizes) == pytest.approx(math.fsum(sizes))
    assert (kept[0], kept[-1]) == (edges[0], edges[-1])


def bars(picture: str, look: str) -> list[float]:
    return [float(each) for each in re.findall(rf'class="fill {look}"[^/]*height="([\d.]+)%"', picture)]


def test_bars_are_as_high_as_their_shares():
    picture = histogram([0, 1, 2], [1, 3], [30, 10], str, "x")
    assert bars(picture, "grey") == pytest.approx([100 / 3, 100], abs=0.01)
    assert bars(picture, "blue") == pytest.approx([100, 100 / 3], abs=0.01)
    assert bars(histogram([0, 1, 2], [1, 3], None, str, "x"), "blue") == []
    assert ">75 %<" in picture


@pytest.mark.parametrize(
    ("edges", "rows"),
    [([], []), ([0], []), ([0, 1], [1, 2]), ([0, 1, 1], [1, 2]), ([0, None], [1]), (None, [1]), ([0, 1], 3)],
)
def test_a_histogram_that_does_not_fit_is_left_out(edges, rows):
    assert histogram(edges, rows, rows, str, "x") == ""


def test_lying_bars():
    picture = two_bars(0.25, 0.5, 0.5)
    assert re.findall(r'width="([\d.]+)%"', picture) == ["50.00", "100.00"]
    assert "rect" not in two_bars(None, 0.5, 0)


def test_points_of_calibration_stand_on_the_line_where_they_agree():
    for points in (
        [(0.1, 0.1), (0.4, 0.4)],
        [(0.001, 0.001), (0.9, 0.9)],
        [(0.5, 0.5)],
        [(1e-300, 1e-300), (1.0, 1.0)],
    ):
        places = re.findall(r'cx="([\d.]+)%" cy="([\d.]+)%"', calibration(points))
        assert len(places) == len(points)
        assert all(float(x) == pytest.approx(100 - float(y), abs=0.02) for x, y in places)


def test_the_page_needs_the_standard_library_alone():
    """So it comes at once, and without the extra packages."""
    for path in Path(log_page.__file__).parent.glob("log_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not {each.split(".")[0] for each in modules} & {"numpy", "pandas", "matplotlib", "jinja2"}


def test_hostile_json_is_text():
    """Names in the mapping too."""
    assert SCRIPT in Read(page(hostile())).text.replace('\\"', '"')


def test_the_style_is_installed_too():
    root = Path(__file__).resolve().parents[3]
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "drcrm.reports"
    ]
    assert any(Path("log_report/log_page.css").match(each) for each in patterns)


def test_imputed_values_are_counted_in_one_sentence():
    said = text(better()).replace("\n", " ")
    assert "Imputed missing values: age in 1\N{NARROW NO-BREAK SPACE}200 rows, price in 1 row." in said
    assert "age in 1 200 rows, price in 1 row" in page(better()).replace("\N{NARROW NO-BREAK SPACE}", " ")
    many = better()
    many["log"]["imputed"] = {f"x{place}": place for place in range(1, 20)}
    assert "x19 in 19 rows" in text(many)
    assert "x12 in 12 rows, 11 other columns." in text(many).replace("\n", " ")
    many["log"]["imputed"] = {}
    assert "mputed" not in text(many) + page(many)
