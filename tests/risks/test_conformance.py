"""check_risk accepts a user's risk and names the fault of others."""

from __future__ import annotations

import pytest
from own_risks import CountsRows, EntropicRisk, NegativeGradient, WrongGradient

from drcrm.risks import check_risk


def test_a_sound_risk_passes():
    check_risk(EntropicRisk(0.5))


@pytest.mark.parametrize(
    ("risk", "message"),
    [
        (WrongGradient(), "must be the derivative of the value"),
        (CountsRows(), "a weight 2 must count like two equal rows"),
        (NegativeGradient(), "must not have a negative gradient"),
    ],
)
def test_a_fault_is_named(risk, message):
    with pytest.raises(AssertionError, match=message):
        check_risk(risk)
