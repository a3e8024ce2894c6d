"""Independent units: standard errors and intervals, also of a real log, and contexts that are stored once or by row."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels
from fixtures.action_logs import log_and_policy
from fixtures.click_logs import draw_dropped_log
from statsmodels.regression.linear_model import WLS

from drcrm import ActionLists, BanditLog, DoublyRobustDRO, Interval, off_policy_value
from drcrm.arrays.formats import format_number
from drcrm.certificates import policy_certificate, sensitivity
from drcrm.errors import InputError
from drcrm.risks import KLBall

pytestmark = pytest.mark.filterwarnings("ignore:DoublyRobustDRO keeps π0", "ignore:the (estimate by|effective|mean)")
KINDS = "single", "few contexts", "lists"
FILE = Path(statsmodels.__file__).parent / "datasets/randhie/src/randhie.csv"
NONE, LOW, HIGH = range(3)
MOSTLY_HIGH = np.array([0.1, 0.1, 0.8])


def test_the_standard_error_of_independent_rows_is_that_of_a_mean():
    log, policy, _ = log_and_policy("single")
    log = BanditLog(log.X, log.Y[:20], log.propensity[:20], log.cost[:20], n_actions=4)
    weight = np.exp(policy.log_prob(log.X, log.Y)) / log.propensity
    z = weight * log.cost
    value = off_policy_value(policy, log, "ips")
    assert (value.n, value.by) == (20, "row")
    assert value.standard_error == pytest.approx(z.std(ddof=1) / np.sqrt(20), rel=1e-12)
    assert value.high - value == pytest.approx(2.093024054408263 * value.standard_error)  # t of 19 degrees
    ratio = off_policy_value(policy, log, "snips")
    terms = weight * (log.cost - ratio) / weight.mean()
    assert ratio.standard_error == pytest.approx(terms.std(ddof=1) / np.sqrt(20), rel=1e-12)
    difference = off_policy_value(policy, log, "ips", baseline="logging")
    assert difference == pytest.approx((z - log.cost).mean())
    assert difference.standard_error == pytest.approx((z - log.cost).std(ddof=1) / np.sqrt(20))
    assert off_policy_value(policy, log, baseline=policy).interval == (0, 0)


@pytest.mark.parametrize("estimate", ["ips", "snips"])
def test_duplicated_rows_in_groups_add_no_information(estimate):
    log, policy, _ = log_and_policy("single", n=20, m=22)
    once = BanditLog(log.X[log.context], log.Y, log.propensity, log.cost, n_actions=4)
    columns = (np.repeat(column, 2, axis=0) for column in (once.X, once.Y, once.propensity, once.cost))
    twice, ids = BanditLog(*columns, n_actions=4), np.repeat([f"user {i}" for i in range(20)], 2)
    expected = off_policy_value(policy, once, estimate)
    naive = off_policy_value(policy, twice, estimate)
    grouped = off_policy_value(policy, twice, estimate, groups=ids)
    assert grouped.interval == pytest.approx(expected.interval)
    assert (grouped.n, grouped.by) == (20, "group")
    assert naive.standard_error < 0.75 * expected.standard_error
    expected, naive = (policy_certificate(policy, log, estimate, check_tails=False) for log in (once, twice))
    grouped = policy_certificate(policy, twice, estimate, groups=ids, check_tails=False)
    assert grouped.bound == pytest.approx(expected.bound)
    assert grouped.bound > naive.bound
    assert grouped.by == "group"


def test_a_policy_value_is_a_float_with_an_interval():
    log, policy, _ = log_and_policy("labels")
    value = off_policy_value(policy, log)
    assert isinstance(value, float)
    assert type(value) is Interval
    restored = pickle.loads(pickle.dumps(value))
    assert (restored, restored.__dict__) == (value, value.__dict__)
    assert json.loads(json.dumps(value.as_dict()))["low"] == value.low
    robust = off_policy_value(policy, log, risk=KLBall(0.1))
    assert robust.as_dict() == {"value": float(robust), "standard_error": None, "low": None, "high": None}


def test_weights_may_have_squares_beyond_the_range_of_floats():
    log = BanditLog(np.ones((3, 1)), [0, 1, 1], [1e-300, 1, 1], [1.0, 1, 1])
    value = off_policy_value([[1.0, 0.0]] * 3, log, "ips")
    assert value == value.standard_error == pytest.approx(1e300 / 3)
    assert value.effective_size == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1}, "confidence is 1, expected a number above 0 and below 1"),
        ({"groups": [1, 2]}, r"groups has shape \(2,\), expected \(60,\)"),
        ({"groups": [None] * 60}, "groups is None in row 0, expected an id for each row"),
        ({"baseline": "random"}, "baseline is 'random', expected a policy, or 'logging'"),
        ({"baseline": "logging", "risk": KLBall(0.1)}, "baseline can be used only with the mean"),
        ({"baseline": np.ones(3)}, r"baseline has shape \(3,\)"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(InputError, match=message):
        off_policy_value(np.full(60, 0.5), log_and_policy("single")[0], **options)


def test_unequal_groups_need_an_asymptotic_certificate():
    log, _, _ = log_and_policy("single")
    log = BanditLog(log.X[log.context], log.Y, log.propensity, -np.abs(log.cost), n_actions=4)
    settings = {"estimate": "ips", "method": "log_smoothing", "cost_range": (-10, 0)}
    with pytest.raises(
        InputError, match=r"by log_smoothing on the mean per row needs groups .* 1 to 2: choose the method .asymptotic"
    ):
        policy_certificate(np.full(60, 0.25), log, groups=np.arange(60) // 2 + (np.arange(60) > 58), **settings)
    by_row, by_group = (
        policy_certificate(np.full(60, 0.25), log, groups=groups, **settings) for groups in (None, np.arange(60) + 5)
    )
    assert (by_row.bound, by_row.n) == (by_group.bound, by_group.n)


def test_an_event_that_stands_for_others_is_one_observation():
    """The standard error of the ratio is that of the events' products of both weights."""
    log = draw_dropped_log(3000, 0, 0.98)
    probability = np.where(log.X[:, 0] == log.Y, 0.8, 0.2)
    weight, n = log.count * probability / log.propensity, len(log.Y)
    ratio = weight @ log.cost / weight.sum()
    error = np.sqrt(((weight * (log.cost - ratio)) ** 2).sum() * n / (n - 1)) / weight.sum()
    value = off_policy_value(probability, log, "snips")
    assert (value, value.standard_error) == pytest.approx((ratio, error))
    assert (value.n, value.by) == (n, "row")
    assert value.effective_size == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    copies = off_policy_value(probability, log.replace(is_weighted=False), "snips")
    assert copies.standard_error < 0.5 * error


def test_a_certificate_counts_an_event_that_stands_for_others_once():
    """Its note and its effective sample size are of the products of both weights, and events are no copies."""
    log = draw_dropped_log(60, 0, 0.9)
    probability = np.where(log.X[:, 0] == log.Y, 0.99, 0.01)
    weight = log.count * probability / log.propensity
    size = weight.sum() ** 2 / (weight**2).sum()
    certificate = policy_certificate(probability, log, "snips", cost_range=(-1, 0), check_tails=False)
    assert certificate.effective_size == pytest.approx(size)
    assert f"the effective sample size is {format_number(size)} rows: below 10" in certificate.notes[0]


def test_copies_of_a_row_are_independent_without_a_group():
    log = draw_dropped_log(400, 1, 0.5).replace(is_weighted=False)
    rows = np.repeat(np.arange(len(log.Y)), log.count)
    probability = np.where(log.X[:, 0] == log.Y, 0.8, 0.2)
    repeated = BanditLog(log.X[rows], log.Y[rows], log.propensity[rows], log.cost[rows], n_actions=2)
    for estimate in ("ips", "snips"):
        expected = off_policy_value(probability[rows], repeated, estimate)
        found = off_policy_value(probability, log, estimate)
        assert (found.interval, found.n) == (pytest.approx(expected.interval), expected.n)


def draw(kind: str, stored_once: bool) -> tuple[BanditLog, np.ndarray, np.ndarray]:
    """Return a log whose contexts are stored once or in each row, a policy's probabilities, and the contexts."""
    rng, n, m = np.random.default_rng(1), 600, 3 if kind == "few contexts" else 150
    X, context = np.c_[rng.normal(size=(m, 2)), np.ones(m)], np.sort(np.r_[np.arange(m), rng.integers(m, size=n - m)])
    P = np.full((m, 3), 0.2) + 0.4 * np.eye(3)[np.arange(m) % 3]
    policy = np.full((m, 3), 0.25) + 0.25 * np.eye(3)[(np.arange(m) + 1) % 3]
    Y = (P[context].cumsum(1) < rng.random((n, 1))).sum(1)
    rows = {"propensity": P[context, Y], "cost": -(rng.random(n) < 0.2 + 0.1 * Y).astype(float)}
    if kind == "labels":
        Y = (rng.random((n, 3)) < P[context]).astype(int)
        rows["propensity"] = np.where(Y, P[context], 1 - P[context]).prod(axis=1)
    if kind == "lists":
        features = rng.normal(size=(m, 3, 2))
        lists = features if stored_once else features[context]
        X, policy = (
            ActionLists(lists.reshape(-1, 2), np.arange(len(lists) + 1) * 3),
            np.ravel(policy[context] if not stored_once else policy),
        )
    elif not stored_once:
        X, policy = X[context], policy[context]
    return BanditLog(X, Y, **rows, context=context if stored_once else None), policy, context


@pytest.mark.parametrize(
    ("kind", "groups"),
    [*((kind, groups) for kind in KINDS for groups in ("none", "contexts")), ("single", "rows")],
)
def test_results_do_not_depend_on_how_contexts_are_stored(kind, groups):
    results = []
    for stored_once in (True, False):
        log, policy, context = draw(kind, stored_once)
        known = {"groups": {"none": None, "rows": np.arange(600), "contexts": context}[groups]}
        values = [off_policy_value(policy, log, name, **known) for name in ("ips", "snips", "dr")]
        values += [off_policy_value(policy, log, "dr", shift=0.05, **known)]
        X = log.actions.unbind(log.X)
        rows = {"propensity": log.propensity, "cost": log.cost, "context": log.context}
        fitted = DoublyRobustDRO().fit(X, log.Y, **rows, **known)
        worst = sensitivity(policy, log, **known)
        results.append(
            [number for value in values for number in (value, value.standard_error, value.n)]
            + [policy_certificate(policy, log, name, **known).bound for name in ("ips", "snips", "dr")]
            + [worst.worst, worst.bound, len(fitted.heldout_), *fitted.heldout_[:5], *fitted.coef_.ravel()]
        )
    assert results[0] == pytest.approx(results[1], rel=1e-6, abs=1e-9)


def test_effects_of_contexts_do_not_depend_on_how_contexts_are_stored():
    """Only fits to label vectors have such effects by default."""
    coef = []
    for stored_once in (True, False):
        log, _, context = draw("labels", stored_once)
        rows = {"propensity": log.propensity, "cost": log.cost, "context": log.context, "groups": context}
        coef.append(DoublyRobustDRO(safe=False).fit(log.X, log.Y, **rows).coef_)
    assert coef[0] == pytest.approx(coef[1], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("estimate", ["ips", "snips", "dr"])
def test_by_context_is_short_for_contexts_as_groups(kind, estimate):
    log, policy, context = draw(kind, stored_once=True)
    by_context = policy_certificate(policy, log, estimate, by="context", check_tails=False)
    grouped = policy_certificate(policy, log, estimate, groups=context, check_tails=False)
    carried = policy_certificate(policy, log.with_groups(context), estimate, check_tails=False)
    assert (by_context.by, grouped.by) == ("context", "group")
    assert (by_context.n, by_context.bound) == (grouped.n, grouped.bound) == (carried.n, carried.bound)


@pytest.fixture(scope="module")
def years() -> pd.DataFrame:
    """A row per person and year of the RAND Health Insurance Experiment, with the plan and its share of the persons.

    It assigned families at random to plans by site, and followed each person for 3 or 5 years. An action is the plan's
    coinsurance, none, low or high. Costs are medical expenses in dollars, or visits to a doctor. Sites 1 and 2 have
    2396 persons with 8498 years.
    """
    if not FILE.exists():
        pytest.skip(f"statsmodels has no {FILE.name}")
    rows = pd.read_csv(FILE).query("site <= 2")
    rows["action"] = np.select([rows["coins"] == 0, rows["coins"] <= 50], [NONE, LOW], HIGH)
    persons = rows.drop_duplicates("zper").groupby("site")["action"].value_counts(normalize=True)
    rows["p"] = persons.loc[list(zip(rows["site"], rows["action"], strict=True))].to_numpy()
    return rows.reset_index(drop=True)


def read_log(years: pd.DataFrame, cost: str = "mdvis", most: float = np.inf) -> BanditLog:
    features = years[["xage", "female", "disea", "linc"]].to_numpy()
    columns = years["action"], years["p"], years[cost].clip(upper=most).astype(float)
    return BanditLog(np.column_stack([features, np.ones(len(years))]), *map(np.asarray, columns), n_actions=3)


def policy_of(years: pd.DataFrame) -> np.ndarray:
    return np.tile(MOSTLY_HIGH, (len(years), 1))


@pytest.mark.parametrize("cost", ["mdvis", "meddol"])
def test_estimates_and_errors_of_persons_equal_a_clustered_regression(years, cost):
    """SNIPS is weighted least squares on a constant; its errors are those of statsmodels, clustered by person."""
    log, person = read_log(years, cost), years["zper"].to_numpy()
    weight = MOSTLY_HIGH[log.Y] / log.propensity
    fit = WLS(log.cost, np.ones(len(log.cost)), weights=weight).fit(
        cov_type="cluster", cov_kwds={"groups": person, "use_correction": True}
    )
    by_person = off_policy_value(policy_of(years), log, "snips", groups=person)
    assert by_person == pytest.approx(fit.params[0], rel=1e-10)
    assert by_person.standard_error == pytest.approx(fit.bse[0], rel=1e-6)
    by_year = off_policy_value(policy_of(years), log, "snips")
    assert by_year == pytest.approx(by_person, rel=1e-12)
    assert by_person.standard_error > 1.1 * by_year.standard_error


@pytest.mark.parametrize("by", ["row", "context"])
def test_bounds_on_events_that_stand_for_others_hold(by):
    held = []
    for seed in range(40):
        log = draw_dropped_log(2500, seed, 0.98)
        probability = np.where(log.X[:, 0] == log.Y, 0.8, 0.2)
        held.append(policy_certificate(probability, log, "snips", full_support=True, by=by).bound >= -0.26)
    assert sum(held) >= 35  # as copies, about 23 by row
