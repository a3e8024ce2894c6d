"""Limits on actions and budgets, and curves of the gain against their values."""

from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from fixtures.reference_formulas import bound_by_loops
from scipy import stats

from drcrm import certify, learn
from drcrm.errors import InputError
from drcrm.logs.diagnostics.comparison.constraints import LimitedLog
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings
from drcrm.logs.diagnostics.comparison.verdict import BETTER, NOT_SHOWN
from drcrm.logs.training_limits import TrainingLimits, TreeLearner
from drcrm.mapping.log_mapping import as_mapping

PRICES = {"none": 0, "mail": 0.1, "call": 2}
MAPPING = {
    "action": "item",
    "propensity": "p",
    "reward": "bought",
    "features": {"numeric": ["age"], "categorical": ["city"]},
    "explore": 0.05,
}


def log_of(n: int, seed: int = 0) -> pd.DataFrame:
    """Return a log of uniform actions: a call gains .6 for people above 40 years and else .2, and annoys a third."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(18, 70, n), "city": rng.choice(["Bern", "Genf", "Basel"], n)})
    frame["item"], frame["p"] = rng.choice([*PRICES], n), 1 / 3
    gain = np.select([frame.item == "call", frame.item == "mail"], [0.2 + 0.4 * (frame.age > 40), 0.1], 0)
    frame["annoyed"] = 1 * (rng.random(n) < 0.33 * (frame.item == "call"))
    return frame.assign(bought=1 * (rng.random(n) < 0.2 + gain), price=frame.item.map(PRICES))


@cache
def learned(validation: str = "holdout"):
    """Return the answer for a log of 4000 rows and the limit of 30 % calls."""
    mapping = MAPPING | {"limits": {"call": "30 %"}}
    return learn(log_of(4000), mapping, readable=True, validation=validation)


def test_a_limit_holds_with_its_number_and_bound(tmp_path):
    answer = learned()
    [limit] = answer.as_dict()["limits"]
    assert answer.is_better
    assert limit["status"] == "holds"
    assert limit["value"] < limit["bound"] <= limit["at_most"] == 0.3
    assert "The share of call, which must be at most 30 %, is " in " ".join(str(answer).split())
    answer.report(tmp_path / "report.html")
    assert "1 of 1 limit holds" in (tmp_path / "report.html").read_text(encoding="utf-8")
    answer.save(tmp_path / "policy.npz")
    later = log_of(3000, seed=1)
    [limit] = certify(tmp_path / "policy.npz", later).as_dict()["limits"]
    policy = answer.policy
    share = policy.policy.marginals(policy.encoding.contexts(later))[:, policy.encoding.names.index("call")]
    np.testing.assert_allclose(limit["value"], share.mean(), rtol=1e-12)
    error, skewness = share.std(ddof=1) / np.sqrt(3000), stats.skew(share) / np.sqrt(3000)
    factor = stats.t.ppf(0.95, 2999) + max(skewness, 0) * (2 * stats.norm.ppf(0.95) ** 2 + 1) / 6
    np.testing.assert_allclose(limit["bound"], share.mean() + factor * error, rtol=1e-5)


def test_a_limit_in_blocks():
    answer = learned("blocks")
    [limit] = answer.as_dict()["limits"]
    assert (answer.is_better, limit["status"]) == (True, "holds")
    assert 0.15 < limit["value"] < limit["bound"] < 0.3


def test_a_policy_beyond_a_limit_is_not_better(tmp_path):
    learn(log_of(3000), MAPPING | {"algorithm": "policy_tree"}, output=tmp_path / "policy.npz")
    later = log_of(3000, seed=1)
    assert certify(tmp_path / "policy.npz", later, MAPPING).is_better
    answer = certify(tmp_path / "policy.npz", later, MAPPING | {"limits": {"call": 0.3}})
    assert (answer.verdict.name, answer.verdict.direction) == (NOT_SHOWN, BETTER)
    assert answer.verdict.violated == ["limit on the share of call"]
    text = " ".join(str(answer).split())
    assert "But the share of call, which must be at most 30 %, is exceeded: it is " in text
    watched = certify(tmp_path / "policy.npz", later, MAPPING | {"limits": {"call": 0.3}}, anytime=True)
    assert watched.as_dict()["limits"][0]["status"] == "violated"
    assert watched.as_dict()["limits"][0]["lower_bound"] < answer.as_dict()["limits"][0]["lower_bound"]


def test_a_limit_at_every_look_counts_the_rows_of_unequal_groups(tmp_path):
    """The bounds are those of loops over groups in the order of their first rows, by time."""
    learned().save(tmp_path / "policy.npz")
    rng = np.random.default_rng(5)
    later = log_of(700, seed=3).assign(user=rng.integers(0, 250, 700), day=rng.permutation(700))
    mapping = MAPPING | {"limits": {"call": 0.5}, "group": "user", "most_rows": 15, "time": "day"}
    [limit] = certify(tmp_path / "policy.npz", later, mapping, anytime=True).as_dict()["limits"]
    ordered = later.sort_values("day", ignore_index=True)
    first = ordered.groupby("user")["user"].transform(lambda group: group.index.min())
    ordered = ordered.iloc[np.lexsort([np.arange(700), first])]
    policy = learned().policy
    share = policy.policy.marginals(policy.encoding.contexts(ordered))[:, policy.encoding.names.index("call")]
    known = {"factor": 0.0, "unit": ordered["user"].to_list(), "most_rows": 15}
    upper = 1 - bound_by_loops(np.ones(700), 1 - share, **known)
    lower = bound_by_loops(np.ones(700), share, delta=0.025, **known)
    assert (limit["bound"], limit["lower_bound"]) == pytest.approx((upper, lower), abs=1e-9)
    assert limit["status"] == "holds"


def encoded(frame: pd.DataFrame, mapping: dict):
    """Return the encoded log of all rows of a frame."""
    from drcrm.logs.decisions.opened_log import open_log
    from drcrm.logs.read_log import written_log

    with written_log(frame) as source:
        return open_log(source, as_mapping(mapping), lambda text: None, None).evaluated


@pytest.mark.parametrize("depth", [0, 2])
def test_shares_meet_the_narrower_limits_exactly_on_training_rows(depth):
    budget = {"prices": PRICES, "at_most": 0.6}
    log = encoded(log_of(3000), MAPPING | {"limits": {"mail": 0.5}, "budget": budget})
    limits = TrainingLimits.of(log, 0.05)
    [mail, price] = limits.limits
    assert mail < 0.5
    assert price < 0.6
    probability = TreeLearner.of(log, depth, explore=0.05).learn().marginals_on(log.X, log.actions)
    means = np.array([(probability @ prices).mean() for prices in limits.costs])
    assert (means <= limits.limits + 1e-6).all()
    np.testing.assert_allclose(means.max() if depth == 0 else means[1], price, atol=1e-6)


def test_the_column_of_a_budget_gives_the_prices_of_a_table():
    frame = log_of(1500)
    by_column = encoded(frame, MAPPING | {"budget": {"column": "price", "at_most": 0.5}})
    table = encoded(frame, MAPPING | {"budget": {"prices": PRICES, "at_most": 0.5}})
    for log in (by_column, table):
        [prices] = LimitedLog.of(log).prices
        np.testing.assert_allclose(prices, [PRICES[name] for name in log.encoding.names], rtol=1e-12)


def test_a_linear_policy_and_learned_scores_keep_a_limit():
    entries = ["kl_dro_dr", "kl_dro_dr_scores"]
    answer = learn(log_of(1500), MAPPING | {"limits": {"call": 0.4}, "algorithm": entries})
    best = answer.policy if answer.is_better else answer.candidate
    assert answer.as_dict()["limits"][0]["value"] < 0.4
    x = best.encoding.contexts(log_of(4000, seed=3))
    assert best.policy.marginals(x)[:, best.encoding.names.index("call")].mean() < 0.4


def test_a_tree_is_learned_within_a_guardrail():
    frame = log_of(8000)
    rail = {"guardrails": {"annoyed": {"cost": "annoyed", "at_most": 0.0}}}
    mapping = MAPPING | {"algorithm": "policy_tree", "explore": 0.0}
    changes = []
    for extra in ({}, rail):
        log = encoded(frame, mapping | extra)
        policy = TreeLearner.of(log, 2).learn()
        calls = policy.marginals_on(log.X, log.actions)[:, log.encoding.names.index("call")]
        changes.append(0.33 * (calls.mean() - 1 / 3))
    assert changes[0] > 0.1
    assert -0.05 < changes[1] < 0.02  # the margin is 0, and the noise is below 0.01


def test_a_linear_policy_is_learned_within_a_guardrail():
    rail = {"guardrails": {"annoyed": {"cost": "annoyed", "at_most": 0.0}}}
    log = encoded(log_of(8000), MAPPING | rail | {"explore": 0.0})
    from drcrm.policies.exponential import SoftmaxPolicy

    coef = np.random.default_rng(0).normal(size=(log.X.shape[1], 3))
    coef[:, log.encoding.names.index("call")] += 2
    policy = SoftmaxPolicy(coef)
    calls = [
        tried.marginals_on(log.X, log.actions)[:, log.encoding.names.index("call")].mean()
        for tried in (policy, TrainingLimits.of(log, 0.0).adjust(policy))
    ]
    assert calls[0] > 0.4
    np.testing.assert_allclose(calls[1], 1 / 3, atol=0.05)


def test_groups_widen_the_bound_of_a_limit():
    log = encoded(log_of(500), MAPPING | {"limits": {"call": 0.5}})
    copies = log.take(np.tile(np.arange(500), 3))
    probability = np.random.default_rng(0).dirichlet(np.ones(3), 500)[log.context]
    settings, bounds = ComparisonSettings(), []
    for rows, mean in (
        (log, probability),
        (copies.with_groups(np.tile(np.arange(500), 3)), np.tile(probability, (3, 1))),
        (copies, np.tile(probability, (3, 1))),
    ):
        mean = mean if rows.n_contexts == len(mean) else probability[: rows.n_contexts]
        bounds.append(LimitedLog.of(rows).judge(mean, settings)[0].bound)
    np.testing.assert_allclose(bounds[1], bounds[0], rtol=1e-2)
    assert bounds[2] < bounds[1]


@pytest.mark.parametrize(
    ("extra", "fault"),
    [
        ({"limits": {"fax": 0.2}}, "limits has the action 'fax', expected actions of the log: call, mail, none"),
        ({"limits": {"call": 0}}, "limits.call is 0, expected a share above 0 and at most 1"),
        ({"limits": {"call": "120 %"}}, "limits.call is '120 %', expected a share above 0 and at most 1"),
        ({"limits": {"call": 0.01}}, "no policy can keep the share of call at 0.01: .* it is at least 0.0166667"),
        ({"limits": {"call": 0.3, "mail": 0.3, "none": 0.3}}, "no policy can keep"),
        ({"budget": {"prices": {"call": 1}, "at_most": 0.3}}, "budget.prices lacks the action 'mail'"),
        ({"budget": {"prices": PRICES | {"fax": 1}, "at_most": 0.3}}, "budget.prices has the action 'fax'"),
        ({"budget": {"prices": PRICES, "at_most": -1}}, "no policy can keep the budget at -1"),
        ({"budget": {"at_most": 0.3}}, "budget is {.at_most.: 0.3}, expected {prices: {none"),
        ({"budget": {"column": "price"}}, "budget is {'column': 'price'}, expected {prices"),
        ({"budget": {"column": "fee", "at_most": 1}}, "fee"),
        ({"budget": {"column": "age", "at_most": 1}}, "'age' is a numeric feature and the price of budget"),
        ({"action": None, "labels": ["a", "b"], "limits": {"a": 0.3}}, "limits and budget need one of K actions"),
        ({"action": None, "list": "a", "chosen": "b", "limits": {"a": 0.3}}, "limits and budget need one of K actions"),
    ],
)
def test_errors(extra, fault):
    with pytest.raises(InputError, match=fault):
        learn(log_of(300), MAPPING | extra, readable=True)


def test_a_missing_price_is_refused():
    frame = log_of(300)
    frame.loc[7, "price"] = np.nan
    with pytest.raises(InputError, match=r"budget\.column 'price'"):
        learn(frame, MAPPING | {"budget": {"column": "price", "at_most": 0.5}}, readable=True)


def test_a_mapping_keeps_its_limits():
    content = {"limits": {"call": "20 %", "mail": 0.5}, "budget": {"prices": {"call": 2, "mail": 0}, "at_most": 0.4}}
    mapping = as_mapping(MAPPING | content)
    assert mapping.as_dict()["limits"] == {"call": 0.2, "mail": 0.5}
    assert as_mapping(mapping.as_dict()) == mapping


ACTIONS, EXPLORE = ["call", "mail", "none"], 0.05
FEATURES = {"features": {"numeric": ["x", "y"]}, "explore": EXPLORE}
CURVE_MAPPING = {"action": "a", "propensity": "p", "reward": "r", **FEATURES}
SHARE, RAIL = {"limits": {"call": "20 %"}}, {"guardrails": {"annoyed": {"cost": "u", "at_most": "30 %"}}}


def gains(x: np.ndarray) -> np.ndarray:
    return np.column_stack([0.12 + 0.6 * x**2, np.full(len(x), 0.1), np.zeros(len(x))])


def draw_log(n: int, seed: int) -> pd.DataFrame:
    """Return uniform actions: a call gains .12 + .6 x² and annoys 30 %, mail gains .1 and annoys 5 %."""
    rng = np.random.default_rng(seed)
    x, y, a = rng.random(n), rng.random(n), rng.integers(0, 3, n)
    reward = 1 * (rng.random(n) < 0.2 + gains(x)[np.arange(n), a])
    harm = 1 * (rng.random(n) < np.array([0.3, 0.05, 0.0])[a])
    return pd.DataFrame({"x": x, "y": y, "a": np.array(ACTIONS)[a], "p": 1 / 3, "r": reward, "u": harm})


def best_gain(at_most: float) -> float:
    """Return the gain of the best policy within a share of calls over the uniform policy: calls for the largest x."""
    share = min(max((at_most - EXPLORE / 3) / (1 - EXPLORE), 0.0), 1.0)
    calls = 0.12 * share + 0.2 * (1 - (1 - share) ** 3)
    return (1 - EXPLORE) * (calls + 0.1 * (1 - share) - (0.32 + 0.1) / 3)


@cache
def learn_curve(kind: str = "share", curve: bool = True):
    limit = SHARE if kind == "share" else RAIL
    return learn(draw_log(6000, 0), CURVE_MAPPING | limit, readable=True, curve=curve)


def on_new_rows(answer):
    """Return the probabilities of the trees of the curve on new rows, in the order of ACTIONS, and the rows' x."""
    later, encoding = draw_log(50_000, 1), answer.candidate.encoding if answer.candidate else answer.policy.encoding
    contexts = encoding.contexts(later)
    order = [encoding.names.index(name) for name in ACTIONS]
    return [policy.marginals(contexts)[:, order] for policy in answer.curves[0].policies], later["x"].to_numpy()


def test_the_curve_is_near_the_best_gain_within_each_limit_and_its_bounds_hold_on_new_rows():
    answer = learn_curve()
    [curve] = answer.as_dict()["curve"]
    probabilities, x = on_new_rows(answer)
    points, values = curve["points"], [point["limit"]["at_most"] for point in curve["points"]]
    assert (curve["limit"], curve["own"]) == ("share of call", 0.2)
    assert 0.2 in values
    assert 5 <= len(values) <= 7
    assert values == sorted(values)
    assert values[-1] > 0.7  # nearly everybody is called without a limit
    differences = [point["difference"] for point in points]
    for value, point, probability in zip(values, points, probabilities, strict=True):
        use, gain = probability[:, 0].mean(), ((probability - 1 / 3) * gains(x)).sum(axis=1).mean()
        assert use <= point["limit"]["bound"] < value + 0.02
        assert gain <= best_gain(value) + 0.002
        assert best_gain(value) - gain < 0.05  # the cost of the narrower aim and of two splits
        assert -point["difference"]["high"] <= gain <= -point["difference"]["low"]
        assert -point["difference"]["bound"] <= gain
    for before, after in pairwise(differences):
        assert after["value"] <= before["high"]  # costs: the gain does not fall beyond its interval
    assert differences[-1]["high"] < differences[0]["low"]


def test_a_margin_has_a_curve_too():
    answer = learn_curve("guardrail")
    [curve] = answer.as_dict()["curve"]
    rails = [point["guardrail"] for point in curve["points"]]
    margins = [rail["margin"] for rail in rails]
    assert curve["guardrail"] == "annoyed"
    assert margins == sorted(margins)
    assert len(margins) >= 5
    probabilities, _ = on_new_rows(answer)
    for rail, probability in zip(rails, probabilities, strict=True):
        change = (probability.mean(axis=0) - 1 / 3) @ [0.3, 0.05, 0.0]
        assert rail["difference"]["lower_bound"] <= change <= rail["difference"]["bound"]
    first, *_, last = (point["difference"] for point in curve["points"])
    assert last["value"] < first["value"]


def test_the_verdict_stays(tmp_path):
    with_curve, without = learn_curve().as_dict(), learn_curve(curve=False).as_dict()
    assert with_curve.pop("curve")
    assert with_curve == without


def test_the_text_and_the_report_show_the_curve(tmp_path):
    answer = learn_curve()
    text = " ".join(str(answer).split())
    assert "* at most 20 %" in text
    assert "All bounds on trees hold together with 95 % confidence." in text
    answer.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Gain against the limit: share of call" in page
    assert "polyline" in page.split("Gain against the limit")[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "--curve needs a limit, a budget or a guardrail in the mapping, such as limits: {ACTION: 20 %}"),
        (SHARE | {"validation": "blocks"}, "--curve needs held-out rows: use --validation holdout"),
    ],
)
def test_a_curve_without_a_limit_or_with_blocks_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        learn(draw_log(300, 0), CURVE_MAPPING | changes, curve=True)
