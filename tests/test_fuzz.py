"""Inputs that are drawn and made small by hypothesis; ``make fuzz`` runs a hundred thousand others."""

from __future__ import annotations

import pytest
from fuzz import KINDS
from fuzz.__main__ import draw
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    """A folder in which nothing may change but a case's own."""
    return tmp_path_factory.mktemp("yard").resolve()


@pytest.mark.parametrize("cases", [300, pytest.param(1000, marks=pytest.mark.slow)])
@every_kind
def test_works_or_says_in_one_line_why_not(kind, cases, yard):
    @settings(
        max_examples=cases * kind.share // sum(each.share for each in KINDS.values()) + 1,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def some(r):
        kind.run(kind.make(r), yard)

    some()


@every_kind
def test_some_cases_are_accepted_and_some_refused(kind, yard):
    """The first cases of ``make fuzz SEED=0``, until there are both."""
    found = set()
    for number in range(60):
        found.add(kind.run(draw(kind, 0, number), yard))
        if len(found) == 2:
            return
    pytest.fail(f"of 60 cases all are {'accepted' if True in found else 'refused'}")
