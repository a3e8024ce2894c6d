"""Formatting of names and numbers in the report on a log."""

import math

import pytest
from log_answers import NAMES

from drcrm.reports.log_report.formatting import clean, decimals_for, format_number, format_share, shorten


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_cleaning_is_idempotent_and_names_are_short(name):
    assert clean(clean(name)) == clean(name)
    assert 0 < len(shorten(name, 40)) <= 40


def test_control_and_direction_characters_are_replaced():
    assert clean("a\x1b[31mred\x00\n\rb") == "a\ufffd[31mred\ufffd b"
    assert clean("\u202egnihton\u202c \ud800") == "\ufffdgnihton\ufffd \ufffd"
    assert clean("👩‍👩‍👧‍👦 مرحبا") == "👩‍👩‍👧‍👦 مرحبا"
    assert shorten("x" * 50, 40) == f"{'x' * 26}…{'x' * 13}"


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
    5e-321: "0",
    math.inf: "–",
    math.nan: "–",
    None: "–",
    "3": "–",
}


@pytest.mark.parametrize("value", NUMBERS)
def test_numbers_have_three_digits(value):
    assert format_number(value) == NUMBERS[value]


@pytest.mark.parametrize(
    ("value", "decimals", "expected"),
    [(-0.00001, 2, "0.00"), (-12034.51, 1, "−12\u202f034.5"), (0.0272, 3, "+0.027"), (0.0, 3, "0.000")],
)
def test_numbers_with_decimals_and_sign(value, decimals, expected):
    assert format_number(value, decimals, sign=value >= 0) == expected


@pytest.mark.parametrize(
    ("errors", "values", "decimals"),
    [([0.0061, 0.0044], [], 4), ([120.0], [], 0), ([None, 0.0], [0.25], 3), ([1e-30], [], 6), ([], [], 2)],
)
def test_decimals_show_two_digits_of_the_smallest_error(errors, values, decimals):
    assert decimals_for(errors, values) == decimals


SHARES = {0: "0 %", 1: "100 %", 0.0004: "< 0.1 %", 0.0994: "9.9 %", 0.0999: "10 %", -0.02: "−2.0 %", None: "–"}


@pytest.mark.parametrize("share", SHARES)
def test_shares_in_percent(share):
    assert format_share(share) == SHARES[share]
