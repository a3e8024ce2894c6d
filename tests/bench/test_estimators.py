"""Every estimator of the bench equals loops over rows and actions, and selectors equal their rules in loops."""

import re
from math import exp, sqrt
from math import log as ln
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold, train_test_split

from drcrm import BanditLog, make_estimator, off_policy_value, simulate
from drcrm.bench.estimators import OF_CLUSTERS
from drcrm.bench.selectors import CrossValidation
from drcrm.data.folds import context_folds
from drcrm.errors import InputError

N, K, CLUSTER = 400, 4, [0, 0, 1, 1]
NUMBERED = [{"own_estimators:Constant": {"value": -0.25}}, "own_estimators:Constant"]


def make_problem(seed=0):
    """Return a log without repeated contexts, and π, π0 and the modelled costs of all actions."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(N, 2)), np.ones(N)])
    logging, policy = (rng.dirichlet(np.full(K, size), N) for size in (1.0, 0.5))
    logging = 0.9 * logging + 0.1 / K
    Y = np.array([rng.choice(K, p=row) for row in logging])
    cost = -((rng.random(N) < 0.2 + 0.5 * ((X[:, 0] > 0) == Y)).astype(float))
    log = BanditLog(X, Y, logging[np.arange(N), Y], cost, n_actions=K)
    return log, policy, logging, rng.normal(-0.5, 0.2, (N, K))


def loop_terms(name, log, policy, logging, model):
    """Return the terms of the estimator with a given name, written as in its source."""
    w = [policy[i][log.Y[i]] / log.propensity[i] for i in range(N)]
    m = [sum(policy[i][a] * model[i][a] for a in range(K)) for i in range(N)]
    e = [log.cost[i] - model[i][log.Y[i]] for i in range(N)]
    mean_w = sum(w) / N
    ratio = sum(w[i] * log.cost[i] for i in range(N)) / sum(w)
    ratio_e = sum(w[i] * e[i] for i in range(N)) / sum(w)
    limit = 3.0

    def of_cluster(i):
        """Return the weight of the cluster of a row, a log-sum-exp over its actions."""
        actions = [a for a in range(K) if CLUSTER[a] == CLUSTER[log.Y[i]]]
        new, old = (ln(sum(exp(ln(side[i][a])) for a in actions)) for side in (policy, logging))
        return exp(new - old)

    of_row = {
        "ips": lambda i: w[i] * log.cost[i],
        "clipped_ips": lambda i: min(w[i], limit) * log.cost[i],
        "snips": lambda i: ratio + w[i] / mean_w * (log.cost[i] - ratio),
        "dm": lambda i: m[i],
        "dr": lambda i: m[i] + w[i] * e[i],
        "sndr": lambda i: m[i] + ratio_e + w[i] / mean_w * (e[i] - ratio_e),
        "switch_dr": lambda i: m[i] + (w[i] if w[i] <= limit else 0) * e[i],
        "dros": lambda i: m[i] + 5.0 * w[i] / (5.0 + w[i] ** 2) * e[i],
        "subgaussian": lambda i: w[i] / (1 - 0.1 + 0.1 * w[i]) * log.cost[i],
        "implicit": lambda i: policy[i][log.Y[i]] / (log.propensity[i] + 0.1) * log.cost[i],
        "log_smoothing": lambda i: -ln(1 - 0.1 * w[i] * log.cost[i]) / 0.1,
        "mips": lambda i: of_cluster(i) * log.cost[i],
        "cluster_dr": lambda i: m[i] + of_cluster(i) * e[i],
    }[name]
    return [of_row(i) for i in range(N)]


PARAMETERS = {
    "clipped_ips": {"clip": 3.0},
    "switch_dr": {"clip": 3.0},
    "dros": {"shrinkage": 5.0},
    "subgaussian": {"correction": 0.1},
    "implicit": {"exploration": 0.1},
    "log_smoothing": {"smoothing": 0.1},
}
NAMES = ["ips", "clipped_ips", "snips", "dm", "dr", "sndr", "switch_dr", "dros", "subgaussian", "implicit"]


@pytest.mark.parametrize("name", [*NAMES, "log_smoothing", "mips", "cluster_dr"])
def test_terms_equal_loops(name):
    log, policy, logging, model = make_problem()
    options = {"embedding": CLUSTER, "logging_policy": logging} if name in OF_CLUSTERS else PARAMETERS.get(name)
    estimator = make_estimator({name: options} if options else name)
    expected = loop_terms(name, log, policy, logging, model)
    np.testing.assert_allclose(estimator.terms(log, policy, model), expected, rtol=1e-10, atol=1e-12)
    value = off_policy_value(policy, log, estimator, cost_model=model)
    assert value == pytest.approx(np.mean(expected), rel=1e-10)
    assert value.standard_error == pytest.approx(np.std(expected, ddof=1) / sqrt(N), rel=1e-10)


def test_more_robust_model_minimises_the_weighted_squared_error():
    log, policy, logging, _ = make_problem()
    fold, model = context_folds(log, 3), np.zeros((N, K))
    for i in range(N):
        for a in range(K):
            rows = [j for j in range(N) if fold[j] != fold[i] and log.Y[j] == a]
            root = np.sqrt([policy[j][a] * (1 - log.propensity[j]) / log.propensity[j] ** 2 for j in rows])
            model[i, a] = log.X[i] @ np.linalg.lstsq(log.X[rows] * root[:, None], log.cost[rows] * root)[0]
    estimator = make_estimator({"mrdr": {"regressor": LinearRegression(fit_intercept=False), "folds": 3}})
    expected = loop_terms("dr", log, policy, logging, model)
    np.testing.assert_allclose(estimator.terms(log, policy), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("name", "limit"), [("implicit", 20), ("subgaussian", 20), ("dros", 20)])
def test_default_weights_are_at_most_the_root_of_n(name, limit):
    log, policy, _, _ = make_problem()
    rare = log.replace(propensity=np.full(N, 1e-4))
    weighted = make_estimator(name).terms(rare.with_cost(np.full(N, -1.0)), policy, np.zeros((N, K)))
    assert limit / 2 < -weighted.min() <= limit
    assert off_policy_value(policy, log, name) == pytest.approx(off_policy_value(policy, log, make_estimator(name)))


def test_slope_takes_the_last_estimator_that_agrees_with_all_before_it():
    for seed in range(20):
        log, policy, _, model = make_problem(seed)
        names = ["dm", "ips", "dr", {"clipped_ips": {"clip": 1.5}}]
        terms = [make_estimator(name).terms(log, policy, model) for name in names]
        value, width = np.mean(terms, axis=1), 2 * np.std(terms, axis=1, ddof=1) / sqrt(N)
        order = sorted(range(4), key=lambda i: -width[i])
        chosen = order[0]
        for place, i in enumerate(order):
            if all(abs(value[i] - value[j]) <= width[i] + (sqrt(6) - 1) * width[j] for j in order[:place]):
                chosen = i
        np.testing.assert_array_equal(
            make_estimator({"slope": {"estimators": names}}).terms(log, policy, model), terms[chosen]
        )
        chosen = 0
        for i in range(4):
            if any(
                max(value[i] - width[i], value[j] - width[j]) > min(value[i] + width[i], value[j] + width[j])
                for j in range(i)
            ):
                break
            chosen = i
        by_overlap = make_estimator({"slope": {"estimators": names, "rule": "overlap"}})
        np.testing.assert_array_equal(by_overlap.terms(log, policy, model), terms[chosen])


def test_cross_validation_takes_the_least_bound_on_the_error():
    choices = set()
    for seed in range(12):
        log, policy, _, model = make_problem(seed)
        names, valid = ["dm", "ips", "dr"], make_estimator("dr").terms(log, policy, model)
        rng, bounds = np.random.default_rng(7), []
        terms = [make_estimator(name).terms(log, policy, model) for name in names]
        for of_name in terms:
            share = np.var(of_name) / (np.var(of_name) + np.var(valid))
            errors = []
            for _ in range(5):
                order = rng.permutation(N)
                part, rest = order[: int(N * share)], order[int(N * share) :]
                errors.append((of_name[part].mean() - valid[rest].mean()) ** 2)
            bounds.append(np.mean(errors) + np.std(errors, ddof=1) / sqrt(5))
        choices.add(chosen := int(np.argmin(bounds)))
        selector = make_estimator({"ocv": {"estimators": names, "splits": 5, "seed": 7}})
        np.testing.assert_array_equal(selector.terms(log, policy, model), terms[chosen])
    assert len(choices) > 1


@pytest.mark.parametrize(("factor", "rows"), [(sqrt(2), 266), (sqrt(0.5), 133), (0.0, 1)])
def test_cross_validation_gives_the_noisier_estimator_more_rows(factor, rows):
    """The share of n rows is Var_h/(Var_h + Var_valid): two thirds, one third, and at least one row."""

    class Scaled:
        uses_model = False

        def __init__(self, factor):
            self.factor, self.sizes = factor, []

        def terms(self, log, policy, model=None):
            self.sizes.append(len(log.Y))
            return self.factor * log.X[:, 0]

    log, policy, _, _ = make_problem()
    candidate, validator = Scaled(factor), Scaled(1.0)
    CrossValidation([candidate], validator, splits=3).select(log, policy)
    assert candidate.sizes == [N, *3 * [rows]]
    assert validator.sizes == [N, *3 * [N - rows]]


def test_cross_validation_keeps_groups_together_and_fits_a_model_to_each_part():
    log, policy, _, _ = make_problem()
    groups, parts = np.arange(N) // 4, []

    def fit(part):
        parts.append(part.column("groups"))
        return np.zeros((part.n_contexts, K))

    selector = make_estimator({"ocv": {"estimators": ["dm", "dr"], "fit": fit, "splits": 3}})
    selector.terms(log.with_groups(groups), policy, np.zeros((N, K)))
    assert len(parts) == 12
    for part, rest in zip(parts[::2], parts[1::2], strict=True):
        assert not {*part} & {*rest}
        assert len({*part} | {*rest}) == N // 4
    make_estimator({"ocv": {"estimators": ["ips"], "fit": fit, "splits": 3}}).terms(log, policy, np.zeros((N, K)))
    assert len(parts) == 12 + 3, "only the validator needs a model"


def test_users_name_a_class_or_pass_an_object(tmp_path, monkeypatch):
    (tmp_path / "own_estimators.py").write_text(
        "class Constant:\n    def __init__(self, value=-0.5):\n        self.value = value\n\n"
        "    def terms(self, log, policy, model):\n"
        "        assert policy.shape == model.shape == (log.n_contexts, 4)\n"
        "        return self.value + 0 * log.cost\n"
    )
    monkeypatch.chdir(tmp_path)
    log, policy, _, _ = make_problem()
    values = [off_policy_value(policy, log, make_estimator(value)) for value in NUMBERED]
    assert [float(value) for value in values] == [-0.25, -0.5]
    difference = off_policy_value(policy, log, make_estimator("dr"), baseline="logging")
    assert difference == pytest.approx(off_policy_value(policy, log, "dr", baseline="logging"), rel=1e-12)


@pytest.mark.parametrize(
    ("value", "message"),
    [("nothing", "estimator"), ({"dros": {"size": 1}}, "size"), ("own:Nothing", "own"), (3, "estimator")],
)
def test_unknown_estimators_are_refused(value, message):
    with pytest.raises(InputError, match=message):
        make_estimator(value)


def test_estimators_with_options_of_other_estimates_are_refused():
    log, policy, logging, _ = make_problem()
    with pytest.raises(InputError, match="leave out"):
        off_policy_value(policy, log, make_estimator("ips"), clip=2.0)
    with pytest.raises(InputError, match="embedding has shape"):
        make_estimator({"mips": {"embedding": [0, 1], "logging_policy": logging}}).terms(log, policy)


def test_digits_have_the_values_that_the_open_bandit_pipeline_published():
    """Its notebook examples/quickstart/multiclass.ipynb, version 0.5.2, with the seed 12345 everywhere.

    The true value has all published digits. The logged actions do not: they follow a logistic regression on unscaled
    pixels, and the tolerance of its solver changes the predictions of about 20 of 1258 contexts. Relative errors
    therefore differ by up to 0.0025.
    """
    X, y = load_digits(return_X_y=True)
    seed, inverse = {"random_state": 12345}, np.random.RandomState(12345).uniform(size=(1258, 1))
    train, X, of_train, y = train_test_split(X, y, test_size=0.7, **seed)
    rows, classes = np.arange(len(y)), np.eye(10)
    logging, policy = (
        simulate.EpsilonGreedy(epsilon)(X, classes[model.fit(train, of_train).predict(X)])
        for epsilon, model in (
            (0.2, LogisticRegression(max_iter=10_000, **seed)),
            (0.1, RandomForestClassifier(**seed)),
        )
    )
    truth = policy[rows, y].mean()
    if truth != pytest.approx(0.8770906200317964, abs=1e-12):
        pytest.skip(f"the forest of this scikit-learn predicts other classes: {truth}")
    action = (logging.cumsum(axis=1) > inverse).argmax(axis=1)
    assert [*action[:3], *action[-3:]] == [6, 8, 5, 2, 5, 9]
    reward, modelled = (action == y).astype(float), np.empty((len(y), 10))
    for fits, tests in KFold(3, shuffle=True, **seed).split(X):
        regression = LogisticRegression(max_iter=1000, **seed)
        regression.fit(np.hstack([X[fits], classes[action[fits]]]), reward[fits])
        for a in range(10):
            inputs = np.hstack([X[tests], np.tile(classes[a], (len(tests), 1))])
            modelled[tests, a] = regression.predict_proba(inputs)[:, 1]
    log = BanditLog(X, action, logging[rows, action], -reward, n_actions=10)
    for name, published in {"ips": 0.016035, "dm": -0.101955, "dr": 0.003644}.items():
        value = -off_policy_value(policy, log, name, cost_model=lambda X: -modelled)
        assert (value - truth) / truth == pytest.approx(published, abs=0.003), name


def test_the_code_of_the_page_runs():
    page = (Path(__file__).parents[2] / "docs/user-guide/estimators.md").read_text(encoding="utf-8")
    names: dict = {}
    for block in re.findall(r"```py\n(.*?)```", page, re.S):
        exec(block, names)
    assert off_policy_value(names["policy"], names["log"], names["Median"]()).estimate == "Median"
