"""Every estimator, weight and estimate where arithmetic is strained: finite numbers in few rounds, or one line."""

from __future__ import annotations

from itertools import cycle, product

import pytest
from fuzz.stress import CLASSES, KINDS, LOGS, VALUES, allowed, fitted, modelled, values

from drcrm.selection.algorithms import ESTIMATORS

REFUSED = {("WeightedLikelihood", "costs of 1e300")}  # e^{−βc} is beyond the range of numbers


def strain(name, value, weight, weight_value, estimate, log):
    models = {"cost_model": modelled(log)} if estimate in ("dr", "dm") else {}
    fitted(name, value, weight, weight_value, estimate, {**LOGS[log](), **models})


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fit_is_finite_or_says_why_not(name, log):
    """Each pair of a weight and an estimate in turn: it meets every estimator, and one in two logs or so."""
    turn = [*LOGS].index(log)
    at, pairs = values(name), list(allowed(name))
    weight, estimate = pairs[(turn + [*ESTIMATORS].index(name)) % len(pairs)]
    of_weight = VALUES.get(KINDS[weight], [None])
    strain(name, at[turn % len(at)], weight, of_weight[turn % len(of_weight)], estimate, log)


@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_weight_and_estimate_is_finite_or_says_why_not(name, log):
    """With the values of hyper-parameters taken in turn."""
    at = cycle(values(name))
    of_weight = {weight: cycle(VALUES.get(parameter, [None])) for weight, parameter in KINDS.items()}
    for weight, estimate in allowed(name):
        strain(name, next(at), weight, next(of_weight[weight]), estimate, log)


@pytest.mark.parametrize(("name", "log"), [each for each in product(ESTIMATORS, LOGS) if each not in REFUSED])
def test_what_is_only_strained_is_fitted(name, log):
    """In the middle of each grid."""
    middle = values(name)[len(values(name)) // 2]
    assert fitted(name, middle, "clipped", None, "ips", LOGS[log]()) is not None


def test_every_weight_is_strained():
    assert set(KINDS.values()) == {None, *CLASSES}
