"""check_risk accepts a user's risk and names the fault of others."""

import pytest
from fixtures.user_code import CountsRows, EntropicRisk, NegativeGradient, WrongGradient

from drcrm.errors import InputError
from drcrm.risks import check_risk
from drcrm.selection.registry.algorithms import Algorithm, check_algorithm


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


@pytest.mark.parametrize(
    ("risk", "message"),
    [
        ("EntropicRisk", None),
        ("UnitCosts", None),
        ("WrongShape", "fixtures.user_code:WrongShape fails .* 23 input values to the 24 output values"),
        ("WrongAtHighTemperature", "the gradient must be the derivative of the value"),
        (
            "WrongGradient",
            "estimator fixtures.user_code:WrongGradient fails drcrm.risks.check_risk: the gradient must be",
        ),
    ],
)
def test_an_algorithm_with_a_faulty_risk_is_refused(risk, message):
    if message is None:
        check_algorithm(Algorithm(f"fixtures.user_code:{risk}", "temperature", (0.5, 1.0)))
        return
    with pytest.raises(InputError, match=message):
        check_algorithm(Algorithm(f"fixtures.user_code:{risk}", "temperature", (0.5, 1.0)))
