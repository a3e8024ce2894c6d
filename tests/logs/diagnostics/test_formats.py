"""Names, numbers and shares as texts, and positions of marks in the charts of the report on a log."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_answers import NAMES

from drcrm.logs.diagnostics.formats import clean, decimals_for, format_number, format_share, shorten
from drcrm.logs.diagnostics.units import ConfidenceInterval
from drcrm.logs.report.charts import Scale, calibration, gauge


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
    [
        (-0.00001, 2, "0.00"),
        (-12034.51, 1, "−12\u202f034.5"),
        (0.0272, 3, "+0.027"),
        (0.0, 3, "0.000"),
        (2.4e-9, 6, "+2.40e−09"),
    ],
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
        (Scale(0.04, 1.5, is_log=True), [0.05, 0.1, 0.2, 0.5, 1]),
        (Scale(1e-6, 1.0, is_log=True), [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]),
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


@pytest.mark.parametrize("points", [[(0.1, 0.1), (0.4, 0.4)], [(0.001, 0.001), (0.9, 0.9)], [(1e-300, 1e-300), (1, 1)]])
def test_calibrated_propensities_are_on_the_diagonal(points):
    dots = [tuple(float(place.rstrip("%")) for place in dot) for dot in calibration(points)["dots"]]
    assert [x + y for x, y in dots] == pytest.approx([100] * len(points), abs=0.02)
