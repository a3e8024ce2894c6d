"""Compare the verdicts of drcrm and skdr-eval: PYTHONPATH=studies python -m benchmarks.verdicts_beside [--seeds 20]

Run this by hand in the project's folder, in an environment with both packages: ``python -m venv ENV && ENV/bin/pip
install -e . skdr-eval==0.12.0``. The project never depends on skdr-eval. It takes a few minutes of one core.

The logs come from ``studies/verdicts.py``: 2000 rows, 5 actions, and clicks as rewards.

good                  π0, the logging policy, explores; the propensities are right
sharp                 the scores of π0 times 4
wrong by 2            good, with the propensities times 2 (at most 1)
no overlap            in contexts with x_0 > 0 π0 never takes the best action
no overlap, a trap    the same logs, but the action that π0 never takes is never clicked
drift                 clicks are 0.15 more likely in the last half of the rows, for all actions
drift that turns      in the last half the worst action becomes the best; the truth is that of the last half

The policies do not depend on the log. ``far`` prefers the best action, ``near`` prefers it a third as strongly, ``bad``
avoids it. All judges get the same rows and the probabilities of all actions. The truth comes from 200 000 contexts.

drcrm                 diagnostics and verdict with the logged propensities, by SNIPS (without a cost model)
drcrm, imitated       the same with ``propensity_model: auto``, without the logged propensities
skdr-eval SNDR, DR    ``evaluate_sklearn_models`` and ``recommendation``, whose default is SNDR. skdr-eval cannot use
                      logged propensities. Its policies are proportional to 1/prediction, so a model that predicts 1/π
                      gives exactly π. Options: ``ci_bootstrap``, which it recommends; ``baseline="logged"`` (with its
                      default, 0, every policy with a click passes); ``policy_train="all"``, since nothing is trained;
                      otherwise its defaults
skdr-eval plain       SNDR without clipping and with a constant outcome model. By default skdr-eval evaluates the
                      outcome model at the logged action, whatever the policy does, so a good model pulls the estimate
                      towards the value of π0, and it chooses the clip with the smallest variance

Claims are ``better`` and ``worse``. skdr-eval's ``deploy`` counts as better, and it has no word for worse. Every other
verdict is open, also ``do_not_deploy``, since only diagnostics cause it. There is a row per log, policy and judge:

- the true gain over π0 in clicks per row, and the mean estimated gain;
- the verdict and the raised warnings for the first seed;
- the shares over the seeds of right, wrong and open claims;
- ``named``, the share of logs whose planted fault is named. For drcrm this follows the study. For skdr-eval any warning
  names a lack of overlap, and no warning names drift. It is empty if there is no fault or the judge does not read it;
- ``coverage``: of the gain for drcrm, of the policy's value for skdr-eval.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import skdr_eval
from sklearn.dummy import DummyRegressor
from verdicts import ACTIONS, CLICKS, DRIFT, FAULTS, FEATURES, MORE, World  # studies/verdicts.py

from drcrm import BanditLog
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging
from drcrm.logs.diagnostics.comparison.verdict import Bounds, decide
from drcrm.logs.diagnostics.diagnosis import diagnose
from drcrm.policies.exponential import SoftmaxPolicy

LOGS = {
    "good": "soft",
    "sharp": "sharp",
    "wrong by 2": "doubled",
    "no overlap": "missing",
    "no overlap, a trap": "trap",
    "drift": "drift",
    "drift that turns": "turned",
}
LOGGED_AS = {"trap": "missing", "turned": "soft"}
NEAR = 0.35
CLAIMS = {"better": "better", "worse": "worse", "deploy": "better"}
PLAIN = {"outcome_estimator": DummyRegressor, "clip_grid": (float("inf"),)}
JUDGES = {
    "drcrm": "drcrm",
    "drcrm, imitated": "drcrm, imitated",
    "skdr-eval SNDR": "skdr-eval",
    "skdr-eval plain": "skdr-eval, plain",
}
NAMES = [f"a{number}" for number in range(ACTIONS)]
COLUMNS = [f"cli_{number}" for number in range(FEATURES)]
OUTPUT = Path("docs/results/verdicts_beside.csv")


class ClickWorld(World):
    """The world of the study with the policy ``near`` and with changes that the log does not show."""

    def __init__(self):
        super().__init__(is_null=False)
        far, bad = self.policies["good"], self.policies["bad"]
        self.policies = {"near": SoftmaxPolicy(self.base + NEAR * self.best), "far": far, "bad": bad}

    def clicks_in(self, kind: str, X: np.ndarray) -> np.ndarray:
        """Return the probability of a click for each action in the first half of the rows, (n, K)."""
        clicks = self.clicks(X)
        return np.where(self.logging("missing", X) == 0, 0, clicks) if kind == "trap" else clicks

    def clicks_later(self, kind: str, X: np.ndarray) -> np.ndarray:
        """Return the probability of a click for each action in the last half of the rows, (n, K)."""
        if kind == "turned":
            return CLICKS + MORE * (np.arange(ACTIONS) == (X @ self.best).argmin(axis=1)[:, None])
        return self.clicks_in(kind, X) + DRIFT * (kind == "drift")

    def values(self, kind: str) -> tuple[dict[str, float], dict[str, float]]:
        """Return clicks per row by each policy and by π0 (``logging``): in the whole log, and in its last half."""
        X = self.population
        means = {name: policy.marginals(X) for name, policy in self.policies.items()}
        means["logging"] = self.logging(LOGGED_AS.get(kind, kind), X)
        first, last = (
            {name: float((mean * clicks).sum(axis=1).mean()) for name, mean in means.items()}
            for clicks in (self.clicks_in(kind, X), self.clicks_later(kind, X))
        )
        return {name: (first[name] + last[name]) / 2 for name in means}, last

    def rows(self, kind: str, seed: int) -> pd.DataFrame:
        """Return a log as a table: features, action, propensity, click."""
        rng = np.random.default_rng(seed)
        log = self.log(LOGGED_AS.get(kind, kind), rng)
        X, action, click = log.X[log.context], log.Y.astype(int), -log.cost
        if kind == "turned":
            drawn = rng.random(len(X)) < self.clicks_later(kind, X)[np.arange(len(X)), action]
            click = np.where(np.arange(len(X)) < len(X) // 2, click, drawn)
        frame = pd.DataFrame(X[:, :FEATURES], columns=COLUMNS)
        return frame.assign(action=[NAMES[number] for number in action], p=log.propensity, click=click)


def judge_by_drcrm(frame: pd.DataFrame, means: dict[str, np.ndarray], is_imitated: bool) -> dict[str, dict]:
    """Return the verdict on each policy."""
    mapping = {"action": "action", "reward": "click", "features": {"numeric": COLUMNS}}
    mapping |= {"propensity": None, "propensity_model": "auto"} if is_imitated else {"propensity": "p"}
    log = BanditLog.from_frame(frame, mapping)
    assert (log.context == np.arange(len(frame))).all()
    assert [str(name) for name in log.encoding.names] == NAMES
    verdicts = {}
    for name, mean in means.items():
        diagnosis = diagnose(log, mean)
        comparison = compare_with_logging(mean, log.with_groups(diagnosis.units))
        verdicts[name] = {
            "verdict": decide(diagnosis.diagnostics, Bounds.of(comparison)).name,
            "gain": float(-comparison.difference),
            "interval": (-comparison.difference.high, -comparison.difference.low),
            "raised": "; ".join(check.name for check in diagnosis.diagnostics if check.level != "good"),
        }
    return verdicts


class InverseProbability:
    """A model for skdr-eval, whose policy is proportional to 1/prediction."""

    def __init__(self, policy):
        self.policy = policy

    def fit(self, X, y):
        return self

    def predict(self, X):
        """Return 1/π of the action in the last columns."""
        contexts = np.column_stack([X[:, :FEATURES], np.ones(len(X))])
        return 1 / self.policy.marginals(contexts)[X[:, FEATURES:].astype(bool)]


def judge_by_skdr(frame: pd.DataFrame, policies: dict[str, object], **settings) -> dict[str, dict[str, dict]]:
    """Return the verdict on each policy by each of the two estimators."""
    eligible = {f"{name}_elig": 1 for name in NAMES}
    logs = frame.drop(columns="p").assign(arrival_ts=np.arange(len(frame)), **eligible)
    artifact = skdr_eval.evaluate_sklearn_models(
        logs,
        {name: InverseProbability(policy) for name, policy in policies.items()},
        fit_models=False,
        policy_train="all",
        ci_bootstrap=True,
        baseline="logged",
        y_col="click",
        **settings,
    )
    rows = artifact.report.set_index(["estimator", "model"])
    verdicts = {"SNDR": {}, "DR": {}}
    for estimator, by_policy in verdicts.items():
        for name in policies:
            row, base = rows.loc[(estimator, name)], artifact.baseline_value
            by_policy[name] = {
                "verdict": artifact.recommendation(name, estimator=estimator, baseline=base).verdict,
                "gain": row["V_hat"] - base,
                "interval": (row["ci_lower"], row["ci_upper"]),
                "raised": row["diagnostic_warnings"].replace(",", "; "),
            }
    return verdicts


def judge(world: ClickWorld, name: str, truth: tuple[dict, dict], seed: int) -> list[dict[str, object]]:
    """Return a row per judge and policy, from one log."""
    kind, (during, after) = LOGS[name], truth
    frame = world.rows(kind, seed)
    X = np.column_stack([frame[COLUMNS], np.ones(len(frame))])
    means = {policy: world.policies[policy].marginals(X) for policy in world.policies}
    judges = {
        "drcrm": judge_by_drcrm(frame, means, is_imitated=False),
        "drcrm, imitated": judge_by_drcrm(frame, means, is_imitated=True),
        **{f"skdr-eval {name}": verdicts for name, verdicts in judge_by_skdr(frame, world.policies).items()},
        "skdr-eval plain": judge_by_skdr(frame, world.policies, **PLAIN)["SNDR"],
    }
    rows = []
    for judge, by_policy in judges.items():
        for policy, result in by_policy.items():
            claim, gain = CLAIMS.get(result["verdict"], "open"), after[policy] - after["logging"]
            low, high = result.pop("interval")
            truth = during[policy] - (during["logging"] if judge.startswith("drcrm") else 0)
            row = {"log": name, "policy": policy, "judge": judge, "true gain": gain, "claim": claim, **result}
            row["right"] = claim == ("better" if gain > 0 else "worse")
            row["named"] = is_named(kind, judge, result["raised"])
            rows.append(row | {"coverage": low <= truth <= high})
    return rows


def is_named(kind: str, judge: str, raised: str) -> float:
    """Return whether a warning names the planted fault; NaN if there is no fault or the judge does not read it."""
    faults = FAULTS["drift" if kind == "turned" else LOGGED_AS.get(kind, kind)]
    if not faults or (kind == "doubled" and judge != "drcrm"):
        return np.nan
    if judge.startswith("drcrm"):
        return float(any(map(faults.__contains__, raised.split("; "))))
    return float(bool(raised) and kind in ("missing", "trap"))


def table(seeds: int) -> pd.DataFrame:
    """Return a row per log, policy and judge."""
    world, rows, keys = ClickWorld(), [], ["log", "policy", "judge"]
    for name, kind in LOGS.items():
        truth = world.values(kind)
        for seed in range(seeds):
            rows += judge(world, name, truth, seed)
    groups = pd.DataFrame(rows).groupby(keys, sort=False)
    return pd.DataFrame([dict(zip(keys, key, strict=True)) | aggregate(group) for key, group in groups])


def aggregate(rows: pd.DataFrame) -> dict[str, object]:
    """Return the results over the seeds of one log, policy and judge."""
    is_open = rows["claim"].eq("open")
    return {
        "true gain": rows["true gain"].iloc[0],
        "estimated gain": rows["gain"].mean(),
        "verdict": rows["verdict"].iloc[0],
        "raised": rows["raised"].iloc[0],
        "right": rows["right"].mean(),
        "wrong": (~is_open & ~rows["right"]).mean(),
        "open": is_open.mean(),
        "named": rows["named"].mean(),
        "coverage": rows["coverage"].mean(),
        "verdicts": "; ".join(f"{count} {verdict}" for verdict, count in rows["verdict"].value_counts().items()),
    }


def markdown(table: pd.DataFrame) -> str:
    """Return the Markdown table of the page; wrong claims are bold."""
    lines = ["| log | policy | true gain | " + " | ".join(JUDGES.values()) + " |", "|" + "---|" * (3 + len(JUDGES))]
    for (log, policy), group in table.groupby(["log", "policy"], sort=False):
        by_judge = group.set_index("judge")
        gain = f"{group['true gain'].iloc[0]:+.3f}".replace("-", "−")
        cells = [_cell(*by_judge.loc[judge, ["verdicts", "wrong"]]) for judge in JUDGES]
        lines.append("| " + " | ".join([log, policy, gain, *cells]) + " |")
    return "\n".join(lines)


def _cell(verdicts: str, wrong: float) -> str:
    claims = [verdict for verdict in verdicts.split("; ") if verdict.split(" ", 1)[1] in CLAIMS]
    for claim in claims if wrong else ():
        verdicts = verdicts.replace(claim, f"**{claim}**")
    return verdicts.replace("; ", ", ").replace("the log ", "").replace("is wrong", "log is wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    results = table(options.seeds)
    results.to_csv(options.output, index=False, float_format="%.4f")
    print(markdown(results))
    print(f"{time.process_time():.0f} s of CPU")


if __name__ == "__main__":
    main()
