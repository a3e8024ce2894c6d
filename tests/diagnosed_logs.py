"""Synthetic click logs with one of four actions, whose logging policy and best policy are known."""

import numpy as np
import pandas as pd

from drcrm import BanditLog, CostModel, SoftmaxPolicy
from drcrm.arrays.tables import Table
from drcrm.logs.batches import LogDescription
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging
from drcrm.logs.diagnostics.comparison.verdict import Bounds, Evidence, decide
from drcrm.logs.diagnostics.comparison.words import Statement, state
from drcrm.logs.diagnostics.diagnosis import diagnose
from drcrm.logs.encoding.base import ArrayEncoding
from drcrm.mapping.log_mapping import LogMapping

K = 4
THETA = np.random.default_rng(5).normal(size=(3, K))
BEST, WORST = SoftmaxPolicy(1.5 * THETA), SoftmaxPolicy(-1.5 * THETA)


def draw_contexts(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return two normal features and a constant, (n, 3)."""
    return np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])


def draw_log(n: int = 3000, scale: float = 0.4, seed: int = 0) -> BanditLog:
    """Log clicks by a softmax policy; the action with the largest score of THETA is clicked most."""
    rng = np.random.default_rng(seed)
    X, logging = draw_contexts(rng, n), SoftmaxPolicy(scale * np.roll(THETA, 1, axis=1))
    Y = logging.sample(X, rng)
    is_clicked = rng.random(n) < 0.3 + 0.3 * (np.argmax(X @ THETA, axis=1) == Y)
    return BanditLog(X, Y, np.exp(logging.log_prob(X, Y)), -is_clicked.astype(float), n_actions=K)


def change_log(log: BanditLog, rows=slice(None), **arrays) -> BanditLog:
    """Return some rows of a log, with other arrays."""
    arrays = {"X": log.X, "Y": log.Y, "propensity": log.propensity, "cost": log.cost} | arrays
    return BanditLog(*(values[rows] for values in arrays.values()), n_actions=K)


def with_columns(log: BanditLog, slices=None, names=None, **columns) -> BanditLog:
    """Return a log with further columns of a file: slices by name, others, such as groups; and names of actions."""
    coded = {f"slice {at}": pd.factorize(values) for at, values in enumerate((slices or {}).values())}
    columns |= {name: codes for name, (codes, _) in coded.items()}
    rows = Table(len(log.Y), columns, {name: [*values] for name, (_, values) in coded.items()})
    mapping, clock = LogMapping(slice=tuple(slices or ())), "times" if "time" in columns else None
    description = LogDescription(
        format="csv", mapping=mapping, kind=log.actions.kind, encoder=ArrayEncoding.fit, clock=clock
    )
    names = [*range(*log.actions.shape)] if names is None else names
    encoding = ArrayEncoding(log.actions.kind, names, log.X.shape[1])
    return log.replace(rows=rows, description=description, encoding=encoding)


LOG = draw_log()
MODEL = CostModel(0.01).fit(draw_log(seed=1))


def levels(diagnosis) -> dict[str, str]:
    """Return the levels of the checks that are not good, by name."""
    return {check.name: check.level for check in diagnosis.diagnostics if check.level != "good"}


def find_check(diagnosis, name: str):
    """Return the check of a name; None if there is none."""
    return next((check for check in diagnosis.diagnostics if check.name == name), None)


def failed_keys(diagnosis) -> set[str]:
    """Return the keys of the checks that fail."""
    return {check.key for check in diagnosis.failed}


def reach_verdict(comparison, diagnosis, **names) -> Statement:
    """Return the verdict on a policy in words."""
    verdict = decide(diagnosis.diagnostics, Bounds.of(comparison))
    return state(verdict, Evidence(comparison, diagnosis, **names))


def judge(policy, log: BanditLog = LOG):
    """Return verdict, diagnosis and comparison of a policy on a log."""
    diagnosis = diagnose(log, policy, cost_model=MODEL)
    comparison = compare_with_logging(policy, log.with_groups(diagnosis.units), cost_model=MODEL)
    return reach_verdict(comparison, diagnosis), diagnosis, comparison
