"""A thousand generated inputs, drawn and made small by hypothesis; ``make fuzz`` runs a hundred thousand."""

from __future__ import annotations

import pytest
from fuzz import KINDS
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

CASES = 1000


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    """A folder in which nothing may change but a case's own."""
    return tmp_path_factory.mktemp("yard").resolve()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_works_or_says_in_one_line_why_not(kind, yard):
    share = CASES * kind.share // sum(each.share for each in KINDS.values()) + 1
    accepted = set()

    @settings(
        max_examples=share,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def some(r):
        accepted.add(kind.run(kind.make(r), yard))

    some()
    assert accepted == {True, False}


def test_a_case_is_known_by_its_number():
    from fuzz.__main__ import draw

    for kind in KINDS.values():
        assert repr(draw(kind, 3, 5)) == repr(draw(kind, 3, 5)) or kind.name == "fits"
