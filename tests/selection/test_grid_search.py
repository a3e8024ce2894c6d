"""Fits along a grid, candidates between a fit and π0, and the choice among them on held-out rows."""

import numpy as np
import pytest

from drcrm import BanditLog, ExponentialPolicy
from drcrm.certificates import upper_bound
from drcrm.errors import InputError
from drcrm.logging_policy import SUPPORT, LoggingPolicy, SupportedModel, restrict_to_support
from drcrm.optimization import lbfgs
from drcrm.policies.prepared_log import PreparedLog
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.fit_settings import FitSettings, SafeCandidates
from drcrm.selection.grid_search import learn
from drcrm.selection.score_names import MODELLED, SCORES, UNMODELLED
from drcrm.weights import clipping_constant

IMPROVEMENT = list(SCORES).index("improvement_bound")
AROUND = SafeCandidates()
OPTIONS = {"estimate": "dr", "start": "model", "tilt": "auto"}


@pytest.fixture(scope="module")
def policy(random_policy):
    return random_policy(0, scale=0.25)  # the logging policy


@pytest.fixture(scope="module")
def learned(logged, parts, policy):
    train, heldout = parts(logged(0, n=200))
    algorithm = Algorithm("KLDRO", "radius", [0.01, 0.1], {**OPTIONS, "safe": True})
    return train, heldout, learn(train, algorithm, heldout, LoggingPolicy(policy))


def paired_differences(policy: ExponentialPolicy, coef: np.ndarray, log: BanditLog, model: SupportedModel):
    """Return z(π) − z(π0) of the rows under dr, without clipping."""

    def z(target):
        prepared = PreparedLog(log, model.effects(log.X, log.actions))
        log_prob, expected = prepared.forward(target.coef)
        return expected[log.context] + np.exp(log_prob) / log.propensity * (log.cost - prepared.modelled_cost)

    return z(ExponentialPolicy(coef)) - z(policy)


def test_fits_are_scored_on_heldout_rows_with_the_training_clip(logged, parts):
    train, heldout = parts(logged(2))
    fits = learn(train, Algorithm("KLCRM", "temperature", [0.1, 1.0, 10.0]), heldout).as_arrays()
    for coef, row in zip(fits["coef"], fits["scores"], strict=True):
        weight = np.exp(ExponentialPolicy(coef).log_prob(heldout.X[heldout.context], heldout.Y)) / heldout.propensity
        limited = np.minimum(weight, clipping_constant(train))
        expected = [heldout.count @ (w * heldout.cost) for w in (weight, limited)]
        totals = [heldout.count @ w for w in (weight, limited)]
        assert row[:2] == pytest.approx(np.array(expected) / heldout.size, rel=1e-10)
        assert row[2:4] == pytest.approx(np.array(expected) / totals, rel=1e-10)
    for name, index, column in zip(SCORES, fits["chosen"], fits["scores"].T, strict=True):
        assert index == -1 if name in MODELLED else column[index] == column.min()


def test_hopeless_fits_end_early_and_the_choice_stays(monkeypatch, logged, parts):
    train, heldout = parts(logged(5, n=200, features=11, labels=5, scale=0.1))
    arguments = train, Algorithm("POEM", "variance_penalty", [1e-3, 0.1, 10.0, 100.0, 1000.0]), heldout
    full = learn(*arguments).as_arrays()
    monkeypatch.setattr(lbfgs, "MIN_ITERATIONS", 10)
    short = learn(*arguments).as_arrays()
    is_early = short["iterations"] != full["iterations"]
    assert (short["iterations"][is_early] == 10).all()
    assert (is_early.any(), short["converged"][is_early].any()) == (True, False)
    assert short["chosen"].tolist() == full["chosen"].tolist()
    assert np.array_equal(short["coef"][~is_early], full["coef"][~is_early])
    scores = slice(len(UNMODELLED))
    limit = (full["scores"][:, scores].min(axis=0) + 3 * heldout.cost.mean()) / 4
    assert (short["scores"][is_early, scores] > limit).all()


def test_a_safe_algorithm_has_ridges_steps_and_the_logging_policy(learned, policy):
    train, heldout, result = learned
    fits = result.as_arrays()
    assert fits["step"].tolist() == [1, 1, 1, 1, 1, *AROUND.steps, *AROUND.steps, 0]
    assert fits["ridge"].tolist() == [0, 0, *AROUND.ridges, 0, 0, 0, 0, 0]
    assert fits["grid"][:-1].tolist() == [0.01, 0.1, *[0.01] * 5, *[0.1] * 2]
    plain = learn(train, Algorithm("KLDRO", "radius", [0.01, 0.1], OPTIONS), heldout, LoggingPolicy(policy)).as_arrays()
    assert np.array_equal(fits["coef"][:2], plain["coef"])
    expected = [policy.coef + step * (fits["coef"][fit] - policy.coef) for fit in (0, 1) for step in AROUND.steps]
    assert fits["coef"][5:-1] == pytest.approx(np.array(expected), rel=1e-12)
    assert np.array_equal(fits["coef"][-1], policy.coef)
    distances = [abs(coef - policy.coef).max() for coef in fits["coef"][2:5]]
    assert distances == sorted(distances, reverse=True)


def test_improvements_are_tested_by_paired_differences(learned, policy):
    train, heldout, result = learned
    model, fits = restrict_to_support(result.cost_model.model, train, policy, SUPPORT), result.as_arrays()
    for coef, scores in zip(fits["coef"], fits["scores"], strict=True):
        difference = paired_differences(policy, coef, heldout, model)
        expected = upper_bound(difference, 0.95, weights=heldout.count) if difference.any() else 0
        assert scores[IMPROVEMENT] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert fits["scores"][-1, IMPROVEMENT] == 0
    chosen, differences = fits["chosen"][IMPROVEMENT], result.differences
    assert chosen == result.selected == differences.choose(differences.effective_choices())
    assert fits["scores"][chosen, IMPROVEMENT] < 0


def test_the_ridges_of_safe_fits_are_in_units_of_the_costs(logged, policy):
    log, algorithm = logged(0, n=200), Algorithm("CIPS", options={**OPTIONS, "safe": True})
    coef = learn(log, algorithm, None, LoggingPolicy(policy)).as_arrays()["coef"]
    scaled = learn(log.with_cost(1000 * log.cost + 7), algorithm, None, LoggingPolicy(policy)).as_arrays()["coef"]
    assert scaled == pytest.approx(coef, rel=1e-3, abs=1e-3)


def test_a_ridge_towards_the_start_can_be_the_hyper_parameter(logged, parts, policy):
    train, heldout = parts(logged(0, n=200))
    options = {"smoothing": 0.1, "start": "logging"}
    fits = learn(
        train, Algorithm("LogSmoothing", "ridge", [1e-3, 1e-1, 1e3], options), heldout, LoggingPolicy(policy)
    ).as_arrays()
    assert fits["ridge"].tolist() == fits["grid"].tolist() == [1e-3, 1e-1, 1e3]
    distances = [abs(coef - policy.coef).max() for coef in fits["coef"]]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-3
    fixed = learn(
        train, Algorithm("LogSmoothing", options={**options, "ridge": 1e-1}), heldout, LoggingPolicy(policy)
    ).as_arrays()
    assert np.array_equal(fixed["coef"][0], fits["coef"][1])


def test_label_vectors_have_context_effects_by_default(logged, policy):
    log = logged(0, n=200)
    auto, on, off = (
        learn(
            log, Algorithm("CIPS", options={"estimate": "dr", "context_effects": value}), None, LoggingPolicy(policy)
        ).as_arrays()["coef"]
        for value in ("auto", True, False)
    )
    assert np.array_equal(auto, on)
    assert not np.allclose(auto, off)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("CIPS", None, (), {"safe": "yes"}), "safe is 'yes', expected True or False"),
        (("CIPS", None, (), {"ridge": -1}), "ridge is -1, expected"),
        (("CIPS", None, (), {"context_effects": "yes"}), "context_effects is 'yes', expected True, False or 'auto'"),
        (("CIPS", None, (), {"tilt": -1}), "tilt is -1, expected 'auto' or a finite number"),
        (("CIPS", None, (), {"depth": -1}), "depth is -1, expected"),
        (("CIPS", None, (), {"max_iter": 5}), "CIPS has no parameter 'max_iter', expected none"),
        (("CIPS", None, (), {"clip": 3.0}), "CIPS has no parameter 'clip', expected none"),
        (("CIPS", None, (), {"shift": 0.1}), "CIPS has no parameter 'shift', expected none"),
        (("LogSmoothing", "ridge", [1.0]), "is ridge and 1 values, expected smoothing and at least one value"),
    ],
)
def test_invalid_algorithms_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Algorithm(*arguments)


def test_an_option_replaces_a_setting_and_other_settings_stay():
    settings = FitSettings(clip=3.0, start="logging", tilt=2.0)
    algorithm = Algorithm("LogSmoothing", "ridge", [0.1], {"smoothing": 0.2, "start": "zero"}, settings)
    assert algorithm.settings == FitSettings(clip=3.0, start="zero", tilt=2.0, estimate="ips")
    assert (algorithm.options, settings.start) == ({"smoothing": 0.2}, "logging")
    with pytest.raises(InputError, match="support is 2, expected a number from 0 to 1"):
        algorithm.with_settings(support=2)
