"""Held-out scores and scorers, and scikit-learn's searches with and without metadata routing."""

import re

import numpy as np
import pytest
import sklearn
from fixtures.user_input import refusal
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from drcrm import CIPS, KLDRO, DoublyRobustDRO, ExponentialPolicy, HeldoutScorer, cross_fit
from drcrm.logging_policy import restrict_to_support
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.selection.score_names import MODELLED, SCORES

RADII = [1e-3, 1e-1, 0.5]
KINDS = ("labels", "single", "eligible", "lists")
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def one_row_logs(make_kind) -> dict:
    """Return logs with one row for each context, as searches split them, and other logs to score on."""
    return {(kind, seed): make_kind(kind, seed, contexts=90, passes=1) for kind in KINDS for seed in (1, 4)}


def search_rows(data) -> dict:
    return {"propensity": data.rows["propensity"], "cost": data.rows["cost"], **data.actions}


@pytest.fixture
def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@every_kind
def test_a_scorer_returns_minus_its_heldout_score(kind, one_row_logs):
    train, test = one_row_logs[kind, 1], one_row_logs[kind, 4]
    estimator = train.fit(DoublyRobustDRO(safe=False))
    model, log = estimator.cost_model_, test.log
    modelled, plain = HeldoutScores(log, estimator.clip_, model), HeldoutScores(log, estimator.clip_)
    context = np.arange(90)
    for name in SCORES:
        score = estimator.score(test.X, test.Y, **test.rows, **test.eligible, by=name)
        assert score == -(modelled if name in MODELLED else plain)(estimator.policy_)[name]
        rows = {key: values for key, values in test.rows.items() if key != "context"}
        assert np.array_equal(test.rows["context"], context)
        assert HeldoutScorer(name)(estimator, test.X, test.Y, **rows, **test.eligible) == score
        if name == "clipped_snips":
            assert estimator.score(test.X, test.Y, **test.rows, **test.eligible) == score


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"propensity": None}, r"CIPS.score needs propensity=.*sklearn.set_config\(enable_metadata_routing=True\)"),
        ({"cost": None}, "CIPS.score needs cost=, one value for each logged row; searches pass it on after sklearn"),
        ({"by": "loss"}, "by is 'loss', expected one of 'ips', 'clipped_ips', 'snips', 'clipped_snips', 'dr', "),
        ({"Y": np.zeros((90, 3))}, "Y has 3 labels, the policy has 2"),
    ],
)
def test_a_score_that_cannot_be_computed_says_why(arguments, message, one_row_logs):
    data = one_row_logs["labels", 1]
    assert re.search(message, refusal(data.fit(CIPS()).score, **{"X": data.X, "Y": data.Y, **data.rows, **arguments}))


@pytest.mark.parametrize("kind", ["labels", "lists"])
def test_a_search_chooses_the_radius_with_the_best_score(kind, routed, one_row_logs):
    data = one_row_logs[kind, 1]
    rows, expected = search_rows(data), []
    search = GridSearchCV(KLDRO(), {"radius": RADII}, cv=KFold(3), error_score="raise").fit(data.X, data.Y, **rows)
    for radius in RADII:
        scores = []
        for parts in KFold(3).split(np.arange(90)):
            train, test = ({k: v[part] for k, v in rows.items() if k != "n_actions"} for part in parts)
            estimator = KLDRO(radius).fit(data.X[parts[0]], data.Y[parts[0]], **train)
            scores.append(estimator.score(data.X[parts[1]], data.Y[parts[1]], **test))
        expected.append(np.mean(scores))
    assert search.cv_results_["mean_test_score"] == pytest.approx(expected, rel=1e-9)
    assert search.best_params_ == {"radius": RADII[int(np.argmax(expected))]}
    best = KLDRO(**search.best_params_).fit(data.X, data.Y, **rows)
    assert np.array_equal(search.best_estimator_.coef_, best.coef_)


@pytest.mark.parametrize("by", ["dr", "dr_bound", "improvement_bound"])
def test_a_search_by_a_modelled_score_needs_no_cost_model(by, routed, one_row_logs):
    """The score of a fit without a cost model is that of a model that is cross-fitted to the held-out rows."""
    data = one_row_logs["labels", 1]
    search = GridSearchCV(KLDRO(), {"radius": RADII}, scoring=HeldoutScorer(by), cv=2, error_score="raise")
    search.fit(data.X, data.Y, **search_rows(data))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    fit, log = search.best_estimator_, data.log.without_empty_rows()
    model = restrict_to_support(cross_fit(log), log, None, 0.05)
    score = fit.score(data.X, data.Y, **data.rows, by=by)
    assert score == pytest.approx(-HeldoutScores(log, fit.clip_, model)(fit.policy_)[by], abs=1e-12)


def test_searches_pass_on_what_a_fit_needs(routed, one_row_logs):
    data, policy = one_row_logs["labels", 1], ExponentialPolicy(np.zeros((4, 2)))
    robust, rows = DoublyRobustDRO(tol=1e-4, safe=False), search_rows(data)
    search = GridSearchCV(robust, {"radius": RADII}, scoring=HeldoutScorer("dr_bound"), error_score="raise")
    search.fit(data.X, data.Y, **rows, logging_policy=policy)
    best = clone(robust).set_params(**search.best_params_).fit(data.X, data.Y, **rows, logging_policy=policy)
    assert np.array_equal(search.best_estimator_.coef_, best.coef_)
    with pytest.raises(UnsetMetadataPassedError, match="context"):  # searches split the rows that context numbers
        GridSearchCV(KLDRO(), {"radius": RADII}).fit(data.X, data.Y, **rows, context=data.rows["context"])


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_searches_pass_on_groups_to_splits_fits_and_scores(in_pipeline, routed):
    """The search splits by group. Each fit holds out whole groups, and the score's bound counts groups."""
    rng = np.random.default_rng(0)
    user, A, X = (
        np.repeat(np.arange(90), 5),
        rng.integers(0, 2, 450),
        np.column_stack([rng.normal(size=450), np.ones(450)]),
    )
    rows = {
        "propensity": np.full(450, 0.5),
        "cost": -(rng.random(450) < 0.2 + 0.6 * ((X[:, 0] > 0) == A)).astype(float),
    }
    robust = DoublyRobustDRO(tol=1e-4, max_iter=50)
    estimator = make_pipeline(FunctionTransformer(), robust) if in_pipeline else robust
    name = "doublyrobustdro__radius" if in_pipeline else "radius"
    scorer = HeldoutScorer("dr_bound")
    search = GridSearchCV(estimator, {name: [0.01, 0.1]}, scoring=scorer, cv=GroupKFold(3), error_score="raise")
    search.fit(X, A, **rows, groups=user)
    best = search.best_estimator_[-1] if in_pipeline else search.best_estimator_
    heldout = np.unique(user[best.heldout_])
    assert len(best.heldout_) == 5 * len(heldout)
    scores = []
    for train, test in GroupKFold(3).split(X, A, user):
        parts = [{name: values[part] for name, values in {**rows, "groups": user}.items()} for part in (train, test)]
        fitted = clone(robust).set_params(radius=0.01).fit(X[train], A[train], **parts[0])
        scores.append(fitted.score(X[test], A[test], **parts[1], by="dr_bound"))
        by_row = {name: parts[1][name] for name in rows}
        assert scores[-1] < fitted.score(X[test], A[test], **by_row, by="dr") - 0.01
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(scores), rel=1e-9)
