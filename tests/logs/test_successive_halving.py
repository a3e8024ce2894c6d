"""Successive halving on logs with many actions."""

from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.click_logs import draw_actions
from scipy.special import softmax

from drcrm import BanditLog
from drcrm.arrays.tables import Table
from drcrm.logs import successive_halving
from drcrm.logs.decisions import candidates
from drcrm.logs.decisions.candidates import fit_candidates
from drcrm.logs.diagnostics.comparison.constraints import GuardedOutcomes
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.logs.successive_halving import THOROUGH, halve_algorithms, is_expensive
from drcrm.mapping.log_mapping import as_mapping
from drcrm.selection.algorithms import as_algorithm
from drcrm.selection.candidates import Candidate
from drcrm.selection.score_names import SCORES

K, D = 40, 3
OTHER = {"estimator": "KLDRO", "parameter": "radius", "grid": [0.01, 0.1], "options": {"estimate": "dr"}}


def make_log(n: int, seed: int = 0, gain: float = 2.0) -> BanditLog:
    """Return clicks that follow linear scores, logged by a stochastic policy; with gain 0 they are pure noise."""
    rng, world = np.random.default_rng([seed, 1]), np.random.default_rng(7)
    X = rng.normal(size=(n, D))
    scores, logging_scores = X @ world.normal(size=(D, K)), X @ world.normal(size=(D, K))
    p = softmax(0.5 * logging_scores, axis=1)
    action, rows = draw_actions(p, rng), np.arange(n)
    clicks = rng.random(n) < 1 / (1 + np.exp(1 - gain * scores[rows, action]))
    return BanditLog(X, action, p[rows, action], -clicks.astype(float), n_actions=K)


def split(log: BanditLog) -> tuple[BanditLog, BanditLog]:
    is_heldout = np.arange(len(log.Y)) % 3 == 0
    return log.recount(~is_heldout * log.count), log.recount(is_heldout * log.count)


def ignore(message: str) -> None:
    pass


def opened(train: BanditLog, heldout: BanditLog) -> SimpleNamespace:
    """Return logs like an opened log without groups and guardrails."""
    nothing = {"units": None, "reference": Reference()}
    nothing["guarded_outcomes"] = lambda estimate: GuardedOutcomes.of(heldout, estimate)
    evaluated = heldout.replace(rows=Table(len(heldout.Y)))
    return SimpleNamespace(train=train, evaluated=evaluated, mapping=as_mapping({}), **nothing)


@pytest.fixture
def every_log_is_expensive(monkeypatch):
    monkeypatch.setattr(successive_halving, "MANY_SCORES", 0)


def test_only_logs_with_many_actions_and_scores_are_expensive():
    large = BanditLog(np.ones((10**5, 1)), np.arange(10**5) % 20, np.ones(10**5), np.ones(10**5), n_actions=20)
    assert [is_expensive(log) for log in (make_log(50), make_log(2**20 // K + 1), large)] == [False, True, False]


@pytest.mark.usefixtures("every_log_is_expensive")
def test_heldout_rows_do_not_choose_the_fit(monkeypatch):
    """With other held-out costs, the same single fit is made on all training rows."""
    train, heldout = split(make_log(2400))
    entries, fitted = [as_algorithm(entry) for entry in ("kl_dro_dr", OTHER)], []

    def record(part, scored, entry, *options, **keywords):
        if part is train:
            fitted.append((entry.name, entry.grid, [*entry.settings.around.ridges]))
        return successive_halving.fit_algorithm(part, scored, entry, *options, **keywords)

    monkeypatch.setattr(candidates, "fit_algorithm", record)
    for part in (heldout, heldout.replace(cost=np.random.default_rng(0).normal(size=len(heldout.Y)))):
        numbers = fit_candidates(opened(train, part), entries, ignore).numbers
        assert numbers.main.candidates == 4 + len(fitted[-1][2])
    assert fitted[0] == fitted[1]
    assert len(fitted[0][1]) == 1


def test_no_unit_is_both_fitted_to_and_scored(monkeypatch):
    units, fit_algorithm, n_stages = np.arange(6000) // 3, successive_halving.fit_algorithm, []
    train = make_log(6000)
    rows = Table(6000, {"groups": units})
    train = train.replace(propensity=train.propensity * (1 - 1e-9 * units), rows=rows)  # identifies rows
    unit_of = dict(zip(train.propensity, units, strict=True))

    def check(part, scored, entry, *options):
        fitted_units, scored_units = ({unit_of[p] for p in rows.propensity} for rows in (part, scored))
        assert not fitted_units & scored_units
        assert (len(part.Y), len(scored.Y)) == (3 * len(fitted_units), 3 * len(scored_units))
        n_stages.append(1)
        return fit_algorithm(part, scored, entry, *options)

    monkeypatch.setattr(successive_halving, "fit_algorithm", check)
    halve_algorithms(train, [as_algorithm("kl_dro_dr")], ignore)
    assert len(n_stages) == len(successive_halving.STAGES)


def test_few_units_are_not_halved():
    train, entries = make_log(1500), [as_algorithm("kl_dro_dr")]
    train = train.replace(rows=Table(1500, {"groups": np.arange(1500) % 500}))
    assert halve_algorithms(train, entries, ignore) == [entry.with_settings(lbfgs=THOROUGH) for entry in entries]


@pytest.mark.usefixtures("every_log_is_expensive")
def test_fits_beyond_a_guardrail_go_on_only_if_no_other_does():
    """The winner of two grid values loses if fits with coefficients of its size are beyond the margin."""
    train, grid, sizes = make_log(2400), (0.001, 1.0), []

    def halve(is_beyond) -> float:
        def guard(policy) -> bool:
            sizes.append(np.linalg.norm(policy.coef))
            return is_beyond(sizes[-1])

        [entry] = halve_algorithms(train, [as_algorithm(OTHER | {"grid": grid})], ignore, lambda log: guard)
        [value] = entry.grid
        return value

    winner = halve(lambda size: False)
    middle, is_large = np.mean(sizes[:2]), (sizes[0] > sizes[1]) == (winner == grid[0])
    assert halve(lambda size: True) == winner
    assert halve(lambda size: (size > middle) == is_large) != winner


@pytest.mark.usefixtures("every_log_is_expensive")
@pytest.mark.parametrize(("reference", "second"), [(Reference(), 2.0), (Reference(policy=object()), 3.0)])
def test_with_a_baseline_the_difference_from_the_logging_policy_does_not_count(reference, second, monkeypatch):
    """One fit has the smallest cost, the others the smallest bound on the difference and on the cost."""
    train, heldout = split(make_log(2400))
    scores = dict.fromkeys(SCORES, 0.0)
    smallest = {1.0: {"dr": -1.0}, 2.0: {"improvement_bound": -1.0}, 3.0: {"dr_bound": -1.0}}
    fits = [Candidate(None, value, scores=scores | low) for value, low in smallest.items()]
    monkeypatch.setattr(successive_halving, "STAGES", ((1 / 2, 2),))
    monkeypatch.setattr(successive_halving, "fit_algorithm", lambda *_: SimpleNamespace(candidates=fits))
    fitted = []

    def stop(part, scored, entry):
        fitted.append(entry.grid)
        raise InterruptedError

    monkeypatch.setattr(candidates, "fit_algorithm", stop)
    log = opened(train, heldout)
    log.reference = reference
    with pytest.raises(InterruptedError):
        fit_candidates(log, [as_algorithm(OTHER | {"grid": [*smallest]})], ignore)
    assert fitted == [(1.0, second)]
