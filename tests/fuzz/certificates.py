"""Upper bounds and certificates: their arguments, and what every bound must obey."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from random import Random

import numpy as np

import drcrm
from drcrm.certificates import policy_certificate, upper_bound

from . import fits
from .harness import Kind, expect, in_one_line

BALLS = ["kl", "chi2", "squared_hellinger", "reverse_kl", {"cressie_read": 3}]
METHODS = [*BALLS, "student", "empirical_bernstein", "log_smoothing", "betting", "total_variation", "hoeffding"]
COSTS = [0.0, -1.0, -2.5, -1e-9, -3.0, -1e-200, 2.0]
CLOSE = 1e-7  # relative to the range of costs


def make(r: Random) -> tuple[str, dict]:
    """Draw the arguments of a bound, or of a certificate."""
    settings = {"confidence": r.choice([0.95, 0.6, 0.999]), "method": r.choice(METHODS)}
    if settings["method"] in ("empirical_bernstein", "betting") or r.random() < 0.05:
        settings |= {"low": r.choice([-3.0, -50.0]), "high": r.choice([0.0, 2.0])}
    if r.random() < 0.1:
        settings["smoothing"] = r.choice([0.1, 1e-3, 0])
    if r.random() < 0.15:
        settings[r.choice(["confidence", "method", "low", "high", "smoothing"])] = r.choice(fits.ODD)
    if r.random() < 0.5:
        n = r.randint(1, 9)
        given = {"z": [r.choice([*COSTS, fits.normal(r)]) for _ in range(n)]}
        if r.random() < 0.4:
            given["weights"] = [r.choice([0, 1, 2, 3]) for _ in range(n)]
        if r.random() < 0.3:
            given["groups"] = [r.choice([0, 1, 2, "a", None] if r.random() < 0.1 else [0, 1, 2]) for _ in range(n)]
        return "bound", given | settings
    log = fits.log(r)
    if r.random() < 0.2:
        log = fits.spoilt(r, log)
    settings |= {"estimate": r.choice(["ips", "snips", "dr", "dm"]), "by": r.choice(["row", "context"])}
    if r.random() < 0.3:
        settings["choices"] = r.choice([1, 7, *fits.ODD])
    if r.random() < 0.2:
        settings["clip"] = r.choice([1, 5.0, *fits.ODD])
    return "certificate", {"log": log, "theta": r.choice([0.0, 0.3, -1.0, 5.0, 40.0, 800.0]), **settings}


def check(case: tuple[str, dict], folder: Path) -> bool:
    what, given = case
    return _bound(dict(given)) if what == "bound" else _certificate(dict(given))


def _bound(given: dict) -> bool:
    found, _ = in_one_line(upper_bound, **given)
    if found is None:
        return False
    z, weights = np.array(given["z"]), np.array(given.get("weights") or [1] * len(given["z"]))
    close = CLOSE * (1 + np.ptp(z) + abs(z).max())
    if given["method"] in BALLS:
        expect(found <= z[weights > 0].max() + close, f"{found} is above all costs")
    more = 1 - (1 - given["confidence"]) / 2
    expect(found <= upper_bound(**given | {"confidence": more}) + close, "more confidence gives less")
    if "groups" in given:
        return True
    expect(found >= weights @ z / weights.sum() - close, f"{found} is below the mean")
    if given["method"] != "betting":
        again = {"z": np.repeat(z, weights)[::-1], "weights": None}
        expect(math.isclose(found, upper_bound(**given | again), rel_tol=1e-9, abs_tol=close), "counts are no repeats")
    return True


def _certificate(given: dict) -> bool:
    parts, theta = given.pop("log"), given.pop("theta")
    names = ("X", "Y", "propensity", "cost", "context", "count")
    log, _ = in_one_line(drcrm.BanditLog, **{name: part for name, part in parts.items() if name in names})
    if log is None:
        return False
    model = None
    if given["estimate"] == "dr":
        model, _ = in_one_line(drcrm.CostModel(0.1).fit_log, log)
        if model is None:
            return False
    policy = drcrm.ExponentialPolicy(np.full((log.X.shape[1], log.Y.shape[1]), theta))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the effective sample size is")
        found, _ = in_one_line(policy_certificate, policy, log, cost_model=model, **given)
        if found is None:
            return False
        numbers = found.value, found.bound, found.effective_size, found.mean_weight
        expect(all(map(math.isfinite, numbers)), f"not finite: {found}")
        close = CLOSE * (1 + abs(found.value) + abs(found.bound))
        expect(found.bound >= found.value - close, f"the bound is below the estimate: {found}")
        expect(0 < found.effective_size <= log.count.sum() * (1 + 1e-9), f"effective size: {found}")
        expect(in_one_line(lambda: repr(found))[0].isprintable(), "no line")
        fewer = policy_certificate(policy, log, cost_model=model, **given | {"choices": 1})
    expect(fewer.bound <= found.bound + close, "one choice has a larger bound than many")
    return True


KIND = Kind("certificates", 60, make, check)
