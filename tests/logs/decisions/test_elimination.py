"""Which of several policies can still be the best one at every look."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.reference_formulas import bound_by_loops
from fixtures.user_logs import decisions
from scipy.stats import binom

import drcrm
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation.bounds.betting_mixture import BettingUnits
from drcrm.evaluation.bounds.betting_terms import betting_mixture
from drcrm.evaluation.bounds.upper_bound import as_bound
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logs.decisions.elimination import WatchedPolicy, steps_until_left
from drcrm.logs.decisions.question import open_case
from drcrm.selection.candidates import EffectiveNumber, EffectiveNumbers

CLICKS = {"action": "a", "propensity": "p", "reward": "click", "features": {"numeric": ["x"]}, "time": "day"}
NAMES = ["column:bad", "column:good", "column:middling"]
MATCHING = {"good": 0.95, "middling": 0.85, "bad": 0.05}  # probability of the action x
ALL = {"anytime": True}


def frame_of(n: int, seed: int = 0) -> pd.DataFrame:
    """Return uniform decisions on x in {0, 1}. The action x has a click rate of 0.6, the other one of 0.1."""
    rng = np.random.default_rng(seed)
    x, action = rng.integers(0, 2, n), rng.integers(0, 2, n)
    click = (rng.random(n) < np.where(action == x, 0.6, 0.1)).astype(int)
    columns = {name: np.where(action == x, share, 1 - share) for name, share in MATCHING.items()}
    return pd.DataFrame({"x": x, "a": action, "p": 0.5, "click": click, **columns, "day": rng.permutation(n)})


def bounds_by_loops(frame: pd.DataFrame, name: str, rows: int, choices: int) -> tuple[float, float]:
    """Return the lower and the upper bound on a policy's cost after the first rows, each at level δ/K."""
    weight, click = (frame[name] / frame["p"]).to_numpy(), frame["click"].to_numpy()
    parts = [bound_by_loops(weight, r, delta=0.05 / choices, rows=rows) for r in (1 - click, click)]
    return parts[0] - 1, -parts[1]


def test_bounds_and_the_rows_that_eliminate_are_those_of_loops():
    frame = frame_of(800)
    answer = drcrm.certify(NAMES, frame, CLICKS, **ALL).as_dict()
    ordered = frame.sort_values("day")
    names, left = [policy["name"] for policy in answer["policies"]], {}
    assert names == ["bad", "good", "middling"]
    for policy in answer["policies"]:
        expected = bounds_by_loops(ordered, policy["name"], 800, 3)
        assert (policy["low"], policy["high"]) == pytest.approx(expected, abs=1e-9)
        left[policy["name"]] = policy["left_after"]
    assert left["good"] is None
    assert left["middling"] is None
    for rows, is_out in ((left["bad"] - 1, False), (left["bad"], True)):
        low = bounds_by_loops(ordered, "bad", rows, 3)[0]
        assert (low > min(bounds_by_loops(ordered, name, rows, 3)[1] for name in names[1:])) == is_out
    sentence = answer["verdict"]["sentence"]
    assert "Of 3 policies, good has the best bound" in sentence
    assert (
        f"The best policy is good or middling, with the same confidence. bad left after row {left['bad']}." in sentence
    )
    alone = drcrm.certify("column:good", frame, CLICKS, confidence=1 - 0.05 / 3, **ALL).as_dict()
    assert answer["running"]["difference_bound"] == pytest.approx(alone["running"]["difference_bound"], abs=1e-9)
    assert (answer["choices"], answer["candidates"][0]["name"]) == (3, "good")


def test_a_guardrail_counts_the_candidates_of_all_policies(monkeypatch):
    """Each of two policies was chosen from four, which are two in the outcome and three in the guardrail."""
    numbers = EffectiveNumbers(EffectiveNumber(4, {0.95: 2}), {"harm": EffectiveNumber(4, {0.95: 3})})

    @contextmanager
    def open_counted(*known):
        with open_case(*known) as case:
            yield replace(case, numbers=numbers)

    monkeypatch.setattr("drcrm.logs.decisions.api.open_case", open_counted)
    frame, rails = frame_of(800), {"guardrails": {"harm": {"cost": "harm", "at_most": 1}}}
    answer = drcrm.certify(NAMES[:2], frame.assign(harm=1 - frame["click"]), CLICKS | rails, **ALL).as_dict()
    assert (answer["effective_choices"], answer["guardrails"][0]["effective_choices"]) == (4, 6)


def watched(frame: pd.DataFrame, choices: int) -> list[WatchedPolicy]:
    """Return the policies of a frame, with bets in the order of its rows."""
    log = BanditLog(
        np.ones((len(frame), 1)), frame["a"].to_numpy(), frame["p"], -frame["click"].astype(float), n_actions=2
    )
    settings = CertificateSettings.of(log, as_bound(1 - 0.05 / choices, "anytime"), 0.95, choices, (-1.0, 0.0))
    units, policies = BettingUnits.of(log, True), []
    for name in MATCHING:
        evaluation = Evaluation.of(frame[name].to_numpy(), log).by("ips")
        bets = [betting_mixture(evaluation, settings, units, sign, is_paired=False) for sign in (1, -1)]
        policies.append(WatchedPolicy(name, *bets))
    return policies


def test_the_best_policy_rarely_leaves_and_the_worst_often_does():
    logs, left = 100, dict.fromkeys(MATCHING, 0)
    for seed in range(logs):
        policies = watched(frame_of(500, seed), len(MATCHING))
        for policy, step in zip(policies, steps_until_left(policies, 500), strict=True):
            left[policy.name] += step is not None
    assert left["good"] <= binom.ppf(0.99, logs, 0.05)
    assert left["bad"] >= 80


def test_several_policies_need_bounds_at_every_look_without_asymptotics():
    frame = frame_of(300)
    for options in ({}, {"anytime": True, "asymptotic": True}):
        with pytest.raises(InputError, match="3 policies are compared by bounds that hold at every look"):
            drcrm.certify(NAMES, frame, CLICKS, **options)
    with pytest.raises(InputError, match="expected at least one policy"):
        drcrm.certify([], frame, CLICKS, **ALL)


def test_a_learned_policy_and_a_column_are_compared_on_the_same_rows(tmp_path, run, answer, shop):
    for name, log in {"log": decisions(3000), "later": decisions(2000, seed=1)}.items():
        log.assign(mine=log["p"]).to_csv(tmp_path / f"{name}.csv", index=False)
    options = "--config", shop / "map.json", "--anytime", "--candidates", "column:mine"
    both, _ = answer("certify", shop / "policy.npz", tmp_path / "later.csv", *options)
    alone, _ = answer("certify", shop / "policy.npz", tmp_path / "later.csv", "--anytime", "--confidence", "0.975")
    assert [policy["name"] for policy in both["policies"]] == ["policy.npz", "mine"]
    assert both["policies"][0]["high"] == pytest.approx(alone["running"]["bound"], abs=1e-9)
    assert both["running"]["difference_bound"] == pytest.approx(alone["running"]["difference_bound"], abs=1e-9)
    status, _, error = run("certify", shop / "policy.npz", tmp_path / "log.csv", *options)
    assert status == 1
    assert "all policies must be compared on the same rows, but mine and policy.npz have different ones" in error
