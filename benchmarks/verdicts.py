"""Verdicts beside those of skdr-eval: python -m benchmarks.verdicts [--seeds 20] [--output FILE]

Run by hand, from the project's folder, in an environment that has both packages; the project never depends on it:
``python -m venv ENV && ENV/bin/pip install -e . skdr-eval==0.12.0``. Some minutes on one core.

Logs are those of ``studies/verdicts.py``, 2000 rows each, 5 actions, clicks; as rewards here, more is better:

good                  π0 is soft, propensities are right
sharp                 the scores of π0 times 4
wrong by 2            good, with propensities times 2 (at most 1)
no overlap            π0 never takes the best action in the half of the contexts with x_0 > 0
no overlap, a trap    the same logs, in a world where what π0 never takes is never clicked
drift                 clicks are 0.15 more likely in the last half, whatever is done
drift that turns      in the last half the action that was best is the one that was worst; the truth is what comes after

Policies, made without the log: ``near`` and ``far`` lean to the best action, ``far`` twice as strongly as π0 leans to
what it likes, ``near`` a third of that; ``bad`` leans away from it. All judges have the same rows, no others, and π
of all actions. The truth is by 200 000 contexts.

drcrm                 ``diagnose`` and ``verdict`` with the logged propensities; without a cost model, so by SNIPS
drcrm, imitated       the same with propensities by ``propensity_model: softmax``, the logged ones unseen
skdr-eval SNDR, DR    ``evaluate_sklearn_models`` and ``recommendation``, which takes SNDR unless told otherwise. It has
                      no way in for logged propensities. Its policies are in proportion to 1/prediction, so 1/π is
                      what the model predicts and π is judged exactly. ``ci_bootstrap``, as it asks for;
                      ``baseline="logged"`` is what the verdict is against (its own default is 0, by which any
                      policy that is ever clicked passes); ``policy_train="all"``, as nothing is trained; its own
                      defaults for the rest, thresholds included
skdr-eval plain       SNDR once more, not clipped and with a constant for an outcome model, which is no default: that
                      model is read at the logged action alone, whatever the policy does, so that a good one draws the
                      estimate to what logged, and the clip is that of least variance

``better`` and ``worse`` are what is claimed: by skdr-eval ``deploy`` is better, and it has no word for worse; all else
leaves it open, ``do_not_deploy`` too, as it gives it for diagnostics alone. A row per log, policy and judge: the true
gain over π0 in clicks a row and the mean of the estimated; the verdict and what was raised by the first seed; shares
over seeds of claims that are right, wrong, or not made; how often the planted fault is ``named`` (drcrm: as the study
has it; skdr-eval: without overlap by any warning, drift by none that it has; empty where no fault is planted, or the
judge does not read what is wrong), and how often the interval has its own truth: of the gain with drcrm, of the
policy's value with skdr-eval.
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

from drcrm import BanditLog
from drcrm.diagnostics.diagnosis import LogDetails, diagnose
from drcrm.diagnostics.verdict import compare_with_logging, reach_verdict
from drcrm.policies.exponential import SoftmaxPolicy
from studies.verdicts import ACTIONS, CLICKS, DRIFT, FAULTS, FEATURES, MORE, World

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
SHOWN = {
    "drcrm": "drcrm",
    "drcrm, imitated": "drcrm, imitated",
    "skdr-eval SNDR": "skdr-eval",
    "skdr-eval plain": "skdr-eval, plain",
}
NAMES = [f"a{each}" for each in range(ACTIONS)]
COLUMNS = [f"cli_{each}" for each in range(FEATURES)]
OUTPUT = Path("docs/results/verdicts_beside.csv")


class Made(World):
    """The world of the study with a policy more, and with kinds of which the log does not tell."""

    def __init__(self):
        super().__init__(is_null=False)
        far, bad = self.policies["good"], self.policies["bad"]
        self.policies = {"near": SoftmaxPolicy(self.leaning + NEAR * self.best), "far": far, "bad": bad}

    def clicks_in(self, kind: str, X: np.ndarray) -> np.ndarray:
        """The probability of a click for each action in the first half of the rows, (n, K)."""
        clicks = self.clicks(X)
        return np.where(self.logging("missing", X) == 0, 0, clicks) if kind == "trap" else clicks

    def clicks_later(self, kind: str, X: np.ndarray) -> np.ndarray:
        """And in the last half."""
        if kind == "turned":
            return CLICKS + MORE * (np.arange(ACTIONS) == (X @ self.best).argmin(axis=1)[:, None])
        return self.clicks_in(kind, X) + DRIFT * (kind == "drift")

    def values(self, kind: str) -> tuple[dict[str, float], dict[str, float]]:
        """Clicks a row by each policy and by π0 (``logging``): while it was logged, and in its last half."""
        X = self.population
        means = {name: each.marginals(X) for name, each in self.policies.items()}
        means["logging"] = self.logging(LOGGED_AS.get(kind, kind), X)
        first, last = (
            {name: float((mean * clicks).sum(axis=1).mean()) for name, mean in means.items()}
            for clicks in (self.clicks_in(kind, X), self.clicks_later(kind, X))
        )
        return {name: (first[name] + last[name]) / 2 for name in means}, last

    def rows(self, kind: str, seed: int) -> pd.DataFrame:
        """A log as a file has it: features, action, propensity, click."""
        rng = np.random.default_rng(seed)
        log = self.log(LOGGED_AS.get(kind, kind), rng)
        X, action, click = log.X[log.context], log.Y.astype(int), -log.cost
        if kind == "turned":
            drawn = rng.random(len(X)) < self.clicks_later(kind, X)[np.arange(len(X)), action]
            click = np.where(np.arange(len(X)) < len(X) // 2, click, drawn)
        frame = pd.DataFrame(X[:, :FEATURES], columns=COLUMNS)
        return frame.assign(action=[NAMES[each] for each in action], p=log.propensity, click=click)


def by_drcrm(frame: pd.DataFrame, means: dict[str, np.ndarray], imitates: bool) -> dict[str, dict[str, object]]:
    """The verdict on each policy."""
    known = {"propensity": None, "propensity_model": "softmax"} if imitates else {"propensity": "p"}
    log = BanditLog.from_frame(
        frame, {"action": "action", "reward": "click", "features": {"numeric": COLUMNS}, **known}
    )
    assert (log.context == np.arange(len(frame))).all()
    assert [str(each) for each in log.encoding.names] == NAMES
    found = {}
    for name, mean in means.items():
        diagnosis = diagnose(log, mean, LogDetails(imitated=imitates))
        comparison = compare_with_logging(mean, log, groups=diagnosis.units)
        gain = -comparison.difference
        found[name] = {
            "verdict": reach_verdict(comparison, diagnosis, reward=True).verdict,
            "gain": float(gain),
            "interval": (-comparison.difference.high, -comparison.difference.low),
            "raised": "; ".join(each.name for each in diagnosis.diagnostics if each.level != "good"),
        }
    return found


class Inverse:
    """What skdr-eval takes for a model: predictions to which its policy is inversely proportional."""

    def __init__(self, policy):
        self.policy = policy

    def fit(self, X, y):
        return self

    def predict(self, X):
        """1/π of the action in the last columns."""
        contexts = np.column_stack([X[:, :FEATURES], np.ones(len(X))])
        return 1 / self.policy.marginals(contexts)[X[:, FEATURES:].astype(bool)]


def by_skdr(frame: pd.DataFrame, policies: dict[str, object], **settings) -> dict[str, dict[str, dict[str, object]]]:
    """The verdict on each policy by each of its two estimators."""
    eligible = {f"{each}_elig": 1 for each in NAMES}
    logs = frame.drop(columns="p").assign(arrival_ts=np.arange(len(frame)), **eligible)
    artifact = skdr_eval.evaluate_sklearn_models(
        logs,
        {name: Inverse(each) for name, each in policies.items()},
        fit_models=False,
        policy_train="all",
        ci_bootstrap=True,
        baseline="logged",
        y_col="click",
        **settings,
    )
    rows = artifact.report.set_index(["estimator", "model"])
    found = {"SNDR": {}, "DR": {}}
    for estimator, by_policy in found.items():
        for name in policies:
            row, base = rows.loc[(estimator, name)], artifact.baseline_value
            by_policy[name] = {
                "verdict": artifact.recommendation(name, estimator=estimator, baseline=base).verdict,
                "gain": row["V_hat"] - base,
                "interval": (row["ci_lower"], row["ci_upper"]),
                "raised": row["diagnostic_warnings"].replace(",", "; "),
            }
    return found


def judged(world: Made, name: str, truth: tuple[dict, dict], seed: int) -> list[dict[str, object]]:
    """All verdicts by one log, a row each."""
    kind, (during, after) = LOGS[name], truth
    frame = world.rows(kind, seed)
    X = np.column_stack([frame[COLUMNS], np.ones(len(frame))])
    means = {each: policy.marginals(X) for each, policy in world.policies.items()}
    judges = {
        "drcrm": by_drcrm(frame, means, imitates=False),
        "drcrm, imitated": by_drcrm(frame, means, imitates=True),
        **{f"skdr-eval {each}": found for each, found in by_skdr(frame, world.policies).items()},
        "skdr-eval plain": by_skdr(frame, world.policies, **PLAIN)["SNDR"],
    }
    rows = []
    for judge, by_policy in judges.items():
        for policy, said in by_policy.items():
            claim, gain = CLAIMS.get(said["verdict"], "open"), after[policy] - after["logging"]
            low, high = said.pop("interval")
            own = during[policy] - (during["logging"] if judge.startswith("drcrm") else 0)
            row = {"log": name, "policy": policy, "judge": judge, "true gain": gain, "claim": claim, **said}
            row["right"] = claim == ("better" if gain > 0 else "worse")
            row["named"] = is_named(kind, judge, said["raised"])
            rows.append(row | {"coverage": low <= own <= high})
    return rows


def is_named(kind: str, judge: str, raised: str) -> float:
    """Whether the planted fault is among what was raised; NaN where there is none, or the judge does not read it."""
    faults = FAULTS["drift" if kind == "turned" else LOGGED_AS.get(kind, kind)]
    if not faults or (kind == "doubled" and judge != "drcrm"):
        return np.nan
    if judge.startswith("drcrm"):
        return float(any(map(faults.__contains__, raised.split("; "))))
    return float(bool(raised) and kind in ("missing", "trap"))


def table(seeds: int) -> pd.DataFrame:
    """A row per log, policy and judge."""
    world, rows, keys = Made(), [], ["log", "policy", "judge"]
    for name, kind in LOGS.items():
        truth = world.values(kind)
        for seed in range(seeds):
            rows += judged(world, name, truth, seed)
    found = [
        dict(zip(keys, of, strict=True)) | summed(each) for of, each in pd.DataFrame(rows).groupby(keys, sort=False)
    ]
    return pd.DataFrame(found)


def summed(each: pd.DataFrame) -> dict[str, object]:
    """What the seeds of one log, policy and judge come to."""
    is_open = each["claim"].eq("open")
    return {
        "true gain": each["true gain"].iloc[0],
        "estimated gain": each["gain"].mean(),
        "verdict": each["verdict"].iloc[0],
        "raised": each["raised"].iloc[0],
        "right": each["right"].mean(),
        "wrong": (~is_open & ~each["right"]).mean(),
        "open": is_open.mean(),
        "named": each["named"].mean(),
        "coverage": each["coverage"].mean(),
        "verdicts": "; ".join(f"{many} {said}" for said, many in each["verdict"].value_counts().items()),
    }


def markdown(found: pd.DataFrame) -> str:
    """The table of docs/beside.md; what is claimed and wrong is bold."""
    lines = ["| log | policy | true gain | " + " | ".join(SHOWN.values()) + " |", "|" + "---|" * (3 + len(SHOWN))]
    for (log, policy), each in found.groupby(["log", "policy"], sort=False):
        by_judge = each.set_index("judge")
        gain = f"{each['true gain'].iloc[0]:+.3f}".replace("-", "−")
        cells = [_cell(*by_judge.loc[judge, ["verdicts", "wrong"]]) for judge in SHOWN]
        lines.append("| " + " | ".join([log, policy, gain, *cells]) + " |")
    return "\n".join(lines)


def _cell(verdicts: str, wrong: float) -> str:
    claimed = [each for each in verdicts.split("; ") if each.split(" ", 1)[1] in CLAIMS]
    for each in claimed if wrong else ():
        verdicts = verdicts.replace(each, f"**{each}**")
    return verdicts.replace("; ", ", ").replace("the log ", "").replace("is wrong", "log is wrong")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--output", type=Path, default=OUTPUT)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    found = table(given.seeds)
    found.to_csv(given.output, index=False, float_format="%.4f")
    print(markdown(found))
    print(f"{time.process_time():.0f} s of CPU")


if __name__ == "__main__":
    main()
