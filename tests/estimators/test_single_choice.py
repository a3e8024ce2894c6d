"""Every estimator on one action of K and on lists of actions; scikit-learn's searches; edges; the best policy."""

from __future__ import annotations

import pickle
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from softmax_logs import Choices, cost_model

import drcrm
from drcrm import (
    CIPS,
    KLDRO,
    ActionLists,
    BanditLog,
    CostModel,
    DoublyRobustDRO,
    ExponentialPolicy,
    HeldoutScorer,
    Implicit,
    SoftmaxPolicy,
    off_policy_value,
)
from drcrm.data.bandit_log import clipping_constant
from drcrm.errors import InputError
from drcrm.optimization.starts import STARTS, start_coef
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.selection.algorithms import ESTIMATORS
from drcrm.selection.heldout_scores import SCORES

ROOT = Path(__file__).parents[2]
NAMES = [*sorted(set(ESTIMATORS) & set(drcrm.__all__)), "DoublyRobustDRO"]
RADII = [1e-3, 1e-1, 0.5]
every_estimator = pytest.mark.parametrize("name", NAMES)
kinds = pytest.mark.parametrize("kind", ["single", "eligible", "lists"])


@pytest.fixture(scope="module")
def choices() -> dict[str, Choices]:
    """240 rows that some policy at random logged of 80 contexts, with costs that its features and actions tell."""
    return {
        kind: logged(Choices.drawn(1, contexts=80, passes=3, actions=4, restricted=kind != "single"))
        for kind in ("single", "eligible", "lists")
    }


def logged(given: Choices, seed: int = 0) -> Choices:
    """The same contexts and actions, the propensities of a policy at random, and costs that can be learned."""
    rng = np.random.default_rng([seed, 3])
    base, B = rng.normal(size=(2, given.X.shape[1], given.eligible.shape[1]))
    pi = given.probabilities(base / 3)
    rows = given.context
    given.A = (rng.random(len(rows))[:, None] < pi.cumsum(axis=1)[rows]).argmax(axis=1)
    given.propensity = given.of_rows(pi)
    given.cost = given.of_rows(given.X @ B) + rng.normal(size=len(rows)) / 5
    given.cost -= given.cost.max()
    return given


def fitted_to(kind: str, given: Choices, form=np.asarray) -> tuple[object, np.ndarray, dict]:
    """X, Y and what a fit is told of the actions."""
    if kind == "lists":
        return given.lists(form), given.position, {}
    known = {"eligible": given.eligible} if kind == "eligible" else {"n_actions": given.eligible.shape[1]}
    return form(given.X), given.A, known


def fit(estimator, kind: str, given: Choices, form=np.asarray, **more):
    X, Y, known = fitted_to(kind, given, form)
    return estimator.fit(X, Y, **given.rows, **known, **more)


def offered(kind: str, given: Choices) -> dict:
    return {"eligible": given.eligible} if kind == "eligible" else {}


def by_action(kind: str, given: Choices, values: np.ndarray) -> np.ndarray:
    """Probabilities, (m, K), whatever the kind."""
    if kind != "lists":
        return values
    dense = np.zeros(given.eligible.shape)
    dense[given.eligible] = values
    return dense


def policy_of(kind: str, coef: np.ndarray) -> SoftmaxPolicy:
    return SoftmaxPolicy(coef.ravel() if kind == "lists" else coef)


@kinds
@every_estimator
def test_conforms(name, kind, choices):
    given, estimator = choices[kind], getattr(drcrm, name)()
    X, _, _ = fitted_to(kind, given)
    assert fit(estimator, kind, given) is estimator
    assert estimator.coef_.shape == ((16,) if kind == "lists" else (4, 4))
    assert estimator.converged_
    assert estimator.n_iter_ > 0
    theta, known = estimator.coef_.reshape(4, 4), offered(kind, given)
    expected = given.probabilities(theta)
    proba = by_action(kind, given, estimator.predict_proba(X, **known))
    assert proba == pytest.approx(expected, rel=1e-10, abs=1e-80)
    assert proba.sum(axis=1) == pytest.approx(1, rel=1e-12)
    greedy = estimator.predict(X, **known)
    assert np.array_equal(greedy, estimator.policy_.greedy(X, **known))
    drawn = estimator.sample(X, random_state=1, **known)
    assert np.array_equal(drawn, estimator.policy_.sample(X, random_state=1, **known))
    log_prob = estimator.log_prob(X, drawn, **known)
    assert log_prob.max() <= 0
    if kind != "lists":
        assert log_prob == pytest.approx(np.log(expected[np.arange(80), drawn]), rel=1e-10)
    log = given.listed() if kind == "lists" else given.single()
    if name not in ("WeightedLikelihood", "DoublyRobustDRO"):
        values = {each: getattr(estimator, each) for each in ESTIMATORS[name].parameters}
        weight = np.minimum(given.of_rows(expected) / given.propensity, clipping_constant(log))
        objective = ESTIMATORS[name].criterion(**values).risk(weight * given.cost, given.count)[0]
        assert estimator.objective_ == pytest.approx(objective, rel=1e-9)
    again = fit(clone(estimator), kind, given)
    assert np.array_equal(again.coef_, estimator.coef_)
    copy = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(copy.predict_proba(X, **known), estimator.predict_proba(X, **known))
    csr = fit(clone(estimator), kind, given, sparse.csr_array)
    assert csr.objective_ == pytest.approx(estimator.objective_, rel=1e-4)


@kinds
@pytest.mark.parametrize("estimate", ["ips", "snips", "dr", "dm"])
@pytest.mark.parametrize("start", STARTS)
def test_every_estimate_is_lowered_from_every_start(kind, estimate, start, choices):
    """``objective_`` is ``off_policy_value`` of the learned policy, and less than that of π0 and of Θ = 0."""
    given = choices[kind]
    log = given.listed() if kind == "lists" else given.single()
    model, logging = CostModel(0.01).fit_log(log), policy_of(kind, np.zeros((4, 4)))
    estimator = KLDRO(0.05, estimate=estimate, start=start, tilt="auto", clip=4.0)
    fit(estimator, kind, given, logging_policy=logging, cost_model=model)
    value = lambda policy: off_policy_value(policy, log, estimate, drcrm.risks.KLBall(0.05), "clipped", 4.0, model)  # noqa: E731
    assert estimator.objective_ == pytest.approx(value(estimator.policy_), rel=1e-9)
    assert estimator.objective_ < value(logging) - 0.1
    assert (estimator.tilt_ is not None) == (start == "model")


@kinds
@every_estimator
def test_counts_are_repetitions(name, kind, choices):
    given = choices[kind]
    count = np.random.default_rng(2).integers(0, 4, len(given.A))
    counted = Choices(given.X, given.A, given.propensity, given.cost, given.context, count, given.eligible)
    short, long = fit(getattr(drcrm, name)(), kind, counted), fit(getattr(drcrm, name)(), kind, counted.repeated())
    assert short.clip_ == long.clip_
    assert short.objective_ == pytest.approx(long.objective_, rel=1e-9)


@pytest.mark.parametrize("name", ["KLDRO", "DoublyRobustDRO", "WeightedLikelihood"])
def test_lists_are_learned_as_single_choices_are(name, choices):
    """ψ_a = x ⊗ e_a, cost model, start and tilt among it."""
    given = choices["single"]
    single, lists = fit(getattr(drcrm, name)(), "single", given), fit(getattr(drcrm, name)(), "lists", given)
    assert lists.objective_ == pytest.approx(single.objective_, rel=1e-6)
    learned = (given.probabilities(each.coef_.reshape(4, 4)) for each in (lists, single))
    assert next(learned) == pytest.approx(next(learned), abs=1e-4)
    assert lists.tilt_ == (None if single.tilt_ is None else pytest.approx(single.tilt_, rel=1e-6))


@pytest.mark.parametrize("name", ["CIPS", "KLDRO", "DoublyRobustDRO"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_an_intercept_is_a_constant_column(name, form, choices):
    given = choices["eligible"]
    base = np.random.default_rng(3).normal(size=(4, 4)) / 3
    rows, known = given.rows, {"eligible": given.eligible}
    estimator = getattr(drcrm, name)(fit_intercept=True).fit(
        form(given.X[:, :-1]), given.A, **rows, **known, logging_policy=SoftmaxPolicy(base[:-1], base[-1])
    )
    spelt = getattr(drcrm, name)().fit(given.X, given.A, **rows, **known, logging_policy=SoftmaxPolicy(base))
    assert (*estimator.coef_.shape, *estimator.intercept_.shape) == (3, 4, 4)
    proba = spelt.predict_proba(given.X, **known)
    assert estimator.predict_proba(form(given.X[:, :-1]), **known) == pytest.approx(proba, rel=1e-4, abs=1e-7)


def test_data_frames_are_taken_by_their_names(choices):
    given = choices["eligible"]
    frame = pd.DataFrame(given.X, columns=["age", "price", "size", "one"])
    A, eligible = pd.Series(given.A), pd.DataFrame(given.eligible, columns=["a", "b", "c", "d"])
    estimator = KLDRO().fit(frame, A, **given.rows, eligible=eligible)
    assert np.array_equal(estimator.coef_, fit(KLDRO(), "eligible", given).coef_)
    assert estimator.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        estimator.predict(frame[["price", "age", "size", "one"]])


@kinds
def test_scores_are_minus_the_held_out_scores(kind, choices):
    given = choices[kind]
    held = logged(Choices.drawn(5, contexts=40, passes=2, actions=4, restricted=kind != "single"), 0)
    estimator = fit(DoublyRobustDRO(clip=3.0), kind, given)
    X, Y, known = fitted_to(kind, held)
    known.pop("n_actions", None)  # the policy's
    scores = {by: estimator.score(X, Y, **held.rows, **known, by=by) for by in SCORES}
    theta = estimator.coef_.reshape(4, 4)
    weight = held.of_rows(held.probabilities(theta)) / held.propensity
    clipped = np.minimum(weight, 3)
    assert scores["ips"] == pytest.approx(-(weight @ held.cost) / len(weight), rel=1e-9)
    assert scores["clipped_snips"] == pytest.approx(-(clipped @ held.cost) / clipped.sum(), rel=1e-9)
    model = estimator.cost_model_
    B, logging = (np.reshape(each, (4, 4)) for each in (model.model.coef_, model.logging_policy.coef))
    rare = held.probabilities(logging) < 0.05 / held.eligible.sum(axis=1, keepdims=True)
    cost = given.cost[given.count > 0]
    effects = np.where(rare, cost.max(), np.clip(held.X @ B + model.model.intercept_, cost.min(), cost.max()))
    pi = held.probabilities(theta)
    dr = (pi * effects).sum(axis=1)[held.context] + clipped * (held.cost - held.of_rows(effects))
    assert scores["dr"] == pytest.approx(-dr.mean(), rel=1e-9)
    assert np.isfinite([*scores.values()]).all()
    assert estimator.score(X, Y, **held.rows, **known) == scores["clipped_snips"]


@pytest.fixture
def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def once() -> dict[str, Choices]:
    """A row for each context, as searches split them."""
    return {
        kind: logged(Choices.drawn(6, contexts=120, passes=1, actions=4, restricted=kind != "single"))
        for kind in ("single", "eligible", "lists")
    }


def searched(kind: str, given: Choices) -> tuple[object, np.ndarray, dict]:
    X, Y, known = fitted_to(kind, given)
    return X, Y, {"propensity": given.propensity, "cost": given.cost, **known}


@kinds
def test_a_search_chooses_the_radius_with_the_best_score(kind, routed, once):
    X, Y, rows = searched(kind, once[kind])
    search = GridSearchCV(KLDRO(), {"radius": RADII}, cv=KFold(3), error_score="raise").fit(X, Y, **rows)
    expected = []
    for radius in RADII:
        scores = []
        for train, test in KFold(3).split(np.arange(120)):
            learned, held = (
                {key: each[of] for key, each in rows.items() if key != "n_actions"} for of in (train, test)
            )
            estimator = KLDRO(radius).fit(X[train], Y[train], **learned)
            scores.append(estimator.score(X[test], Y[test], **held))
        expected.append(np.mean(scores))
    assert search.cv_results_["mean_test_score"] == pytest.approx(expected, rel=1e-9)
    assert search.best_params_ == {"radius": RADII[int(np.argmax(expected))]}
    assert np.array_equal(search.predict(X), search.best_estimator_.predict(X))


@kinds
def test_all_scorers_go_through_cross_validation(kind, routed, once):
    X, Y, rows = searched(kind, once[kind])
    scoring, plain = {name: HeldoutScorer(name) for name in SCORES}, DoublyRobustDRO(tol=1e-4, safe=False)
    found = cross_validate(plain, X, Y, params=rows, scoring=scoring, cv=3, error_score="raise")
    assert all(np.isfinite(found[f"test_{name}"]).all() for name in SCORES)


@pytest.mark.parametrize("kind", ["single", "eligible"])
def test_a_pipeline_scales_before_it(kind, routed, once):
    given = once[kind]
    X, Y, rows = searched(kind, given)
    scaled = make_pipeline(StandardScaler(), DoublyRobustDRO(fit_intercept=True, safe=False))
    scaled.fit(X, Y, **rows)
    standard = np.column_stack([StandardScaler().fit_transform(X)[:, :-1], np.ones(len(X))])
    spelt = DoublyRobustDRO(safe=False).fit(standard, Y, **rows)
    known = offered(kind, given)
    found = scaled[-1].predict_proba(StandardScaler().fit_transform(X), **known)
    assert found == pytest.approx(spelt.predict_proba(standard, **known), rel=1e-4, abs=1e-7)
    chosen = GridSearchCV(scaled, {"doublyrobustdro__radius": RADII}, cv=3, error_score="raise").fit(X, Y, **rows)
    assert np.isfinite(chosen.cv_results_["mean_test_score"]).all()


def test_actions_that_do_not_occur_are_known_by_their_number(choices):
    given = choices["single"]
    few = given.A < 2
    rows = {name: each[few] for name, each in given.rows.items()}
    narrow = KLDRO().fit(given.X, given.A[few], **rows)
    wide = KLDRO().fit(given.X, given.A[few], **rows, n_actions=6)
    assert (narrow.coef_.shape, wide.coef_.shape) == ((4, 2), (4, 6))
    assert wide.predict_proba(given.X).sum(axis=1) == pytest.approx(1, rel=1e-12)
    assert wide.coef_[:, 2:] == pytest.approx(np.repeat(wide.coef_[:, 2:3], 4, axis=1), abs=1e-6)
    robust = DoublyRobustDRO(safe=False).fit(given.X, given.A[few], **rows, n_actions=6)
    assert robust.n_iter_ > 0
    assert robust.objective_ < np.mean(rows["cost"])
    by_mask = KLDRO().fit(given.X, given.A[few], **rows, eligible=np.ones((80, 6), dtype=bool))
    assert by_mask.coef_ == pytest.approx(wide.coef_, rel=1e-6, abs=1e-9)


def test_whole_numbers_may_be_of_any_type(choices):
    given = choices["single"]
    expected = fit(KLDRO(), "single", given)
    for kind in (float, np.uint8, np.int16, object, list):
        A = [int(a) for a in given.A] if kind is list else given.A.astype(kind)
        found = KLDRO().fit(given.X, A, **given.rows, n_actions=4)
        assert np.array_equal(found.coef_, expected.coef_)


@pytest.mark.parametrize("name", ["KLDRO", "DoublyRobustDRO"])
def test_one_action_alone_is_always_taken(name):
    """K = 1, and lists of one action each: nothing can be learned, and it is said."""
    X, rows = np.ones((12, 1)), {"propensity": np.ones(12), "cost": -np.arange(12.0)}
    lists = ActionLists(np.random.default_rng(7).normal(size=(12, 2)), np.arange(13))
    plain = {"safe": False} if name == "DoublyRobustDRO" else {}
    for given, known in ((X, {"n_actions": 1}), (lists, {})):
        with pytest.warns(ConvergenceWarning, match=f"{name} ends where it began"):
            estimator = getattr(drcrm, name)(**plain).fit(given, np.zeros(12, dtype=int), **rows, **known)
        assert estimator.predict_proba(given).ravel() == pytest.approx(1, rel=1e-14)
        assert estimator.predict(given).tolist() == [0] * 12
        assert estimator.log_prob(given, np.zeros(12, dtype=int)) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("restricted", [False, True], ids=["all", "eligible"])
def test_a_thousand_actions(restricted):
    """200 rows of 1000 actions: most are never logged. The learned policy costs less than π0 by its own estimate."""
    given = logged(Choices.drawn(8, contexts=200, passes=1, actions=1000, restricted=restricted))
    kind = "eligible" if restricted else "single"
    estimator = fit(DoublyRobustDRO(tol=1e-3, safe=False), kind, given)
    proba = estimator.predict_proba(given.X, **offered(kind, given))
    assert proba.sum(axis=1) == pytest.approx(1, rel=1e-10)
    assert (proba[~given.eligible] == 0).all()
    assert estimator.objective_ < given.cost.mean()


@pytest.mark.parametrize("kind", ["single", "lists"])
def test_one_row_is_enough(kind):
    X = ActionLists(np.eye(3), [0, 3]) if kind == "lists" else np.ones((1, 1))
    known = {} if kind == "lists" else {"n_actions": 3}
    for name in ("CIPS", "KLDRO", "WeightedLikelihood"):
        estimator = getattr(drcrm, name)(clip=None if name == "CIPS" else "auto")
        estimator.fit(X, [1], propensity=[0.3], cost=[-1.0], **known)
        assert estimator.predict(X).tolist() == [1]


@kinds
def test_costs_that_are_all_equal_teach_nothing(kind, choices):
    given = choices[kind]
    X, Y, known = fitted_to(kind, given)
    rows = {**given.rows, "cost": np.full(len(Y), -2.0)}
    for estimator in (KLDRO(estimate="snips"), DoublyRobustDRO(safe=False)):
        with pytest.warns(ConvergenceWarning, match="ends where it began: all costs are equal"):
            estimator.fit(X, Y, **rows, **known)
        assert np.isfinite(estimator.coef_).all()


GOOD = {"X": np.ones((3, 1)), "Y": [0, 2, 1], "propensity": np.full(3, 0.5), "cost": [-1.0, -2.0, 0.0]}
LISTS = ActionLists(np.arange(7.0)[:, None], [0, 3, 4, 7])


@pytest.mark.parametrize(
    ("estimator", "arguments", "message"),
    [
        (CIPS(), {"Y": [0, 1.5, 1]}, r"Y is 1\.5 in row 1, expected a whole number"),
        (CIPS(), {"Y": [0, 2, -1]}, "Y is -1 in row 2"),
        (CIPS(), {"n_actions": 2}, "Y is 2 in row 1"),
        (CIPS(), {"Y": ["left", "right", "left"]}, "Y is not an array of numbers, but of text such as 'left'"),
        (
            CIPS(),
            {"Y": [0, 10**7, 1]},
            "Y reaches 10000000, with 3 different actions: number them from 0, or pass n_actions=",
        ),
        (CIPS(), {"eligible": np.ones((2, 3), dtype=bool)}, "eligible has 2 rows, expected 3"),
        (CIPS(), {"eligible": [[True] * 3, [True, False, False], [True] * 3]}, "Y is 2 in row 1.*eligible"),
        (CIPS(), {"eligible": [[True] * 3, [True] * 3, [False] * 3]}, "eligible"),
        (CIPS(), {"X": LISTS, "Y": [3, 0, 0]}, "Y is 3 in row 0"),
        (CIPS(), {"X": LISTS, "Y": [2, 0, 0], "n_actions": 3}, "n_actions"),
        (
            CIPS(start="logging"),
            {"logging_policy": ExponentialPolicy(np.zeros((1, 3)))},
            "the logging policy is over 3 labels, the log has one of 3 actions",
        ),
        (CIPS(start="logging"), {"logging_policy": SoftmaxPolicy(np.zeros((1, 4)))}, r"\(1, 4\).*expected \(1, 3\)"),
        (CIPS(start="logging"), {"logging_policy": SoftmaxPolicy(np.zeros(1))}, "is over lists of actions, the log"),
        (CIPS(estimate="dr"), {"cost_model": cost_model(np.zeros((1, 4)))}, r"shape \(1, 4\), expected \(1, 3\)"),
        (CIPS(estimate="dr"), {"cost_model": cost_model(np.full((1, 3), np.nan))}, "coef has nan in row 0, column 0"),
        (
            CIPS(estimate="dr"),
            {"cost_model": 3},
            "cost_model is of type int, expected one with predict and expectation",
        ),
    ],
)
def test_errors_say_what_is_wrong(estimator, arguments, message):
    with pytest.raises(InputError, match=message) as error:
        estimator.fit(**{**GOOD, **arguments})
    assert "\n" not in str(error.value)


def test_one_hot_actions_are_to_be_whole_numbers():
    Y, rows = np.eye(3, dtype=int)[np.arange(12) % 3], {"propensity": np.full(12, 1 / 3), "cost": -np.arange(12.0)}
    with pytest.raises(InputError, match=r"exactly one 1: .*single choice among 3 actions.*(whole numbers|integers)"):
        CIPS().fit(np.ones((12, 1)), Y, **rows)
    assert CIPS().fit(np.ones((12, 1)), Y.argmax(axis=1), **rows).coef_.shape == (1, 3)


def test_scores_of_other_actions_are_refused(choices):
    estimator = fit(KLDRO(), "single", choices["single"])
    rows = {"propensity": [0.5, 0.5], "cost": [-1.0, 0.0]}
    X = choices["single"].X[:2]
    for Y, message in (
        ([0, 4], "Y is 4 in row 1"),
        ([[0, 1], [1, 0]], "Y|a vector of whole numbers"),
        ([0.5, 1], "Y is 0.5 in row 0"),
    ):
        with pytest.raises(InputError, match=message):
            estimator.score(X, Y, **rows)
    with pytest.raises(InputError, match="ActionLists"):
        estimator.predict(choices["lists"].lists())
    with pytest.raises((InputError, ValueError), match=r"lists|expecting 16|16 features"):
        fit(KLDRO(), "lists", choices["lists"]).predict(np.ones((2, 16)))


def test_the_last_actions_may_be_absent_where_a_policy_is_judged(choices):
    """K is the policy's: neither a score nor a value needs all actions to occur."""
    given = choices["single"]
    estimator = fit(KLDRO(), "single", given)
    few = given.A < 2
    rows = {name: each[few] for name, each in given.rows.items()}
    score = estimator.score(given.X, given.A[few], **rows)
    weight = np.minimum(given.of_rows(given.probabilities(estimator.coef_))[few] / rows["propensity"], estimator.clip_)
    assert score == pytest.approx(-(weight @ rows["cost"]) / weight.sum(), rel=1e-9)
    log = BanditLog(given.X, given.A[few], **rows, n_actions=4)
    assert off_policy_value(estimator, log, "snips") == pytest.approx(
        -score if estimator.clip_ == clipping_constant(log) else off_policy_value(estimator.policy_, log, "snips")
    )


@kinds
def test_a_users_model_is_taken_as_it_is(kind, choices):
    """Any object with ``predict`` and ``expectation``: asked for the cost of each action."""
    given = choices[kind]
    log = given.listed() if kind == "lists" else given.single()
    fitted = CostModel(0.01).fit_log(log)
    own = SimpleNamespace(predict=fitted.predict, expectation=fitted.expectation)
    found = fit(KLDRO(estimate="dr"), kind, given, cost_model=own)
    expected = fit(KLDRO(estimate="dr"), kind, given, cost_model=fitted)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    assert found.coef_ == pytest.approx(expected.coef_, rel=1e-6, abs=1e-8)


@kinds
@pytest.mark.parametrize("weight", ["clipped", Implicit(0.1)], ids=["clipped", "implicit"])
def test_units_do_not_matter(kind, weight, choices):
    """Of costs and of features: the same policy."""
    given = choices[kind]
    expected = fit(DoublyRobustDRO(weight=weight), kind, given)
    unit = np.array([1e3, 1e-2, 5.0, 1.0])
    other = Choices(
        given.X * unit, given.A, given.propensity, 100 * given.cost, given.context, given.count, given.eligible
    )
    found = fit(DoublyRobustDRO(weight=weight), kind, other)
    X, _, _ = fitted_to(kind, given)
    scaled, _, _ = fitted_to(kind, other)
    proba = expected.predict_proba(X, **offered(kind, given))
    assert found.predict_proba(scaled, **offered(kind, given)) == pytest.approx(proba, abs=2e-3)


def test_what_is_public_is_shown(choices):
    lists = choices["lists"].lists()
    policy = SoftmaxPolicy(np.zeros((2, 3)))
    assert repr(policy) == "SoftmaxPolicy(2 features, one of 3 actions)"
    assert repr(lists) == f"ActionLists(80 lists, {choices['lists'].eligible.sum()} candidates, 16 features)"
    assert {"SoftmaxPolicy", "ActionLists"} <= set(drcrm.__all__)
    copy = pickle.loads(pickle.dumps(lists))
    assert np.array_equal(copy.features, lists.features)


@pytest.fixture(scope="module")
def study():
    sys.path.insert(0, str(ROOT / "studies"))
    yield import_module("kinds")
    sys.path.remove(str(ROOT / "studies"))


@pytest.mark.parametrize("kind", ["label_vectors", "single_choice", "action_lists"])
def test_the_best_policy_is_approached(kind, study):
    """30 times the rows, four logs: less than half the cost above the best policy's, and a fifth of π0's."""
    few, many = 200, 6000
    rows = pd.DataFrame([row for seed in range(4) for row in study.regrets(kind, seed, (few, many))])
    mean = rows.groupby([0, 1])[2].mean()
    assert rows[2].min() > -1e-12
    for name in study.ALGORITHMS:
        assert mean[name, many] < mean[name, few] / 2
        assert mean[name, many] < mean[study.LOGGING, many] / 5


def test_a_cost_model_without_a_constant_has_an_intercept_for_each_action():
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(2000, 3)), rng.integers(0, 4, 2000)
    cost = np.array([-2.0, -1, 0, 1])[A] + 0.1 * rng.normal(size=2000)
    model = CostModel().fit(X, A, cost=cost)
    assert model.predict(np.zeros((4, 3)), np.arange(4)) == pytest.approx([-2, -1, 0, 1], abs=0.05)


def test_a_fit_that_fails_leaves_the_last_one():
    estimator = CIPS().fit(np.ones((3, 2)), [[0, 1], [1, 1], [0, 0]], propensity=[0.5] * 3, cost=[-1.0, 0, 0])
    labels = estimator.predict(np.ones((2, 2)))
    with pytest.raises(InputError, match="cost_model is of type object"):
        estimator.set_params(estimate="dr").fit(
            np.ones((3, 5)), [0, 2, 1], propensity=[0.5] * 3, cost=[-1.0, 0, 0], cost_model=object()
        )
    assert np.array_equal(estimator.predict(np.ones((2, 2))), labels)


def test_a_start_does_not_depend_on_how_the_logging_policy_is_written():
    """What is common to all actions changes no policy, and no start."""
    X = np.column_stack([np.random.default_rng(1).normal(size=(50, 3)), np.ones(50)])
    logger = SoftmaxPolicy(np.random.default_rng(2).normal(size=(4, 5)))
    design = LinearPredictor(BanditLog(X, logger.sample(X, 0), np.ones(50), np.zeros(50), n_actions=5))
    for constant in (0, 100):
        start, _ = start_coef("logging", design, SoftmaxPolicy(logger.coef + constant))
        assert SoftmaxPolicy(start).marginals(X) == pytest.approx(logger.marginals(X), rel=1e-12)


def test_lists_of_other_sizes_are_not_those_of_a_log():
    lists, other = (ActionLists(np.ones((6, 2)), starts) for starts in ([0, 2, 5, 6], [0, 1, 2, 6]))
    log = BanditLog(lists, [0, 1, 0], [0.5] * 3, [0.0] * 3)
    assert log.with_contexts(lists).X.shape == (6, 2)
    with pytest.raises(InputError, match="must have the same starts"):
        log.with_contexts(other)
