"""The cost model against scikit-learn's ridge regression, enumeration, and costs that are additive by design."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from drcrm import BanditLog, CostModel, ExponentialPolicy, off_policy_value
from drcrm.cost_models.normal_equations import MAX_MULTIPLICATIONS
from drcrm.cost_models.ridge_model import action_effects
from drcrm.cost_models.ridge_solvers import FOLDS, PENALTIES
from drcrm.errors import InputError

FEATURES, LABELS = 5, 3


def make_log(seed: int = 0, dense: bool = True, contexts: int = 20, n: int = 120, noise: float = 1.0) -> BanditLog:
    """Repeated contexts, some without rows, and counts, some of them 0; costs are additive in the labels, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(contexts, FEATURES)) * (rng.random((contexts, FEATURES)) < 0.7)
    X[:, -1] = 1
    Y, context = rng.integers(0, 2, (n, LABELS)), rng.integers(0, contexts - 1, n)
    cost = (joint(X[context], Y) @ planted(seed).T.ravel()) + noise * rng.normal(size=n)
    rows = Y, rng.uniform(0.05, 1, n), cost, context, rng.integers(0, 4, n)
    return BanditLog(X if dense else sparse.csr_array(X), *rows)


def without_constant(log: BanditLog) -> BanditLog:
    return log.with_contexts(log.X[:, :-1])


def planted(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 1]).normal(size=(FEATURES, LABELS + 1))


def joint(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Each row's x for each of its labels, and x once more."""
    return np.concatenate([*(X * Y[:, [label]] for label in range(Y.shape[1])), X], axis=1)


def joint_rows(log: BanditLog) -> np.ndarray:
    X = log.X.toarray() if sparse.issparse(log.X) else log.X
    return joint(X[log.context], log.Y)


def ridge(log: BanditLog, penalty: float, count: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """B, (d, q + 1), and the intercept, by scikit-learn, whose penalty is on the sum of squares, in units of |x|."""
    features, count = joint_rows(log), log.count if count is None else count
    d = log.X.shape[1]
    scales = np.tile(abs(features[log.count > 0, -d:]).max(axis=0), LABELS + 1)
    found = Ridge(alpha=penalty * count.sum(), solver="cholesky").fit(features / scales, log.cost, sample_weight=count)
    return (found.coef_ / scales).reshape(-1, d).T, found.intercept_


def smallest_of_nearly_least(errors: dict[float, float], without: float) -> float:
    least = min(errors.values())
    most = least * (1 + max(1 - least / without, 0) / 10)
    return min(penalty for penalty, error in errors.items() if error <= most)


def with_constant(coef: np.ndarray, intercept: float) -> np.ndarray:
    """Where the last feature is 1, its coefficient in b_0 is the intercept."""
    coef = coef.copy()
    coef[-1, -1] += intercept
    return coef


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("penalty", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_is_ridge_regression_on_joint_features(dense, penalty, seed):
    log = make_log(seed, dense)
    model = CostModel(penalty)
    assert model.fit(log.X, log.Y, cost=log.cost, context=log.context, count=log.count) is model
    assert model.coef_ == pytest.approx(with_constant(*ridge(log, penalty)), rel=1e-9, abs=1e-9)
    assert not model.intercept_.any()
    assert model.penalty_ == penalty


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("penalty", [1e-4, 1.0])
def test_without_a_constant_feature_it_has_an_intercept(dense, penalty):
    log = without_constant(make_log(dense=dense))
    model = CostModel(penalty).fit_log(log)
    coef, intercept = ridge(log, penalty)
    assert model.coef_ == pytest.approx(coef, rel=1e-9, abs=1e-9)
    assert model.intercept_ == pytest.approx([0] * LABELS + [intercept], rel=1e-9)
    predicted = joint_rows(log) @ coef.T.ravel() + intercept
    assert model.predict(log.X[log.context], log.Y) == pytest.approx(predicted, rel=1e-9)


@pytest.mark.parametrize("affordable", [MAX_MULTIPLICATIONS, 0], ids=["preconditioned", "plain"])
@pytest.mark.parametrize("penalty", [1e-4, "auto"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("unit", [1e-12, 1e12, 1e300])
def test_does_not_depend_on_units_or_where_the_costs_zero_is(monkeypatch, affordable, penalty, constant, unit):
    monkeypatch.setattr("drcrm.cost_models.normal_equations.MAX_MULTIPLICATIONS", affordable)
    log = make_log() if constant else without_constant(make_log())
    here, units = CostModel(penalty).fit_log(log), np.geomspace(1e-6, 1e6, log.X.shape[1])
    there = CostModel(penalty).fit_log(log.with_contexts(log.X * units).with_cost(unit * (log.cost - 7)))
    assert there.penalty_ == here.penalty_
    assert there.coef_[:, :-1] * units[:, None] / unit == pytest.approx(here.coef_[:, :-1], rel=1e-6, abs=1e-8)
    effects = there.effects(log.X * units) / unit
    assert effects[:, -1] + 7 == pytest.approx(here.effects(log.X)[:, -1], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("estimate", ["dr", "dm"])
@pytest.mark.parametrize("constant", [True, False])
def test_estimates_move_with_the_costs(estimate, constant):
    """Whatever the policy: by the constant, times the mean weight less 1 for dr."""
    log = make_log(1) if constant else without_constant(make_log(1))
    policy = ExponentialPolicy(np.random.default_rng(2).normal(size=(log.X.shape[1], LABELS)))
    here, there = (off_policy_value(policy, each, estimate) for each in (log, log.with_cost(log.cost + 50)))
    assert there - here == pytest.approx(50, rel=1e-9)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("ratio", [1.0, 300.0])
def test_conjugate_gradients_find_the_direct_solution(monkeypatch, dense, ratio):
    log = make_log(2, dense)
    log = log.with_contexts(log.X * np.geomspace(1, ratio, FEATURES))
    directly = CostModel(1e-4).fit_log(log)
    monkeypatch.setattr("drcrm.cost_models.normal_equations.MAX_MULTIPLICATIONS", 0)
    assert CostModel(1e-4).fit_log(log).coef_ == pytest.approx(directly.coef_, rel=1e-6, abs=1e-8)


def test_conjugate_gradients_that_do_not_converge_are_said(monkeypatch):
    monkeypatch.setattr("drcrm.cost_models.normal_equations.MAX_MULTIPLICATIONS", 0)
    monkeypatch.setattr("drcrm.cost_models.normal_equations.MAX_STEPS", 3)
    monkeypatch.setattr("drcrm.cost_models.ridge_solvers.MAX_STEPS", 3)
    with pytest.warns(
        UserWarning, match="the cost model has not converged: after 3 steps .* use a larger penalty"
    ) as seen:
        CostModel(1e-4).fit_log(make_log())
    assert [each.filename for each in seen] == [__file__]


def test_a_penalty_that_rounding_swallows():
    """Two equal features: their normal equations have no factors."""
    log = without_constant(make_log(3))
    log = log.with_contexts(np.column_stack([log.X, log.X]))
    model = CostModel(1e-30).fit_log(log)
    assert model.coef_[: FEATURES - 1] == pytest.approx(model.coef_[FEATURES - 1 :], rel=1e-6, abs=1e-8)


def test_features_that_no_row_has_have_no_effect():
    log = make_log(4)
    X = np.column_stack([np.zeros(len(log.X)), log.X])
    model = CostModel(0.01).fit_log(log.with_contexts(X))
    assert not model.coef_[0].any()
    assert model.coef_[1:] == pytest.approx(CostModel(0.01).fit_log(log).coef_, rel=1e-12)


def test_counts_are_repetitions_and_contexts_rows_of_their_own():
    log = make_log(3)
    rows = np.repeat(np.arange(len(log.Y)), log.count)
    short, again, long = CostModel(0.01), CostModel(0.01), CostModel(0.01)
    short.fit(log.X, log.Y, cost=log.cost, context=log.context, count=log.count)
    again.fit(log.X, log.Y[rows], cost=log.cost[rows], context=log.context[rows])
    long.fit(log.X[log.context[rows]], log.Y[rows], cost=log.cost[rows])
    for other in (again, long):
        assert other.coef_ == pytest.approx(short.coef_, rel=1e-6, abs=1e-6)
    propensities = log.propensity**3
    changed = BanditLog(log.X, log.Y, propensities, log.cost, log.context, log.count)
    assert np.array_equal(CostModel(0.01).fit_log(changed).coef_, short.coef_)


@pytest.mark.parametrize(("seed", "noise"), [(4, 0.5), (5, 3.0), (6, 30.0)])
def test_auto_is_the_smallest_penalty_of_nearly_the_least_error_on_folds_of_contexts(seed, noise):
    log = make_log(seed, noise=noise, contexts=30, n=90)
    log = log.recount(log.count)
    features, count = joint_rows(log), log.count
    fold = np.random.default_rng(0).permutation(log.X.shape[0])[log.context] % FOLDS
    errors = dict.fromkeys(PENALTIES, 0.0)
    for penalty, held in product(PENALTIES, range(FOLDS)):
        coef, intercept = ridge(log, penalty, count * (fold != held))
        residual = (log.cost - features @ coef.T.ravel() - intercept)[fold == held]
        errors[penalty] += count[fold == held] @ residual**2
    means = [np.average(log.cost[fold != held], weights=count[fold != held]) for held in fold]
    without = count @ (log.cost - means) ** 2
    model = CostModel().fit_log(log)
    assert model.penalty_ == smallest_of_nearly_least(errors, without)
    assert model.coef_ == pytest.approx(with_constant(*ridge(log, model.penalty_)), rel=1e-9, abs=1e-9)


def test_auto_compares_penalties_at_their_solutions():
    """Features that are all positive, where conjugate gradients need many steps at small penalties."""
    rng = np.random.default_rng(2)
    m, d, n = 100, 20, 600
    X = rng.uniform(size=(m, d))
    Y, context = rng.integers(0, 2, (n, LABELS)), np.arange(n) % m
    X /= X.max(axis=0)
    features = joint(X[context], Y)
    cost = features @ rng.normal(size=(d, LABELS + 1)).T.ravel() - 20 + rng.normal(size=n)
    fold = np.random.default_rng(0).permutation(m)[context] % FOLDS
    errors = dict.fromkeys(PENALTIES, 0.0)
    for penalty, held in product(PENALTIES, range(FOLDS)):
        fitted = Ridge(alpha=penalty * (fold != held).sum(), solver="cholesky")
        residual = cost - fitted.fit(features[fold != held], cost[fold != held]).predict(features)
        errors[penalty] += np.sum(residual[fold == held] ** 2)
    without = np.sum((cost - [cost[fold != held].mean() for held in fold]) ** 2)
    assert CostModel().fit(X, Y, cost=cost, context=context).penalty_ == smallest_of_nearly_least(errors, without)


def test_auto_penalises_noise():
    quiet, loud = (CostModel().fit_log(make_log(7, noise=noise)).penalty_ for noise in (0.01, 50.0))
    assert quiet == min(PENALTIES)
    assert loud == max(PENALTIES)


@pytest.mark.parametrize("contexts", [1, 2, 3])
def test_auto_of_fewer_contexts_than_folds(contexts):
    """Of one context nothing can be held out."""
    log = make_log(8, contexts=contexts + 1)
    assert CostModel().fit_log(log).penalty_ in PENALTIES


def test_a_planted_cost_is_recovered():
    log = make_log(9, contexts=200, n=2000, noise=0.0)
    model = CostModel(1e-9).fit_log(log)
    assert model.coef_ == pytest.approx(planted(9), abs=1e-5)
    assert model.predict(log.X[log.context], log.Y) == pytest.approx(log.cost, abs=1e-5)


def test_hamming_distances_are_additive():
    """Their modelled label effects tell the labels that are there, and greedy is the truth."""
    rng = np.random.default_rng(10)
    X = np.eye(FEATURES)
    labels = rng.integers(0, 2, (FEATURES, LABELS))
    context, Y = rng.integers(0, FEATURES, 400), rng.integers(0, 2, (400, LABELS))
    model = CostModel(1e-9).fit(X, Y, cost=(labels[context] != Y).sum(axis=1) - LABELS, context=context)
    assert model.effects(X)[:, :-1] == pytest.approx(1.0 - 2 * labels, abs=1e-4)
    assert model.effects(X)[:, -1] == pytest.approx(labels.sum(axis=1) - LABELS, abs=1e-4)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
def test_prediction_and_expectation_are_sums_written_out(dense):
    log = make_log(11, dense)
    X = log.X if dense else log.X.toarray()
    model = CostModel()
    model.coef_ = planted(12)
    policy = ExponentialPolicy(np.random.default_rng(13).normal(size=(FEATURES, LABELS)))
    expected = np.zeros(len(X))
    for action in product([0, 1], repeat=LABELS):
        Y = np.tile(action, (len(X), 1))
        by_hand = [
            x @ model.coef_[:, -1] + sum(x @ model.coef_[:, label] for label in range(LABELS) if action[label])
            for x in X
        ]
        assert model.predict(log.X, Y) == pytest.approx(by_hand, rel=1e-12, abs=1e-12)
        scores = X @ policy.coef
        expected += np.exp((Y * scores - np.log1p(np.exp(scores))).sum(axis=1)) * by_hand
    assert model.expectation(log.X, policy) == pytest.approx(expected, rel=1e-10, abs=1e-10)


class Additive:
    """A user's own model: additive over labels, but not linear in x."""

    def predict(self, X, Y):
        X, Y = np.asarray(X), np.asarray(Y, dtype=float)
        return np.sin(X[:, 0]) + Y @ np.array([1.0, -2.0, 0.5]) * np.abs(X[:, 1]) + 3

    def expectation(self, X, policy):
        return self.predict(X, policy.marginals(X))


class Paired(Additive):
    """Not additive: the first two labels matter together."""

    def predict(self, X, Y):
        return super().predict(X, Y) + np.asarray(Y)[:, 0] * np.asarray(Y)[:, 1]


class Balanced(Additive):
    """Not additive either, but it is where all labels are: two pairs cancel each other."""

    def predict(self, X, Y):
        Y = np.asarray(Y, dtype=float)
        return super().predict(X, Y) + (Y[:, 0] * Y[:, 1] - Y[:, 1] * Y[:, 2])


class Minute(Balanced):
    """The same in a small unit."""

    def predict(self, X, Y):
        Y = np.asarray(Y, dtype=float)
        return 1e-12 * (Y[:, 0] * Y[:, 1] - Y[:, 1] * Y[:, 2])


class Short(Additive):
    """Says too little."""

    def predict(self, X, Y):
        return super().predict(X, Y)[:1]


def test_a_model_of_ones_own_is_used_as_it_is():
    log = make_log(14)
    policy = ExponentialPolicy(np.random.default_rng(15).normal(size=(FEATURES, LABELS)))
    effects = action_effects(Additive(), log.X, log.actions)
    marginals = np.column_stack([policy.marginals(log.X), np.ones(len(log.X))])
    assert (effects * marginals).sum(axis=1) == pytest.approx(Additive().expectation(log.X, policy), rel=1e-12)
    weight = np.exp(policy.log_prob(log.X[log.context], log.Y)) / log.propensity
    residual = log.cost - Additive().predict(log.X[log.context], log.Y)
    z = Additive().expectation(log.X, policy)[log.context] + weight * residual
    found = off_policy_value(policy, log, "dr", clip=None, cost_model=Additive())
    assert found == pytest.approx(log.count @ z / log.count.sum(), rel=1e-12)


def fitted() -> CostModel:
    return CostModel(0.1).fit_log(make_log())


def with_coef(coef) -> CostModel:
    model = CostModel()
    model.coef_ = coef
    return model


ZERO = ExponentialPolicy(np.zeros((FEATURES, LABELS)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CostModel().fit(np.ones((2, 1)), [[0], [1]]), "CostModel.fit needs cost=, one for each logged row"),
        (lambda: CostModel(0).fit_log(make_log()), "penalty is 0, expected a finite number > 0"),
        (lambda: CostModel(-0.1).fit_log(make_log()), "penalty is -0.1, expected a finite number > 0"),
        (lambda: CostModel("large").fit_log(make_log()), "penalty is 'large', expected a finite number > 0"),
        (lambda: CostModel(None).fit_log(make_log()), "penalty is None, expected a finite number > 0"),
        (lambda: CostModel().fit(np.ones((2, 1)), [[0], [1]], cost=[1.0]), r"cost has shape \(1,\), expected \(2,\)"),
        (lambda: CostModel().fit(np.ones((2, 1)), [[0], [2]], cost=[1.0, 2]), "Y has 2 in row 1, label 0"),
        (lambda: fitted().predict(np.ones((2, 4)), np.ones((2, 3))), "X has 4 features, the cost model has 5"),
        (lambda: fitted().predict(np.ones((2, 5)), np.ones((2, 2))), "Y has 2 labels, the cost model has 3"),
        (lambda: fitted().predict(np.ones((2, 5)), np.ones((3, 3))), "Y has 3 rows, expected 2"),
        (lambda: fitted().expectation(np.ones((2, 4)), ZERO), "X has 4 features, the cost model has 5"),
        (lambda: CostModel().predict(np.ones((2, 5)), np.ones((2, 3))), "the cost model has no coef_ yet"),
        (lambda: off_policy_value(ZERO, make_log(), "dr", cost_model=CostModel()), "the cost model has no coef_ yet"),
        (
            lambda: off_policy_value(ZERO, make_log(), "dr", cost_model=with_coef(np.ones((5, 3)))),
            r"the cost model's coef_ has shape \(5, 3\), expected \(5, 4\)",
        ),
        (lambda: CostModel().fit(np.ones((2, 1)), None, cost=[1.0, 2]), r"Y is not an array|Y has shape \(\)"),
        (lambda: CostModel().fit(np.full((2, 1), 1e-320), [[0], [1]], cost=[1.0, 2]), "the cost model is not finite"),
        (lambda: CostModel().fit(np.ones((2, 1)), [[0], [1]], cost=[1e308, 1e308]), "the cost model is not finite"),
        (
            lambda: off_policy_value(ZERO, make_log(), "dr", cost_model=3),
            "cost_model is of type int, expected one with predict and expectation",
        ),
        (
            lambda: off_policy_value(ZERO, make_log(), "dr", cost_model=with_coef(np.full((5, 4), np.nan))),
            "coef has nan in row 0, column 0",
        ),
        (
            lambda: off_policy_value(ZERO, make_log(), "dm", cost_model=Short()),
            r"the prediction of the cost model has shape \(1,\), expected",
        ),
        (
            lambda: off_policy_value(ZERO, make_log(), "dm", cost_model=Paired()),
            "the cost model is not additive over labels",
        ),
        *(
            (
                lambda model=model, m=m: off_policy_value(ZERO, make_log(contexts=m), "dm", cost_model=model()),
                "the cost model is not additive over labels",
            )
            for model, m in product((Balanced, Minute), (2, 20))
        ),
        (lambda: fitted().expectation(np.ones((2, 5)), 3), "policy is of type int, expected an ExponentialPolicy or"),
        (
            lambda: fitted().expectation(np.ones((2, 5)), ExponentialPolicy(np.zeros((3, 5)))),
            r"the policy's coef has shape \(3, 5\), expected \(5, 3\), as the cost model has",
        ),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(InputError, match=message) as error:
        make()
    assert "\n" not in str(error.value)
