"""One conformance test over the registry of estimators and all kinds of actions, and what all of them share."""

import pickle
from inspect import signature

import numpy as np
import pytest
from fixtures.action_logs import every_form
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import drcrm
from drcrm import (
    KLDRO,
    BanditLog,
    CostModel,
    ExponentialPolicy,
    off_policy_value,
)
from drcrm.actions.one_of_many_base import LEAST
from drcrm.arrays.numerics import SMALLEST_EXPONENT
from drcrm.optimization.starts import STARTS, start_coef
from drcrm.policies.prepared_log import PreparedLog
from drcrm.selection.algorithms import ESTIMATORS
from drcrm.weights import clipping_constant

NEGLIGIBLE = np.exp(SMALLEST_EXPONENT) / LEAST  # a softmax may leave out smaller probabilities
REGISTERED = sorted(set(ESTIMATORS) & set(drcrm.__all__))
every_estimator = pytest.mark.parametrize("name", [*REGISTERED, "DoublyRobustDRO"])


def make(name: str, **options):
    """Return an estimator, DoublyRobustDRO without held-out rows."""
    return getattr(drcrm, name)(**({"safe": False} if name == "DoublyRobustDRO" else {}), **options)


def risk_of(name: str, estimator):
    """Return the risk that an estimator minimises."""
    names = signature(ESTIMATORS[name]).parameters
    return ESTIMATORS[name](**{name: getattr(estimator, name) for name in names if hasattr(estimator, name)})


def ips_objective(name: str, estimator, data, coef: np.ndarray) -> float:
    """Return an estimator's objective for "ips": the risk of the clipped costs, or the weighted likelihood."""
    probability, cost, count = data.probability(coef), data.rows["cost"], data.rows["count"]
    if name == "WeightedLikelihood":
        return -np.average(np.exp(-estimator.sharpness * cost) * np.log(probability), weights=count)
    weight = np.minimum(probability / data.rows["propensity"], estimator.clip_)
    return risk_of(name, estimator)(cost * weight, count)[0]


@every_estimator
def test_every_estimator_conforms(name, data):
    """It fits, predicts by the policy's formula, minimises its objective, and copies, pickles and counts rows."""
    estimator = make(name)
    with pytest.raises(NotFittedError):
        estimator.predict(data.X)
    assert data.fit(estimator) is estimator
    assert estimator.converged_
    assert 0 < estimator.n_iter_ <= estimator.max_iter
    assert estimator.clip_ == clipping_constant(data.log.without_empty_rows())
    proba = estimator.predict_proba(data.X, **data.eligible)
    assert proba == pytest.approx(data.marginals(estimator.coef_), rel=1e-9, abs=NEGLIGIBLE)
    drawn = estimator.sample(data.X, random_state=1, **data.eligible)
    assert np.array_equal(drawn, estimator.policy_.sample(data.X, random_state=1, **data.eligible))
    assert np.array_equal(estimator.predict(data.X, **data.eligible), estimator.policy_.greedy(data.X, **data.eligible))
    log_prob = estimator.policy_.log_prob(data.X, data.Y, data.rows["context"], **data.eligible)
    assert np.exp(log_prob) == pytest.approx(data.probability(estimator.coef_), rel=1e-9, abs=NEGLIGIBLE)
    if name not in ("DoublyRobustDRO", "EnvironmentDRO"):
        objective = ips_objective(name, estimator, data, estimator.coef_)
        assert estimator.objective_ == pytest.approx(objective, rel=1e-9)
        assert objective < ips_objective(name, estimator, data, 0 * estimator.coef_) - 0.01
    copy = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(copy.predict_proba(data.X, **data.eligible), proba)
    repeated = data.repeated().fit(clone(estimator))
    assert (repeated.clip_, repeated.tilt_) == (estimator.clip_, estimator.tilt_)
    assert repeated.objective_ == pytest.approx(estimator.objective_, rel=1e-9)


# Every name and every estimate meets every start.
@pytest.mark.parametrize(
    ("name", "estimate", "start"),
    [
        (name, estimate, [*STARTS][(turn + place) % len(STARTS)])
        for turn, name in enumerate(REGISTERED)
        for place, estimate in enumerate(ESTIMATORS[name].estimates)
    ],
)
def test_every_estimate_decreases_from_every_start(name, estimate, start, kind_logs):
    """``objective_`` is ``off_policy_value`` of the learned policy, and less than at the start."""
    data = kind_logs["labels"]
    log, model = data.log, CostModel(0.01).fit(data.log)
    estimator = make(name, estimate=estimate, start=start, tilt="auto", clip=4.0, context_effects=False)
    data.fit(estimator, logging_policy=data.logging_policy, cost_model=model)
    coef, tilt = start_coef(start, PreparedLog(log.without_empty_rows()), data.logging_policy.coef, model.coef_, "auto")
    assert estimator.tilt_ == pytest.approx(tilt)

    def value(coef: np.ndarray) -> float:
        if name == "WeightedLikelihood":
            return ips_objective(name, estimator, data, coef)
        risk = risk_of(name, estimator)
        clipped, clip = (estimate, None) if estimate == "dm" else (f"clipped_{estimate}", 4.0)
        return off_policy_value(ExponentialPolicy(coef), log, clipped, risk, None, clip, model)

    assert estimator.objective_ == pytest.approx(value(estimator.coef_), rel=1e-9)
    assert estimator.objective_ < value(coef) - 1e-4


@every_form
@pytest.mark.parametrize("kind", ["labels", "eligible"])
@pytest.mark.parametrize("name", ["CIPS", "WeightedLikelihood", "KLDRO", "DoublyRobustDRO"])
def test_an_intercept_equals_a_constant_column(name, kind, form, kind_logs):
    """The logging policy and the cost model then have contexts without the constant, in fits, scores and values."""
    data = kind_logs[kind]
    base, X, rows = data.logging_policy.coef, form(np.asarray(data.X)[:, :-1]), data.rows | data.actions
    narrow_policy = type(data.logging_policy)(base[:-1], base[-1])
    estimator = make(name, fit_intercept=True).fit(
        X, data.Y, **rows, groups=rows["context"], logging_policy=narrow_policy
    )
    wide = data.fit(make(name), logging_policy=data.logging_policy)
    assert not wide.intercept_.any()
    assert estimator.n_features_in_ == 3
    assert np.vstack([estimator.coef_, estimator.intercept_]) == pytest.approx(wide.coef_, rel=1e-5, abs=1e-6)
    proba = wide.predict_proba(data.X, **data.eligible)
    assert estimator.predict_proba(X, **data.eligible) == pytest.approx(proba, rel=1e-4, abs=1e-7)
    for by in ["clipped_snips", *(["dr_bound"] if name == "DoublyRobustDRO" else [])]:
        score = estimator.score(X, data.Y, **data.rows, **data.eligible, by=by)
        expected = wide.score(data.X, data.Y, **data.rows, **data.eligible, by=by)
        assert score == pytest.approx(expected, rel=1e-5)
    estimate = "dr" if name == "DoublyRobustDRO" else "ips"
    value = off_policy_value(estimator, BanditLog(X, data.Y, **rows), estimate, cost_model=estimator.cost_model_)
    assert value == pytest.approx(off_policy_value(wide, data.log, estimate, cost_model=wide.cost_model_), rel=1e-5)


def test_a_cost_model_of_the_user_is_used_unchanged(data):
    """A function of contexts, or a cost model; the start "model" uses its coefficients."""
    fitted = CostModel(0.01).fit(data.log)
    estimator, expected = (data.fit(KLDRO(estimate="dr"), cost_model=model) for model in (fitted.effects, fitted))
    assert estimator.cost_model_.model.function == fitted.effects
    assert estimator.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    assert estimator.coef_ == pytest.approx(expected.coef_, rel=1e-6, abs=1e-8)
    assert data.fit(KLDRO(), cost_model=fitted).cost_model_.model is fitted
    assert data.fit(KLDRO()).cost_model_ is None


@pytest.mark.parametrize("kind", ["single", "eligible", "lists"])  # tests/test_units.py has label vectors
def test_units_of_costs_and_features_do_not_matter(kind, kind_logs):
    data = kind_logs[kind]
    estimator = data.fit(make("DoublyRobustDRO"))
    X = data.choices.X * np.array([1e3, 1e-2, 5.0, 1.0])
    choices = type(data.choices)(**vars(data.choices) | {"X": X, "cost": 100 * data.choices.cost})
    X = choices.lists() if data.kind == "lists" else X
    scaled = make("DoublyRobustDRO").fit(X, data.Y, **choices.rows, **data.actions)
    expected = estimator.predict_proba(data.X, **data.eligible)
    assert scaled.predict_proba(X, **data.eligible) == pytest.approx(expected, abs=2e-3)
