"""Policies given by their probabilities, and standard errors of what a log says of them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from drcrm import ActionLists, BanditLog, CostModel, ExponentialPolicy, PolicyValue, SoftmaxPolicy, off_policy_value
from drcrm import policy_support as support_of
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError
from drcrm.risks import KLBall

OBP = json.loads((Path(__file__).parents[1] / "data" / "obp_estimates.json").read_text())
KINDS = ("single", "labels", "lists")
pytestmark = pytest.mark.filterwarnings("ignore:the (estimate by|effective sample size)")


def made(kind: str, n: int = 60, m: int = 20, seed: int = 0):
    """A log of a kind, with rows and contexts that do not occur, and a policy over its actions."""
    rng = np.random.default_rng(seed)
    context = rng.integers(0, m - 2, n)
    if kind == "lists":
        starts = np.append(0, np.cumsum(rng.integers(1, 5, m)))
        X = ActionLists(rng.normal(size=(starts[-1], 3)), starts)
        Y = rng.integers(0, np.diff(starts)[context])
        policy = SoftmaxPolicy(rng.normal(size=3))
    else:
        X = np.column_stack([rng.normal(size=(m, 2)), np.ones(m)])
        Y = rng.integers(0, 4, n) if kind == "single" else rng.integers(0, 2, (n, 3))
        policy = (SoftmaxPolicy if kind == "single" else ExponentialPolicy)(
            rng.normal(size=(3, 3 + (kind == "single")))
        )
    count = rng.integers(0, 3, n)
    options = {"n_actions": 4} if kind == "single" else {}
    log = BanditLog(X, Y, rng.uniform(0.2, 1, n), -rng.random(n), context, count, **options)
    return log, policy, X


def forms(log: BanditLog, policy, X) -> dict[str, object]:
    """The same policy in all its forms."""
    mean = policy.marginals(X)
    log_prob = policy.log_prob(X, log.Y, log.context)
    asked = {"log_prob": lambda X, A: policy.log_prob(X, A), "predict_proba": policy.marginals}
    return {
        "of the logged": np.exp(log_prob),
        "of all": mean,
        "list": mean.tolist(),
        "object": SimpleNamespace(**asked),
        "object of all": SimpleNamespace(marginals=policy.marginals),
        "object of the logged": SimpleNamespace(log_prob=asked["log_prob"]),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_is_worth_the_same_in_all_its_forms(kind):
    log, policy, X = made(kind)
    model = CostModel(0.1).fit_log(log)
    for name, form in forms(log, policy, X).items():
        for estimate in ("ips", "snips", "dr", "dm"):
            value = lambda each, e=estimate: off_policy_value(each, log, e, cost_model=model, baseline="logging")  # noqa: E731
            options = {"cost_model": model, "by": "context", "check_tails": False}
            certify = lambda each, e=estimate, o=options: policy_certificate(each, log, e, **o).bound  # noqa: E731
            if name in ("of the logged", "object of the logged") and estimate in ("dr", "dm"):
                with pytest.raises(InputError, match="needs the policy's probabilities of all actions of each context"):
                    value(form)
                continue
            found, expected = value(form), value(policy)
            assert found == pytest.approx(expected, rel=1e-9)
            assert found.interval == pytest.approx(expected.interval, rel=1e-9)
            assert found.effective_size == pytest.approx(expected.effective_size, rel=1e-9)
            if estimate != "dm":
                assert certify(form) == pytest.approx(certify(policy), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_support_is_that_of_the_policy_in_another_form(kind):
    log, policy, X = made(kind)
    logging = type(policy)(3 * policy.coef)
    expected, found = (support_of(each, log, logging, 0.5) for each in (policy, policy.marginals(X)))
    assert found.mass == pytest.approx(expected.mass, rel=1e-9)
    assert found.mass > 0
    assert found.mean_weight_by_action == pytest.approx(expected.mean_weight_by_action)
    judged = [off_policy_value(each, log, logging_policy=logging) for each in (policy, policy.marginals(X))]
    assert judged[0].support == pytest.approx(judged[1].support, rel=1e-9)
    assert off_policy_value(policy, log).support is None
    certified = [policy_certificate(each, log, logging_policy=logging).bound for each in (policy, policy.marginals(X))]
    assert certified[0] == pytest.approx(certified[1], rel=1e-9)


def test_actions_that_are_never_taken_have_weight_zero():
    log = BanditLog(np.ones((4, 1)), [0, 1, 0, 1], np.full(4, 0.5), [1.0, 2, 3, 4])
    certain = np.tile([1.0, 0], (4, 1))
    assert off_policy_value(certain, log, clip=None) == (1 + 3) * 2 / 4
    assert off_policy_value(certain, log, "snips", clip=None) == 2
    labels = BanditLog(np.ones((2, 1)), [[0, 1], [1, 1]], [0.25, 0.25], [1.0, 2.0])
    assert off_policy_value([[0.0, 1.0], [0.0, 1.0]], labels, clip=None) == 4 * 1 / 2


@pytest.mark.parametrize("name", [each["name"] for each in OBP["cases"]])
def test_estimates_are_those_of_the_open_bandit_pipeline(name):
    case = next(each for each in OBP["cases"] if each["name"] == name)
    arrays = {key: np.array(value) for key, value in case["arrays"].items()}
    log = BanditLog(
        np.arange(1.0, len(arrays["reward"]) + 1)[:, None],
        arrays["action"],
        arrays["pscore"],
        -arrays["reward"],
        n_actions=arrays["action_dist"].shape[1],
    )

    class Estimated:
        def predict(self, X, A):
            return -arrays["estimated_rewards"][np.arange(len(A)), A]

        def expectation(self, X, policy):
            raise NotImplementedError

    for estimate, expected in case["values"].items():
        found = -off_policy_value(arrays["action_dist"], log, estimate, clip=None, cost_model=Estimated())
        assert found == pytest.approx(expected, abs=1e-9), estimate


def looped(case: dict[str, list]) -> dict[str, float]:
    """IPW, SNIPW, DM and DR as Saito et al. 2021 print them, in loops."""
    n, rewards = len(case["reward"]), case["estimated_rewards"]
    weights = [
        case["action_dist"][i][a] / p for i, (a, p) in enumerate(zip(case["action"], case["pscore"], strict=True))
    ]
    direct = [sum(p * r for p, r in zip(case["action_dist"][i], rewards[i], strict=True)) for i in range(n)]
    gained = [w * r for w, r in zip(weights, case["reward"], strict=True)]
    missed = [w * (case["reward"][i] - rewards[i][case["action"][i]]) for i, w in enumerate(weights)]
    return {
        "ips": sum(gained) / n,
        "snips": sum(gained) / sum(weights),
        "dm": sum(direct) / n,
        "dr": sum(a + b for a, b in zip(direct, missed, strict=True)) / n,
    }


@pytest.mark.parametrize("case", OBP["cases"], ids=lambda case: case["name"])
def test_the_shipped_values_are_those_of_the_printed_formulas(case):
    assert looped(case["arrays"]) == pytest.approx(case["values"], abs=1e-12)


def test_vowpal_wabbits_ips_and_snips_of_a_deterministic_policy():
    """Its ``ips`` is Σ r 1(a = π)/p / n, its ``snips`` divides by Σ 1(a = π)/p."""
    rng = np.random.default_rng(0)
    action, p, reward = rng.integers(0, 3, 50), rng.uniform(0.1, 1, 50), rng.random(50)
    chosen = rng.integers(0, 3, 50)
    examples = numerator = denominator = 0.0
    for a, each, r, pi in zip(action, p, reward, chosen, strict=True):
        examples += 1
        if a == pi:
            numerator, denominator = numerator + r / each, denominator + 1 / each
    log = BanditLog(np.ones((50, 1)), action, p, -reward, n_actions=3)
    for policy in ((action == chosen).astype(float), np.eye(3)[chosen]):
        assert -off_policy_value(policy, log, "ips", clip=None) == pytest.approx(numerator / examples, abs=1e-12)
        assert -off_policy_value(policy, log, "snips", clip=None) == pytest.approx(numerator / denominator, abs=1e-12)


# Standard errors


def test_the_standard_error_of_independent_rows_is_that_of_a_mean():
    log, policy, _ = made("single")
    log = BanditLog(log.X, log.Y[:20], log.propensity[:20], log.cost[:20], n_actions=4)
    weight = np.exp(policy.log_prob(log.X, log.Y)) / log.propensity
    z = weight * log.cost
    found = off_policy_value(policy, log, clip=None)
    assert (found.n, found.by) == (20, "row")
    assert found.standard_error == pytest.approx(z.std(ddof=1) / np.sqrt(20), rel=1e-12)
    assert found.high - found == pytest.approx(2.093024054408263 * found.standard_error)  # t of 19 degrees
    ratio = off_policy_value(policy, log, "snips", clip=None)
    terms = weight * (log.cost - ratio) / weight.mean()
    assert ratio.standard_error == pytest.approx(terms.std(ddof=1) / np.sqrt(20), rel=1e-12)
    own = off_policy_value(policy, log, clip=None, baseline="logging")
    assert own == pytest.approx((z - log.cost).mean())
    assert own.standard_error == pytest.approx((z - log.cost).std(ddof=1) / np.sqrt(20))
    assert off_policy_value(policy, log, baseline=policy).interval == (0, 0)


def test_rows_told_twice_say_no_more_where_they_are_one_group():
    log, policy, _ = made("single", n=20, m=22)
    once = BanditLog(log.X[log.context], log.Y, log.propensity, log.cost, n_actions=4)
    twice = BanditLog(
        *(np.repeat(each, 2, axis=0) for each in (once.X, once.Y, once.propensity, once.cost)), n_actions=4
    )
    ids = np.repeat([f"user {i}" for i in range(20)], 2)
    for estimate in ("ips", "snips"):
        alone = off_policy_value(policy, once, estimate, clip=None)
        naive, grouped = (off_policy_value(policy, twice, estimate, clip=None, groups=each) for each in (None, ids))
        assert grouped.interval == pytest.approx(alone.interval)
        assert (grouped.n, grouped.by) == (20, "group")
        assert naive.standard_error < 0.75 * alone.standard_error
        bounds = [
            policy_certificate(policy, *each, check_tails=False).bound for each in ((once, estimate), (twice, estimate))
        ]
        grouped = policy_certificate(policy, twice, estimate, groups=ids, check_tails=False)
        assert grouped.bound == pytest.approx(bounds[0])
        assert grouped.bound > bounds[1]
        assert grouped.by == "group"


def test_contexts_with_several_rows_are_the_units():
    log, policy, _ = made("single")
    found = off_policy_value(policy, log)
    occurring = log.context[log.count > 0]
    assert (found.n, found.by) == (len(np.unique(occurring)), "context")
    assert found.interval == pytest.approx(off_policy_value(policy, log, groups=log.context).interval)
    one = BanditLog(np.ones((1, 1)), [0, 1, 1], [0.5] * 3, [1.0, 0, 2], np.zeros(3, int))
    assert (off_policy_value([[0.5, 0.5]], one).n, off_policy_value([[0.5, 0.5]], one).by) == (3, "row")


def test_intervals_hold_as_often_as_they_say():
    """Of rows in groups of a common effect, where intervals by rows do not; 2000 logs, ± 5 standard errors."""
    rng, hits, naive = np.random.default_rng(0), 0, 0
    policy, groups = SoftmaxPolicy([[0.0, 1.0]]), np.repeat(np.arange(50), 4)
    probabilities = np.exp([0, 1]) / (1 + np.e)
    truth = 0.2 * probabilities[0] - 0.1 * probabilities[1]
    for _ in range(2000):
        action = rng.integers(0, 2, 200)
        cost = np.where(action == 0, 0.2, -0.1) + np.repeat(rng.normal(size=50), 4) + 0.1 * rng.normal(size=200)
        log = BanditLog(np.ones((200, 1)), action, np.full(200, 0.5), cost)
        found = off_policy_value(policy, log, "snips", clip=None, groups=groups)
        hits += found.low <= truth <= found.high
        naive += np.less_equal(*np.abs([found - truth, 1.97 * off_policy_value(policy, log, "snips").standard_error]))
    assert hits / 2000 == pytest.approx(0.95, abs=0.025)
    assert naive / 2000 < 0.8


def test_a_value_is_a_number_with_what_is_known_of_it():
    log, policy, _ = made("labels")
    found = off_policy_value(policy, log)
    assert isinstance(found, float)
    assert type(found) is PolicyValue
    restored = pickle.loads(pickle.dumps(found))
    assert (restored, restored.__dict__) == (found, found.__dict__)
    assert f"{found:.3f}" == f"{float(found):.3f}"
    assert json.loads(json.dumps(found.as_dict()))["low"] == found.low
    robust = off_policy_value(policy, log, risk=KLBall(0.1))
    assert robust.as_dict() == {"value": float(robust), "standard_error": None, "low": None, "high": None}
    narrow, wide = (off_policy_value(policy, log, confidence=each) for each in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high
    alone = BanditLog([[1.0]], [0], [0.5], [1.0])
    assert np.isnan(off_policy_value([1.0], alone).standard_error)
    with pytest.warns(UserWarning, match="nan"):
        assert np.isnan(off_policy_value(np.zeros(1), alone, "snips").low)


def test_weights_whose_squares_are_beyond_floats():
    log = BanditLog(np.ones((3, 1)), [0, 1, 1], [1e-300, 1, 1], [1.0, 1, 1])
    found = off_policy_value([[1.0, 0.0]] * 3, log, clip=None)
    assert found == found.standard_error == pytest.approx(1e300 / 3)
    assert found.effective_size == 1


LOG, _, CONTEXTS = made("single")
LISTS, _, _ = made("lists")


@pytest.mark.parametrize(
    ("policy", "log", "message"),
    [
        (
            np.full(20, 0.5),
            LOG,
            r"policy has shape \(20,\), expected \(60,\), the probability of each row's logged action, or \(20, 4\)",
        ),
        (np.full((60, 4), 0.25), LOG, r"policy has shape \(60, 4\), expected"),
        (np.full((20, 4), 0.3), LOG, r"policy adds up to 1.2 over the actions of context 0, expected 1"),
        (np.r_[np.full(59, 0.5), 1.5], LOG, "policy is 1.5 in row 59, expected a probability from 0 to 1"),
        (np.r_[np.full(59, 0.5), np.nan], LOG, "policy is nan in row 59"),
        (np.r_[np.full((19, 4), 0.25), [[2, -1, 0, 0]]], LOG, "policy is 2.0 in row 19, column 0, expected a prob"),
        (np.full((20, 4), np.nan), LOG, "policy is nan in row 0, column 0"),
        ("greedy", LOG, "policy is of type str, expected an ExponentialPolicy"),
        ([["a"] * 4] * 20, LOG, "policy is not an array of numbers, but of text"),
        ([[0.5], [0.5, 0.5]], LOG, "policy is not an array of numbers"),
        (
            SimpleNamespace(log_prob=lambda X, A: np.zeros(3)),
            LOG,
            r"log_prob of the policy has shape \(3,\), expected \(60,\)",
        ),
        (
            SimpleNamespace(log_prob=lambda X, A: np.ones(60)),
            LOG,
            "log_prob of the policy is 1.0 in row 0, expected at most 0",
        ),
        (
            SimpleNamespace(predict_proba=lambda X: np.ones((20, 3))),
            LOG,
            r"predict_proba of the policy has shape \(20, 3\), exp",
        ),
        (
            SimpleNamespace(predict_proba=lambda X: np.full((20, 4), 0.25), classes_=np.arange(1, 5)),
            LOG,
            "classes_ are",
        ),
        (SoftmaxPolicy, LOG, "policy is of type"),
        (np.full(7, 0.5), LISTS, r"policy has shape \(7,\), expected \(60,\)"),
    ],
)
def test_what_is_no_policy_of_the_log_is_one_line(policy, log, message):
    for judge in (off_policy_value, policy_certificate):
        with pytest.raises(InputError, match=message) as raised:
            judge(policy, log)
        assert "\n" not in str(raised.value)


def test_as_many_rows_as_candidates():
    lists = ActionLists(np.ones((4, 1)), [0, 2, 4])
    log = BanditLog(lists, [0, 1, 0, 1], [0.5] * 4, [1.0, 0, 2, 0], [0, 0, 1, 1])
    uneven = np.array([0.75, 0.25, 0.5, 0.5])
    with pytest.raises(InputError, match=r"as many logged rows as candidates, and adds up to 1 in each list.*\(4, 1\)"):
        off_policy_value(uneven, log)
    assert off_policy_value(uneven[:, None], log, clip=None) == (0.75 * 1 + 0.5 * 2) * 2 / 4
    assert off_policy_value([0.7, 0.2, 0.5, 0.5], log, clip=None) == pytest.approx((0.7 + 1) * 2 / 4)


def test_an_action_that_is_not_eligible_has_no_probability():
    eligible = np.array([[1, 1, 0], [1, 1, 1]])
    log = BanditLog(np.ones((2, 1)), [0, 2], [0.5, 0.5], [1.0, 2.0], eligible=eligible)
    assert off_policy_value([[1, 0, 0], [0, 0, 1.0]], log, clip=None) == 3
    with pytest.raises(
        InputError, match=r"adds up to 0\.5 over the actions of context 0, expected 1, over those that are elig"
    ):
        off_policy_value([[0.5, 0, 0.5], [0, 0, 1.0]], log)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1}, "confidence is 1, expected a number above 0 and below 1"),
        ({"groups": [1, 2]}, r"groups has shape \(2,\), expected \(60,\)"),
        ({"groups": [None] * 60}, "groups is None in row 0, expected an id for each row"),
        ({"baseline": "random"}, "baseline is 'random', expected a policy, or 'logging'"),
        ({"baseline": "logging", "risk": KLBall(0.1)}, "baseline needs the mean"),
        ({"baseline": np.ones(3)}, r"baseline has shape \(3,\)"),
    ],
)
def test_other_arguments_that_are_wrong(options, message):
    with pytest.raises(InputError, match=message):
        off_policy_value(np.full(60, 0.5), LOG, **options)


def test_groups_are_for_asymptotic_certificates():
    with pytest.raises(InputError, match="groups need an asymptotic method, got log_smoothing"):
        policy_certificate(np.full(60, 0.25), LOG, method="log_smoothing", groups=np.arange(60))
