"""How often certificates hold where π0 is sharp, and the log lacks actions of the policy.

The label vectors and single choices of the study ``kinds``, with 6 labels and 8 actions, on 4000 contexts. π0 has the
coefficients η/2 (θ + noise). A policy is learned from at most 3000 rows by DoublyRobustDRO as it fits, with support or
without, or by CIPS, or is π0 with four times its scores; the cost model is that of DoublyRobustDRO: with support, by π0
or by an imitation of it, or ``plain``. Ten logs of n rows, each of a context of its own, certify it at 0.95. The truth
is the mean expected cost over all contexts. ``ips, costs ≥ 0`` has costs less their least. A difference is to π0 as it
logged, or to ``twice``, π0 with twice its scores. Two bounds of a difference to π0 are the doubly robust certificate
and the bound of the logged costs from below, at 0.975 each.

A row per kind, η, policy, n and certificate: the share of logs whose bound is not below the truth, with its standard
error; the mean of bound − truth; the share of logs that show a policy to be better than its baseline; the shares whose
rows show that actions are missing, and that are refused; and the means of the policy's probability without support,
where π0 is known, and of the effective size.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pandas as pd
from kinds import LabelVectors, SingleChoice

from drcrm.certificates.bounds import upper_bound
from drcrm.certificates.policy_certificate import policy_certificate
from drcrm.cost_models.support import SUPPORT
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.estimators.doubly_robust import DoublyRobustDRO
from drcrm.estimators.paper import CIPS
from drcrm.optimization.behaviour_cloning import restrict_to_support

CONTEXTS, MOST_LEARNED, LOGS = 4000, 3000, 10
SIZES = (300, 1000, 3000, 30_000)
SHARPNESS = (0.25, 1, 4, 16)
MEASURED = ["width", "better", "missing", "unsupported", "effective_size"]
AS_FITTED = {"safe": False, "context_effects": False}  # no rows held out, and none share a context
PLAIN, KNOWN, TO_LOGGING, TO_TWICE = {"model": "plain"}, {"known": True}, {"baseline": "logging"}, {"baseline": "twice"}
SETTINGS = {
    "dr": {"estimate": "dr"},
    "dr, student": {"estimate": "dr", "method": "student"},
    "dr, imitation": {"estimate": "dr", "model": "imitation"},
    "dr, plain": {"estimate": "dr", **PLAIN},
    "dr, plain, π0": {"estimate": "dr", **PLAIN, **KNOWN},
    "snips": {"estimate": "snips"},
    "snips, π0": {"estimate": "snips", **KNOWN},
    "ips": {"estimate": "ips"},
    "ips, π0": {"estimate": "ips", **KNOWN},
    "ips, costs ≥ 0": {"estimate": "ips"},
    "ips, π0, costs ≥ 0": {"estimate": "ips", **KNOWN},
    "ips, log smoothing": {"estimate": "ips", "method": "log_smoothing"},
    "difference, dr": {"estimate": "dr", **TO_LOGGING},
    "difference, dr, plain": {"estimate": "dr", **TO_LOGGING, **PLAIN},
    "difference, snips": {"estimate": "snips", **TO_LOGGING},
    "difference, snips, π0": {"estimate": "snips", **TO_LOGGING, **KNOWN},
    "difference, two bounds": {"estimate": "dr", "confidence": 0.975},
    "difference to twice, dr": {"estimate": "dr", **TO_TWICE},
    "difference to twice, snips, π0": {"estimate": "snips", **TO_TWICE, **KNOWN},
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
        learned = DoublyRobustDRO(**AS_FITTED).fit(log.X, log.Y, **rows, logging_policy=logging)
        plain = learned.cost_model_.model
        imitation = restrict_to_support(plain, log, None, SUPPORT)
        self.models = {"support": learned.cost_model_, "imitation": imitation, "plain": plain}
        unsafe = DoublyRobustDRO(support=0, **AS_FITTED).fit(log.X, log.Y, **rows, logging_policy=logging)
        self.policies = {
            "doubly_robust_dro": learned.policy_,
            "without_support": unsafe.policy_,
            "cips": CIPS().fit(log.X, log.Y, **rows).policy_,
            "sharpened": type(logging)(4 * logging.coef),
        }
        self.costs = {name: self.kind.expected(self.X, policy) for name, policy in self.policies.items()}
        self.baselines = {"logging": logging, "twice": type(logging)(2 * logging.coef)}
        self.baseline_costs = {name: self.kind.expected(self.X, policy) for name, policy in self.baselines.items()}

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
            baseline = "logging" if two else settings.get("baseline")
            true = truth - self.baseline_costs.get(baseline, 0.0)
            try:
                given = policy_certificate(self.policies[name], of, check_tails=False, **self.arguments(settings))
            except InputError:
                yield certificate, np.nan, np.nan, np.nan, np.nan, np.nan
                continue
            bound = given.bound + origin
            better = bound < 0 if baseline else np.nan
            yield certificate, bound - true, better, given.missing, given.unsupported, given.effective_size

    def arguments(self, settings: dict) -> dict:
        """What policy_certificate is given."""
        given = dict(settings)
        given["cost_model"] = self.models[given.pop("model", "support")]
        if given.pop("known", False):
            given["logging_policy"] = self.logging
        if given.get("baseline") == "twice":
            given["baseline"] = self.baselines["twice"]
        return given


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
    rows = pd.DataFrame(found, columns=[*columns, *MEASURED])
    rows["refused"] = rows["width"].isna()
    rows["coverage"] = (rows["width"] >= -1e-12).where(~rows["refused"])
    measured = ["coverage", *MEASURED[:3], "refused", *MEASURED[3:]]
    groups = rows.astype(dict.fromkeys(measured, float)).groupby(columns, sort=False)
    means = groups[measured].mean()
    means["standard_error"] = np.sqrt(means["coverage"] * (1 - means["coverage"]) / groups["width"].count())
    return means.reset_index()


def summary(rows: pd.DataFrame) -> str:
    """The coverage by certificate: of all, at each sharpness, and the least of all rows."""
    coverage = rows.pivot_table(index="certificate", columns="sharpness", values="coverage", sort=False)
    by = rows.groupby("certificate", sort=False)["coverage"]
    return coverage.assign(all=by.mean(), least=by.min()).to_string(float_format="%.3f")
