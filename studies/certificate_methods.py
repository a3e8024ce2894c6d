"""How wide are certificates by each method, next to Student's bound, and how often are they false?

The settings are those of the study `coverage`: costs with a known mean and a known range. A certificate of the logging
policy has weights 1, so its terms are these costs. A context with four rows is a group. Certificates have confidence
0.95.

The table has a row per setting, number of rows and method: the share of logs with a certificate (``issued``), and the
share with a false one. ``width`` is the mean of bound − truth over the logs with a certificate, ``student`` the mean
width of Student's bound over the same logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from cells import means, number, table_of
from coverage import CONFIDENCE, PASSES, ROUNDING, SIZES, Setting, settings

from drcrm.certificates import policy_certificate
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError


class Method(NamedTuple):
    """What a method assumes besides independent rows, when it holds, and its arguments of ``policy_certificate``."""

    assumption: str
    holds: str
    arguments: dict


UNCHECKED = {"check_tails": False}
RANGE, LARGEST = "a known range of costs", "a known largest cost"
LARGE_N, ONE_LOOK, EVERY_LOOK = "approximately, at one look", "at one look", "at every look"
METHODS = {
    "student": Method("no long tail", LARGE_N, UNCHECKED),
    "kl": Method("no long tail", LARGE_N, UNCHECKED),
    "asymptotic": Method("no long tail that is invisible in the log", LARGE_N, {}),
    "confidence_sequence": Method("no long tail that is invisible in the log", "approximately, at every look", {}),
    "betting": Method(RANGE, ONE_LOOK, {}),
    "anytime": Method(RANGE, EVERY_LOOK, {}),
    "empirical_bernstein": Method(RANGE, ONE_LOOK, {}),
    "log_smoothing": Method(LARGEST, ONE_LOOK, {}),
}
KEYS = ("setting", "n", "method")


def certify(setting: Setting, z: np.ndarray) -> dict[str, float]:
    """Return the bound of each method on the mean of costs; NaN if it is refused."""
    n, ones = len(z), np.ones(len(z))
    log = BanditLog(ones[:, None], np.zeros(n, dtype=int), ones, z, n_actions=1)
    options: dict = {"estimate": "ips", "confidence": CONFIDENCE, "cost_range": (setting.low, 0.0)}
    if setting.is_grouped:
        options["groups"] = np.arange(n) // PASSES
    bounds = {}
    for name, method in METHODS.items():
        own = dict(method.arguments)
        if name == "empirical_bernstein":
            own |= {"low": setting.low, "high": 0.0}
        if setting.is_grouped and name in ("betting", "anytime"):
            own["most_rows"] = PASSES
        try:
            bounds[name] = policy_certificate(ones, log, method=name, **options | own).bound
        except InputError:
            bounds[name] = np.nan
    return bounds


def measure(repetition: int, sizes: tuple[int, ...] = SIZES) -> Iterator[dict[str, object]]:
    """Yield a row per setting, number of rows and method."""
    for (name, setting), n in product(settings().items(), sizes):
        bounds = certify(setting, setting.draw(np.random.default_rng([repetition, n]), n))
        widths = {method: bound - setting.truth(n) for method, bound in bounds.items()}
        for method, width in widths.items():
            is_issued = not np.isnan(width)
            measured = {"issued": is_issued, "false": width < -ROUNDING, "width": width}
            student = widths["student"] if is_issued else np.nan
            yield {"setting": name, "n": n, "method": method} | measured | {"student": student}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means by setting, number of rows and method."""
    return means(rows, KEYS)


def relative_widths(table: pd.DataFrame) -> pd.Series:
    """Return the mean width of each method in each cell, divided by Student's."""
    return table.set_index([*KEYS]).eval("width / student")


def betting_next_to_asymptotic(table: pd.DataFrame) -> pd.Series:
    """Return the mean width of betting divided by that of "asymptotic", in cells that always have both."""
    cells = table.pivot(index=["setting", "n"], columns="method", values=["width", "issued"])
    ratios = cells["width", "betting"] / cells["width", "asymptotic"]
    return ratios[cells["issued", "asymptotic"] == 1]


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return assumption and validity of each method, and the median and the central 80 % of its relative widths."""
    ratios, shares = relative_widths(table), table.groupby("method")[["issued", "false"]].mean()
    rows = []
    for name, method in METHODS.items():
        middle, low, high = (number(ratios.xs(name, level="method").quantile(q), 2) for q in (0.5, 0.1, 0.9))
        measured = number(shares.loc[name, "issued"], 2), number(shares.loc[name, "false"])
        rows.append((f"`{name}`", method.assumption, method.holds, f"{middle} ({low} to {high})", *measured))
    return table_of(("method", "assumption", "holds", "width ÷ Student's", "issued", "false"), rows)
