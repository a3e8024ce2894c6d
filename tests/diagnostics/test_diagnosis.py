"""What a log says of a policy and of itself: every planted fault is named, and nothing else."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from drcrm import ActionLists, BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy
from drcrm.diagnostics.diagnosis import check_rows, diagnose
from drcrm.diagnostics.log_checks import check_drift, check_exploration, check_gain_drift
from drcrm.diagnostics.propensity_audit import (
    BETS,
    audit_propensities,
    cross_fit_propensities,
    log_evidence,
    required_rows,
)
from drcrm.diagnostics.verdict import VERDICTS, compare_with_logging, estimate_values, reach_verdict
from drcrm.diagnostics.weight_checks import fit_pareto_shape
from drcrm.errors import InputError

K = 4
THETA = np.random.default_rng(5).normal(size=(3, K))
BEST = SoftmaxPolicy(1.5 * THETA)
WORST = SoftmaxPolicy(-1.5 * THETA)


def contexts(rng, n: int) -> np.ndarray:
    return np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])


def drawn(n: int = 3000, sharp: float = 0.4, seed: int = 0) -> BanditLog:
    """One action of 4 by a softmax that leans elsewhere; a click is more likely of the largest score of THETA."""
    rng = np.random.default_rng(seed)
    X, logging = contexts(rng, n), SoftmaxPolicy(sharp * np.roll(THETA, 1, axis=1))
    Y = logging.sample(X, rng)
    clicked = rng.random(n) < 0.3 + 0.3 * (np.argmax(X @ THETA, axis=1) == Y)
    return BanditLog(X, Y, np.exp(logging.log_prob(X, Y)), -clicked.astype(float), n_actions=K)


LOG = drawn()
LIKELIHOOD = "propensity audit, likelihood ratio"
MODEL = CostModel(0.01).fit_log(drawn(seed=1))


def raised(diagnosis) -> dict[str, str]:
    """The levels of diagnostics that are not good."""
    return {each.name: each.level for each in diagnosis.diagnostics if each.level != "good"}


def judged(policy, log=LOG, **options):
    diagnosis = diagnose(log, policy, cost_model=MODEL, **options)
    comparison = compare_with_logging(policy, log, cost_model=MODEL, groups=diagnosis.units)
    return reach_verdict(comparison, diagnosis), diagnosis, comparison


def changed(log: BanditLog, rows=None, **arrays) -> BanditLog:
    """A log of some rows, with other arrays."""
    rows = slice(None) if rows is None else rows
    own = {"X": log.X, "Y": log.Y, "propensity": log.propensity, "cost": log.cost} | arrays
    return BanditLog(*(each[rows] for each in own.values()), n_actions=K)


def test_of_a_good_log_nothing_is_raised_and_the_verdict_is_the_truth():
    found, diagnosis, comparison = judged(BEST)
    assert raised(diagnosis) == {}
    assert diagnosis.units is None
    assert found.verdict == "better"
    least = -comparison.certificate.bound
    assert found.sentence == (
        f"the policy is better than what logged: its cost is {-comparison.difference:.4g} less a row, and at least "
        f"{least:.4g} less with 95% confidence."
    )
    found, _, comparison = judged(WORST)
    assert found.verdict == "worse"
    assert comparison.least > 0
    assert judged(LOG.propensity)[0].verdict == "not shown"


@pytest.mark.parametrize(
    ("factor", "said"),
    [(2, r"too large by about 2 ×"), (0.5, r"too small by about 2 ×"), (0.7, "too small by about 1.4")],
)
def test_propensities_wrong_by_a_factor_make_the_log_wrong(factor, said):
    wrong = changed(LOG, propensity=np.minimum(LOG.propensity * factor, 1))
    found, diagnosis, _ = judged(BEST, wrong)
    assert found.verdict == "the log is wrong"
    assert re.search(said, found.sentence)
    assert any(name.startswith("propensity audit") for name in diagnosis.failed)


def test_propensities_of_one_action_that_are_wrong_are_named_with_it():
    wrong = changed(LOG, propensity=np.where(LOG.Y == 2, LOG.propensity / 2, LOG.propensity))
    found, diagnosis, _ = judged(BEST, wrong, names=["a", "b", "<c>", "d"])
    assert "for action <c>, is" in found.sentence
    assert any("rows of action <c>, is" in each.sentence for each in diagnosis.diagnostics)


@pytest.mark.parametrize("sharp", [0.4, 1.5])
def test_propensities_of_other_rows_are_out_of_step(sharp):
    log = drawn(sharp=sharp)
    found, diagnosis, _ = judged(BEST, changed(log, propensity=np.roll(log.propensity, 1)))
    assert found.verdict == "the log is wrong"
    assert LIKELIHOOD in diagnosis.failed
    assert LIKELIHOOD not in raised(diagnose(log))


def test_actions_that_are_never_logged_are_where_the_log_cannot_say():
    rng = np.random.default_rng(0)
    X = contexts(rng, 3000)
    mean = SoftmaxPolicy(0.4 * THETA).marginals(X)
    mean[np.arange(3000), np.argmax(X @ THETA, axis=1)] *= X[:, 0] < 0
    mean /= mean.sum(axis=1, keepdims=True)
    Y = np.argmax(np.cumsum(mean, axis=1) > rng.random(3000)[:, None], axis=1)
    log = BanditLog(X, Y, mean[np.arange(3000), Y], -rng.random(3000), n_actions=K)
    found, diagnosis, _ = judged(BEST, log)
    assert found.verdict == "the log cannot say"
    assert raised(diagnosis)["mean weight"] == "fail"
    assert found.changes[-1] == "Or compare a policy that is nearer to the one that logged."
    known = SoftmaxPolicy(np.array([[0, 0, 0, 0], [0, 0, 0, 0], [9.0, 0, 0, 0]]))
    found, diagnosis, _ = judged(SoftmaxPolicy(-known.coef), drawn(), logging_policy=known, names=list("abcd"))
    assert raised(diagnosis)["mass without support"] == "fail"
    assert re.match(r"Explore actions .*: [bcd] \(3\d\.\d% of the policy's choices\), [bcd]", found.changes[0])


@pytest.mark.parametrize(("rows", "level"), [(19_000, "fail"), (21_000, "caution")])
def test_no_share_of_many_effective_rows_is_too_small(rows, level):
    """One of 50 actions, each as likely: 2 % of the rows, whether they are 380 or 420."""
    log = BanditLog(np.ones((rows, 1)), np.arange(rows) % 50, np.full(rows, 0.02), -(np.arange(rows) % 3), n_actions=50)
    always = SoftmaxPolicy(np.where(np.arange(50) == 7, 50.0, 0.0)[None])
    found = {each.name: each for each in diagnose(log, always).diagnostics}["effective sample size"]
    assert found.value == pytest.approx(0.02)
    assert found.level == level


def test_a_policy_far_from_the_log_rests_on_few_rows():
    log = drawn(sharp=2.5)
    found, diagnosis, _ = judged(SoftmaxPolicy(6 * THETA), log)
    assert raised(diagnosis)["effective sample size"] == "fail"
    assert found.verdict == "the log cannot say"
    share = next(each for each in diagnosis.diagnostics if each.name == "effective sample size").value
    weight = np.exp(SoftmaxPolicy(6 * THETA).log_prob(log.X, log.Y)) / log.propensity
    assert share == pytest.approx(weight.sum() ** 2 / (weight**2).sum() / 3000)


def test_drift_is_named_and_is_no_bar():
    cost = LOG.cost - 0.2 * (np.arange(3000) >= 1500)
    found, diagnosis, _ = judged(BEST, changed(LOG, cost=cost))
    assert raised(diagnosis) == {"drift of costs": "caution"}
    assert found.verdict == "better"
    assert found.changes == []
    assert re.fullmatch(r"Mind that the mean cost is -0.\d+ in the first half .*", *found.cautions)
    order = np.argsort(LOG.Y + 3 * np.random.default_rng(0).random(3000), kind="stable")
    assert "drift of actions" in raised(diagnose(changed(LOG, order)))
    shuffled = diagnose(changed(LOG, np.random.default_rng(1).permutation(3000)))
    assert raised(shuffled) == {}


def test_rows_that_are_told_again_count_once():
    once = changed(LOG, slice(0, 600))
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(600), 3))
    found, diagnosis, comparison = judged(BEST, changed(LOG, rows))
    assert raised(diagnosis)["duplicated rows"] == "caution"
    assert "1200 of 1800 rows, 66.7%, repeat another row" in " ".join(found.cautions)
    alone = compare_with_logging(BEST, once, cost_model=MODEL)
    assert comparison.difference.interval == pytest.approx(alone.difference.interval)
    assert comparison.certificate.bound == pytest.approx(alone.certificate.bound)


def test_copies_do_not_vouch_for_each_other_in_the_audit():
    """A model of the copy of a row predicts its action better than right propensities do."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, Y = rng.normal(size=(300, 10)), rng.integers(0, K, 300)
        once = BanditLog(X, Y, np.full(300, 1 / K), rng.random(300), n_actions=K)
        log = changed(once, rng.permutation(np.repeat(np.arange(300), 4)))
        assert diagnose(log).failed == ()
        _, copies = check_rows(log)
        alone = log_evidence(log, cross_fit_propensities(log), log.log_propensity, copies)
        assert log_evidence(log, cross_fit_propensities(log, copies), log.log_propensity, copies) < alone


def test_equal_contexts_are_no_repeated_rows_where_actions_are_drawn_anew():
    rng = np.random.default_rng(0)
    X = np.eye(3)[rng.integers(0, 3, 900)]
    for p in (0.25, 1.0):  # by a certain policy every row is the same, and shows nothing
        Y = rng.integers(0, 4, 900) if p < 1 else np.zeros(900, int)
        log = BanditLog(X, Y, np.full(900, p), -(rng.random(900) < 0.01).astype(float), n_actions=4)
        (found, _), units = check_rows(log)
        assert (found.level, units) == ("good", None)
        assert found.value > 0.95
    fixed = BanditLog(X, X.argmax(axis=1), np.full(900, 0.25), np.zeros(900), n_actions=4)
    assert check_rows(fixed)[0][0].level == "caution"
    shared = BanditLog(np.eye(3), log.Y, log.propensity, log.cost, X.argmax(axis=1), n_actions=4)
    assert check_rows(shared)[0][0].value == found.value


def test_groups_are_the_units():
    groups = np.repeat(np.arange(1000), 3)
    _, diagnosis, comparison = judged(BEST, groups=groups)
    np.testing.assert_array_equal(diagnosis.units, groups)
    assert (comparison.difference.n, comparison.difference.by) == (1000, "group")
    assert comparison.certificate.by == "group"


def test_rows_needed_are_those_after_which_it_is_shown():
    log, nearby = changed(LOG, slice(0, 300)), SoftmaxPolicy(0.4 * np.roll(THETA, 1, axis=1) + 0.1 * THETA)
    found, _, comparison = judged(nearby, log)
    assert found.verdict == "not shown"
    needed, times = re.search(r"More rows: ([\d ]+) to judge by, ([\d.]+) times as many", *found.changes).groups()
    needed = int(needed.replace(" ", ""))
    t = 1.649966
    exact = 300 * (t * comparison.difference.standard_error / comparison.difference) ** 2
    assert exact <= needed <= 1.11 * exact
    assert float(times) == pytest.approx(exact / 300, rel=0.01)
    assert "differs by" in found.sentence


def test_of_several_choices_each_has_its_level():
    one, many = (compare_with_logging(BEST, LOG, cost_model=MODEL, choices=each) for each in (1, 10))
    assert many.certificate.bound > one.certificate.bound
    assert many.least < one.least
    said = reach_verdict(many, diagnose(LOG, BEST, cost_model=MODEL), label="kl_dro", reward=True)
    assert "its reward is" in said.sentence
    assert "more with 95% confidence, 10 choices counted." in said.sentence


def test_imitated_propensities_are_not_tested():
    found, diagnosis, _ = judged(BEST, changed(LOG, propensity=LOG.propensity / 2), imitated=True)
    assert raised(diagnosis)["propensity audit"] == "caution"
    assert found.verdict != "the log is wrong"


def test_a_policy_by_its_probabilities_of_the_logged_actions():
    policy = np.exp(BEST.log_prob(LOG.X, LOG.Y))
    found, diagnosis, comparison = judged(policy)
    assert found.verdict == "better"
    assert comparison.certificate.estimate == "snips"
    assert "mass without support" not in [each.name for each in diagnosis.diagnostics]
    assert [each["policy"] for each in diagnosis.actions] == [None] * 4
    values = estimate_values(policy, LOG, cost_model=MODEL)
    assert values["dr"] is None is values["dm"]
    whole = estimate_values(BEST, LOG, cost_model=MODEL)
    assert whole["snips"] == pytest.approx(values["snips"])
    assert None not in whole.values()


def test_labels_and_lists_are_diagnosed_too():
    rng = np.random.default_rng(0)
    logging, policy = (ExponentialPolicy(each) for each in rng.normal(size=(2, 3, 2)) / 2)
    X = contexts(rng, 1000)
    Y = logging.sample(X, rng)
    log = BanditLog(X, Y, np.exp(logging.log_prob(X, Y)), -Y[:, 0].astype(float))
    diagnosis = diagnose(log, policy, names=["left", "right"])
    assert diagnosis.failed == ()
    assert [each["action"] for each in diagnosis.actions] == ["left", "right"]
    wrong = BanditLog(X, Y, log.propensity / 2, log.cost)
    assert "propensity audit, arithmetic mean" in diagnose(wrong).failed
    lists = ActionLists(rng.normal(size=(3000, 2)), np.arange(0, 3001, 3))
    logging = SoftmaxPolicy(np.array([0.5, -0.5]))
    A = logging.sample(lists, rng)
    log = BanditLog(lists, A, np.exp(logging.log_prob(lists, A)), -rng.random(1000))
    diagnosis = diagnose(log, SoftmaxPolicy(np.array([0.8, 0])))
    assert (diagnosis.failed, diagnosis.actions) == ((), [])
    stepped = BanditLog(lists, A, np.roll(log.propensity, 1), log.cost)
    assert diagnose(stepped).failed == (LIKELIHOOD,)


def test_everything_goes_into_json_and_slices_are_told_apart():
    slices = np.where(np.arange(3000) % 3, "<b>", "ü")
    _, diagnosis, comparison = judged(BEST, slices=slices, rows=np.arange(3000) + 7, names=["$a$", "b", "c", "d"])
    answer = json.loads(json.dumps(diagnosis.as_dict() | comparison.as_dict(), allow_nan=False))
    assert [(each["slice"], each["rows"]) for each in answer["slices"]] == [("<b>", 2000), ("ü", 1000)]
    assert all(each["low"] < each["policy"] < each["high"] for each in answer["slices"])
    assert answer["actions"][0]["action"] == "$a$"
    assert sum(each["policy"] for each in answer["actions"]) == pytest.approx(1)
    assert sum(answer["weights"]["histogram"]["rows"]) == sum(answer["overlap"]["logged"]) == 3000
    assert sum(answer["weights"]["histogram"]["share"]) == pytest.approx(1)
    assert answer["largest_rows"][0]["row"] >= 7
    assert sum(each["rows"] for each in answer["calibration"]) == 3000
    assert {"name", "value", "low", "high", "threshold", "level", "sentence", "source"} == {*answer["diagnostics"][0]}
    assert answer["certificate"]["bound"] > answer["certificate"]["value"]


def test_counts_are_rows():
    few = changed(LOG, slice(0, 400))
    count = np.random.default_rng(0).integers(0, 3, 400)
    counted = few.replace(count=count)
    spelt = changed(few, np.repeat(np.arange(400), count))
    modelled = BEST.marginals(few.X)
    for policy in (None, BEST):
        one = diagnose(counted, policy, cost_model=MODEL, modelled=modelled)
        two = diagnose(spelt, policy, cost_model=MODEL, modelled=BEST.marginals(spelt.X))
        # order of rows, and which are independent
        ordered = "duplicated", "independence", "drift", "calibration", "skewness"
        values = [
            {each.name: each.value for each in found.diagnostics if not each.name.startswith(ordered)}
            for found in (one, two)
        ]
        assert values[0] == pytest.approx(values[1], nan_ok=True)


@pytest.mark.parametrize("n", [1, 2, 3, 30])
def test_a_tiny_log_says_little(n):
    log = changed(LOG, slice(0, n))
    found, diagnosis, _ = judged(BEST, log)
    assert found.verdict in ("the log cannot say", "not shown", "better")
    assert "propensity audit" in raised(diagnosis)
    json.dumps(diagnosis.as_dict(), allow_nan=False)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_unit_of_the_costs_changes_no_level(unit):
    log = changed(LOG, cost=LOG.cost * unit)
    assert raised(diagnose(log, BEST)) == raised(diagnose(LOG, BEST))


def test_costs_that_are_all_equal_and_actions_that_are_all_the_same():
    log = BanditLog(LOG.X, np.zeros(3000, int), np.ones(3000), np.zeros(3000), n_actions=2)
    diagnosis = diagnose(log, np.tile([1.0, 0], (3000, 1)))
    assert diagnosis.failed == ("exploration",)
    assert "R² of the cost model" not in [each.name for each in diagnosis.diagnostics]
    never = diagnose(log, np.tile([0.0, 1], (3000, 1)))
    assert "effective sample size" in never.failed
    comparison = compare_with_logging(np.tile([0.0, 1], (3000, 1)), log)
    assert "no row of the log has a weight" in comparison.refused
    assert reach_verdict(comparison, never).verdict == "the log cannot say"
    assert comparison.as_dict()["certificate"] == {"refused": comparison.refused}


def test_the_model_of_logged_actions_is_of_other_folds_and_groups_stay_whole():
    """Labels that tell nothing but their own group: a model that had seen it would know them."""
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(40), 5, axis=0)
    Y = np.repeat(rng.integers(0, 2, 40), 5)
    log = BanditLog(X, Y, np.full(200, 0.5), np.zeros(200), n_actions=2)
    own = np.arange(200), Y
    grouped, alone = cross_fit_propensities(log, np.repeat(np.arange(40), 5)), cross_fit_propensities(log)
    assert grouped[own].max() < 0.7 < np.median(alone[own])
    np.testing.assert_allclose(grouped.sum(axis=1), 1)


def test_true_propensities_fail_their_audit_seldom():
    """Of 100 logs of each kind none, at a level of 10⁻⁴ each; q is the true π0 or half as sharp."""
    for sharp, of_model in ((0.4, 1), (1.5, 1), (1.5, 0.5)):
        for seed in range(100):
            log = drawn(400, sharp, seed)
            modelled = SoftmaxPolicy(of_model * sharp * np.roll(THETA, 1, axis=1)).marginals(log.X)
            found, _ = audit_propensities(log, modelled)
            assert [each.name for each in found if each.level == "fail"] == []


def wrong_in_kind(propensity: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "uniform": np.full(len(propensity), 1 / K),
        "complement": 1 - propensity,
        "constant": np.full(len(propensity), propensity.mean()),
        "other rows": np.roll(propensity, 1),
        "halved": propensity / 2,
        "doubled": np.minimum(2 * propensity, 1),
    }


def test_every_kind_of_wrong_propensities_fails_the_audit_of_1000_rows():
    for seed in range(5):
        log = drawn(1000, 1.0, seed)
        for kind, propensity in wrong_in_kind(log.propensity).items():
            assert diagnose(changed(log, propensity=propensity)).failed, kind


def test_the_evidence_against_right_propensities_exceeds_its_bound_seldom():
    """By Ville's inequality 10 with probability 1/10 at most: of 300 logs in 45 with probability 10⁻⁴."""
    logs = [drawn(100, 0.7, seed) for seed in range(300)]
    against = [log_evidence(log, cross_fit_propensities(log), log.log_propensity, None) for log in logs]
    assert np.sum(np.array(against) > np.log(10)) < 45


def test_the_evidence_is_a_product_of_bets():
    """Of all units, averaged over bets and models; it is infinite where the propensities are."""
    log = drawn(60)
    modelled = BEST.marginals(log.X)
    sharper = modelled**3 / (modelled**3).sum(axis=1, keepdims=True)
    ratios = [each[np.arange(60), log.Y] / log.propensity for each in (modelled, sharper)]
    capital = [np.prod(1 - bet + bet * ratio) for ratio in ratios for bet in BETS]
    assert log_evidence(log, modelled, log.log_propensity, None) == pytest.approx(np.log(np.mean(capital)))
    pairs = [np.bincount(np.arange(60) // 2, ratio) / 2 for ratio in ratios]
    capital = [np.prod(1 - bet + bet * ratio) for ratio in pairs for bet in BETS]
    found = log_evidence(log, modelled, log.log_propensity, np.arange(60) // 2)
    assert found == pytest.approx(np.log(np.mean(capital)))
    assert log_evidence(log, modelled, np.full(60, -1e6), None) == np.inf


def test_small_logs_and_logs_without_power_say_that_propensities_could_not_be_tested():
    log = changed(drawn(3000), slice(0, 75))
    uniform = changed(log, propensity=np.full(75, 1 / K))
    found, diagnosis, _ = judged(BEST, uniform)
    [untested] = [each for each in diagnosis.diagnostics if each.name == "propensity audit"]
    assert untested.level == "caution"
    assert untested.sentence.startswith("the propensities could not be tested: 75 rows are too few, about")
    assert found.verdict != "better" or found.sentence.endswith("which could not be tested.")
    needed = required_rows(log)
    assert untested.sentence.endswith(f"about {needed} would do")
    rng = np.random.default_rng(0)
    X, Y = contexts(rng, needed), rng.integers(0, K, needed)
    enough = BanditLog(X, Y, np.full(needed, 1 / K), rng.random(needed), n_actions=K)
    assert not any(name.startswith("propensity audit") for name in raised(diagnose(enough)))
    pairs = diagnose(enough, groups=np.arange(needed) // 2)
    assert "propensity audit" in raised(pairs)
    wrong = changed(log, propensity=log.propensity / 2)
    assert diagnose(wrong).failed
    assert "propensity audit" not in raised(diagnose(wrong))


def test_hidden_rules_are_accused_as_seldom_as_fallbacks_are_rare():
    """A twentieth of the contexts have one action for sure, for reasons that no feature has."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, Y = contexts(rng, 1000), rng.integers(0, K - 1, 1000)
        is_forced = rng.random(1000) < 0.05
        propensity = np.where(is_forced, 1, 1 / (K - 1))
        log = BanditLog(X, np.where(is_forced, K - 1, Y), propensity, rng.random(1000), n_actions=K)
        assert diagnose(log).failed == ()


def test_the_shape_of_a_pareto_tail():
    """Of exact quantiles of the generalised Pareto law; shapes are drawn to ½ by ten observations."""
    u = (np.arange(2000) + 0.5) / 2000
    for k in (0.2, 0.7, 1.2):
        values = (u**-k - 1) / k
        assert fit_pareto_shape(values) == pytest.approx((2000 * k + 5) / 2010, abs=0.03)
        assert fit_pareto_shape(1e6 * values) == pytest.approx(fit_pareto_shape(values), abs=1e-9)
    assert np.isnan(fit_pareto_shape(np.ones(100)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": np.ones(3)}, r"policy has shape \(3,\), expected"),
        ({"groups": np.ones(2)}, r"groups has shape \(2,\), expected \(3000,\)"),
        ({"slices": ["a"]}, r"slices has shape \(1,\), expected \(3000,\)"),
        ({"rows": [1]}, r"rows has shape \(1,\), expected \(3000,\)"),
        ({"modelled": np.ones((2, 2))}, r"modelled has shape \(2, 2\), expected \(3000, 4\)"),
        ({"names": ["a"]}, "names has 1 entries, expected 4"),
        ({"log": SimpleNamespace()}, "log is of type SimpleNamespace"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, message):
    with pytest.raises(InputError, match=message):
        diagnose(**{"log": LOG, "policy": BEST} | arguments)


def test_a_verdict_is_one_of_five():
    assert judged(BEST)[0].as_dict().keys() == {"verdict", "sentence", "changes", "cautions"}
    assert {judged(BEST)[0].verdict, judged(WORST)[0].verdict} < {*VERDICTS}


def test_nothing_changes_a_verdict_that_is_shown():
    """Neither after better nor after worse; where propensities are wrong, their other checks are no advice."""
    halved = changed(LOG, propensity=LOG.propensity / 2)
    assert [judged(policy)[0].changes for policy in (BEST, WORST)] == [[], []]
    wrong, diagnosis, _ = judged(BEST, halved)
    assert len(diagnosis.failed) > 1
    assert [change.split()[0] for change in wrong.changes] == ["Correct", "Or"]
    assert judged(LOG.propensity)[0].changes == [
        "Another policy: this one does not look better, so more rows would not help."
    ]


@pytest.mark.parametrize(("certain", "level"), [(0.0, "good"), (0.4, "good"), (0.6, "caution"), (1.0, "fail")])
def test_a_log_without_exploration_is_named(certain, level):
    log = drawn(400)
    propensity = np.where(np.arange(400) < 400 * certain, 1.0, log.propensity)
    [found] = [each for each in diagnose(log.replace(propensity=propensity)).diagnostics if each.name == "exploration"]
    assert (found.value, found.level) == (pytest.approx(certain), level)


@pytest.mark.parametrize(
    ("propensity", "level"),
    [
        (np.repeat([0.99, 0.5], [150, 50]), "caution"),  # a quarter of the rows is randomised
        (np.repeat([0.995, 0.9], [150, 50]), "fail"),
        (np.repeat([0.97, 0.03], [194, 6]), "good"),  # a holdout of 3 %, drawn at random
        (np.repeat([0.995, 0.8], [140, 60]), "caution"),
    ],
)
def test_estimated_propensities_near_one_are_of_a_rule(propensity, level):
    log = BanditLog(np.ones((200, 1)), np.zeros(200, int), propensity, -np.ones(200), n_actions=2)
    assert (check_exploration(log, imitated=True).level, check_exploration(log).level) == (level, "good")


def test_a_cause_is_blamed_before_its_effects():
    """Actions that are hardly logged before the few rows that count; and a rule before both."""
    known = SoftmaxPolicy(2.5 * np.roll(THETA, 1, axis=1))
    found, diagnosis, _ = judged(SoftmaxPolicy(6 * THETA), drawn(sharp=2.5), logging_policy=known)
    assert {"mass without support", "effective sample size"} <= {*diagnosis.failed}
    assert "actions that the logging policy hardly takes" in found.sentence
    certain = changed(LOG, propensity=np.ones(3000))
    found, diagnosis, _ = judged(0.01 * np.exp(BEST.log_prob(LOG.X, LOG.Y)), certain, imitated=True)
    assert {"exploration", "mean weight"} <= {*diagnosis.failed}
    assert found.sentence.startswith(
        "What the policy is worth is open: 100.0% of the rows have an estimated propensity"
    )
    assert found.changes == ["Randomise some decisions, for example 5%, and log their propensities."]


def test_a_drift_is_a_caution_if_its_interval_excludes_zero():
    """Of drifts from none to clear ones; and of one unit, which has no interval, it is good."""
    levels = set()
    is_best, is_last = (LOG.X @ THETA).argmax(axis=1) == LOG.Y, np.arange(3000) >= 1500
    for shift in np.linspace(0, 0.8, 21):
        log = changed(LOG, cost=LOG.cost - shift * is_last * is_best)
        of_costs = check_drift(log)[0]
        for found in (of_costs, check_gain_drift(log, np.exp(BEST.log_prob(LOG.X, LOG.Y)) / LOG.propensity)):
            assert (found.level == "good") == (found.low <= 0 <= found.high)
            assert "99.99% interval" in found.threshold
            levels.add((found.name, found.level == "good"))
    assert len(levels) == 4
    assert check_drift(LOG, units=np.zeros(3000, int))[0].level == "good"


def odd_policies(X: np.ndarray, rng) -> dict[str, np.ndarray]:
    """π0 that no softmax of these contexts follows, each (n, 5)."""
    n, x = len(X), X[:, 0]
    scores = np.column_stack([x * X[:, 1], X[:, 1] ** 2 - 1, np.sin(3 * x), np.cos(2 * x) - 0.5, -X[:, 1]])
    greedy, sharp = np.eye(5)[scores.argmax(axis=1)], np.exp(15 * (scores - scores.max(axis=1, keepdims=True)))
    some = np.column_stack([np.ones((n, 4)), x > 0])
    return {
        "uniform": np.full((n, 5), 0.2),
        "greedy": greedy,
        "nearly greedy": 0.99 * greedy + 0.002,
        "greedy at times": 0.7 * greedy + 0.06,
        "sharp": sharp / sharp.sum(axis=1, keepdims=True),
        "not all actions": some / some.sum(axis=1, keepdims=True),
        "by what is not logged": 0.8 * np.eye(5)[rng.integers(0, 5, n)] + 0.04,
        "changed half way": np.where(np.arange(n)[:, None] < n / 2, 0.2, 0.9 * greedy + 0.02),
    }


def test_right_propensities_are_not_accused_where_no_model_follows_them():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = contexts(rng, 1000)
        for name, mean in odd_policies(X, rng).items():
            Y = np.argmax(np.cumsum(mean, axis=1) > rng.random(1000)[:, None], axis=1)
            log = BanditLog(X, Y, mean[np.arange(1000), Y], -rng.random(1000), n_actions=5)
            assert set(diagnose(log).failed) <= ({"exploration"} if name == "greedy" else set()), name


def turned(n: int, seed: int) -> BanditLog:
    """Clicks that are of the best action in the first half of the rows, and of the worst in the last."""
    log = drawn(n, seed=seed)
    clicked = np.random.default_rng(seed + 100).random(n) < 0.2 + 0.6 * (
        np.where(np.arange(n) < n / 2, np.argmax(log.X @ THETA, axis=1), np.argmin(log.X @ THETA, axis=1)) == log.Y
    )
    return log.with_cost(-clicked.astype(float))


def test_a_gain_that_turns_into_a_loss_is_named_and_fails():
    [found] = [each for each in diagnose(turned(6000, 1), BEST).diagnostics if each.name == "drift of the gain"]
    assert found.level == "fail"
    assert "what it gains drifts" in found.sentence
    levels = [
        [each.level for each in diagnose(drawn(2000, seed=seed), BEST).diagnostics if each.name == "drift of the gain"]
        for seed in range(5)
    ]
    assert levels == [["good"]] * 5


def test_the_drift_of_the_gain_is_the_difference_of_the_halves():
    """The unweighted mean of w (c − v) / w̄ + v − c in each half, v the self-normalised estimate."""
    log = drawn(500)
    weight = np.exp(BEST.log_prob(log.X, log.Y)) / log.propensity
    ratio = weight @ log.cost / weight.sum()
    gain = ratio + weight * (log.cost - ratio) / weight.mean() - log.cost
    [found] = [each for each in diagnose(log, BEST).diagnostics if each.name == "drift of the gain"]
    assert found.value == pytest.approx(gain[250:].mean() - gain[:250].mean())


def test_a_claim_by_imitated_propensities_carries_its_condition():
    diagnosis = diagnose(LOG, BEST, cost_model=MODEL, imitated=True)
    comparison = compare_with_logging(BEST, LOG, cost_model=MODEL)
    said = reach_verdict(comparison, diagnosis)
    assert (said.verdict, said.sentence.endswith("which could not be tested.")) == ("better", True)
    assert "could not be tested" not in reach_verdict(comparison, diagnose(LOG, BEST, cost_model=MODEL)).sentence


def tails(cost: np.ndarray, seed: int = 0):
    """Return the diagnostics of an estimate's tails, for costs of actions that a fair coin chose."""
    rng = np.random.default_rng(seed)
    log = BanditLog(np.ones((len(cost), 1)), rng.integers(0, 2, len(cost)), np.full(len(cost), 0.5), cost, n_actions=2)
    named = {each.name: each for each in diagnose(log, np.where(log.Y == 0, 0.7, 0.3)).diagnostics}
    names = "skewness of the estimate", "Pareto k̂ of weighted costs", "largest share of weighted costs"
    return [named.get(name) for name in names]


def test_rare_large_costs_and_rewards_are_named():
    rng = np.random.default_rng(1)
    losses = (rng.random(1000) < 0.03) * np.exp(2 * rng.normal(size=1000))
    for sign, named in ((1, "large costs carry it"), (-1, "large rewards carry it")):
        skewness, shape, _ = tails(sign * losses)
        assert skewness.level == shape.level == "caution"
        assert named in skewness.sentence


def test_one_row_that_is_most_of_the_estimate_fails():
    cost = np.zeros(400)
    cost[7] = 1e6
    cost[8:30] = 1.0
    assert tails(cost)[2].level == "fail"


@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
def test_clicks_and_normal_costs_have_light_tails_in_any_unit(unit):
    rng = np.random.default_rng(2)
    for cost in (-(rng.random(1000) < 0.05).astype(float), rng.normal(size=1000)):
        skewness, shape, share = tails(unit * cost)
        assert [skewness.level, shape.level, share.level] == ["good"] * 3
