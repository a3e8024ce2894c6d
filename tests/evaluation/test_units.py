"""Independent units: how X is stored changes nothing, and contexts are units only if they are the groups."""

import numpy as np
import pytest

from drcrm import ActionLists, BanditLog, DoublyRobustDRO, off_policy_value
from drcrm.certificates import policy_certificate, sensitivity

pytestmark = pytest.mark.filterwarnings("ignore:DoublyRobustDRO keeps π0", "ignore:the (effective|mean)")
KINDS = "single", "few contexts", "lists"


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
