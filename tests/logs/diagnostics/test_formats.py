"""Names as texts, and positions of marks in the charts of the report on a log."""

import pytest
from fixtures.log_answers import NAMES
from hypothesis import given, settings
from hypothesis import strategies as st

from drcrm.logs.diagnostics.formats import ConfidenceInterval, clean, shorten
from drcrm.logs.report.charts import Scale, gauge


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
