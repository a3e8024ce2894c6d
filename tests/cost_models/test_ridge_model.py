"""Cost model against scikit-learn's ridge regression and enumeration, and by second moments of a log in blocks."""

import re

import numpy as np
import pytest
from fixtures.action_logs import block_log, use_small_blocks
from fixtures.user_input import refusal
from scipy import sparse
from sklearn.linear_model import Ridge

from drcrm import BanditLog, CostModel, ExponentialPolicy, off_policy_value
from drcrm.cost_models import second_moments
from drcrm.cost_models.ridge_solvers import FOLDS, MAX_MULTIPLICATIONS, PENALTIES
from drcrm.cost_models.second_moments import moments_by_fold
from drcrm.errors import InputError

FEATURES, LABELS = 5, 3
dense_and_csr = pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])


@pytest.fixture
def limit_work(monkeypatch):
    return lambda limit: monkeypatch.setattr("drcrm.cost_models.ridge_solvers.MAX_MULTIPLICATIONS", limit)


def make_log(seed: int = 0, dense: bool = True, contexts: int = 20, n: int = 120, noise: float = 1.0) -> BanditLog:
    """Return a log with repeated contexts, some without rows, and counts; costs are additive plus noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(contexts, FEATURES)) * (rng.random((contexts, FEATURES)) < 0.7)
    X[:, -1] = 1
    Y, context = rng.integers(0, 2, (n, LABELS)), rng.integers(0, contexts - 1, n)
    cost = (joint_features(X[context], Y) @ true_coefficients(seed).T.ravel()) + noise * rng.normal(size=n)
    rows = Y, rng.uniform(0.05, 1, n), cost, context, rng.integers(0, 4, n)
    return BanditLog(X if dense else sparse.csr_array(X), *rows)


def without_constant(log: BanditLog) -> BanditLog:
    return log.replace(X=log.X[:, :-1])


def true_coefficients(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 1]).normal(size=(FEATURES, LABELS + 1))


def joint_features(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return x of each row for each of its labels, and x once more."""
    return np.concatenate([*(X * Y[:, [label]] for label in range(Y.shape[1])), X], axis=1)


def fit_ridge(log: BanditLog, penalty: float, count: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Return B, (d, q + 1), and the intercept by scikit-learn, which penalises the sum of squares."""
    X, count = sparse.csr_array(log.X).toarray(), log.count if count is None else count
    features, d = joint_features(X[log.context], log.Y), X.shape[1]
    scales = np.tile(abs(features[log.count > 0, -d:]).max(axis=0), LABELS + 1)
    model = Ridge(alpha=penalty * count.sum(), solver="cholesky").fit(features / scales, log.cost, sample_weight=count)
    return (model.coef_ / scales).reshape(-1, d).T, model.intercept_


def into_constant(coef: np.ndarray, intercept: float) -> np.ndarray:
    """Move the intercept into the coefficient of the constant feature."""
    coef = coef.copy()
    coef[-1, -1] += intercept
    return coef


def best_penalty(log: BanditLog) -> float:
    """Return the smallest penalty with nearly the least error on folds of the contexts, by scikit-learn."""
    X, count = sparse.csr_array(log.X).toarray(), log.count
    features = joint_features(X[log.context], log.Y)
    fold = np.random.default_rng(0).permutation(len(X))[log.context] % FOLDS
    errors, baseline = dict.fromkeys(PENALTIES, 0.0), 0.0
    for number in range(FOLDS):
        is_heldout = fold == number
        mean = np.average(log.cost[~is_heldout], weights=count[~is_heldout])
        baseline += count[is_heldout] @ (log.cost[is_heldout] - mean) ** 2
        for penalty in PENALTIES:
            coef, intercept = fit_ridge(log, penalty, count * ~is_heldout)
            residual = (log.cost - features @ coef.T.ravel() - intercept)[is_heldout]
            errors[penalty] += count[is_heldout] @ residual**2
    limit = min(errors.values()) * (1 + max(1 - min(errors.values()) / baseline, 0) / 10)
    return min(penalty for penalty, error in errors.items() if error <= limit)


@dense_and_csr
@pytest.mark.parametrize("penalty", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("has_constant", [True, False])
def test_the_model_is_ridge_regression_on_joint_features(dense, penalty, has_constant):
    log, model = make_log(1, dense) if has_constant else without_constant(make_log(1, dense)), CostModel(penalty)
    coef, intercept = fit_ridge(log, penalty)
    if has_constant:
        model.fit(log.X, log.Y, cost=log.cost, context=log.context, count=log.count)
        coef, intercept = into_constant(coef, intercept), 0.0
    else:
        model.fit_log(log)  # another name of fit
    assert model.penalty_ == penalty
    assert model.coef_ == pytest.approx(coef, rel=1e-9, abs=1e-9)
    assert model.intercept_ == pytest.approx([0] * LABELS + [intercept], rel=1e-9)


@pytest.mark.parametrize("limit", [MAX_MULTIPLICATIONS, 0], ids=["preconditioned", "plain"])
@pytest.mark.parametrize("penalty", [1e-4, "auto"])
@pytest.mark.parametrize("has_constant", [True, False])
@pytest.mark.parametrize("unit", [1e-12, 1e90])
def test_the_model_does_not_depend_on_units_or_the_zero_of_the_costs(limit_work, limit, penalty, has_constant, unit):
    limit_work(limit)
    log = make_log() if has_constant else without_constant(make_log())
    plain, units = CostModel(penalty).fit(log), np.geomspace(1e-6, 1e6, log.X.shape[1])
    scaled = CostModel(penalty).fit(log.replace(X=log.X * units).with_cost(unit * (log.cost - 7)))
    assert scaled.penalty_ == plain.penalty_
    assert scaled.coef_[:, :-1] * units[:, None] / unit == pytest.approx(plain.coef_[:, :-1], rel=1e-6, abs=1e-8)
    effects = scaled.effects(log.X * units) / unit
    assert effects[:, -1] + 7 == pytest.approx(plain.effects(log.X)[:, -1], rel=1e-6, abs=1e-6)


def test_fits_that_do_not_converge_warn(monkeypatch, limit_work):
    limit_work(0)
    monkeypatch.setattr("drcrm.cost_models.ridge_solvers.MAX_STEPS", 3)
    with pytest.warns(UserWarning, match="the cost model has not converged: after 3 steps") as caught:
        CostModel(1e-4).fit(make_log())
    assert [warning.filename for warning in caught] == [__file__]


def test_equal_and_absent_features():
    """Without a penalty to speak of, the normal equations of equal features are singular."""
    log = without_constant(make_log(3))
    coef = CostModel(1e-30).fit(log.replace(X=np.column_stack([log.X, log.X]))).coef_
    assert coef[: FEATURES - 1] == pytest.approx(coef[FEATURES - 1 :], rel=1e-6, abs=1e-8)
    absent = CostModel(0.01).fit(log.replace(X=np.column_stack([np.zeros(len(log.X)), log.X])))
    assert not absent.coef_[0].any()
    assert absent.coef_[1:] == pytest.approx(CostModel(0.01).fit(log).coef_, rel=1e-12)


@pytest.mark.parametrize(("seed", "noise"), [(4, 0.5), (5, 3.0), (6, 30.0)])
def test_auto_selects_the_smallest_penalty_with_nearly_the_least_error(seed, noise):
    log = make_log(seed, noise=noise, contexts=30, n=90)
    log = log.with_groups(log.context).without_empty_rows()
    model = CostModel().fit(log)
    assert model.penalty_ == best_penalty(log)
    assert model.coef_ == pytest.approx(into_constant(*fit_ridge(log, model.penalty_)), rel=1e-9, abs=1e-9)


def with_coef(coef) -> CostModel:
    model = CostModel()
    model.coef_ = coef
    return model


def fit_two_rows(x: float = 1.0, actions=((0,), (1,)), cost=(1.0, 2.0)) -> CostModel:
    return CostModel().fit(np.full((2, 1), x), actions, cost=cost)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit_two_rows(cost=None), "CostModel.fit needs cost=, one for each logged row"),
        *(
            (
                lambda penalty=penalty: CostModel(penalty).fit(make_log()),
                "penalty is .*, expected a finite number > 0",
            )
            for penalty in (0, -0.1, "large", None)
        ),
        (lambda: fit_two_rows(cost=[1.0]), r"cost has shape \(1,\), expected \(2,\)"),
        (lambda: fit_two_rows(actions=[[0], [2]]), "Y has 2 in row 1, label 0"),
        (lambda: fit_two_rows(actions=None), r"Y is not an array|Y has shape \(\)"),
        (lambda: fit_two_rows(x=1e-320), "the cost model is not finite"),
        (lambda: fit_two_rows(cost=[1e308, 1e308]), "cost has the largest magnitude 1e[+]308.*in another unit"),
    ],
)
def test_invalid_arguments_are_refused(make, message):
    assert re.search(message, refusal(make))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (CostModel(), "the cost model has no coef_ yet"),
        (with_coef(np.ones((5, 3))), r"the cost model's coef_ has shape \(5, 3\), expected \(5, 4\)"),
        (with_coef(np.full((5, 4), np.nan)), "coef has nan in row 0, column 0"),
        (CostModel(0.1).fit(without_constant(make_log())), r"\(4, 4\), expected \(5, 4\) for 5 features"),
        (3, "cost_model is of type int, expected a cost model, a regressor of scikit-learn, or a function of X"),
        (
            lambda X: np.ones((len(X), 3)),
            r"cost_model has shape .*, expected .* modelled costs of 3 labels",
        ),
        (lambda X: np.full((len(X), 4), np.nan), "cost_model has modelled costs that are not finite numbers"),
    ],
)
@pytest.mark.parametrize("contexts", [2, 20])
def test_unusable_cost_models_are_refused(model, message, contexts):
    with pytest.raises(InputError, match=message):
        off_policy_value(
            ExponentialPolicy(np.zeros((FEATURES, LABELS))), make_log(contexts=contexts), "dm", cost_model=model
        )


@pytest.mark.parametrize("kind", ["shuffled", "paired", "single"])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_cost_model_by_moments_equals_the_one_by_conjugate_gradients(kind, intercept, monkeypatch):
    log = block_log(kind, 200)
    log = log.replace(X=log.X * [1e3, 1, 1e-3, 1])
    slow = CostModel().fit(log, action_intercepts=intercept)
    use_small_blocks(monkeypatch)
    assert moments_by_fold(log, np.ones(4), np.arange(len(log.Y)) % 4) is not None
    fast = CostModel().fit(log, action_intercepts=intercept)
    assert fast.penalty_ == slow.penalty_
    scale = np.abs(slow.effects(log.X)).max()
    assert fast.effects(log.X) == pytest.approx(slow.effects(log.X), abs=1e-8 * scale)


@pytest.mark.parametrize("limit", ["MAX_ACTIONS", "MAX_BLOCK_COLUMNS", "MAX_NUMBERS"])
def test_moments_are_not_computed_beyond_the_limits(limit, monkeypatch):
    log = block_log("labels")
    use_small_blocks(monkeypatch)
    monkeypatch.setattr(second_moments, limit, 1)
    assert moments_by_fold(log, np.ones(4), np.zeros(len(log.Y), dtype=int)) is None
