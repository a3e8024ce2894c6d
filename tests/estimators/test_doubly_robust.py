"""DoublyRobustDRO: what it holds out, which candidate it keeps, and how often noise passes for an improvement."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

from drcrm import KLDRO, BanditLog, CostModel, DoublyRobustDRO, ExponentialPolicy
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError
from drcrm.logging_policy import LoggingPolicy
from drcrm.optimization.starts import clone_behaviour
from drcrm.policies.feature_maps import FeatureMap
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.fit_settings import SafeCandidates
from drcrm.selection.grid_search import learn

SETTINGS = {"radius": 0.01, "confidence": 0.95, "estimate": "dr", "start": "model", "tilt": "auto", "safe": True}
AROUND = SafeCandidates()
ALGORITHM = Algorithm("KLDRO", options=SETTINGS)
KEEPS = "DoublyRobustDRO keeps π0: no candidate is shown to be better on "
SQUARES = FunctionTransformer(lambda X: X[:, :2] ** 2)
keeps_logging_policy = pytest.mark.filterwarnings("ignore:DoublyRobustDRO keeps π0")


@pytest.fixture(scope="module")
def logs(make_kind) -> dict:
    """Return logs with 4 rows for each of 200 contexts, by kind of action."""
    return {kind: make_kind(kind, contexts=200) for kind in ("labels", "single", "eligible", "lists")}


@pytest.fixture(params=["labels", "single", "eligible", "lists"])
def data(request, logs):
    return logs[request.param]


@pytest.fixture(scope="module")
def labels(logs):
    return logs["labels"]


def split(data, heldout: np.ndarray) -> list[BanditLog]:
    """Return the logs of the rows that are not held out, and of those that are."""
    is_heldout = np.isin(np.arange(len(data.Y)), heldout)
    parts = (data.rows | {"count": data.rows["count"] * part} for part in (~is_heldout, is_heldout))
    logs = (BanditLog(data.X, data.Y, **rows, **data.actions).with_groups(rows["context"]) for rows in parts)
    return [log.without_empty_rows().merge_duplicates()[0] for log in logs]


@pytest.mark.parametrize("fraction", [0.3, 0.95])
def test_contexts_are_held_out_with_all_of_their_rows(data, fraction):
    estimator = data.fit(DoublyRobustDRO(validation_fraction=fraction), logging_policy=data.logging_policy)
    context = data.rows["context"]
    occurring, heldout = (np.unique(context[rows]) for rows in (data.rows["count"] > 0, estimator.heldout_))
    assert len(heldout) == np.ceil(fraction * len(occurring) - 1e-9) < len(occurring)
    assert set(heldout) <= set(occurring)
    assert np.array_equal(estimator.heldout_, np.flatnonzero(np.isin(context, heldout)))


@keeps_logging_policy
@pytest.mark.parametrize("is_known", [True, False])
def test_it_keeps_the_candidate_that_learn_chooses_on_the_heldout_rows(is_known, data):
    """Held-out rows are used neither for fits nor for cloning nor for the feature map.

    With several BLAS threads, the last digits of a sum depend on where its arrays are in memory.
    """
    same = partial(pytest.approx, rel=1e-6)
    features = None if is_known or data.kind == "lists" else SQUARES
    policy = data.logging_policy if is_known else None
    estimator = data.fit(DoublyRobustDRO(features=features), logging_policy=policy)
    train, heldout = split(data, estimator.heldout_)
    if features:
        feature_map = FeatureMap(features, train.X)
        assert estimator.features_.scale == feature_map.scale
        train, heldout = (log.replace(X=feature_map(log.X)) for log in (train, heldout))
    known = policy or clone_behaviour(train)
    assert estimator.cost_model_.logging.policy.coef == same(known.coef)
    learned = learn(train, ALGORITHM, heldout, policy and LoggingPolicy(policy))
    chosen = learned.candidates[learned.chosen["improvement_bound"]]
    assert estimator.coef_ == same(chosen.policy.coef)
    assert (estimator.step_, estimator.ridge_) == (chosen.step, chosen.ridge)
    assert estimator.objective_ == same(chosen.objective)
    assert estimator.improvement_bound_ == same(chosen.scores["improvement_bound"])
    assert estimator.n_candidates_ == len(learned.candidates) == 2 + len(AROUND.ridges) + len(AROUND.steps)
    assert chosen.scores["improvement_bound"] < 0 or not is_known


def test_without_safety_it_is_the_fit_to_all_rows(labels):
    options = {"logging_policy": labels.logging_policy}
    plain = labels.fit(KLDRO(estimate="dr", start="model", tilt="auto"), **options)
    estimator = labels.fit(labels.fit(DoublyRobustDRO(), **options).set_params(safe=False), **options)
    for name in ("coef_", "intercept_", "objective_", "clip_", "tilt_", "n_iter_", "converged_"):
        assert np.array_equal(getattr(estimator, name), getattr(plain, name))
    assert estimator.tilt_ > 0
    attributes = estimator.improvement_bound_, estimator.step_, estimator.ridge_, estimator.n_candidates_
    assert attributes == (None, 1, 0, 1)
    assert estimator.heldout_.tolist() == []


def test_fits_are_reproducible_and_seeds_choose_the_heldout_rows(labels):
    options = {"logging_policy": labels.logging_policy}
    first = labels.fit(DoublyRobustDRO(), **options)
    frame = lambda X: pd.DataFrame(X, columns=list("abcd"))  # noqa: E731
    for again in (
        labels.fit(clone(first), **options),
        labels.fit(DoublyRobustDRO(random_state=np.random.default_rng(0)), **options),
        labels.fit(DoublyRobustDRO(), frame, **options),
        pickle.loads(pickle.dumps(first)),
    ):
        assert np.array_equal(again.heldout_, first.heldout_)
        assert np.array_equal(again.coef_, first.coef_)
    assert not np.array_equal(labels.fit(DoublyRobustDRO(random_state=1), **options).heldout_, first.heldout_)
    sparse_fit = labels.fit(DoublyRobustDRO(), sparse.csr_array, **options)
    assert sparse_fit.improvement_bound_ == pytest.approx(first.improvement_bound_, rel=1e-2)


def noise(log: BanditLog, seed: int = 0) -> dict:
    """Return costs that are independent of contexts and actions."""
    cost = np.random.default_rng(seed).normal(size=len(log.Y))
    return {"propensity": log.propensity, "cost": cost, "context": log.context, "groups": log.context}


def test_on_noise_the_logging_policy_is_kept_with_a_warning(logged, random_policy):
    log, policy = logged(0, n=200), random_policy(0, scale=0.25)
    n = np.isin(log.context, np.random.default_rng(0).permutation(200)[:50]).sum()
    with pytest.warns(UserWarning, match=f"^{KEEPS}{n} held-out rows; log more") as warnings:
        estimator = DoublyRobustDRO().fit(log.X, log.Y, **noise(log), logging_policy=policy)
    [warning] = warnings
    assert warning.filename == __file__
    assert "\n" not in str(warning.message)
    assert np.array_equal(estimator.coef_, policy.coef)
    assert (estimator.step_, estimator.ridge_, estimator.improvement_bound_) == (0, 0, 0)
    assert estimator.score(log.X, log.Y, **noise(log), by="improvement_bound") == pytest.approx(0, abs=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("contexts", [1, 36, 37, 120])
def test_small_logs_keep_the_logging_policy(contexts):
    """With fewer than 10 groups or 30 rows to hold out, nothing is held out, and the cost model uses all rows."""
    rng = np.random.default_rng(contexts)
    for passes in (1, 4):
        context = np.tile(np.arange(contexts), passes)
        X, Y = np.ones((contexts, 1)), rng.integers(0, 2, (len(context), 2))
        Y[0] = 0, 1  # a cost model needs two different actions; whoever flips labels gains 2
        rows = {"propensity": np.full(len(Y), 0.25), "cost": -2.0 * Y.sum(axis=1), "context": context}
        groups = {"groups": context}
        uniform, n = ExponentialPolicy(np.zeros((1, 2))), passes * -(-contexts // 4)
        if contexts >= 37 and n >= 30:
            estimator = DoublyRobustDRO().fit(X, Y, **rows, **groups, logging_policy=uniform)
            assert estimator.improvement_bound_ < 0 < estimator.step_
            assert len(estimator.heldout_) == n
            continue
        with pytest.warns(UserWarning, match=f"^{KEEPS}fewer than 10 groups or 30 held-out rows; log more rows"):
            estimator = DoublyRobustDRO().fit(X, Y, **rows, **groups, logging_policy=uniform)
        assert not estimator.coef_.any()
        assert (estimator.improvement_bound_, estimator.step_, estimator.heldout_.tolist()) == (0, 0, [])
        model = CostModel().fit(X, Y, cost=rows["cost"], context=context)
        assert estimator.cost_model_.model.coef_ == pytest.approx(model.coef_, rel=1e-6, abs=1e-6)


def test_heldout_rows_certify_the_kept_policy(data):
    """The certificate is the same on a log of only the held-out rows, and at δ over the number of candidates."""
    estimator = data.fit(DoublyRobustDRO(), logging_policy=data.logging_policy)
    count = np.zeros(len(data.Y), dtype=int)
    count[estimator.heldout_] = data.rows["count"][estimator.heldout_]
    log, model = BanditLog(data.X, data.Y, **data.rows | {"count": count}, **data.actions), estimator.cost_model_
    certificate = policy_certificate(estimator, log, "dr", choices=estimator.n_candidates_, cost_model=model)
    assert certificate.n == count.sum()
    only = split(data, estimator.heldout_)[1].replace(rows=None)  # without groups
    same = policy_certificate(estimator, only, "dr", choices=estimator.n_candidates_, cost_model=model)
    single = policy_certificate(estimator, log, "dr", 1 - 0.05 / estimator.n_candidates_, cost_model=model)
    assert [same.bound, single.bound] == pytest.approx([certificate.bound] * 2, rel=1e-9)
    assert certificate.value < certificate.bound < np.average(data.rows["cost"], weights=data.rows["count"])
    rows = {name: values[estimator.heldout_] for name, values in data.rows.items()}
    known = {"groups": rows["context"], **data.eligible}
    score = estimator.score(data.X, data.Y[estimator.heldout_], **rows, **known, by="improvement_bound")
    assert 0 < -estimator.improvement_bound_ == pytest.approx(score, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"safe": "yes"}, "^safe is 'yes', expected True or False$"),
        *(
            ({"validation_fraction": value}, f"^validation_fraction is {value}, expected a number above 0 and below 1$")
            for value in (0, 1.0, None)
        ),
        *(
            (
                {"random_state": seed},
                f"^random_state is {seed!r}, expected a whole number ≥ 0, a numpy Generator or None$",
            )
            for seed in (-1, "seed", 0.5)
        ),
    ],
)
def test_invalid_split_parameters_are_refused(options, message, labels):
    with pytest.raises(InputError, match=message):
        labels.fit(DoublyRobustDRO(**options))


def test_a_context_of_several_groups_can_be_on_both_sides():
    """All rows share three contexts, which are segments of users: groups, not contexts, are held out."""
    rng = np.random.default_rng(0)
    segment, user = rng.integers(0, 3, 600), np.repeat(np.arange(60), 10)
    A, X = rng.integers(0, 2, 600), np.column_stack([np.eye(3)[:, :2], np.ones(3)])
    cost = -(rng.random(600) < 0.2 + 0.5 * ((segment > 0) == A)).astype(float)
    fitted = DoublyRobustDRO().fit(X, A, np.full(600, 0.5), cost, context=segment, groups=user)
    heldout = np.unique(user[fitted.heldout_])
    assert (len(heldout), fitted.step_ > 0) == (15, True)
    assert np.array_equal(fitted.heldout_, np.flatnonzero(np.isin(user, heldout)))


@pytest.mark.slow
@keeps_logging_policy
def test_users_with_one_arm_each_lead_to_few_claims():
    """The arm and the level of the costs belong to the user, and have nothing to do with each other."""
    claims, repetitions = 0, 100
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        user, n = np.repeat(np.arange(60), 20), 1200
        arm, level = rng.integers(2, size=60)[user], rng.normal(size=60)[user]
        X, cost = np.column_stack([rng.normal(size=n), np.ones(n)]), level + rng.normal(size=n)
        fitted = DoublyRobustDRO(max_iter=60, tol=1e-4).fit(X, arm, np.full(n, 0.5), cost, groups=user)
        claims += fitted.step_ > 0
    assert claims <= 9


@keeps_logging_policy
@pytest.mark.parametrize("features", [None, "scores"])
def test_rows_repeated_within_groups_teach_and_test_like_the_rows(features):
    """Each row is a group with four copies of itself: the fit holds out the same groups and has the same bound."""
    rng = np.random.default_rng(0)
    X, A = np.column_stack([rng.normal(size=(400, 2)), np.ones(400)]), rng.integers(0, 2, 400)
    cost = -(rng.random(400) < 0.3 + 0.4 * ((X[:, 0] > 0) == A)).astype(float)
    rows, user = np.repeat(np.arange(400), 4), np.repeat(np.random.default_rng(1).permutation(400), 4)
    settings = {"features": features} | ({} if features is None else {"max_iter": 30})
    plain = DoublyRobustDRO(**settings).fit(
        X[np.argsort(user[::4])], A[np.argsort(user[::4])], np.full(400, 0.5), cost[np.argsort(user[::4])]
    )
    grouped = DoublyRobustDRO(**settings).fit(X[rows], A[rows], np.full(1600, 0.5), cost[rows], groups=user)
    assert np.array_equal(np.sort(user[grouped.heldout_][::4]), np.sort(plain.heldout_))
    assert len(grouped.heldout_) == 4 * len(plain.heldout_)
    if features is None:
        assert plain.step_ > 0
        assert grouped.improvement_bound_ == pytest.approx(plain.improvement_bound_, rel=0.02)
