"""What scikit-learn's users expect of an estimator: searches, scorers, feature names, tags, its own checks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

import drcrm
from drcrm import CIPS, KLDRO, BanditLog, CostModel, DoublyRobustDRO, ExponentialPolicy, HeldoutScorer, Shrunk
from drcrm.cost_models.ridge_model import action_effects
from drcrm.errors import InputError
from drcrm.estimates import DoublyRobust
from drcrm.estimators.base import CounterfactualEstimator
from drcrm.selection.heldout_scores import SCORES, HeldoutScores
from drcrm.selection.score_names import MODELLED
from drcrm.weights import Clipped

README, LIBRARY = ((Path(__file__).parents[2] / name).read_text() for name in ("README.md", "docs/library.md"))
RADII = [1e-3, 1e-1, 0.5]


@pytest.fixture(scope="module")
def log(logged) -> BanditLog:
    """A row for each context, as scikit-learn's searches split them."""
    return logged(n=120, passes=1)


@pytest.fixture(scope="module")
def other(logged) -> BanditLog:
    return logged(seed=3, n=50, passes=1)


@pytest.fixture
def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def rows(log: BanditLog, part=slice(None)) -> dict:
    return {"propensity": log.propensity[part], "cost": log.cost[part]}


def fit(estimator, log: BanditLog, **known):
    return estimator.fit(log.X, log.Y, **rows(log), **known)


def by_hand(name: str, estimator, log: BanditLog) -> float:
    """A held-out score of a fitted estimator, from the core."""
    model = estimator.cost_model_ if name in MODELLED else None
    effects = action_effects(model, log.X, log.actions) if model else None
    known = {"logging_policy": model.logging_policy, "is_cloned": model.is_cloned} if model else {}
    return HeldoutScores(log, estimator.clip_, effects, **known)(estimator.coef_)[name]


def test_score_is_minus_clipped_snips(log, other):
    estimator = fit(KLDRO(clip=3.0), log)
    weight = np.minimum(np.exp(estimator.log_prob(other.X, other.Y)) / other.propensity, 3)
    expected = -(weight @ other.cost) / weight.sum()
    assert estimator.score(other.X, other.Y, **rows(other)) == pytest.approx(expected, rel=1e-12)
    count = np.arange(len(other.Y)) % 3
    expected = -((weight * count) @ other.cost) / (weight @ count)
    assert estimator.score(other.X, other.Y, **rows(other), count=count) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", SCORES)
def test_a_scorer_is_minus_its_held_out_score(name, log, other):
    estimator = fit(DoublyRobustDRO(safe=False), log)
    found = HeldoutScorer(name)(estimator, other.X, other.Y, **rows(other))
    assert found == -by_hand(name, estimator, other)
    assert found == estimator.score(other.X, other.Y, **rows(other), by=name)


def test_without_a_clip_clipped_scores_are_not_clipped(log, other):
    estimator = fit(KLDRO(clip=None), log)
    scores = [estimator.score(other.X, other.Y, **rows(other), by=by) for by in ("snips", "clipped_snips")]
    assert scores[0] == scores[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"propensity": None}, r"CIPS.score needs propensity=.*sklearn.set_config\(enable_metadata_routing=True\)"),
        ({"cost": None}, "CIPS.score needs cost=, one value for each logged row; searches pass it on after sklearn"),
        ({"by": "loss"}, "by is 'loss', expected one of 'ips', 'clipped_ips', 'snips', 'clipped_snips', 'dr', "),
        ({"by": "dr"}, "the score 'dr' needs a cost model: fit with estimate='dr', or with cost_model="),
        ({"Y": np.zeros((50, 3))}, "Y has 3 labels, the policy has 2"),
    ],
)
def test_a_score_that_cannot_be_computed_says_why(arguments, message, log, other):
    with pytest.raises(InputError, match=message) as error:
        fit(CIPS(), log).score(**{"X": other.X, "Y": other.Y, **rows(other), **arguments})
    assert "\n" not in str(error.value)


def test_a_search_chooses_the_radius_with_the_best_score(routed, log):
    search = fit(GridSearchCV(KLDRO(), {"radius": RADII}, cv=KFold(3)), log)
    expected = []
    for radius in RADII:
        scores = []
        for train, test in KFold(3).split(log.X):
            estimator = KLDRO(radius).fit(log.X[train], log.Y[train], **rows(log, train))
            scores.append(estimator.score(log.X[test], log.Y[test], **rows(log, test)))
        expected.append(np.mean(scores))
    assert search.cv_results_["mean_test_score"] == pytest.approx(expected, rel=1e-12)
    assert len(set(expected)) == len(RADII)
    assert search.best_params_ == {"radius": RADII[int(np.argmax(expected))]}
    assert np.array_equal(search.best_estimator_.coef_, fit(KLDRO(**search.best_params_), log).coef_)


class Wrapped(BaseEstimator):
    """A user's own estimator, which has one of ours inside and a score of its own."""

    def fit(self, X, Y, propensity, cost):
        self.inside_ = KLDRO().fit(X, Y, propensity=propensity, cost=cost)
        return self

    def score(self, X, Y):
        return 1.0


def test_without_routing_a_search_ends_in_one_clear_line(log):
    """And before it begins; one with a score of the user's own, which may know more than the log, is let be."""
    line = r"^KLDRO is scored with the propensities and costs of held-out rows; .*enable_metadata_routing=True\)"
    for scoring in (None, HeldoutScorer("snips")):
        with pytest.raises(InputError, match=line):
            fit(GridSearchCV(KLDRO(), {"radius": RADII}, scoring=scoring), log)
        with pytest.raises(InputError, match=line):
            cross_validate(KLDRO(), log.X, log.Y, params=rows(log), scoring=scoring)
    pipeline = make_pipeline(StandardScaler(), KLDRO(fit_intercept=True))
    known = {f"kldro__{name}": values for name, values in rows(log).items()}
    with pytest.raises(RuntimeError, match=line):
        GridSearchCV(pipeline, {"kldro__radius": RADII}).fit(log.X, log.Y, **known)
    assert GridSearchCV(Wrapped(), {}, cv=3).fit(log.X, log.Y, **rows(log)).best_score_ == 1.0
    own = GridSearchCV(KLDRO(), {"radius": RADII}, scoring=lambda estimator, X, Y: -estimator.predict_proba(X).sum())
    assert fit(own, log).best_params_["radius"] in RADII
    assert fit(KLDRO(), log).score(log.X, log.Y, **rows(log)) > 0


def test_scorers_and_what_a_fit_knows_go_through_searches(routed, log):
    """A cost model per fold, a logging policy, several scores, and a pipeline that scales."""
    policy = ExponentialPolicy(np.zeros((4, 2)))
    robust = DoublyRobustDRO(tol=1e-4, safe=False)
    search = GridSearchCV(robust, {"radius": RADII}, scoring=HeldoutScorer("dr_bound"), error_score="raise")
    fit(search, log, logging_policy=policy)
    best = fit(clone(robust).set_params(**search.best_params_), log, logging_policy=policy)
    assert np.array_equal(search.best_estimator_.coef_, best.coef_)
    scoring = {name: HeldoutScorer(name) for name in SCORES}
    scaled = make_pipeline(MaxAbsScaler(), clone(robust))
    found = cross_validate(scaled, log.X, log.Y, params=rows(log), scoring=scoring, error_score="raise")
    assert all(np.isfinite(found[f"test_{name}"]).all() for name in SCORES)
    chosen = GridSearchCV(make_pipeline(MaxAbsScaler(), KLDRO()), {"kldro__radius": RADII}, error_score="raise")
    assert np.isfinite(fit(chosen, log).cv_results_["mean_test_score"]).all()


def test_contexts_do_not_go_through_searches(routed, log):
    """Which split the rows of X that they number."""
    with pytest.raises(UnsetMetadataPassedError, match="context"):
        fit(GridSearchCV(KLDRO(), {"radius": RADII}), log, context=log.context)


def test_the_librarys_search_chooses_what_it_says(capsys):
    [example] = re.findall(r"```python\n(.*?)```", README, re.S)
    [search] = [each for each in re.findall(r"```py\n(.*?)```", LIBRARY, re.S) if "GridSearchCV" in each]
    [stated] = re.findall(r"best_params_\)  # (.*)", search)
    with sklearn.config_context():
        exec(example + search, {})
    assert capsys.readouterr().out.splitlines()[-1] == stated
    assert all(f'`"{name}"`' in LIBRARY for name in SCORES)


def test_the_cost_model_of_a_fit_is_kept(log):
    model = CostModel(0.1).fit_log(log)
    assert fit(KLDRO(), log, cost_model=model).cost_model_.model is model
    assert fit(KLDRO(), log).cost_model_ is None
    assert fit(DoublyRobustDRO(safe=False), log).cost_model_.model.coef_ == pytest.approx(
        CostModel().fit_log(log).coef_, rel=1e-9
    )


@pytest.fixture(scope="module")
def frame(log) -> pd.DataFrame:
    return pd.DataFrame(log.X, columns=["age", "price", "size", "one"])


def test_columns_in_another_order_are_an_error(log, frame):
    estimator = KLDRO().fit(frame, log.Y, **rows(log))
    assert estimator.feature_names_in_.tolist() == list(frame.columns)
    assert np.array_equal(estimator.coef_, fit(KLDRO(), log).coef_)
    swapped = frame[["price", "age", "size", "one"]]
    calls = [
        estimator.predict,
        estimator.predict_proba,
        estimator.sample,
        lambda X: estimator.log_prob(X, log.Y),
        lambda X: estimator.score(X, log.Y, **rows(log)),
    ]
    for call in calls:
        call(frame)
        with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
            call(swapped)
        with pytest.raises(ValueError, match=r"unseen at fit time:\n- cost"):
            call(frame.rename(columns={"price": "cost"}))
        with pytest.warns(UserWarning, match="X does not have valid feature names, but KLDRO was fitted with"):
            call(log.X)
    with pytest.raises(ValueError, match="X has 3 features, but KLDRO is expecting 4 features as input"):
        fit(KLDRO(), log).predict(log.X[:, 1:])


def test_names_of_an_earlier_fit_are_forgotten(log, frame):
    estimator = fit(KLDRO().fit(frame, log.Y, **rows(log)), log)
    assert not hasattr(estimator, "feature_names_in_")


def test_a_scaler_takes_the_constant_away_and_an_intercept_brings_it_back(routed, log):
    scaled = make_pipeline(StandardScaler(), DoublyRobustDRO(fit_intercept=True, safe=False))
    fit(scaled, log)
    X = np.column_stack([StandardScaler().fit_transform(log.X)[:, :-1], np.ones(len(log.X))])
    spelt = DoublyRobustDRO(safe=False).fit(X, log.Y, **rows(log))
    assert scaled.predict_proba(log.X) == pytest.approx(spelt.predict_proba(X), rel=1e-6)
    with pytest.warns(UserWarning, match="set fit_intercept=True"):
        fit(make_pipeline(StandardScaler(), DoublyRobustDRO(safe=False)), log)


def test_tags_say_what_is_taken():
    tags = get_tags(KLDRO())
    assert tags.input_tags.sparse
    assert tags.target_tags.required
    assert tags.target_tags.multi_output
    assert not tags.target_tags.single_output


def test_what_is_public_is_listed_and_shown(log):
    assert set(dir(drcrm)) == {*drcrm.__all__, "certificates", "cluster", "divergences", "risks", "__version__"}
    shown = {
        drcrm.risks.KLBall(0.1): "KLBall(radius=0.1)",
        drcrm.risks.MeanRisk(): "MeanRisk()",
        drcrm.risks.AdaptiveBoltzmannRisk(0.1, "sum"): "AdaptiveBoltzmannRisk(radius=0.1, variance='sum')",
        Shrunk(2): "Shrunk(shrinkage=2.0)",
        Clipped(4.0): "Clipped(clip=4.0)",
        CostModel(0.1).fit_log(log): "CostModel(penalty=0.1)",
        DoublyRobust(log.cost, log.count, log.cost): "DoublyRobust(120 rows)",
        ExponentialPolicy(np.zeros((4, 2))): "ExponentialPolicy(4 features, 2 labels)",
        log: "BanditLog(120 rows, 120 contexts, 4 features, 2 labels)",
        KLDRO(weight=Shrunk(2)): "KLDRO(weight=Shrunk(shrinkage=2.0))",
        HeldoutScorer("dr"): "HeldoutScorer(by='dr')",
    }
    assert [repr(each) for each in shown] == [*shown.values()]


def test_an_estimator_without_a_risk_says_so(log):
    with pytest.raises(InputError, match="CounterfactualEstimator has no risk, expected one of CIPS, POEM"):
        fit(CounterfactualEstimator(), log)


@pytest.mark.parametrize("form", ["csc", "coo", "lil", "dok", "bsr"])
def test_every_sparse_format_is_taken(form, log):
    found = KLDRO().fit(sparse.csr_array(log.X).asformat(form), log.Y, **rows(log))
    assert found.coef_ == pytest.approx(KLDRO().fit(sparse.csr_array(log.X), log.Y, **rows(log)).coef_, abs=1e-6)


class Supplied(KLDRO):
    """KLDRO as scikit-learn's checks call it, with X and y: on what a coin for each label logs, y > 0 being right."""

    def _log(self, y) -> dict:
        labels = np.reshape(y, (len(y), -1)).astype(float) > 0
        Y = np.random.default_rng(0).integers(2, size=labels.shape)
        cost = (labels != Y).sum(axis=1) - float(labels.shape[1])
        return {"Y": Y, "propensity": np.full(len(Y), 0.5 ** Y.shape[1]), "cost": cost}

    def fit(self, X, y=None):
        return super().fit(X, **(self._log(y) if y is not None else {"Y": None}))

    def score(self, X, y):
        return super().score(X, **self._log(y))


# Those that fail, why, and by what message that shows.
OTHER_WORDS = "bad input is refused in one line, in the words or with the error of this project"
NO_CLASSIFIER = "the check takes what has predict_proba for a classifier, and asks for its classes"
FAILING = {
    "check_complex_data": (OTHER_WORDS, "X is not an array of numbers, but of complex128"),
    "check_dtype_object": (OTHER_WORDS, "X is not an array of numbers"),
    "check_estimators_nan_inf": (OTHER_WORDS, "doesn't check for NaN and inf in fit"),
    "check_estimators_empty_data_messages": (OTHER_WORDS, "X has shape (12, 0), expected (rows, features) with at"),
    "check_fit2d_predict1d": (OTHER_WORDS, "X has shape (3,), expected (rows, features) with at least one of each"),
    "check_requires_y_none": (OTHER_WORDS, "Supplied.fit needs Y=, one value for each logged row"),
    "check_estimator_sparse_array": (NO_CLASSIFIER, "'NoneType' object has no attribute 'multi_class'"),
    "check_estimator_sparse_matrix": (NO_CLASSIFIER, "'NoneType' object has no attribute 'multi_class'"),
}
CHECKS = list(estimator_checks_generator(Supplied(), legacy=True))


@pytest.mark.filterwarnings("ignore")  # of logs of a few rows, which do not converge, and of checks that are skipped
@pytest.mark.parametrize("check", [check for _, check in CHECKS], ids=lambda check: check.func.__name__)
def test_scikit_learns_checks(check):
    """On the face where Y, propensity and cost are supplied; what fails is listed, with what is said instead."""
    name = check.func.__name__
    if name in FAILING:
        with pytest.raises((AssertionError, ValueError)) as error:
            check(Supplied())
        assert FAILING[name][1] in f"{error.value} {error.value.__cause__}"
    else:
        check(Supplied())
