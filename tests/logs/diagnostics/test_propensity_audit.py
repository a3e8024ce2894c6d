"""The propensity audit: wrong propensities fail, correct ones do not, and too small logs are not tested."""

import numpy as np
import pytest
from fixtures.click_logs import (
    BEST,
    LOG,
    THETA,
    K,
    change_log,
    draw_actions,
    draw_contexts,
    draw_dropped_log,
    draw_log,
    failed_keys,
    find_check,
    judge,
    levels,
    with_columns,
)
from scipy.special import softmax

from drcrm import ActionLists, BanditLog, ExponentialPolicy, SoftmaxPolicy
from drcrm.logs.diagnostics.diagnosis import diagnose
from drcrm.logs.diagnostics.propensity_audit import (
    BETS,
    audit_propensities,
    boost_model,
    cross_fit_propensities,
    log_evidence,
    required_rows,
)
from drcrm.logs.estimated_propensities import boost_propensities

LIKELIHOOD = "propensity audit, likelihood ratio"


@pytest.mark.parametrize(
    ("factor", "direction"),
    [(2, "too large by a factor of about 2"), (0.5, "too small by a factor of about 2"), (0.7, "1.4")],
)
def test_propensities_wrong_by_a_factor(factor, direction):
    verdict, diagnosis, _ = judge(BEST, change_log(LOG, propensity=np.minimum(LOG.propensity * factor, 1)))
    assert verdict.verdict == "the log is wrong"
    assert direction in verdict.sentence
    assert [change.split()[0] for change in verdict.changes] == ["Correct", "Or"]
    assert any(key.startswith("audit") for key in failed_keys(diagnosis))


@pytest.mark.usefixtures("shipped_sizes")
def test_every_kind_of_wrong_propensities_fails_with_1000_rows():
    log = draw_log(1000, 1.0, 0)
    p = log.propensity
    kinds = {
        "uniform": np.full(1000, 1 / K),
        "complement": 1 - p,
        "constant": np.full(1000, p.mean()),
        "other rows": np.roll(p, 1),
        "halved": p / 2,
        "doubled": np.minimum(2 * p, 1),
    }
    modelled = cross_fit_propensities(log)
    boosted = boost_model(log, modelled)
    for kind, propensity in kinds.items():
        tests = audit_propensities(change_log(log, propensity=propensity), modelled, boosted=boosted)
        failed = [test.name for test in tests if test.level == "fail"]
        assert failed
        assert kind != "other rows" or LIKELIHOOD in failed


def test_evidence_is_a_product_of_bets():
    """The capital is averaged over bets and models. A unit bets on its mean ratio."""
    log = draw_log(60)
    modelled = BEST.marginals(log.X)
    sharper = modelled**3 / (modelled**3).sum(axis=1, keepdims=True)
    ratios = [values[np.arange(60), log.Y] / log.propensity for values in (modelled, sharper)]
    pairs = np.arange(60) // 2
    for units, unit_ratios in ((None, ratios), (pairs, [np.bincount(pairs, ratio) / 2 for ratio in ratios])):
        capital = [np.prod(1 - bet + bet * ratio) for ratio in unit_ratios for bet in BETS]
        evidence = log_evidence(log.with_groups(units), [modelled, sharper], log.log_propensity)
        assert evidence == pytest.approx(np.log(np.mean(capital)))
    assert log_evidence(log, [modelled], np.full(60, -1e6)) == np.inf


def test_small_logs_are_reported_as_untested():
    log = change_log(draw_log(3000), slice(0, 75))
    verdict, diagnosis, _ = judge(BEST, change_log(log, propensity=np.full(75, 1 / K)))
    untested, needed = find_check(diagnosis, "propensity audit"), required_rows(log)
    assert untested.level == "caution"
    assert f"could not be tested: about {needed} rows are needed, got 75" in untested.sentence
    assert verdict.verdict != "better" or "which could not be tested." in verdict.sentence
    rng = np.random.default_rng(0)
    X, Y = draw_contexts(rng, needed), rng.integers(0, K, needed)
    enough = BanditLog(X, Y, np.full(needed, 1 / K), rng.random(needed), n_actions=K)
    assert not any(name.startswith("propensity audit") for name in levels(diagnose(enough)))


def test_estimated_propensities_are_not_tested():
    log = change_log(LOG, slice(0, 1500))
    halved = change_log(log, slice(0, 800), propensity=log.propensity / 2)
    verdict, diagnosis, _ = judge(BEST, halved.replace(imitated_propensities=True))
    assert levels(diagnosis)["propensity audit"] == "caution"
    assert verdict.verdict != "the log is wrong"
    verdict, _, _ = judge(BEST, log.replace(imitated_propensities=True))
    assert (verdict.verdict, "which could not be tested." in verdict.sentence) == ("better", True)


def test_cross_fitting_keeps_groups_in_one_fold():
    """The labels are noise of their group: only a model that has seen a row of the group knows them."""
    rng = np.random.default_rng(0)
    X, Y = np.repeat(np.eye(40), 5, axis=0), np.repeat(rng.integers(0, 2, 40), 5)
    log = BanditLog(X, Y, np.full(200, 0.5), np.zeros(200), n_actions=2)
    grouped, ungrouped = (
        cross_fit_propensities(log.with_groups(groups)) for groups in (np.repeat(np.arange(40), 5), None)
    )
    logged = np.arange(200), Y
    assert grouped[logged].max() < 0.7 < np.median(ungrouped[logged])
    np.testing.assert_allclose(grouped.sum(axis=1), 1)


@pytest.mark.parametrize(("p", "n_actions", "categories"), [(0.25, 4, 60), (0.33, 3, 4), (0.1, 10, 5)])
def test_uniform_propensities_are_tested_against_shares(p, n_actions, categories):
    """Many categories and rounded propensities raise no doubt; an action that is drawn twice as often as others does.

    With many categories, a model of the logged actions has nothing to learn and differs from p by chance.
    """
    rng = np.random.default_rng(0)
    X = np.column_stack([np.eye(categories)[rng.integers(0, categories, 600)], np.ones(600)])
    shares = np.full(n_actions, 1.0)
    for weight in (1, 3):
        shares[0] = weight
        Y = rng.choice(n_actions, 600, p=shares / shares.sum())
        log = BanditLog(X, Y, np.full(600, p), np.zeros(600), n_actions=n_actions)
        tests = audit_propensities(log, cross_fit_propensities(log))
        tested = {test.name: test.level for test in tests if test.value is not None}
        assert set(tested) == {"propensity audit, mean ratio", LIKELIHOOD}
        assert set(tested.values()) == {"good"} if weight == 1 else "fail" in tested.values()


def draw_with_rule(kind: str, rule, n: int, seed: int) -> BanditLog:
    """Return a log whose propensities ignore a rule: it multiplies the odds of the first action or label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    coef = 0.5 * rng.normal(size=(3, 4))
    tilt = np.log(rule(X))
    if kind == "labels":
        logging = ExponentialPolicy(coef[:, :2])
        scores = X @ coef[:, :2] + np.column_stack([tilt, np.zeros(n)])
        Y = (rng.random((n, 2)) < 1 / (1 + np.exp(-scores))).astype(int)
        return BanditLog(X, Y, np.exp(logging.log_prob(X, Y)), np.zeros(n))
    scores = X @ coef
    mean, drawn = (softmax(u, axis=1) for u in (scores, scores + tilt[:, None] * (np.arange(4) == 0)))
    Y = draw_actions(drawn, rng)
    p = mean[np.arange(n), Y]
    if kind == "lists":  # each candidate has the context's features, at the place of its number
        features = (np.eye(4)[None, :, :, None] * X[:, None, None, :]).reshape(4 * n, 12)
        lists = ActionLists(features, 4 * np.arange(n + 1))
        return BanditLog(lists, Y, p, np.zeros(n))
    return BanditLog(X, Y, p, np.zeros(n), n_actions=4)


@pytest.mark.usefixtures("shipped_sizes")
@pytest.mark.parametrize("kind", ["single", "labels", "lists"])
def test_trees_find_rules_that_a_linear_model_misses(kind):
    """Where x_0 x_1 > 0 the first action is drawn more often than its propensity says, elsewhere more rarely."""
    rules = (lambda X: np.where(X[:, 0] * X[:, 1] > 0, 3, 1 / 3)), (lambda X: np.ones(len(X)))
    wrong, right = (draw_with_rule(kind, rule, 3000, 0) for rule in rules)
    for log, level in ((wrong, "fail"), (right, "good")):
        tests = audit_propensities(log, cross_fit_propensities(log))
        assert {test.name: test.level for test in tests}[LIKELIHOOD] == level
    linear = cross_fit_propensities(wrong)
    models = linear, boost_model(wrong, linear)
    of_linear, of_trees = (log_evidence(wrong, [model], wrong.log_propensity) for model in models)
    assert of_trees > of_linear + np.log(1e4)


@pytest.mark.usefixtures("shipped_sizes")
def test_boosted_propensities_are_close_to_the_drawn_ones():
    """Corrected probabilities sum to 1, halve the error of the softmax, and use neither other rows nor the own fold."""
    log = draw_with_rule("single", lambda X: np.where(X[:, 0] * X[:, 1] > 0, 3, 1 / 3), 6000, 0)
    linear, fold = cross_fit_propensities(log), np.arange(6000) % 5
    boosted = boost_propensities(log, linear, fold)
    np.testing.assert_allclose(boosted.sum(axis=1), 1)
    logged = np.arange(6000), log.Y
    assert np.log(boosted[logged]).mean() > np.log(linear[logged]).mean() + 0.02
    changed = log.replace(Y=np.where(fold == 0, (log.Y + 1) % 4, log.Y))
    inside = fold == 0
    np.testing.assert_array_equal(boost_propensities(changed, linear, fold)[inside], boosted[inside])


@pytest.mark.usefixtures("shipped_sizes")
@pytest.mark.parametrize("kind", ["new", "gone", "for a while"])
def test_actions_that_are_not_always_available_accuse_no_right_log(kind):
    place = np.arange(2000)
    is_absent = {"new": place < 1000, "gone": place >= 1200, "for a while": abs(place - 1000) > 300}[kind]
    rng = np.random.default_rng(0)
    X = draw_contexts(rng, 2000)
    mean = SoftmaxPolicy(0.4 * THETA).marginals(X)
    mean[is_absent, 3] = 0
    mean /= mean.sum(axis=1, keepdims=True)
    Y = draw_actions(mean, rng)
    log, time = BanditLog(X, Y, mean[place, Y], np.zeros(2000), n_actions=4), rng.permutation(2000)
    shuffled = with_columns(change_log(log, np.argsort(time)), time=np.argsort(time))
    for diagnosis in (diagnose(log), diagnose(shuffled)):
        assert find_check(diagnosis, "propensity audit, mean ratio").level == "good"
        assert find_check(diagnosis, LIKELIHOOD).level == "good"


def test_dropped_events_without_a_click_accuse_no_right_log():
    """Kept events over-represent actions with clicks; each bets once, with its weight."""
    evidence = []
    for seed in range(5):
        log = draw_dropped_log(4000, seed, 0.9, gain=0.3)
        tests = audit_propensities(log, cross_fit_propensities(log))
        assert [test.level for test in tests] == ["good"] * 2, seed
        wrong = log.replace(propensity=np.where(log.Y == 1, 0.3, 0.7))
        assert "fail" in [test.level for test in audit_propensities(wrong, cross_fit_propensities(wrong))]
        right = np.where(log.X == 1, 0.25, 0.75)  # of the kept events
        evidence.append(log_evidence(log, [right], log.log_propensity))
    assert max(evidence) < 0  # without weights about 100


def test_copies_bet_once_each():
    log = LOG.take(slice(0, 200))
    count = np.random.default_rng(0).integers(1, 4, 200)
    rows, model = np.repeat(np.arange(200), count), cross_fit_propensities(log)
    once = log_evidence(log.replace(count=count), [model], log.log_propensity)
    repeated = log.take(rows)
    assert once == pytest.approx(log_evidence(repeated, [model[rows]], repeated.log_propensity))


@pytest.mark.parametrize("model_scale", [1, 0.5])
def test_correct_propensities_do_not_fail(model_scale):
    """q is the true π0, or half as sharp."""
    log = draw_log(400, 1.5, 0)
    logging = SoftmaxPolicy(model_scale * 1.5 * np.roll(THETA, 1, axis=1))
    tests = audit_propensities(log, logging.marginals(log.X))
    assert [test.level for test in tests] == ["good"] * len(tests)
    assert all(test.value is not None for test in tests)


def test_evidence_against_correct_propensities_is_bounded():
    """By Ville's inequality it exceeds log 10 with probability at most 1/10: in 12 of 30 logs with probability 10⁻⁵."""
    logs = [draw_log(100, 0.7, seed) for seed in range(30)]
    evidence = [log_evidence(log, [cross_fit_propensities(log, folds=2)], log.log_propensity) for log in logs]
    assert np.sum(np.array(evidence) > np.log(10)) < 12
