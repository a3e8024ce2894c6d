"""How often do certificates hold if the logging policy is near-deterministic and the log lacks actions of the policy?

The label vectors and single choices are those of the study ``kinds``, with 6 labels and 8 actions, on 4000 contexts.
The logging policy π0 has the coefficients η/2 (θ + noise). DoublyRobustDRO, with the support rule or without, and CIPS
learn policies from at most 3000 rows; another policy is π0 with four times its scores. The cost model is that of
DoublyRobustDRO: with the support rule for π0, for a clone of π0 (``imitation``), or without the rule (``plain``).

In a repetition, ten logs of n rows, each row with its own context, certify each policy at 0.95. The truth is the mean
expected cost over all contexts. ``ips, costs ≥ 0`` subtracts the smallest cost. A difference is from the logged costs,
or from the cost of ``twice``, which is π0 with twice its scores. ``two bounds`` of a difference are the doubly robust
certificate and a lower bound on the logged costs, at 0.975 each.

The table has a row per kind, η, policy, n and certificate: the share of logs whose bound is not below the truth, with
its standard error; the mean of bound − truth; the share of logs that show the policy to be better than its baseline;
the share of logs whose rows show that actions are missing; the share without a certificate; and the means of the
policy's probability without support, if π0 is known, and of the effective sample size.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from coverage import mean_coverage
from kinds import LabelVectors, SingleChoice

from drcrm.certificates import policy_certificate
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.estimators.by_risk import CIPS
from drcrm.estimators.doubly_robust import DoublyRobustDRO
from drcrm.evaluation.bounds.upper_bound import upper_bound
from drcrm.logging_policy import SUPPORT, restrict_to_support

CONTEXTS, MAX_TRAINING_ROWS, LOGS = 4000, 3000, 10
SIZES = (300, 1000, 3000, 30_000)
SHARPNESS = (0.25, 1, 4, 16)
KEYS = ["kind", "sharpness", "policy", "n", "certificate"]
MEASURED = ["width", "better", "missing", "unsupported", "effective_size"]
FIT_OPTIONS = {"safe": False, "context_effects": False}  # no rows are held out, and no rows share a context
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


class SixLabels(LabelVectors):
    labels, smallest_cost = 6, -6.0


class EightActions(SingleChoice):
    actions, smallest_cost = 8, -1.0


KINDS = {"label_vectors": SixLabels, "single_choice": EightActions}


class World:
    """Contexts and costs, the logging policy, and the policies and cost models that were learned from one log."""

    def __init__(self, kind: str, sharpness: float, n: int, seed: int):
        self.kind = KINDS[kind](np.random.default_rng([seed, n, int(4 * sharpness), [*KINDS].index(kind)]))
        self.rng, coef = self.kind.rng, self.kind.coef
        logging = type(self.kind.logging)(sharpness / 2 * (coef + self.rng.normal(size=coef.shape)))
        self.logging, self.X = logging, self.kind.contexts(CONTEXTS)
        log = self.log(min(n, MAX_TRAINING_ROWS))
        rows = {"propensity": log.propensity, "cost": log.cost, **log.actions.log_options}
        learned = DoublyRobustDRO(**FIT_OPTIONS).fit(log.X, log.Y, **rows, logging_policy=logging)
        plain = learned.cost_model_.model
        imitation = restrict_to_support(plain, log, None, SUPPORT)
        self.models = {"support": learned.cost_model_, "imitation": imitation, "plain": plain}
        unsafe = DoublyRobustDRO(support=0, **FIT_OPTIONS).fit(log.X, log.Y, **rows, logging_policy=logging)
        self.policies = {
            "doubly_robust_dro": learned.policy_,
            "without_support": unsafe.policy_,
            "cips": CIPS().fit(log.X, log.Y, **rows).policy_,
            "sharpened": type(logging)(4 * logging.coef),
        }
        self.costs = {name: self.kind.expected_cost(self.X, policy) for name, policy in self.policies.items()}
        self.baselines = {"logging": logging, "twice": type(logging)(2 * logging.coef)}
        self.baseline_costs = {name: self.kind.expected_cost(self.X, policy) for name, policy in self.baselines.items()}

    def log(self, n: int) -> BanditLog:
        """Draw a log of independent rows."""
        X = self.X[self.rng.integers(0, CONTEXTS, n)]
        Y = self.logging.sample(X, self.rng)
        columns = {"n_actions": self.logging.coef.shape[1]} if Y.ndim == 1 else {}
        return BanditLog(X, Y, np.exp(self.logging.log_prob(X, Y)), self.kind.costs(X, Y), **columns)

    def certify(self, name: str, log: BanditLog):
        """Yield the name of each certificate of a policy, and its values of ``MEASURED``."""
        smallest = self.kind.smallest_cost
        positive = log.with_cost(log.cost - smallest)
        for label, settings in SETTINGS.items():
            costs, origin = (positive, smallest) if label.endswith("≥ 0") else (log, 0.0)
            has_two_bounds = label.endswith("two bounds")
            origin += upper_bound(-log.cost, 0.975) if has_two_bounds else 0.0
            baseline = "logging" if has_two_bounds else settings.get("baseline")
            truth = self.costs[name] - self.baseline_costs.get(baseline, 0.0)
            try:
                result = policy_certificate(self.policies[name], costs, check_tails=False, **self.arguments(settings))
            except InputError:
                yield label, np.nan, np.nan, np.nan, np.nan, np.nan
                continue
            bound = result.bound + origin
            is_better = bound < 0 if baseline else np.nan
            yield label, bound - truth, is_better, result.missing, result.unsupported, result.effective_size

    def arguments(self, settings: dict) -> dict:
        """Return the arguments of ``policy_certificate`` for an entry of ``SETTINGS``."""
        arguments = dict(settings)
        arguments["cost_model"] = self.models[arguments.pop("model", "support")]
        if arguments.pop("known", False):
            arguments["logging_policy"] = self.logging
        if arguments.get("baseline") == "twice":
            arguments["baseline"] = self.baselines["twice"]
        return arguments


def measure(repetition: int, sizes: tuple[int, ...] = SIZES) -> Iterator[dict[str, object]]:
    """Yield a row per kind, sharpness, policy, n, log and certificate."""
    for n, kind, sharpness in product(sizes, KINDS, SHARPNESS):
        world = World(kind, sharpness, n, repetition)
        for log, name in product([world.log(n) for _ in range(LOGS)], world.policies):
            for values in world.certify(name, log):
                yield dict(zip([*KEYS, *MEASURED], (kind, sharpness, name, n, *values), strict=True))


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the coverage by kind, sharpness, policy, n and certificate."""
    return mean_coverage(rows, KEYS, ["coverage", *MEASURED[:3], "refused", *MEASURED[3:]])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the coverage by certificate: at each sharpness, the mean, and the smallest of all rows."""
    coverage = table.pivot_table(index="certificate", columns="sharpness", values="coverage", sort=False)
    by_certificate = table.groupby("certificate", sort=False)["coverage"]
    return coverage.assign(all=by_certificate.mean(), least=by_certificate.min()).reset_index()
