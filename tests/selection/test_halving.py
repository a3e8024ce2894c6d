"""Successive halving on logs with many actions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from drcrm import BanditLog
from drcrm.cli import candidates
from drcrm.cli.candidates import algorithm_entries, fit_candidates
from drcrm.selection import successive_halving
from drcrm.selection.grid_search import learn
from drcrm.selection.successive_halving import halve_entries, is_expensive

K, D = 40, 3
ENTRIES = "kl_dro_dr", {"estimator": "KLDRO", "parameter": "radius", "grid": [0.01, 0.1], "options": {"estimate": "dr"}}


def log_of(n: int, seed: int = 0, gain: float = 2.0) -> BanditLog:
    """Clicks by linear scores, which a soft policy logged; with gain 0 they depend on nothing."""
    rng, world = np.random.default_rng([seed, 1]), np.random.default_rng(7)
    X = rng.normal(size=(n, D))
    scores, known = X @ world.normal(size=(D, K)), X @ world.normal(size=(D, K))
    p = softmax(0.5 * known, axis=1)
    action = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    rows = np.arange(n)
    clicks = rng.random(n) < 1 / (1 + np.exp(1 - gain * scores[rows, action]))
    return BanditLog(X, action, p[rows, action], -clicks.astype(float), n_actions=K)


def halves(log: BanditLog) -> tuple[BanditLog, BanditLog]:
    is_heldout = np.arange(len(log.Y)) % 3 == 0
    return log.recount(~is_heldout * log.count), log.recount(is_heldout * log.count)


@pytest.fixture
def every_log_is_expensive(monkeypatch):
    monkeypatch.setattr(successive_halving, "MANY_SCORES", 0)


def test_only_logs_with_many_actions_and_many_scores_are_halved():
    few, many = log_of(50), log_of(2**20 // K + 1)
    assert not is_expensive(few)
    assert is_expensive(many)
    rng = np.random.default_rng(0)
    large = BanditLog(np.ones((10**5, 1)), rng.integers(0, 20, 10**5), np.ones(10**5), np.ones(10**5), n_actions=20)
    assert not is_expensive(large)


def test_a_small_log_is_learned_from_as_without_halving():
    train, heldout = halves(log_of(900))
    [entry] = algorithm_entries("kl_dro_dr", 0)
    [found] = fit_candidates(train, heldout, [entry], lambda doing: None)
    fits = learn(train, entry.algorithm, heldout).fits
    assert found.tried == len(fits.grid) == 16
    assert any(np.array_equal(found.policy.coef, coef) for coef in fits.coef)


@pytest.mark.usefixtures("every_log_is_expensive")
def test_heldout_rows_take_no_part_and_test_few_candidates(monkeypatch):
    """With other held-out costs the same fit to the same rows is tested: it, two steps and the logging policy."""
    train, heldout = halves(log_of(3000))
    entries, fitted, tested = algorithm_entries([*ENTRIES], 0), [], []

    def recorded(part, scored, entry, *options):
        if part is train:
            tested.append(scored)
            fitted.append((entry.name, entry.algorithm.grid, [*entry.ridges]))
        else:
            assert scored is not heldout
        return successive_halving.fit_entry(part, scored, entry, *options)

    monkeypatch.setattr(candidates, "fit_entry", recorded)
    for part in (heldout, heldout.replace(cost=np.random.default_rng(0).normal(size=len(heldout.Y)))):
        [found] = fit_candidates(train, part, entries, lambda doing: None)
        assert found.tried == 4 + len(fitted[-1][2])
    assert fitted[0] == fitted[1]
    assert len(fitted[0][1]) == 1


def test_rows_of_a_unit_are_never_both_fitted_to_and_scored(monkeypatch):
    train = log_of(6000)
    units, seen = np.arange(6000) // 3, []
    train = train.replace(propensity=train.propensity * (1 - 1e-9 * units))  # which tells units apart

    def recorded(part, scored, entry, *options):
        seen.append([set(np.unique(each.propensity)) for each in (part, scored)])
        return fit_entry(part, scored, entry, *options)

    fit_entry = successive_halving.fit_entry
    monkeypatch.setattr(successive_halving, "fit_entry", recorded)
    monkeypatch.setattr(train, "X", train.X)
    rows_of = {value: unit for value, unit in zip(train.propensity, units, strict=True)}
    halve_entries(train, algorithm_entries("kl_dro_dr", 0), units, lambda doing: None)
    assert len(seen) == len(successive_halving.STAGES)
    for part, scored in seen:
        fitted_units, scored_units = ({rows_of[value] for value in values} for values in (part, scored))
        assert not fitted_units & scored_units
        assert len(part) == 3 * len(fitted_units)
        assert len(scored) == 3 * len(scored_units)


def test_few_units_are_not_halved():
    train, entries = log_of(3000), algorithm_entries("kl_dro_dr", 0)
    assert halve_entries(train, entries, np.arange(3000) % 500, lambda doing: None) == entries


def test_an_entry_of_which_only_a_ridge_goes_on_keeps_its_best_value():
    [entry] = algorithm_entries("kl_dro_dr", 0)
    worse = replace(entry, name="worse")
    trials = [
        successive_halving.Trial(entry, 0.01, None, -0.1, -0.5),
        successive_halving.Trial(entry, 0.1, None, -0.2, -0.6),
        successive_halving.Trial(entry, None, 1e-3, -0.4, -0.7),
        successive_halving.Trial(worse, 0.01, None, 0.1, -0.1),
    ]
    [best] = successive_halving._keep_best([entry, worse], trials, 1)
    assert (best.name, best.algorithm.grid, best.ridges) == ("kl_dro_dr", (0.1,), (1e-3,))


@pytest.mark.usefixtures("every_log_is_expensive")
def test_rewards_that_depend_on_nothing_are_not_improved():
    """The bound is at 0.95 in each log: of 12 at most 3 may be below 0 (probability of more 0.002)."""
    shown = 0
    for seed in range(12):
        train, heldout = halves(log_of(2000, seed, gain=0.0))
        [found] = fit_candidates(train, heldout, algorithm_entries("kl_dro_dr", 0), lambda doing: None)
        shown += found.is_shown
    assert shown <= 3
