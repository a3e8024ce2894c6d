"""Objective through the whole chain: the public POEM code's values, and formulas row by row."""

import json
from pathlib import Path

import numpy as np
import pytest
from fixtures.action_logs import expand, make_coef, make_log, make_objective
from scipy import sparse
from scipy.special import expit

from drcrm.actions.label_vectors import SparseRows, TabledRows
from drcrm.data.bandit_log import BanditLog
from drcrm.optimization.objective import CostPass
from drcrm.risks import KLBall, MeanRisk, VariancePenalizedRisk
from drcrm.risks.closed_forms import mean_gradient
from drcrm.weights import Clipped, Shrunk, clipping_constant

REFERENCE = json.loads((Path(__file__).parents[1] / "data/objective_values.json").read_text())


@pytest.mark.parametrize("entry", REFERENCE["evaluations"], ids=lambda entry: f"penalty {entry['penalty']}")
@pytest.mark.parametrize("form", [np.array, sparse.csr_matrix], ids=["dense", "csr"])
def test_agrees_with_the_public_poem_code(entry, form):
    log = BanditLog(
        form(REFERENCE["features"]), REFERENCE["actions"], np.exp(REFERENCE["log_propensity"]), REFERENCE["cost"]
    )
    risk = VariancePenalizedRisk(entry["penalty"]) if entry["penalty"] else MeanRisk()
    value, gradient = make_objective(log, risk, Clipped(clipping_constant(log)))(np.array(entry["coef"]))
    assert np.log(clipping_constant(log)) == pytest.approx(REFERENCE["log_clip"], rel=1e-12)
    assert value == pytest.approx(entry["objective"], rel=1e-10)
    assert gradient == pytest.approx(np.ravel(entry["gradient"]), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("labels", [1, 3, 5, 6, 14])
def test_many_rows_per_context_use_tables(labels):
    rng, n = np.random.default_rng(6), 2000
    rows = rng.integers(0, 2, (n, labels)), rng.uniform(0.05, 1, n), -rng.integers(0, 4, n)
    log = BanditLog(rng.normal(size=(10, 4)), *rows, context=rng.integers(0, 10, n))
    coef, expanded = rng.normal(size=(4, labels)), expand(log)
    assert isinstance(log.row_map, TabledRows)
    assert isinstance(expanded.row_map, SparseRows)
    value, gradient = make_objective(log, KLBall(0.1), Clipped(3.0))(coef)
    expanded_value, expanded_gradient = make_objective(expanded, KLBall(0.1), Clipped(3.0))(coef)
    assert value == pytest.approx(expanded_value, rel=1e-12)
    assert gradient == pytest.approx(expanded_gradient, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("scale", [1, 30, 300, 3000])
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
def test_equals_the_formula_when_exponentials_vanish(scale, dense):
    """scipy keeps the tiny probabilities that the objective sets to 0."""
    log, coef = make_log(9, dense), make_coef(10, scale)
    X = sparse.csr_array(log.X).toarray()[log.context]
    scores = X @ coef
    weight = np.exp((log.Y * scores - np.logaddexp(0, scores)).sum(axis=1)) / log.propensity
    z = log.cost * np.minimum(weight, 3.0)
    slope = np.where(weight <= 3.0, z, 0) * log.count / log.size
    value, gradient = make_objective(log, MeanRisk(), Clipped(3.0))(coef)
    assert value == pytest.approx(log.count @ z / log.size, rel=1e-10)
    expected = X.T @ (slope[:, None] * (log.Y - expit(scores)))
    assert gradient == pytest.approx(expected.ravel(), rel=1e-10, abs=1e-12)


def test_values_do_not_depend_on_earlier_evaluations():
    """Coefficients that change in place, and passes of two objectives that alternate."""
    log, coef, other, weight = make_log(9, True), make_coef(10, 1), make_coef(11, 1), Shrunk(5.0)
    expected = make_objective(log, KLBall(0.1), weight)(coef + 1)
    objective = make_objective(log, KLBall(0.1), weight)
    objective(coef)
    coef += 1
    for value, known in zip(objective(coef), expected, strict=True):
        assert value == pytest.approx(known, rel=1e-14)
    parts, scores = objective.prepared.parts_of(objective.estimate), objective.prepared.scores
    shape, in_z = objective.prepared.shape, mean_gradient
    first, second = (parts.transform(CostPass, scores, x.reshape(shape), True, weight) for x in (coef, other))
    alternating = [sum(passes.map(CostPass.gradient, by_chunk=[in_z] * len(parts))) for passes in (second, first)]
    for gradient, x in zip(alternating, (other, coef), strict=True):
        assert gradient.ravel() == pytest.approx(make_objective(log, MeanRisk(), weight)(x)[1], rel=1e-14)
