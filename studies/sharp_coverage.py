"""How often certificates hold where π0 is sharp, and the log lacks actions of the policy.

The label vectors and single choices of the study ``kinds``, with 6 labels and 8 actions, on 4000 contexts. π0 has the
coefficients η/2 (θ + noise). A policy is learned from at most 3000 rows by DoublyRobustDRO or CIPS, or is π0 with four
times its scores; the cost model is DoublyRobustDRO's. Ten logs of n rows, each of a context of its own, certify it at
0.95. The truth is the mean expected cost over all contexts. ``ips, costs ≥ 0`` has costs less their least. Two bounds
of a difference to π0 are the doubly robust certificate and the bound of the logged costs from below, at 0.975 each.

A row per kind, η, policy, n and certificate: the share of logs whose bound is not below the truth, with its standard
error; the mean of bound − truth; the share of logs that show a policy to be better than π0; the shares whose bound
counts actions that are missing, and that are refused; and the mean effective size.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pandas as pd
from kinds import LabelVectors, SingleChoice

from drcrm.core.bounds import upper_bound
from drcrm.core.certificates import policy_certificate
from drcrm.core.log import BanditLog
from drcrm.errors import InputError
from drcrm.estimators import CIPS, DoublyRobustDRO

CONTEXTS, MOST_LEARNED, LOGS = 4000, 3000, 10
SIZES = (300, 1000, 3000, 30_000)
SHARPNESS = (0.25, 1, 4, 16)
TO_LOGGING = {"baseline": "logging"}
SETTINGS = {
    "dr": {"estimate": "dr"},
    "dr, student": {"estimate": "dr", "method": "student"},
    "snips": {"estimate": "snips"},
    "ips": {"estimate": "ips"},
    "ips, costs ≥ 0": {"estimate": "ips"},
    "ips, log smoothing": {"estimate": "ips", "method": "log_smoothing"},
    "difference, dr": {"estimate": "dr", **TO_LOGGING},
    "difference, dr, student": {"estimate": "dr", "method": "student", **TO_LOGGING},
    "difference, snips": {"estimate": "snips", **TO_LOGGING},
    "difference, ips": {"estimate": "ips", **TO_LOGGING},
    "difference, two bounds": {"estimate": "dr", "confidence": 0.975},
}


class Labels(LabelVectors):
    labels, least = 6, -6.0


class Choices(SingleChoice):
    actions, least = 8, -1.0


KINDS = {"label_vectors": Labels, "single_choice": Choices}


class World:
    """Contexts, π0 and costs; policies from a log of n rows, with what they cost, and a cost model."""

    def __init__(self, kind: str, sharpness: float, n: int, seed: int):
        self.kind = KINDS[kind](np.random.default_rng([seed, n, int(4 * sharpness), [*KINDS].index(kind)]))
        self.rng, coef = self.kind.rng, self.kind.coef
        logging = type(self.kind.logging)(sharpness / 2 * (coef + self.rng.normal(size=coef.shape)))
        self.logging, self.X = logging, self.kind.contexts(CONTEXTS)
        log = self.log(min(n, MOST_LEARNED))
        rows = {"propensity": log.propensity, "cost": log.cost, **log.actions.options}
        learned = DoublyRobustDRO().fit(log.X, log.Y, **rows, logging_policy=logging)
        self.model = learned.cost_model_
        self.policies = {
            "doubly_robust_dro": learned.policy_,
            "cips": CIPS().fit(log.X, log.Y, **rows).policy_,
            "sharpened": type(logging)(4 * logging.coef),
        }
        self.costs = {name: self.kind.expected(self.X, policy) for name, policy in self.policies.items()}
        self.cost = self.kind.expected(self.X, logging)

    def log(self, n: int) -> BanditLog:
        """Independent rows."""
        X = self.X[self.rng.integers(0, CONTEXTS, n)]
        Y = self.logging.sample(X, self.rng)
        columns = {"n_actions": self.logging.coef.shape[1]} if Y.ndim == 1 else {}
        return BanditLog(X, Y, np.exp(self.logging.log_prob(X, Y)), self.kind.costs(X, Y), **columns)

    def certified(self, name: str, log: BanditLog):
        """What each certificate says of a policy: the bound less the truth, if it shows it to be better, and so on."""
        truth, least = self.costs[name], self.kind.least
        positive = log.with_cost(log.cost - least)
        for certificate, settings in SETTINGS.items():
            of, origin = (positive, least) if certificate.endswith("≥ 0") else (log, 0.0)
            two = certificate.endswith("two bounds")
            origin += upper_bound(-log.cost, 0.975) if two else 0.0
            true = truth - (self.cost if two or "baseline" in settings else 0.0)
            try:
                given = policy_certificate(self.policies[name], of, cost_model=self.model, **settings)
            except InputError:
                yield certificate, np.nan, np.nan, np.nan, np.nan
                continue
            bound = given.bound + origin
            yield certificate, bound - true, bound < 0, given.missing, given.effective_size


def table(repetitions: int, sizes=SIZES) -> pd.DataFrame:
    """A row per kind, sharpness, policy, n and certificate."""
    found = []
    with warnings.catch_warnings(action="ignore"):  # what they say is measured here
        for n, kind, sharpness, seed in product(sizes, KINDS, SHARPNESS, range(-(-repetitions // LOGS))):
            world = World(kind, sharpness, n, seed)
            for log, name in product([world.log(n) for _ in range(LOGS)], world.policies):
                key = kind, sharpness, name, n
                found += [(*key, *each) for each in world.certified(name, log)]
    columns = ["kind", "sharpness", "policy", "n", "certificate"]
    rows = pd.DataFrame(found, columns=[*columns, "width", "better", "missing", "effective_size"])
    rows["refused"] = rows["width"].isna()
    rows["coverage"] = (rows["width"] >= -1e-12).where(~rows["refused"])
    rows["better"] = rows["better"].where(rows["certificate"].str.startswith("difference"))
    measured = ["coverage", "width", "better", "missing", "refused", "effective_size"]
    groups = rows.astype(dict.fromkeys(measured, float)).groupby(columns, sort=False)
    means = groups[measured].mean()
    means["standard_error"] = np.sqrt(means["coverage"] * (1 - means["coverage"]) / groups["width"].count())
    return means.reset_index()


def summary(rows: pd.DataFrame) -> str:
    """The coverage by certificate: of all, at each sharpness, and the least of all rows."""
    coverage = rows.pivot_table(index="certificate", columns="sharpness", values="coverage", sort=False)
    by = rows.groupby("certificate", sort=False)["coverage"]
    return coverage.assign(all=by.mean(), least=by.min()).to_string(float_format="%.3f")
