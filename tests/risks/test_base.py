"""Conformance of every registered risk, reference values in 60-digit arithmetic, and faults that check_risk names."""

import json
from pathlib import Path

import numpy as np
import pytest
from fixtures.user_input import CountsRows, EntropicRisk, NegativeGradient, WrongGradient

from drcrm.errors import InputError
from drcrm.risks import (
    AdaptiveBoltzmannRisk,
    BoltzmannRisk,
    Chi2Ball,
    KLBall,
    LogSmoothingRisk,
    MeanRisk,
    VariancePenalizedRisk,
    check_risk,
)
from drcrm.selection.algorithms import ESTIMATORS, Algorithm, check_algorithm, hyper_parameter

REFERENCE = json.loads((Path(__file__).parents[1] / "data/risk_values.json").read_text())
REFERENCE_RISKS = {
    "poem": lambda entry: VariancePenalizedRisk(entry["penalty"]),
    "kl_crm": lambda entry: BoltzmannRisk(entry["temperature"]),
    "akl_crm": lambda entry: AdaptiveBoltzmannRisk(entry["radius"], entry["variance"]),
    "kl_dro": lambda entry: KLBall(entry["radius"]),
    "chi2_dro": lambda entry: Chi2Ball(entry["radius"]),
}
WITH_PARAMETER = [name for name in ESTIMATORS if name != "CIPS"]
REQUIRED_PARAMETERS = {"PhiDRO": {"divergence": "squared_hellinger"}}


def make_risk(name: str, value):
    """Return the risk of an estimator at a value of its hyper-parameter."""
    return ESTIMATORS[name](**{hyper_parameter(ESTIMATORS[name]): value}, **REQUIRED_PARAMETERS.get(name, {}))


def draw_costs(seed: int, n: int = 25) -> np.ndarray:
    return -np.random.default_rng(seed).exponential(4, n)


@pytest.mark.parametrize("vector", REFERENCE, ids=lambda vector: vector["kind"])
@pytest.mark.parametrize("kind", REFERENCE_RISKS)
def test_values_and_gradients_agree_with_60_digit_arithmetic(vector, kind):
    for entry in vector[kind]:
        value, gradient = REFERENCE_RISKS[kind](entry)(vector["z"])
        assert value == pytest.approx(entry["value"], rel=1e-8, abs=1e-8)
        assert gradient == pytest.approx(np.array(entry.get("gradient", entry.get("worst_case"))), rel=1e-8, abs=1e-8)
    assert MeanRisk()(vector["z"])[0] == pytest.approx(vector["mean"], rel=1e-12)


def test_risks_keep_the_promises_of_the_interface(risk):
    check_risk(risk, draw_costs(1))


def test_equal_costs_have_no_variance(risk, risk_of_constant):
    """Also if the cost has no exact binary representation, so that the mean is rounded. Ties share the gradient."""
    for cost, n in ((-3.0, 1), (-2.5, 7), (-3.3, 10), (1 / 3, 1000), (-1e-7, 3), (0.1, 7)):
        weights = np.arange(1, n + 1)
        value, gradient = risk(np.full(n, cost), weights)
        expected, total = risk_of_constant(cost)
        assert value == pytest.approx(expected, rel=1e-14)
        assert gradient == pytest.approx(total * weights / weights.sum(), rel=1e-12)
    _, gradient = risk([-1.0, -4.0, -1.0, -4.0])
    assert gradient[:2] == pytest.approx(gradient[2:], abs=1e-15)


def test_translation_scaling_and_monotonicity(risk, is_translation_equivariant, is_homogeneous):
    z = draw_costs(6)
    value, gradient = risk(z)
    assert (abs(gradient.sum() - 1) < 1e-12) == is_translation_equivariant
    assert (abs(risk(z - 7)[0] - value + 7) < 1e-11) == is_translation_equivariant
    assert (abs(risk(3 * z)[0] - 3 * value) < 1e-11) == is_homogeneous
    for costs in (z, np.append(z, 200 * z.min())):
        assert not risk.monotone or risk(costs)[1].min() >= 0


def test_a_variance_penalty_is_not_monotone():
    assert VariancePenalizedRisk(30.0)(np.append(draw_costs(6), 200 * draw_costs(6).min()))[1].min() < 0


def test_costs_of_extreme_magnitude(risk, is_homogeneous):
    z = draw_costs(20, 8)
    z /= np.abs(z).max()
    for unit in (1e-99, 1e99):
        value, gradient = risk(unit * z)
        if is_homogeneous:
            assert value == pytest.approx(unit * risk(z)[0], rel=1e-12)
            assert gradient == pytest.approx(risk(z)[1], rel=1e-9, abs=1e-12)
        with pytest.raises(InputError, match=r"z has the largest magnitude 1e[+-]101, expected 0 or a number from"):
            risk(unit * unit ** (2 / 99) * z)
    assert risk([*z, 1e308], [*np.ones(8), 0])[0] == risk(z)[0]


@pytest.mark.parametrize("risk", [VariancePenalizedRisk(2.0), AdaptiveBoltzmannRisk(0.1)])
def test_squares_of_weighted_costs_do_not_overflow(risk):
    z, share = draw_costs(20), np.full(25, 1 / 25)
    value, gradient, _ = risk.evaluate(2.0**1000 * z, share, 20)
    expected, expected_gradient, _ = risk.evaluate(z, share, 20)
    assert value == 2.0**1000 * expected
    assert np.array_equal(gradient, expected_gradient)


@pytest.mark.parametrize("name", WITH_PARAMETER)
def test_a_hyper_parameter_must_be_finite_and_not_negative(name):
    for value in (-1, float("nan"), float("inf"), "wide", None):
        with pytest.raises(InputError, match=repr(value)):
            make_risk(name, value)


@pytest.mark.parametrize("name", [name for name in WITH_PARAMETER if name != "WeightedLikelihood"])
def test_the_robust_end_of_a_grid_is_the_more_pessimistic(name):
    """Along the grid the risk falls from far above the mean to the mean."""
    z, end = draw_costs(23), ESTIMATORS[name].robust_end
    grid = np.geomspace(1e-9, 1 if name == "CVaRDRO" else 1e9, 37)
    values = [make_risk(name, value)(z)[0] for value in sorted(grid, reverse=end == "high")]
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] == pytest.approx(z.mean(), abs=1e-3)
    assert values[0] > z.mean() + 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BoltzmannRisk(0), "temperature.* 0"),
        (lambda: KLBall(-1), "radius.* -1"),
        (lambda: Chi2Ball(float("nan")), "radius.* nan"),
        (lambda: VariancePenalizedRisk(float("inf")), "penalty.* inf"),
        (lambda: AdaptiveBoltzmannRisk(1, "median"), "variance must be 'mean' or 'sum', got 'median'"),
        (lambda: KLBall("wide"), "radius.* 'wide'"),
        (lambda: MeanRisk()([1, float("nan")]), "z .*nan in row 1"),
        (lambda: MeanRisk()([1, 2], [1, -1]), "weights .*-1.0 in row 1"),
        (lambda: MeanRisk()([1, 2], [0, 0]), "at least one cost must have a positive weight, got none among 2"),
        (lambda: MeanRisk()([]), "got none among 0 costs"),
        (lambda: VariancePenalizedRisk(1e10)([1e308, -1e308]), "largest magnitude 1e[+]308.*another unit"),
        (lambda: MeanRisk()([1, 2], [1e308, 1e308]), "must be a finite number, got .* from 1e[+]308 to 1e[+]308"),
        (lambda: MeanRisk()([1, 2], [1e-320, 1e300]), r"weights from 9\.99989e-321 to 1e[+]300"),
        (lambda: AdaptiveBoltzmannRisk(1e308)([1, 2]), "must be a finite number"),
        (lambda: MeanRisk()([1, 2], [1]), r"weights .*\(1,\).*\(2,\)"),
        (lambda: LogSmoothingRisk(0.5)([0, 3]), "below 1/λ = 2, got 3"),
    ],
)
def test_invalid_input_is_an_error(make, message):
    with pytest.raises(InputError, match=message):
        make()


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
        ("WrongShape", "fixtures.user_input:WrongShape fails .* 23 input values to the 24 output values"),
        ("WrongAtHighTemperature", "the gradient must be the derivative of the value"),
        (
            "WrongGradient",
            "estimator fixtures.user_input:WrongGradient fails drcrm.risks.check_risk: the gradient must be",
        ),
    ],
)
def test_an_algorithm_with_a_faulty_risk_is_refused(risk, message):
    if message is None:
        check_algorithm(Algorithm(f"fixtures.user_input:{risk}", "temperature", (0.5, 1.0)))
        return
    with pytest.raises(InputError, match=message):
        check_algorithm(Algorithm(f"fixtures.user_input:{risk}", "temperature", (0.5, 1.0)))
