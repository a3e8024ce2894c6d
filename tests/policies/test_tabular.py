"""Policies that are given by their probabilities."""

import json
import re
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from fixtures.action_logs import ACTION_KINDS, log_and_policy
from fixtures.user_input import refusal
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drcrm import (
    CIPS,
    ActionLists,
    BanditLog,
    CostModel,
    DoublyRobustDRO,
    SoftmaxPolicy,
    off_policy_value,
    policy_support,
)
from drcrm.certificates import policy_certificate, sensitivity
from drcrm.errors import InputError
from drcrm.policies.tabular import policy_for_log

OBP = json.loads((Path(__file__).parents[1] / "data" / "obp_estimates.json").read_text())
pytestmark = pytest.mark.filterwarnings("ignore:the (estimate by|effective sample size)")


def all_forms(log: BanditLog, policy, X) -> dict[str, object]:
    """Return the same policy as arrays and as objects with methods."""
    mean = policy.marginals(X)

    def log_prob(X, A):
        return policy.log_prob(X, A)

    return {
        "logged actions": np.exp(policy.log_prob(X, log.Y, log.context)),
        "all actions": mean,
        "list": mean.tolist(),
        "function": policy.marginals,
        "object": SimpleNamespace(log_prob=log_prob, predict_proba=policy.marginals),
        "object with marginals": SimpleNamespace(marginals=policy.marginals),
        "object with log_prob": SimpleNamespace(log_prob=log_prob),
    }


@pytest.mark.parametrize("kind", ACTION_KINDS)
@pytest.mark.parametrize("estimate", ["ips", "snips", "dr", "dm"])
def test_a_policy_has_the_same_value_in_all_its_forms(kind, estimate):
    log, policy, X = log_and_policy(kind)
    model = CostModel(0.1).fit(log)
    certificate = {"cost_model": model, "by": "context", "check_tails": False}
    expected = off_policy_value(policy, log, estimate, cost_model=model, baseline="logging")
    for name, form in all_forms(log, policy, X).items():
        if name in ("logged actions", "object with log_prob") and estimate in ("dr", "dm"):
            with pytest.raises(InputError, match="needs the policy's probabilities of all actions of each context"):
                off_policy_value(form, log, estimate, cost_model=model)
            continue
        result = off_policy_value(form, log, estimate, cost_model=model, baseline="logging")
        assert result == pytest.approx(expected, rel=1e-9)
        assert result.interval == pytest.approx(expected.interval, rel=1e-9)
        assert result.effective_size == pytest.approx(expected.effective_size, rel=1e-9)
        if estimate != "dm":
            bounds = [policy_certificate(pi, log, estimate, **certificate).bound for pi in (form, policy)]
            assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)


@pytest.mark.parametrize("kind", ACTION_KINDS)
def test_a_policy_has_the_same_support_as_an_array(kind):
    log, policy, X = log_and_policy(kind)
    logging, marginals = type(policy)(3 * policy.coef), policy.marginals(X)
    expected, result = (policy_support(form, log, logging, 0.5) for form in (policy, marginals))
    assert result.mass == pytest.approx(expected.mass, rel=1e-9)
    assert result.mass > 0
    assert result.mean_weight_by_action == pytest.approx(expected.mean_weight_by_action)
    values = [off_policy_value(form, log, logging_policy=logging) for form in (policy, marginals)]
    assert values[0].support == pytest.approx(values[1].support, rel=1e-9)
    assert off_policy_value(policy, log).support is None
    bounds = [policy_certificate(form, log, logging_policy=logging).bound for form in (policy, marginals)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)


@pytest.mark.parametrize("case", OBP["cases"], ids=lambda case: case["name"])
def test_estimates_equal_those_of_the_open_bandit_pipeline(case):
    arrays = {name: np.array(values) for name, values in case["arrays"].items()}
    n, K = arrays["action_dist"].shape[:2]
    X = np.arange(1.0, n + 1)[:, None]
    log = BanditLog(X, arrays["action"], arrays["pscore"], -arrays["reward"], n_actions=K)

    def modelled(X):
        return -arrays["estimated_rewards"]

    for estimate, expected in case["values"].items():
        value = -off_policy_value(arrays["action_dist"], log, estimate, cost_model=modelled)
        assert value == pytest.approx(expected, abs=1e-9), estimate


LOG, _, _ = log_and_policy("single")
LISTS, _, _ = log_and_policy("lists")


@pytest.mark.parametrize(
    ("policy", "log", "message"),
    [
        (
            np.full(20, 0.5),
            LOG,
            r"policy has shape \(20,\), expected \(60,\), the prob.* or \(20, 4\), the prob",
        ),
        (np.full((60, 4), 0.25), LOG, r"policy has shape \(60, 4\), expected"),
        (np.full((20, 4), 0.3), LOG, r"policy adds up to 1.2 over the available actions of context 0, expected 1"),
        (np.r_[np.full(59, 0.5), 1.5], LOG, "policy is 1.5 in row 59, expected a probability from 0 to 1"),
        (np.r_[np.full(59, 0.5), np.nan], LOG, "policy is nan in row 59"),
        (np.r_[np.full((19, 4), 0.25), [[2, -1, 0, 0]]], LOG, "policy is 2.0 in row 19, column 0, expected a prob"),
        (np.full((20, 4), np.nan), LOG, "policy is nan in row 0, column 0"),
        ("greedy", LOG, "policy is of type str, expected an ExponentialPolicy"),
        ([["a"] * 4] * 20, LOG, "policy is not an array of numbers, but of text"),
        ([[0.5], [0.5, 0.5]], LOG, "policy is not an array of numbers"),
        (SimpleNamespace(log_prob=lambda X, A: np.zeros(3)), LOG, r"log_prob of the policy has shape \(3,\), expected"),
        (SimpleNamespace(log_prob=lambda X, A: np.ones(60)), LOG, "log_prob of the policy is 1.0 in row 0, expected"),
        (SimpleNamespace(predict_proba=lambda X: np.ones((20, 3))), LOG, r"predict_proba .* shape \(20, 3\), expected"),
        (
            SimpleNamespace(predict_proba=lambda X: np.full((20, 4), 0.25), classes_=np.arange(1, 5)),
            LOG,
            "classes_ are",
        ),
        (SoftmaxPolicy, LOG, "policy is of type"),
        (np.full(7, 0.5), LISTS, r"policy has shape \(7,\), expected \(60,\)"),
    ],
)
def test_invalid_policies_are_rejected_in_one_line(policy, log, message):
    for evaluate in (off_policy_value, policy_certificate):
        assert re.search(message, refusal(evaluate, policy, log))


def test_an_array_that_could_be_rows_or_candidates_needs_its_explicit_shape():
    lists = ActionLists(np.ones((4, 1)), [0, 2, 4])
    log = BanditLog(lists, [0, 1, 0, 1], [0.5] * 4, [1.0, 0, 2, 0], [0, 0, 1, 1])
    candidates = np.array([0.75, 0.25, 0.5, 0.5])
    with pytest.raises(
        InputError, match=r"as many rows as candidates, and the values add up to 1 in each list.*\(4, 1\)"
    ):
        off_policy_value(candidates, log)
    assert off_policy_value(candidates[:, None], log, "ips") == (0.75 * 1 + 0.5 * 2) * 2 / 4
    assert off_policy_value([0.7, 0.2, 0.5, 0.5], log, "ips") == pytest.approx((0.7 + 1) * 2 / 4)


# Classifiers


TEXTS = ("send", "card", "none", "travel")


def shop_log(n: int = 400):
    """Return a log whose actions are numbers or texts, the contexts, and the text of each row's action."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=n), "action": rng.choice(TEXTS, n), "p": 0.25})
    frame["reward"] = 1.0 * (frame.action == np.where(frame.age > 0, "send", "card"))
    mapping = {"action": "action", "propensity": "p", "reward": "reward", "features": {"numeric": ["age"]}}
    return BanditLog.from_frame(frame, mapping), frame


@pytest.mark.parametrize("form", ["classifier", "pipeline", "search", "object"])
def test_columns_of_a_classifier_with_text_classes_follow_the_names_of_the_log(form):
    """Classes are in alphabetical order, and the actions of the file in the order of the log's names."""
    log, frame = shop_log()
    model = LogisticRegression().fit(log.X, frame.action, sample_weight=frame.reward + 0.1)
    if form == "pipeline":
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(log.X, frame.action)
    elif form == "search":
        model = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(log.X, frame.action)
    elif form == "object":
        order = ["travel", "send", "none", "card"]
        columns, probability = [[*model.classes_].index(name) for name in order], model.predict_proba
        model = SimpleNamespace(predict_proba=lambda X: probability(X)[:, columns], classes_=order)
    by_text = pd.DataFrame(model.predict_proba(log.X), columns=model.classes_)
    weight = by_text.to_numpy()[np.arange(400), by_text.columns.get_indexer(frame.action)] / 0.25
    assert off_policy_value(model, log, "ips") == pytest.approx(-(weight * frame.reward).mean(), rel=1e-12)
    support = policy_support(by_text[log.encoding.names].to_numpy(), log, model, 1.0)
    assert support.mass == pytest.approx(by_text.where(by_text < 0.25, 0).to_numpy().sum() / 400)


@pytest.mark.parametrize("texts", [TEXTS[:3], (*TEXTS[:3], "phone")])
def test_a_classifier_with_other_text_classes_is_refused(texts):
    log, frame = shop_log()
    text = frame.action.where(frame.action.isin(texts), texts[-1])
    for data in (log, BanditLog(log.X, log.Y, log.propensity, log.cost)):
        with pytest.raises(InputError, match=r"classes_ are .* expected 0 to 3 in order, or the names of the log's"):
            off_policy_value(LogisticRegression().fit(log.X, text), data)
    unnamed = BanditLog(log.X, log.Y, log.propensity, log.cost)
    with pytest.raises(InputError, match="fit the classifier to the numbers of the actions"):
        off_policy_value(LogisticRegression().fit(log.X, frame.action), unnamed)
    numbered = LogisticRegression().fit(log.X, log.Y)
    assert off_policy_value(numbered, unnamed) == off_policy_value(numbered.predict_proba(log.X), log)


@pytest.mark.parametrize("kind", ACTION_KINDS)
def test_a_policy_on_another_log_is_refused(kind):
    log, policy, X = log_and_policy(kind)
    bound = policy_for_log(policy.marginals(X), log)
    assert off_policy_value(bound, log) == off_policy_value(policy.marginals(X), log)
    assert off_policy_value(bound, log.with_cost(-log.cost), "ips") == -off_policy_value(bound, log, "ips")
    others = [
        log_and_policy(kind, seed=1)[0],
        log.recount(log.count * (np.arange(60) < 40)),
        log.replace(Y=log.Y[::-1]),
    ]
    for other in others:
        for evaluate in (off_policy_value, policy_certificate, policy_support):
            with pytest.raises(InputError, match=r"the policy has the probabilities of .* rows of another log"):
                evaluate(bound, other)


@pytest.mark.parametrize("kind", ["single", "lists"])
def test_an_explored_policy_has_the_worst_case_of_its_probabilities(kind):
    log, policy, X = log_and_policy(kind)
    model, explored = CostModel(0.1).fit(log), policy.with_exploration(0.5)
    forms = explored, explored.marginals(X)
    values = [off_policy_value(form, log, "dr", cost_model=model, shift=0.1) for form in forms]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_probability_of_ineligible_actions_is_refused():
    """It must be 0: as a policy, a baseline and a logging policy, from an array, an object or a function."""
    n = 40
    X, eligible = np.column_stack([np.linspace(-1, 1, n), np.ones(n)]), np.tile([1, 1, 0], (n, 1))
    log = BanditLog(X, np.arange(n) % 2, np.full(n, 0.5), np.full(n, -0.5), eligible=eligible)
    right, wrong = np.tile([0.4, 0.6, 0.0], (n, 1)), np.tile([0.4, 0.6, 0.0], (n, 1))
    wrong[7, 2] = 0.2
    model = np.tile([-0.5, -0.5, -1.0], (n, 1))
    nearly = np.tile([0.4, 0.6, 1e-7], (n, 1))
    assert off_policy_value(nearly, log, "dm", cost_model=model) == pytest.approx(-0.5, abs=1e-12)
    message = "is 0.2 for action 2 in context 7, expected 0, because the action is not eligible there"
    for form in (wrong, lambda X: wrong, SimpleNamespace(predict_proba=lambda X: wrong)):
        for arguments in ((form, None, None), (right, form, None), (right, None, form)):
            policy, baseline, logging_policy = arguments
            with pytest.raises(InputError, match=message):
                off_policy_value(policy, log, "dr", baseline=baseline, logging_policy=logging_policy)


NAMES = ["income", "visits", "one"]


def frame_log() -> tuple[pd.DataFrame, dict]:
    rng = np.random.default_rng(10)
    X = pd.DataFrame({"income": rng.normal(size=400), "visits": rng.normal(size=400), "one": 1.0})
    A = rng.integers(2, size=400)
    cost = -(rng.random(400) < 0.3 + 0.4 * ((X["income"] > 0) == A)).astype(float)
    return X, {"Y": A, "propensity": np.full(400, 0.5), "cost": cost}


@pytest.mark.parametrize("role", ["policy", "baseline", "logging_policy", "cost_model"])
@pytest.mark.parametrize("kind", ["estimator", "policy", "features", "pipeline", "classifier"])
def test_columns_are_those_of_the_fit(role, kind):
    """A DataFrame with other columns, or in another order, is refused, as predict refuses it."""
    X, rows = frame_log()
    scaler = StandardScaler().set_output(transform="pandas")
    fitted = {
        "estimator": lambda: CIPS().fit(X, **rows),
        "policy": lambda: CIPS().fit(X, **rows).policy_,
        "features": lambda: CIPS(features={"nystroem": 5}).fit(X, **rows),
        "pipeline": lambda: make_pipeline(scaler, LogisticRegression()).fit(X, rows["Y"]),
        "classifier": lambda: LogisticRegression().fit(X, rows["Y"]),
    }[kind]()
    if role == "cost_model":
        fitted = CostModel().fit(X, rows["Y"], rows["cost"])
        if kind in ("pipeline", "classifier"):
            estimator = DoublyRobustDRO(safe=False)
            fitted = estimator.fit(X, **rows, logging_policy=SoftmaxPolicy(np.zeros((3, 2)))).cost_model_
    others = {} if role == "policy" else {role: fitted}
    policy = fitted if role == "policy" else np.full((400, 2), 0.5)
    same, unnamed = (BanditLog(values, **rows) for values in (X[NAMES], X.to_numpy()))
    assert same.take(slice(0, 40, 2)).feature_names_in_.tolist() == NAMES
    value = off_policy_value(policy, same, "dr", **others)
    with warnings.catch_warnings(action="ignore" if kind in ("pipeline", "classifier") else "error"):
        assert off_policy_value(policy, unnamed, "dr", **others) == pytest.approx(value, rel=1e-9)
    for columns, message in (
        (["visits", "income", "one"], "it has them in another order: visits, income, one"),
        (["income", "age", "one"], "it lacks visits; it has in addition age"),
    ):
        log = BanditLog(X.assign(age=X["visits"])[columns], **rows)
        evaluations = [partial(off_policy_value, estimate="dr"), partial(policy_certificate, estimate="dr")]
        if role != "baseline" and role != "logging_policy":
            evaluations += [sensitivity]
        if role in ("policy", "logging_policy"):
            evaluations += [policy_support]
        for evaluate in evaluations:
            with pytest.raises(InputError, match=message):
                evaluate(policy, log, **others)


def test_a_fit_checks_the_columns_of_other_fits():
    X, rows = frame_log()
    reordered = X[["visits", "income", "one"]]
    policy, model = CIPS().fit(X, **rows), CostModel().fit(X, rows["Y"], rows["cost"])
    for other in ({"logging_policy": policy}, {"cost_model": model}):
        with pytest.raises(InputError, match="another order"):
            CIPS(estimate="dr").fit(reordered, **rows, **other)
        CIPS(estimate="dr").fit(X, **rows, **other)
    assert model.effects(X) == pytest.approx(model.effects(X.to_numpy()))
    for method in (
        policy.predict,
        policy.predict_proba,
        policy.policy_.marginals,
        policy.policy_.greedy,
        model.effects,
    ):
        with pytest.raises(ValueError, match="order"):
            method(reordered)
