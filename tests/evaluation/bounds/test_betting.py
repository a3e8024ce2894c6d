"""Bounds by betting against loops, few evaluations of the capital, and extreme terms."""

import numpy as np
import pytest
from fixtures.reference_formulas import bound_by_loops, fixed_order

from drcrm import BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError
from drcrm.evaluation.bounds.betting_mixture import MOST_EVALUATIONS, BettingMixture
from drcrm.evaluation.bounds.upper_bound import as_bound
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logging_policy import restrict_to_support

COSTS = (-2.0, 0.5)
PI, PI0, OTHER = np.array([0.1, 0.6, 0.3]), np.array([0.7, 0.1, 0.2]), np.array([0.3, 0.3, 0.4])
WEIGHT, OF_OTHER = PI / PI0, OTHER / PI0
LEAST = {None: {}, 10.0: {"least_propensity": 0.1}}  # by W
METHODS = {"betting": False, "anytime": True}
RARE, SHIFTED = np.array([0.98, 0.01, 0.01]), np.array([0.1, 0.2, 0.7])
RATES = {"rare": [0.01, 0.02, 0.03], "usual": [0.3, 0.5, 0.6], "none": [0.0] * 3, "all": [1.0] * 3, "most": [0.98] * 3}


def draw_log(n: int = 200, seed: int = 0, pi0: np.ndarray = PI0, context: np.ndarray | None = None) -> BanditLog:
    """Return a log of three actions with costs from −2 to 0.5."""
    rng = np.random.default_rng(seed)
    action = rng.choice(3, n, p=pi0)
    cost = np.clip(rng.normal(-0.5 * action, 0.5), *COSTS)
    context = np.arange(n) if context is None else context
    return BanditLog(np.ones((context.max() + 1, 1)), action, pi0[action], cost, n_actions=3, context=context)


def tile(probability: np.ndarray, log: BanditLog) -> np.ndarray:
    return np.tile(probability, (log.n_contexts, 1))


def certify(log: BanditLog, method: str = "anytime", **settings):
    return policy_certificate(tile(PI, log), log, method=method, cost_range=COSTS, **settings)


def lower(
    log: BanditLog, method: str, *, estimate: str = "ips", confidence: float = 0.95, factor: float = 1.0, **known
):
    """Return the lower bound on the cost, or on its difference."""
    limits = {name: known.pop(name) for name in ("least_propensity", "most_rows") if name in known}
    evaluation = Evaluation.of(tile(PI, log), log, **known).by(estimate)
    bound = as_bound(confidence, method)
    settings = CertificateSettings.of(log, bound, confidence, 1, COSTS, factor=factor, **limits)
    return evaluation.certificate(settings, is_lower=True).bound


def in_order(method: str, n: int) -> np.ndarray:
    return np.arange(n) if METHODS[method] else fixed_order(n)


def rewards(log: BanditLog, sign: int = 1) -> np.ndarray:
    """Return the rewards of upper bounds on a cost, or for the sign −1 those of lower bounds."""
    return (0.5 - log.cost) / 2.5 if sign > 0 else (log.cost + 2) / 2.5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("largest", LEAST)
@pytest.mark.parametrize("n", [1, 2, 40, 300])
def test_ips_is_that_of_loops(method, largest, n):
    log, order = draw_log(n, seed=n), in_order(method, n)
    options = {"largest": largest, "is_every_look": METHODS[method]}
    weight, ends = WEIGHT[log.Y][order], {1: 0.5, -1: -2.0}
    for sign, end in ends.items():
        reward = rewards(log, sign)[order]
        for settings, factor in (({}, 0.0), ({"baseline": "logging"}, 1.0), ({"baseline": "logging"}, 0.7)):
            expected = bound_by_loops(weight, reward, factor=factor, **options)
            expected = (1 - factor) * end - sign * 2.5 * expected
            if sign > 0:
                found = certify(log, method, **settings, **LEAST[largest], baseline_factor=factor).bound
            else:
                found = lower(log, method, factor=factor, **settings, **LEAST[largest])
            assert found == pytest.approx(expected, abs=1e-9), (sign, factor)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [1.0, 1.3, 0.6])
def test_a_baseline_is_that_of_loops(method, factor):
    log = draw_log(300)
    order = in_order(method, 300)
    weight, baseline, reward = (values[order] for values in (WEIGHT[log.Y], OF_OTHER[log.Y], rewards(log)))
    for largest, of_baseline, known in (
        (10.0, 10.0, {"least_propensity": 0.1}),
        (10.0, 4.0, {"least_propensity": 0.1, "largest_weight": 4.0}),
        (None, 4.0, {"largest_weight": 4.0}),
        (None, None, {}),
    ):
        limits = {"largest": largest, "largest_of_baseline": of_baseline, "is_every_look": METHODS[method]}
        expected = bound_by_loops(weight, reward, factor=factor, baseline=baseline, **limits)
        found = certify(log, method, baseline=tile(OTHER, log), baseline_factor=factor, **known)
        assert found.bound == pytest.approx((1 - factor) * 0.5 - 2.5 * expected, abs=1e-9), known
        assert found.value <= found.bound


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", [np.array([0.0, -0.5, -1.0]), np.array([3.0, -9.0, -1.0])])
def test_dr_is_that_of_loops(method, model):
    log, order = draw_log(250), in_order(method, 250)
    known = {"cost_model": tile(model, log), "least_propensity": 0.1}
    for sign, end in ((1, 0.5), (-1, -2.0)):
        modelled = np.clip((0.5 - model) / 2.5 if sign > 0 else (model + 2) / 2.5, 0, 1)
        of_rows = modelled[log.Y][order], np.full(250, PI @ modelled)
        options = {"largest": 10.0, "model": of_rows, "is_every_look": METHODS[method]}
        for settings, factor in (({}, 0.0), ({"baseline": "logging"}, 1.0)):
            expected = bound_by_loops(WEIGHT[log.Y][order], rewards(log, sign)[order], factor=factor, **options)
            if sign > 0:
                certificate = certify(log, method, **settings, **known)
                assert certificate.estimate == "dr"
                found = certificate.bound
            else:
                found = lower(log, method, estimate="dr", **settings, **known)
            assert found == pytest.approx((1 - factor) * end - sign * 2.5 * expected, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_groups_are_those_of_loops_and_have_the_order_of_their_first_rows(method):
    rng = np.random.default_rng(3)
    log, groups = draw_log(200, 1), rng.integers(0, 60, 200)
    _, first, number = np.unique(groups, return_index=True, return_inverse=True)
    sequence = np.argsort(first)[in_order(method, len(first))]
    rows = np.concatenate([np.flatnonzero(number == group) for group in sequence])
    for largest, known in LEAST.items():
        expected = bound_by_loops(
            WEIGHT[log.Y][rows],
            rewards(log)[rows],
            largest=largest,
            unit=number[rows],
            most_rows=9,
            factor=1.0,
            is_every_look=METHODS[method],
        )
        certificate = certify(log, method, groups=groups, most_rows=9, baseline="logging", **known)
        assert certificate.bound == pytest.approx(-2.5 * expected, abs=1e-9)
        assert (certificate.by, certificate.n) == ("group", len(first))
        by_context = draw_log(200, 1, context=number)
        assert certify(by_context, method, by="context", most_rows=9, baseline="logging", **known).bound == (
            pytest.approx(-2.5 * expected, abs=1e-9)
        )


def test_groups_of_one_row_are_rows():
    log = draw_log(150)
    for method in METHODS:
        one = certify(log, method, groups=np.arange(150), most_rows=1, least_propensity=0.1)
        assert one.bound == certify(log, method, least_propensity=0.1).bound


def test_weights_of_rows_are_those_of_loops():
    """An event that stands for three events has its weight in each bet, and in the estimate."""
    log, count = draw_log(120), np.where(np.arange(120) % 4 == 0, 3, 1)
    weighted = log.replace(count=count, is_weighted=True)
    options = {"size": count, "unit": np.arange(120), "most_rows": 4, "largest": 10.0}
    expected = 0.5 - 2.5 * bound_by_loops(WEIGHT[log.Y], rewards(log), **options)
    certificate = certify(weighted, most_rows=4, least_propensity=0.1)
    assert certificate.bound == pytest.approx(expected, abs=1e-9)


def test_counts_are_copies_at_one_look():
    log = draw_log(60)
    count = np.where(np.arange(60) < 9, 5, 1)
    copies = draw_log(60).subset(np.repeat(np.arange(60), count), np.repeat(np.arange(60), count), log.X, log.actions)
    counted = certify(log.replace(count=count), "betting").bound
    assert counted == policy_certificate(tile(PI, log), copies, method="betting", cost_range=COSTS).bound
    with pytest.raises(InputError, match="need rows that occur once, but count is up to 5"):
        certify(log.replace(count=count))


@pytest.mark.parametrize("settings", [{"groups": np.arange(200) // 3}, {"by": "context"}])
def test_groups_and_weights_need_their_largest_size(settings):
    log = draw_log(200)
    with pytest.raises(InputError, match="groups or weighted rows need most_rows"):
        certify(log, **settings)
    with pytest.raises(InputError, match="groups or weighted rows need most_rows"):
        certify(log.replace(is_weighted=True))
    with pytest.raises(InputError, match=r"most_rows is 2, expected at least .* but they are up to 3"):
        certify(log, groups=np.arange(200) // 3, most_rows=2)
    with pytest.raises(InputError, match=r"most_rows is 0\.5, expected a number of at least 1"):
        certify(log, groups=np.arange(200) // 3, most_rows=0.5)


def test_a_largest_weight_is_rounded_up_like_the_weights():
    """The counts of a weight of 2.5 are 2 and 3."""
    log = draw_log(200)
    weighted = log.replace(count=np.resize([1, 2, 3], 200), is_weighted=True)
    assert certify(weighted, most_rows=2.5).bound == certify(weighted, most_rows=3).bound
    with pytest.raises(InputError, match=r"most_rows is 2, expected at least .* but they are up to 3"):
        certify(weighted, most_rows=2 + 1e-12)


def test_the_terms_have_the_mean_of_the_policy_or_charge_missing_actions_the_largest_cost():
    """The rows are all outcomes of a logging policy, as often as they occur."""
    cost = np.array([-1.0, 0.2, -0.5])
    pi0 = np.array([0.5, 0.0, 0.5])
    log = BanditLog(np.ones((2, 1)), [0, 2], [0.5, 0.5], cost[[0, 2]], n_actions=3)
    assert certify(log).value == pytest.approx(PI @ np.where(pi0 > 0, cost, 0.5), abs=1e-12)
    pi0, model = np.array([0.5, 0.25, 0.25]), np.array([0.1, -1.0, 0.3])
    action = np.array([0, 0, 1, 2])
    log = BanditLog(np.ones((4, 1)), action, pi0[action], cost[action], n_actions=3)
    known = {"cost_model": tile(model, log), "least_propensity": 0.25}
    assert certify(log, "betting", **known).value == pytest.approx(PI @ cost, abs=1e-12)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cost_range": None}, "bounds by betting need cost_range="),
        ({"cost_range": (-1.0, 0.5)}, "expected .* around all logged costs"),
        ({"high": 0.5}, "high= does not apply to the method (anytime|betting) here"),
        ({"estimate": "snips"}, "estimate of bounds by betting is 'snips', expected"),
        ({"estimate": "dr"}, "'dr' by betting needs cost_model="),
        ({"estimate": "dr", "cost_model": True}, "'dr' by betting needs least_propensity="),
        ({"estimate": "dr", "cost_model": True, "least_propensity": 0.1, "baseline": True}, "needs baseline='logging'"),
        ({"least_propensity": 0.2}, "propensity is 0.1 in row .*, expected at least least_propensity, 0.2"),
        ({"least_propensity": 2}, "least_propensity is 2, expected a probability"),
        (
            {"largest_weight": 2.0, "baseline": True},
            "the weight of the baseline is .* expected at most its known limit",
        ),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_what_the_method_needs(settings, reason, method):
    log = draw_log()
    table = tile(PI, log)
    settings = {name: table if value is True else value for name, value in settings.items()}
    with pytest.raises(InputError, match=reason):
        policy_certificate(table, log, method=method, **({"cost_range": COSTS} | settings))


def test_label_vectors_use_ips():
    rng = np.random.default_rng(4)
    log = BanditLog(np.ones((80, 1)), rng.integers(0, 2, (80, 2)), np.full(80, 0.25), -rng.random(80))
    policy, settings = ExponentialPolicy([[0.2, -0.4]]), {"method": "anytime", "cost_range": (-1, 0)}
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.25
    for largest, least in ((None, None), (4.0, 0.25)):
        bound = policy_certificate(policy, log, least_propensity=least, **settings).bound
        assert bound == pytest.approx(-bound_by_loops(weight, -log.cost, largest=largest), abs=1e-9)
    explored = policy.with_exploration(0.2)
    weight = np.exp(explored.log_prob(log.X, log.Y)) / 0.25
    bound = policy_certificate(explored, log, least_propensity=0.25, **settings).bound
    assert bound == pytest.approx(-bound_by_loops(weight, -log.cost, largest=0.85 / 0.25), abs=1e-9)
    with pytest.raises(InputError, match="needs one of K actions or lists of actions, not label vectors"):
        policy_certificate(policy, log, "dr", **settings)


def week(n: int, seed: int, coef: np.ndarray) -> BanditLog:
    """Return a log of two actions by a softmax policy. The second one is good in contexts with x = 1."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 2, n), np.ones(n)])
    policy = SoftmaxPolicy(coef)
    action = policy.sample(X, rng)
    cost = -(rng.random(n) < 0.2 + 0.6 * action * X[:, 0]).astype(float)
    return BanditLog(X, action, np.exp(policy.log_prob(X, action)), cost, n_actions=2)


def test_the_stored_policy_of_another_log_does_not_hide_missing_actions():
    """The stored policy takes both actions; that of the later log never takes the second one for x = 1."""
    stored = np.zeros((2, 2))
    first, policy = week(2000, 0, stored), SoftmaxPolicy(np.array([[0.0, 1.0], [0.0, 0.0]]))
    model = restrict_to_support(CostModel().fit(first), first, SoftmaxPolicy(stored), 0.05)
    later = week(2000, 1, np.array([[0.0, -30.0], [0.0, 0.0]]))
    assert not policy_certificate(policy, first, "dr", cost_model=model).missing
    assert policy_certificate(policy, later, "dr", cost_model=model).missing


@pytest.fixture
def evaluations(monkeypatch):
    """Count the evaluations of the capital."""
    counts, compute = [0], BettingMixture.log_capital

    def count(self, m, n=None):
        counts[0] += 1
        return compute(self, m, n)

    monkeypatch.setattr(BettingMixture, "log_capital", count)
    return counts


def mixture(n: int, rate: list[float], delta: float, is_every_look: bool, *, factor: float = 0.0, known: bool = True):
    """Return the bets for three actions, with weights up to 70."""
    rng = np.random.default_rng(n)
    action = rng.choice(3, n, p=RARE)
    weight, reward = (SHIFTED / RARE)[action], (rng.random(n) < np.array(rate)[action]) * 1.0
    total, seen = np.cumsum(weight * reward), np.cumsum(weight)
    centre = np.array([0.0, 0.5, 1.0] if known else [0.0])[:, None] * np.append(
        0.5, (0.5 + total[:-1]) / (1 + seen[:-1])
    )
    terms = weight * (reward - centre) + centre - factor * reward
    return BettingMixture(terms, np.maximum(factor - centre, 69 * centre), delta, is_every_look, least=-factor)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("is_every_look", [False, True])
def test_few_evaluations_of_the_capital_find_the_root(rate, is_every_look, evaluations):
    for n in (1, 2, 10, 100, 1000, 8000):
        for delta in (0.3, 0.05, 1e-3):
            for options in ({}, {"known": False}, {"factor": 1.0}, {"factor": 1.0, "known": False}):
                bets = mixture(n, RATES[rate], delta, is_every_look, **options)
                evaluations[0] = 0
                bound = bets.lower_bound()
                assert evaluations[0] <= MOST_EVALUATIONS
                if bound > bets.least:
                    assert bets.log_capital(bound - 1e-9).max() >= bets.goal
                assert bound == bets.most or bets.log_capital(bound + 1e-9).max() < bets.goal


def test_a_search_that_ends_early_is_not_too_high(monkeypatch):
    monkeypatch.setattr("drcrm.evaluation.bounds.betting_mixture.MOST_EVALUATIONS", 4)
    for n in (100, 1000):
        bets = mixture(n, RATES["usual"], 0.05, False, factor=1.0)
        assert bets.log_capital(bets.lower_bound()).max() >= bets.goal or bets.lower_bound() == bets.least


@pytest.mark.parametrize("known", [False, True])
def test_bounds_of_later_looks_continue_those_of_earlier_ones(known):
    bets, last = mixture(2000, RATES["usual"], 0.05, True, known=known), None
    for n in (1, 5, 60, 500, 501, 2000):
        found = bets.lower_bound(n, last)
        assert found == pytest.approx(bets.lower_bound(n), abs=1e-9)
        assert last is None or found >= last
        last = found


def test_the_first_unit_that_rejects_a_mean_is_that_of_the_bounds():
    bets = mixture(2000, RATES["all"], 0.05, True)
    for m in (0.02, 0.1):
        first = bets.first_reached(m)
        assert bets.lower_bound(first - 1) < m <= bets.lower_bound(first) + 1e-9
    assert bets.first_reached(0.9) is None


def test_a_capital_of_many_units_is_finite():
    bets = mixture(200_000, RATES["most"], 1e-9, True)
    assert np.isfinite(bets.log_capital(0.0)).all()
    assert 0.9 < bets.lower_bound() < 0.98


def test_both_bounds_hold_at_every_look_of_most_logs():
    """A reward of 0 or 1, weights up to 7, 200 logs, bounds on the difference; at δ = .1 at most 31 fail."""
    policy, reward = np.array([0.1, 0.2, 0.7]), np.array([0.3, 0.5, 0.6])
    pi0 = np.array([0.7, 0.2, 0.1])
    truth, failed = -(policy - pi0) @ reward, 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        action = rng.choice(3, 400, p=pi0)
        log = BanditLog(
            np.ones((400, 1)), action, pi0[action], np.where(rng.random(400) < reward[action], -1.0, 0.0), n_actions=3
        )
        settings = {"method": "anytime", "cost_range": (-1, 0), "baseline": "logging", "least_propensity": 0.1}
        failed += policy_certificate(np.tile(policy, (400, 1)), log, confidence=0.9, **settings).bound < truth
    assert failed <= 31
