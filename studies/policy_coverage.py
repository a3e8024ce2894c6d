"""How often certificates of a policy hold, as it moves away from π0.

Contexts are drawn from those of digits, each row's anew; π0, a CRF of 5 % of them with a tenth of its Θ, draws the
actions. A cost model of one log tilts π0, κ = 0 … 12; certificates, by the KL ball at 0.95, are of other logs, of 1500
rows each, with the same cost model. The truth is the mean expected cost over all contexts. ``ips, costs ≥ 0`` has
Hamming losses that are not translated.

A row per κ and certificate: means over the logs of the effective sample size, of the share that holds (with its
standard error) and of bound − truth, in labels. In the rows of κ = best, the policy with the least bound of the ten is
certified, with choices = 10; in those of κ = learned, another one for each of a fifth as many logs, which
DoublyRobustDRO has learned from a log of its own, with its own cost model.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from drcrm.certificates.policy_certificate import policy_certificate
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.estimators.doubly_robust import DoublyRobustDRO
from drcrm.experiments.datasets.source_formats import load_digits
from drcrm.experiments.simulation.losses import expected_hamming
from drcrm.experiments.simulation.population import draw_policies
from drcrm.experiments.simulation.replay import replay
from drcrm.policies.exponential import ExponentialPolicy

ROWS = 1500
TILTS = (0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12)
FLATTENED = 0.1
CONFIDENCE = 0.95
CERTIFICATES = ("ips", "ips, costs ≥ 0", "snips", "dr")


class Digits:
    """The contexts of digits, π0, a cost model from one log, and the policies that it tilts π0 to."""

    def __init__(self):
        (self.X, self.labels), _ = load_digits()
        self.rng = np.random.default_rng(0)
        confident, _ = draw_policies(self.X, self.labels, self.rng)
        self.logging = ExponentialPolicy(FLATTENED * confident.coef)
        self.model = CostModel().fit_log(self.log())
        coefs = {tilt: self.logging.coef - tilt * self.model.coef_[:, :-1] for tilt in TILTS}
        self.policies = {tilt: ExponentialPolicy(coef) for tilt, coef in coefs.items()}

    def log(self) -> BanditLog:
        """Independent rows."""
        drawn = self.rng.integers(0, self.X.shape[0], ROWS)
        return replay(self.logging, self.X[drawn], self.labels[drawn], 1, self.rng)


def certified(digits: Digits, policies: dict, model: CostModel, choices: int = 1) -> pd.DataFrame:
    """The certificates of policies by one log, a row each."""
    log, q, found = digits.log(), digits.labels.shape[1], []
    losses = log.with_cost(log.cost + q)
    for tilt, policy in policies.items():
        truth = expected_hamming(policy, digits.X, digits.labels)
        for kind in CERTIFICATES:
            estimate, *raw = kind.split(", ")
            of, origin = (losses, 0) if raw else (log, q)
            given = policy_certificate(
                policy, of, estimate, CONFIDENCE, choices=choices, cost_model=model, check_tails=False
            )
            found.append((tilt, kind, truth, given.effective_size, given.bound + origin - truth))
    return pd.DataFrame(found, columns=["tilt", "certificate", "loss", "effective_size", "width"])


def best(digits: Digits) -> pd.DataFrame:
    """The least bound of each certificate among all policies."""
    rows = certified(digits, digits.policies, digits.model, choices=len(TILTS))
    return rows.loc[(rows["width"] + rows["loss"]).groupby(rows["certificate"]).idxmin()].assign(tilt="best")


def learned(digits: Digits) -> pd.DataFrame:
    """Certificates of a policy that was learned from another log."""
    log = digits.log()
    fit = DoublyRobustDRO(safe=False).fit(
        log.X, log.Y, propensity=log.propensity, cost=log.cost, context=log.context, logging_policy=digits.logging
    )
    return certified(digits, {"learned": fit.policy_}, fit.cost_model_)


def table(repetitions: int) -> pd.DataFrame:
    """A row per κ and certificate."""
    digits, logs = Digits(), max(1, repetitions // 5)
    with warnings.catch_warnings(action="ignore"):  # what they say is measured here
        rows = [certified(digits, digits.policies, digits.model) for _ in range(repetitions)]
        rows += [best(digits) for _ in range(repetitions)] + [learned(digits) for _ in range(logs)]
    rows = pd.concat(rows)
    rows["coverage"] = rows["width"] >= -1e-12
    groups = rows.groupby(["tilt", "certificate"], sort=False)
    means = groups[["loss", "effective_size", "coverage", "width"]].mean()
    means["standard_error"] = np.sqrt(means["coverage"] * (1 - means["coverage"]) / groups.size())
    return means.reset_index()


def summary(rows: pd.DataFrame) -> str:
    """The coverage."""
    table = rows.pivot(index="tilt", columns="certificate", values="coverage")
    return table.to_string(float_format="%.3f")
