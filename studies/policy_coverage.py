"""How often do certificates of a policy hold, as it moves away from the logging policy?

Each row has a random context of Digits and an action drawn by the logging policy. This policy is a CRF trained on 5 %
of the contexts, with its coefficients divided by 10. A cost model fitted to one log tilts it by κ = 0 … 12.
Certificates, by the KL ball at 0.95, use fresh logs of 1500 rows and the same cost model. The truth is the mean
expected cost over all contexts. ``ips, costs ≥ 0`` uses Hamming losses, without subtracting the number of labels.

The table has a row per κ and certificate: the share of logs in which the certificate holds, with its standard error,
and the means of the effective sample size and of bound − truth, in labels. In the rows κ = best, the policy with the
smallest of the ten bounds is certified, with choices = 10. The rows κ = learned are from a fifth as many logs. Each of
these logs certifies another policy, which DoublyRobustDRO learned from a separate log with its own cost model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd
from cells import number, table_of
from coverage import CONFIDENCE, mean_coverage
from population import draw_policies

from drcrm.certificates import policy_certificate
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.estimators.doubly_robust import DoublyRobustDRO
from drcrm.paper.dataset_formats import load_digits
from drcrm.paper.simulation import LabelTruth, replay
from drcrm.policies.exponential import ExponentialPolicy

ROWS = 1500
TILTS = (0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12)
FLATTENING = 0.1
LEARNED = 5  # each fifth log has a learned policy
CERTIFICATES = ("ips", "ips, costs ≥ 0", "snips", "dr")


class Digits:
    """The contexts of Digits, the logging policy, a cost model from one log, and the tilted policies."""

    def __init__(self):
        (self.X, self.labels), _ = load_digits()
        self.rng = np.random.default_rng(0)
        confident, _ = draw_policies(self.X, self.labels, self.rng)
        self.logging = ExponentialPolicy(FLATTENING * confident.coef)
        self.model = CostModel().fit(self.log())
        coefs = {tilt: self.logging.coef - tilt * self.model.coef_[:, :-1] for tilt in TILTS}
        self.policies = {tilt: ExponentialPolicy(coef) for tilt, coef in coefs.items()}

    def log(self) -> BanditLog:
        """Draw a log of independent rows."""
        rows = self.rng.integers(0, self.X.shape[0], ROWS)
        return replay(self.logging, self.X[rows], self.labels[rows], 1, self.rng)


def certify(digits: Digits, policies: dict, model: CostModel, choices: int = 1) -> pd.DataFrame:
    """Return a row per policy and certificate, from one log."""
    log, q, rows = digits.log(), digits.labels.shape[1], []
    losses = log.with_cost(log.cost + q)
    for tilt, policy in policies.items():
        truth = LabelTruth(digits.labels).losses(policy, digits.X)["expected_loss"]
        for kind in CERTIFICATES:
            estimate, *raw = kind.split(", ")
            costs, origin = (losses, 0) if raw else (log, q)
            certificate = policy_certificate(
                policy, costs, estimate, CONFIDENCE, choices=choices, cost_model=model, check_tails=False
            )
            rows.append((tilt, kind, truth, certificate.effective_size, certificate.bound + origin - truth))
    return pd.DataFrame(rows, columns=["tilt", "certificate", "loss", "effective_size", "width"])


def certify_best(digits: Digits) -> pd.DataFrame:
    """Return the rows with the smallest bound of each certificate among all policies."""
    rows = certify(digits, digits.policies, digits.model, choices=len(TILTS))
    return rows.loc[(rows["width"] + rows["loss"]).groupby(rows["certificate"]).idxmin()].assign(tilt="best")


def certify_learned(digits: Digits) -> pd.DataFrame:
    """Return the certificates of a policy that was learned from another log."""
    log = digits.log()
    fit = DoublyRobustDRO(safe=False).fit(
        log.X, log.Y, propensity=log.propensity, cost=log.cost, context=log.context, logging_policy=digits.logging
    )
    return certify(digits, {"learned": fit.policy_}, fit.cost_model_)


@cache
def digits() -> Digits:
    return Digits()


def measure(repetition: int) -> Iterator[dict[str, object]]:
    """Yield a row per κ and certificate."""
    world = digits()
    world.rng = np.random.default_rng([repetition, 1])
    tables = [certify(world, world.policies, world.model), certify_best(world)]
    if repetition % LEARNED == 0:
        tables.append(certify_learned(world))
    for table in tables:
        yield from table.to_dict("records")


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the coverage by κ and certificate."""
    return mean_coverage(rows, ["tilt", "certificate"], ["loss", "effective_size", "coverage", "width"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return coverage, and the mean of bound minus true loss."""
    rows, cells = table.set_index(["tilt", "certificate"]), []
    certificates = {"dr": "DR", "snips": "SNIPS", "ips": "IPS, costs ≤ 0", "ips, costs ≥ 0": "IPS, costs ≥ 0"}
    labels = {
        "best": "policy with the smallest of the ten bounds, `choices=10`",
        "learned": "learned by `DoublyRobustDRO`: ",
    }
    for tilt in rows.index.unique("tilt"):
        size, loss = rows.loc[(tilt, "dr"), ["effective_size", "loss"]]
        label = labels.get(tilt, "")
        if tilt != "best":
            label += f"{number(size, 0 if size > 20 else 1)}, {number(loss, 2)}"
        pairs = (rows.loc[(tilt, name), ["coverage", "width"]] for name in certificates)
        cells.append((label, *(f"{number(coverage)}, {number(width, 2)}" for coverage, width in pairs)))
    return table_of(("effective sample size, loss of the policy", *certificates.values()), cells)
