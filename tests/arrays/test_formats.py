"""Numbers, shares and names as texts, and positions of marks in the charts of the report on a log."""

import math

import numpy as np
import pytest
from fixtures.log_answers import NAMES
from hypothesis import given, settings
from hypothesis import strategies as st

from drcrm.arrays.formats import (
    ConfidenceInterval,
    clean,
    decimals_for,
    format_level,
    format_number,
    format_share,
    percent,
    shorten,
    typeset_sign,
)
from drcrm.logs.report.charts import Scale, gauge

SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")


NUMBERS = {
    0: "0",
    1: "1",
    -1: "−1",
    0.0123456: "0.0123",
    9.9949: "9.99",
    9.9996: "10",
    0.099996: "0.1",
    999.6: "1\u202f000",
    1e-4: "0.0001",
    9.9996e-5: "1 × 10⁻⁴",
    999_999_999.6: "1\u202f000\u202f000\u202f000",
    9.9996e9: "1 × 10¹⁰",
    123.4: "123",
    1e300: "–",
    1234567: "1\u202f234\u202f567",
    1e9: "1 × 10⁹",
    -2.5e-7: "−2.5 × 10⁻⁷",
    5e-321: "0",
    math.inf: "–",
    math.nan: "–",
    None: "–",
    "3": "–",
}
WITH_DECIMALS = [
    (-0.00001, 2, "0.00"),
    (-0.0, None, "0"),
    (9.9996, 3, "+10.000"),
    (-12034.51, 1, "−12\u202f034.5"),
    (0.0272, 3, "+0.027"),
    (0.0, 3, "0.000"),
    (2.4e-9, 6, "+2.4 × 10⁻⁹"),
]
SHARES = {0: "0 %", 1: "100 %", 0.0004: "< 0.1 %", 0.0994: "9.9 %", 0.0999: "10 %", -0.02: "−2.0 %", None: "–"}


def test_numbers_and_shares():
    assert {value: format_number(value) for value in NUMBERS} == NUMBERS
    assert {share: format_share(share) for share in SHARES} == SHARES
    for value, decimals, expected in WITH_DECIMALS:
        assert format_number(value, decimals, sign=value >= 0) == expected
    assert [percent(share, 1, sign=True) for share in (0.0345, -0.0345, -1e-9)] == ["+3.5 %", "−3.5 %", "0.0 %"]
    assert [format_level(share) for share in (0.95, 0.9999999)] == ["95 %", "99.99999 %"]
    assert [typeset_sign(text) for text in ("-0.000", "+0", "-1.20")] == ["0.000", "0", "−1.20"]


@pytest.mark.parametrize(
    ("errors", "values", "decimals"),
    [([0.0061, 0.0044], [], 4), ([120.0], [], 0), ([None, 0.0], [0.25], 3), ([1e-30], [], 6), ([], [], 0)],
)
def test_decimals_show_two_digits_of_the_smallest_error(errors, values, decimals):
    assert decimals_for(errors, values) == decimals


def read_number(text: str) -> float:
    """Return the number that a person reads in a text."""
    mantissa, _, exponent = text.replace("\u202f", "").translate(SUPERSCRIPTS).partition(" × 10")
    return float(mantissa) * 10.0 ** int(exponent or 0)


@given(st.floats(-1e99, 1e99), st.integers(1, 12), st.booleans())
def test_a_number_that_is_read_has_the_promised_relative_error(value, digits, sign):
    text = format_number(value, sign=sign, digits=digits)
    assert read_number(text) == pytest.approx(value, rel=0.5 * 10.0 ** (1 - digits) * 1.001, abs=1e-99)
    assert not set(text) & {"-", "e", "E"}
    assert (read_number(text) == 0) == (text == "0")
    assert text.startswith("+") == (sign and value > 0 and text != "0")


@given(st.integers(-(10**9) + 1, 10**9 - 1))
def test_whole_numbers_have_all_their_digits(value):
    assert read_number(format_number(value)) == read_number(format_number(np.int64(value))) == value


@given(st.floats(-1e8, 1e8), st.integers(0, 5))
def test_decimals_have_the_promised_absolute_error(value, decimals):
    text = format_number(value, decimals)
    assert abs(read_number(text) - value) <= 0.5001 * 10.0**-decimals
    assert text.startswith("−") == (read_number(text) < 0)


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_cleaning_is_idempotent_and_names_are_short(name):
    assert clean(clean(name)) == clean(name)
    assert 0 < len(shorten(name, 40)) <= 40


def test_control_and_direction_characters_are_replaced():
    assert clean("a\x1b[31mred\x00\n\rb") == "a\ufffd[31mred\ufffd b"
    assert clean("\u202egnihton\u202c \ud800") == "\ufffdgnihton\ufffd \ufffd"
    assert clean("👩‍👩‍👧‍👦 مرحبا") == "👩‍👩‍👧‍👦 مرحبا"
    assert shorten("x" * 50, 40) == f"{'x' * 26}…{'x' * 13}"


FLOATS = st.floats(-1e99, 1e99)


@settings(max_examples=50)
@given(st.lists(FLOATS, min_size=1, max_size=6), st.lists(FLOATS, max_size=3), FLOATS)
def test_a_scale_contains_its_core_and_sorted_ticks(values, core, value):
    scale = Scale.over(values, core)
    assert all(scale.contains(number) for number in core)
    assert 0 <= float(scale.at(value).rstrip("%")) <= 100
    ticks = scale.ticks()
    assert len(ticks) <= 6
    assert ticks == sorted(ticks)
    assert all(scale.contains(tick) for tick in ticks)
    assert "nan" not in str(gauge(scale, ConfidenceInterval(value, *sorted([value, 1.0])), "blue", value, value))


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(-0.01, 0.01), [-0.01, -0.005, 0, 0.005, 0.01]),
    ],
)
def test_ticks_are_round_numbers(scale, ticks):
    assert scale.ticks() == pytest.approx(ticks)


def test_a_gauge_has_its_numbers_at_their_positions():
    view = gauge(Scale(0.0, 10.0), ConfidenceInterval(5.0, 4.0, 12.0), "blue", 3.0, 2.0)
    assert (view["dot"], view["ends"], view["arrows"]) == ("50.00%", ("40.00%", "100.00%"), ["100%"])
    assert (view["bound"], view["logging"], view["is_hollow"]) == ("30.00%", "20.00%", False)
    empty = gauge(Scale(0.0, 10.0), ConfidenceInterval(), "blue")
    assert empty["dot"] is empty["ends"] is empty["bound"] is None
    assert gauge(Scale(0.0, 10.0), ConfidenceInterval(11.0), "blue")["is_hollow"]
