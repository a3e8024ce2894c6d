"""Fits to a large log, which begin on samples of its contexts."""

import numpy as np
import pytest
from fixtures.action_logs import block_log, use_small_blocks, use_small_samples

from drcrm.cost_models.context_effects import context_effects
from drcrm.cost_models.ridge_model import CostModel
from drcrm.optimization import lbfgs
from drcrm.optimization.lbfgs import LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies import prepared_log
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import KLBall, MeanRisk
from drcrm.selection import heldout_scores
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.heldout_scores import fit_cost_model


def objectives_on(log, estimate: str, effects=None) -> list[Objective]:
    prepared = PreparedLog(log, effects)
    return [Objective(prepared, risk, estimate=estimate) for risk in (MeanRisk(), KLBall(0.01))]


@pytest.mark.parametrize("radius", [0.01, "auto"])
def test_an_objective_on_a_sample_has_a_radius_for_its_number_of_rows(radius, monkeypatch):
    use_small_samples(monkeypatch, 10)
    objective = Objective(PreparedLog(block_log("labels", 80)), KLBall(radius))
    sample = next(objective.samples())
    scaled = [part.risk.radius_at(part.estimate.size) * part.estimate.size for part in (objective, sample)]
    assert scaled[0] == pytest.approx(scaled[1], rel=1e-12)
    assert sample.estimate.size == sample.prepared.log.size


def test_the_same_objective_has_the_same_fit_twice(monkeypatch):
    use_small_blocks(monkeypatch, 50)
    use_small_samples(monkeypatch, 5)
    [objective, _] = objectives_on(block_log("labels", 400), "snips")
    fits = [next(minimize_objectives([objective], np.zeros(objective.prepared.shape))) for _ in range(3)]
    assert len([*objective.samples()]) > 1
    assert all(np.array_equal(fit.coef, fits[0].coef) for fit in fits)


@pytest.mark.parametrize("estimate", ["snips", "dr"])
def test_a_staged_fit_ends_at_the_optimum_of_a_plain_fit(estimate, monkeypatch):
    log = block_log("labels", 400)
    effects = CostModel().fit(log).effects(log.X) if estimate == "dr" else None

    def fit() -> list:
        objectives = objectives_on(log, estimate, effects)
        start = np.zeros(objectives[0].prepared.shape)
        return list(minimize_objectives(objectives, start, LbfgsSettings(tol=1e-9), ridges=[0.05, 0.05]))

    plain = fit()
    use_small_blocks(monkeypatch, 50)
    monkeypatch.setattr(lbfgs, "LARGE_TOLERANCE", 1e-9)
    use_small_samples(monkeypatch, 20)
    for staged, expected in zip(fit(), plain, strict=True):
        assert staged.converged
        assert staged.objective == pytest.approx(expected.objective, abs=1e-6)


def test_variance_components_of_a_large_log_are_estimated_on_a_sample(monkeypatch):
    log = block_log("labels", 400)
    monkeypatch.setattr(prepared_log, "SAMPLE", 100)
    results = []

    def record(*arguments):
        results.append((arguments[0].n_contexts, context_effects(*arguments)))
        return results[-1][1]

    monkeypatch.setattr(heldout_scores, "context_effects", record)
    supported, effects = fit_cost_model(log, Algorithm("CIPS", options={"estimate": "dr", "support": 0.0}))
    sample, model = PreparedLog(log).sample.log, supported.model
    fitted = context_effects(sample, model.effects(sample.X))
    expected = context_effects(log, model.effects(log.X), (fitted.covariance, fitted.noise)).delta
    assert effects - model.effects(log.X) == pytest.approx(expected, abs=1e-9)
    assert expected.any()
    assert [contexts for contexts, result in results if result.rounds] == [100], "no round uses all contexts"
