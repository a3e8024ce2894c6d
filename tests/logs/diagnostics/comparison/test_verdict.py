"""The five verdicts, their sentences, and what would change them."""

import math
import re
from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.click_logs import (
    BEST,
    LOG,
    MODEL,
    THETA,
    WORST,
    K,
    change_log,
    draw_actions,
    draw_contexts,
    draw_log,
    failed_keys,
    judge,
    levels,
    reach_verdict,
)
from scipy.stats import binom

from drcrm import BanditLog, SoftmaxPolicy
from drcrm.arrays.formats import Units, format_number
from drcrm.certificates import policy_certificate
from drcrm.cost_models.base import TabularModel, action_effects
from drcrm.evaluation.bounds.asymptotic_bounds import correct_for_choice
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logs.diagnostics.check import Check, Consequence
from drcrm.logs.diagnostics.comparison.advice import BY_CONSEQUENCE, RANDOMISE, advise_logging, advise_rows
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging, estimate_values
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings, Reference
from drcrm.logs.diagnostics.comparison.verdict import BETTER, CANNOT_SAY, NOT_SHOWN, WRONG, WRONG_LOG, Bounds, decide
from drcrm.logs.diagnostics.comparison.words import describe_missing
from drcrm.logs.diagnostics.diagnosis import diagnose
from drcrm.logs.diagnostics.weight_checks import PolicyWeights, check_weights
from drcrm.policies.tabular import policy_for_log


def test_a_number_that_would_be_rounded_to_0_keeps_its_sign():
    """But not one that is rounding error."""
    _, _, comparison = judge(BEST)
    error = comparison.difference.standard_error
    assert comparison.format(0.01 * error) == format_number(0.01 * error, sign=True, digits=1)
    assert comparison.format(-0.01 * error).startswith("−0.00")
    assert comparison.format(1e-6 * error).strip("0.") == ""


def test_the_verdict_on_a_correct_log_is_true():
    verdict, _, comparison = judge(BEST)
    assert verdict.verdict == "better"
    decimals = 1 - math.floor(math.log10(comparison.difference.standard_error))
    numbers = float(comparison.difference), *comparison.difference.interval, comparison.certificate.bound
    value, low, high, bound = (f"{number:+.{decimals}f}".replace("-", "−") for number in numbers)
    assert verdict.sentence.startswith(
        f"Compared with the logging policy, the policy changes cost by {value} per row (95 % interval {low} to "
        f"{high}). With 95 % confidence, the change is at most {bound} (one-sided)."
    )
    worse, diagnosis, comparison = judge(WORST)
    assert (worse.verdict, comparison.lower_bound > 0) == ("worse", True)
    assert reach_verdict(replace(comparison, lower_bound=-0.01), diagnosis).verdict == "not shown"
    assert verdict.changes == worse.changes == []
    same = judge(LOG.propensity)[0]
    assert same.verdict == "not shown"
    assert same.changes == ["Try another policy. This one does not look better, so more rows would not help."]


def test_a_large_constant_in_the_costs_does_not_hide_a_difference():
    diagnosis, effects = diagnose(LOG, BEST, cost_model=MODEL), action_effects(MODEL, LOG.X, LOG.actions)
    comparisons = [
        compare_with_logging(BEST, LOG.with_cost(LOG.cost + constant), cost_model=TabularModel(effects + constant))
        for constant in (0.0, 1e9)
    ]
    assert [reach_verdict(comparison, diagnosis).verdict for comparison in comparisons] == ["better", "better"]
    bound, moved = (comparison.certificate.bound for comparison in comparisons)
    assert moved == pytest.approx(bound, abs=1e-5)


@pytest.mark.parametrize("n_groups", [1, 5])
def test_few_groups_are_named_if_there_is_no_certificate(n_groups):
    groups = np.arange(len(LOG.Y)) % n_groups
    diagnosis = replace(diagnose(LOG, BEST, cost_model=MODEL), diagnostics=[])
    comparison = compare_with_logging(BEST, LOG.with_groups(groups), cost_model=MODEL)
    verdict = reach_verdict(replace(comparison, certificate=None), diagnosis)
    assert verdict.verdict == "the log cannot say"
    assert f"The rows that judge it have {n_groups} independent groups, and bounds need about 30." in verdict.sentence
    assert verdict.changes[0] == "Log more groups: further rows of the same groups hardly help."


def test_actions_that_were_never_logged_cannot_be_evaluated():
    rng = np.random.default_rng(0)
    X = draw_contexts(rng, 3000)
    mean = SoftmaxPolicy(0.4 * THETA).marginals(X)
    mean[np.arange(3000), np.argmax(X @ THETA, axis=1)] *= X[:, 0] < 0
    mean /= mean.sum(axis=1, keepdims=True)
    Y = draw_actions(mean, rng)
    log = BanditLog(X, Y, mean[np.arange(3000), Y], -rng.random(3000), n_actions=K)
    verdict, diagnosis, _ = judge(BEST, log)
    assert verdict.verdict == "the log cannot say"
    assert levels(diagnosis)["mean weight"] == "fail"
    assert verdict.changes[-1] == "Or evaluate a policy that is closer to the logging policy."


def test_causes_are_reported_before_their_effects(monkeypatch):
    """Unsupported actions come before the small effective sample size, and a deterministic rule before both."""
    with monkeypatch.context() as patch:
        rolled = SoftmaxPolicy(2.5 * np.roll(THETA, 1, axis=1))
        patch.setattr("drcrm.logs.diagnostics.diagnosis.raise_to_support", lambda mean, log, _: rolled.marginals(log.X))
        verdict, diagnosis, _ = judge(SoftmaxPolicy(6 * THETA), draw_log(scale=2.5))
    assert {"unsupported", "effective_size"} <= failed_keys(diagnosis)
    assert "unsupported actions" in verdict.sentence
    certain = change_log(LOG, propensity=np.ones(3000))
    verdict, diagnosis, _ = judge(
        0.01 * np.exp(BEST.log_prob(LOG.X, LOG.Y)), certain.replace(imitated_propensities=True)
    )
    assert {"exploration", "mean_weight"} <= failed_keys(diagnosis)
    assert "100.0 % of the rows have an estimated propensity" in verdict.sentence
    assert verdict.changes == [RANDOMISE]


def test_few_effective_rows_of_a_log_with_every_action_need_more_rows():
    _, diagnosis, comparison = judge(BEST)
    known = replace(comparison, settings=replace(comparison.settings, full_support=True))
    for names, expected in ((["effective_size"], "not shown"), (["effective_size", "mean_weight"], None)):
        checks = [replace(check, level="fail") if check.key in names else check for check in diagnosis.diagnostics]
        failed = replace(diagnosis, diagnostics=tuple(checks))
        assert failed_keys(failed) == {*names}
        assert reach_verdict(comparison, failed).verdict == "the log cannot say"
        verdict = reach_verdict(known, failed)
        assert verdict.verdict == (expected or "the log cannot say"), "although the bound is below 0"
        assert verdict.changes[0].startswith("Log more rows: ") == bool(expected)
    assert reach_verdict(known, diagnosis).verdict == "better"


def fail(consequence: Consequence) -> Check:
    return Check("key", "fail", consequence, "any title", 0.0, "", "it failed", "")


GAIN, REFUSED, CHARGING = Bounds(-0.2, -0.1), Bounds(refusal="no bounds"), Bounds(-0.2, -0.1, needs_overlap=False)
LEAK, DEPENDENT, ACCUSED = Consequence.LEAK, Consequence.DEPENDENT_ROWS, Consequence.WRONG_PROPENSITIES
THIN = [Consequence.OVERLAP, Consequence.FEW_ROWS]
EXPLORED = replace(CHARGING, has_every_action=True)  # by a logging policy that is known to take every action
SKEWED = replace(REFUSED, has_every_action=True, needs_rows=True)


@pytest.mark.parametrize(
    ("consequences", "bounds", "is_own_log", "name", "decisive"),
    [
        ([], GAIN, False, BETTER, []),
        ([], REFUSED, False, CANNOT_SAY, []),
        *(
            (
                [consequence],
                bounds,
                False,
                WRONG if consequence in WRONG_LOG else CANNOT_SAY,
                [consequence],
            )
            for consequence in Consequence
            for bounds in (GAIN, REFUSED)
        ),
        *(([wrong, LEAK], GAIN, False, CANNOT_SAY, [LEAK]) for wrong in WRONG_LOG),
        ([Consequence.WRONG_OR_DEPENDENT, DEPENDENT], GAIN, False, CANNOT_SAY, [DEPENDENT]),
        (
            [Consequence.WRONG_PROPENSITIES, DEPENDENT],
            GAIN,
            False,
            WRONG,
            [Consequence.WRONG_PROPENSITIES],
        ),
        (THIN, CHARGING, False, BETTER, []),
        (THIN, GAIN, False, CANNOT_SAY, THIN),
        *((thin, EXPLORED, False, BETTER, []) for thin in (THIN[:1], THIN[1:], THIN)),
        (THIN, replace(EXPLORED, needs_overlap=True), False, CANNOT_SAY, THIN),
        (THIN[1:] * 2, replace(EXPLORED, needs_overlap=True), False, NOT_SHOWN, THIN[1:] * 2),
        ([], SKEWED, False, NOT_SHOWN, []),
        ([], SKEWED, True, NOT_SHOWN, []),
        ([], replace(SKEWED, has_every_action=False), False, CANNOT_SAY, []),
        ([], replace(SKEWED, needs_rows=False), False, CANNOT_SAY, []),
        (THIN, SKEWED, False, CANNOT_SAY, THIN),
        ([*THIN, Consequence.MISSING_ACTIONS], EXPLORED, False, CANNOT_SAY, [Consequence.MISSING_ACTIONS]),
        ([], GAIN, True, NOT_SHOWN, []),
        ([], Bounds(0.1, 0.2), True, NOT_SHOWN, []),
        ([], REFUSED, True, CANNOT_SAY, []),
    ],
)
def test_consequences_and_bounds_decide_and_not_titles(consequences, bounds, is_own_log, name, decisive):
    verdict = decide([fail(consequence) for consequence in consequences], bounds, Reference(is_same_policy=is_own_log))
    assert (verdict.name, [check.consequence for check in verdict.failed]) == (name, decisive)


HEAVY = {"largest_row", "largest_cost"}


@pytest.mark.parametrize(("least", "share", "clicks"), [(1e-3, 0.5, 0.3), (1e-4, 0.05, 0.9)])
def test_bounds_by_betting_decide_although_one_row_dominates(least, share, clicks):
    """The policy takes a rare action with a ``share``, without a gain: *better* is false in at most 5 % of the logs."""
    n, logs, better, heavy = 1000, 300, 0, []
    for seed in range(logs):
        rng = np.random.default_rng(seed)
        is_rare, is_clicked = rng.random(n) < least, rng.random(n) < clicks
        propensity, target = (np.where(is_rare, part, 1 - part) for part in (least, share))
        log = BanditLog(np.ones((n, 1)), is_rare.astype(int), propensity, -is_clicked.astype(float), n_actions=2)
        known = policy_for_log(target, log)
        checks = check_weights(PolicyWeights(log, target / propensity, None, None, log.cost))
        bound = policy_certificate(known, log, "ips", method="anytime", baseline="logging", cost_range=(-1, 0)).bound
        verdict = decide(checks, Bounds(upper=bound, needs_overlap=False))
        better += verdict.name == BETTER
        failed = {check.key for check in checks if check.has_failed}
        if failed & HEAVY and failed <= {*HEAVY, "effective_size"}:
            heavy.append(verdict.name)
    assert better <= binom.ppf(0.999, logs, 0.05)
    assert len(heavy) >= 20
    assert CANNOT_SAY not in heavy


def test_each_failure_has_its_advice():
    by_actions = {Consequence.OVERLAP, Consequence.FEW_ROWS}
    assert {*BY_CONSEQUENCE, *by_actions, *WRONG_LOG, Consequence.NONE, Consequence.UNTESTED} == {*Consequence}
    diagnosis = diagnose(LOG, BEST)
    for consequence, advice in BY_CONSEQUENCE.items():
        assert advise_logging(replace(diagnosis, diagnostics=(fail(consequence),)), fail(consequence)) == advice
    lacking = fail(Consequence.MISSING_ACTIONS), replace(fail(Consequence.OVERLAP), level="caution")
    advice = advise_logging(replace(diagnosis, diagnostics=lacking), lacking[0])
    assert advice != BY_CONSEQUENCE[Consequence.MISSING_ACTIONS]


UNDECIDED = [part for part in Consequence if part not in {*WRONG_LOG, Consequence.NONE, Consequence.UNTESTED}]


def test_sentence_and_advice_are_about_the_same_failure():
    """Both are about the cause of the other failures. The order of the checks does not matter."""
    _, diagnosis, comparison = judge(BEST)

    def explain(*consequences: Consequence) -> tuple[str, list[str]]:
        checks = tuple(replace(fail(part), sentence=f"{part.name} failed") for part in consequences)
        verdict = reach_verdict(comparison, replace(diagnosis, diagnostics=checks))
        return verdict.sentence, verdict.changes

    alone = {part: explain(part) for part in UNDECIDED}
    for number, cause in enumerate(UNDECIDED):
        for effects in (UNDECIDED[number + 1 :], *([effect] for effect in UNDECIDED[number + 1 :])):
            assert explain(cause, *effects) == explain(*effects[::-1], cause) == alone[cause]
    thin = Consequence.OVERLAP, Consequence.MISSING_ACTIONS, Consequence.FEW_ROWS
    for known in ((LEAK, DEPENDENT), (DEPENDENT, *thin), (Consequence.DETERMINISTIC, *thin), thin):
        assert explain(*known) == alone[known[0]]


def test_no_guardrail_is_violated_by_bounds_that_do_not_hold():
    """With every action and few effective rows, the verdict is *not shown*, and no bound counts."""
    broken = SimpleNamespace(status="violated", subject="the guardrail refunds")
    bounds = Bounds(has_every_action=True, constraints=[broken])
    assert decide([], bounds).violated == ["the guardrail refunds"]
    imprecise = decide([fail(Consequence.FEW_ROWS)], bounds)
    assert (imprecise.name, imprecise.violated) == ("not shown", [])


def advice_of(text: str) -> tuple[float, float, float, int]:
    """Return the difference, the number of rows, the ratio and today's rows of an advice."""
    number = r"([\d\u202f]+)"
    pattern = (
        rf"difference is ([+−\d.]+)(?:, .*?candidates)?, 80 % .* with {number} rows .* is ([\d.]+) times the {number} r"
    )
    difference, *rows = re.search(pattern, text).groups()
    needed, times, today = (float(number.replace("\u202f", "")) for number in rows)
    return float(difference.replace("−", "-")), needed, times, int(today)


def test_the_number_of_required_rows_is_that_of_the_normal_test():
    policy = SoftmaxPolicy(0.4 * np.roll(THETA, 1, axis=1) + 0.1 * THETA)
    verdict, diagnosis, comparison = judge(policy, change_log(LOG, slice(0, 300)))
    assert verdict.verdict == "not shown"
    wide = replace(comparison, certificate=replace(comparison.certificate, bound=-2 * float(comparison.difference)))
    for part, advice in ((comparison, verdict.changes[0]), (wide, advise_rows(wide, diagnosis.rows)[0])):
        difference, needed, times, today = advice_of(advice)
        width = max(part.difference.standard_error, (part.certificate.bound - part.difference) / 1.644854)
        exact = 300 * ((1.644854 + 0.841621) * width / part.difference) ** 2
        assert exact <= needed <= 1.11 * exact
        assert (times, today) == (pytest.approx(needed / 300, rel=0.01), 300)
        assert difference == pytest.approx(float(part.difference), abs=0.05 * part.difference.standard_error)
    assert advice_of(advise_rows(comparison, diagnosis.rows, sign=-1)[0])[0] == -difference


def test_the_best_of_several_candidates_needs_more_rows():
    policy = SoftmaxPolicy(0.4 * np.roll(THETA, 1, axis=1) + 0.1 * THETA)
    _, _, comparison = judge(policy, change_log(LOG, slice(0, 300)))
    estimate = copy(comparison.difference)
    estimate.standard_error = abs(float(estimate)) / 2
    one = replace(comparison, certificate=None, difference=estimate)
    many = replace(one, settings=ComparisonSettings(choices=20))
    (difference, rows, *_), (shrunk, more, *_) = (advice_of(advise_rows(part, 300)[0]) for part in (one, many))
    assert difference == pytest.approx(float(estimate), abs=0.05 * estimate.standard_error)
    assert shrunk == pytest.approx(0.75 * estimate, abs=0.05 * estimate.standard_error)
    factor = ((2.807034 + 0.841621) / (1.644854 + 0.841621) / 0.75) ** 2
    assert more / rows == pytest.approx(factor, rel=0.12)
    alone = re.search(r"To certify this one candidate takes ([\d\u202f]+) new rows\.", advise_rows(many, 300)[0])
    assert int(alone[1].replace("\u202f", "")) / rows == pytest.approx(0.75**-2, rel=0.12)
    assert "this one candidate" not in advise_rows(one, 300)[0]


def test_the_lower_bound_is_the_certificate_of_the_negated_costs():
    negated = copy(MODEL)
    negated.coef_, negated.intercept_ = -MODEL.coef_, -MODEL.intercept_
    for model, estimate in ((None, "snips"), (MODEL, "dr")):
        comparison = compare_with_logging(BEST, LOG, ComparisonSettings(choices=3), cost_model=model)
        options = {"baseline": "logging", "choices": 6, "cost_model": None if model is None else negated}
        certificate = policy_certificate(BEST, LOG.with_cost(-LOG.cost), estimate, **options)
        assert comparison.lower_bound == pytest.approx(-certificate.bound)


def test_bounds_are_adjusted_for_the_number_of_candidates():
    single, many = (
        compare_with_logging(BEST, LOG, ComparisonSettings(choices=choices), cost_model=MODEL) for choices in (1, 10)
    )
    assert many.certificate.bound > single.certificate.bound
    assert many.lower_bound < single.lower_bound
    verdict = reach_verdict(many, diagnose(LOG, BEST, cost_model=MODEL), label="kl_dro", units=Units(is_reward=True))
    assert single.corrected["value"] == single.difference < many.corrected["value"] < many.certificate.bound
    assert many.difference.low == many.corrected["low"] < many.certificate.bound < many.corrected["high"] < 0
    decimals = 1 - math.floor(math.log10(many.difference.standard_error))
    percent = f"{100 * many.corrected['value'] / LOG.cost.mean():+.0f} %"
    amount = f"kl_dro changes reward by {-many.corrected['value']:+.{decimals}f} per row (95 % "
    assert verdict.sentence.startswith(f"Compared with the logging policy, {amount}")
    assert f"), or {percent} (+" in verdict.sentence
    assert "). With 95 % confidence, the change is at least +" in verdict.sentence
    adjusted = "(one-sided). All these numbers are adjusted for the choice among 10 candidates. It also stays better"
    assert adjusted in verdict.sentence


def test_the_change_in_per_cent_has_the_error_of_a_ratio():
    """The jackknife of the ratio of the difference to the logged mean is another route to its standard error."""
    comparison = compare_with_logging(BEST, LOG, ComparisonSettings("ips"))
    weight = np.exp(BEST.log_prob(LOG.X, LOG.Y)) / LOG.propensity
    z, c, n = (weight - 1) * LOG.cost, LOG.cost, len(LOG.cost)
    left_out = ((z.sum() - z) / np.abs(c.sum() - c))[:, None]
    error = np.sqrt((n - 1) * left_out.var())
    assert comparison.relative_error == pytest.approx(error, rel=0.02)
    relative, difference = comparison.relative, comparison.difference
    assert relative["value"] == pytest.approx(difference / abs(c.mean()))
    width = (difference.high - difference.low) / difference.standard_error
    assert relative["high"] - relative["low"] == pytest.approx(width * error, rel=0.02)


def test_the_best_of_many_estimates_is_corrected_for_its_excess():
    """The corrected best of k independent estimates of equal policies is too good in a third of the logs."""
    rng = np.random.default_rng(0)
    for k in (2, 5, 40):
        best = rng.normal(-9.0, 0.5, size=(4000, k)).min(axis=1)
        corrected = np.array([correct_for_choice(value, 0.5, k) for value in best])
        assert abs((corrected < -9.0).mean() - 1 / 3) < 0.03
    assert correct_for_choice(-0.1, 0.5, 5) == 0.0
    assert correct_for_choice(-0.1, 0.5, 1) == -0.1
    assert correct_for_choice(0.2, 0.5, 5) == 0.2


def test_a_policy_known_by_its_probabilities_of_the_logged_actions():
    policy = np.exp(BEST.log_prob(LOG.X, LOG.Y))
    verdict, _, comparison = judge(policy)
    assert verdict.verdict == "better"
    assert comparison.certificate.estimate == "snips"
    values, complete = (estimate_values(Evaluation.of(known, LOG, cost_model=MODEL)) for known in (policy, BEST))
    assert values["dr"] is None is values["dm"]
    assert complete["snips"] == pytest.approx(values["snips"])
    assert None not in complete.values()


def test_a_better_policy_has_the_share_of_missing_actions_that_would_undo_it():
    _, _, comparison = judge(BEST)
    certificate = comparison.certificate
    share, (low, high) = comparison.missing_share, certificate.costs
    assert certificate.bound + share * (high - low) == pytest.approx(0, abs=1e-12)
    assert comparison.as_dict()["missing_share"] == share
    sentence, cautions = describe_missing(comparison, LOG.size)
    assert cautions == []
    assert float(re.search(r"up to ([\d.]+) %", sentence)[1]) == pytest.approx(100 * share, abs=0.1)
    stated = replace(comparison, settings=replace(comparison.settings, full_support=True))
    assert describe_missing(stated, LOG.size) == ("", [])  # least_propensity settles it
    assert describe_missing(judge(WORST)[2], LOG.size) == ("", [])


def test_the_caution_names_the_missing_share_that_four_in_five_logs_show():
    _, _, comparison = judge(BEST)
    close = replace(comparison, certificate=replace(comparison.certificate, bound=-0.001))
    _, [caution] = describe_missing(close, LOG.size)
    shown = float(re.search(r"only from ([\d.]+) %", caution)[1]) / 100
    rng = np.random.default_rng(1)
    weight = np.exp(BEST.log_prob(LOG.X, LOG.Y)) / LOG.propensity
    logs = rng.choice(weight, (2000, LOG.size))
    lacking = logs * (rng.random(logs.shape) >= shown)  # each row of the policy is missing with this probability
    error = lacking.std(axis=1) / np.sqrt(LOG.size)
    detected = lacking.mean(axis=1) / weight.mean() + 1.645 * error < 1
    assert 0.7 < detected.mean() < 0.9


def test_dependent_rows_accuse_no_right_propensities():
    """Users have ten rows with the same features and action, so rows predict each other's actions."""
    log = change_log(draw_log(100, scale=1.5), np.random.default_rng(0).permutation(np.repeat(np.arange(100), 10)))
    log = log.with_cost(np.random.default_rng(1).normal(size=1000))
    verdict, diagnosis, _ = judge(BEST, log)
    assert "independence" in failed_keys(diagnosis)
    assert "audit_likelihood_ratio" in failed_keys(diagnosis)
    assert verdict.verdict == "the log cannot say"
    halved = judge(BEST, change_log(log, propensity=log.propensity / 2))[0]
    assert halved.verdict == "the log is wrong"
