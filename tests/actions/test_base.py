"""The kinds of actions: what policies and logs make of one action of K and of lists, against sums over all actions."""

from __future__ import annotations

import numpy as np
import pytest
from formulas import backward
from scipy import sparse
from softmax_logs import Choices, cost_model, softmax

from drcrm import ActionLists, BanditLog, ExponentialPolicy, SoftmaxPolicy
from drcrm.cost_models.ridge_model import action_effects
from drcrm.errors import InputError
from drcrm.policies.exponential import as_policy, make_policy
from drcrm.policies.linear_predictor import LinearPredictor, forward_policy, importance_weights

FORMS = [np.asarray, sparse.csr_array]
every_form = pytest.mark.parametrize("form", FORMS, ids=["dense", "csr"])
restricted = pytest.mark.parametrize("restricted", [True, False], ids=["eligible", "all"])
kinds = pytest.mark.parametrize("kind", ["single", "listed"])


def coef(seed: int = 0, shape=(4, 3), scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng([seed, 7]).normal(size=shape)


def allowed(choices: Choices) -> dict:
    """How a policy is told which actions are eligible."""
    return {} if choices.eligible.all() else {"eligible": choices.eligible}


@every_form
@restricted
def test_a_softmax_policy_is_the_softmax_over_the_eligible_actions(form, restricted):
    choices = Choices.drawn(1, restricted=restricted)
    theta, intercept, X = coef(), coef(1, 3), form(choices.X)
    policy, known, expected = SoftmaxPolicy(theta, intercept), allowed(choices), choices.probabilities(theta, intercept)
    assert policy.marginals(X, **known) == pytest.approx(expected, rel=1e-12)
    assert (policy.marginals(X, **known)[~choices.eligible] == 0).all()
    assert policy.greedy(X, **known).tolist() == expected.argmax(axis=1).tolist()
    log_prob = policy.log_prob(X, choices.A, choices.context, **known)
    assert log_prob == pytest.approx(np.log(choices.of_rows(expected)), rel=1e-12)


@every_form
def test_a_policy_of_lists_is_the_softmax_over_each_list(form):
    choices, theta = Choices.drawn(2), coef()
    lists, policy = choices.lists(form), SoftmaxPolicy(theta.ravel())
    expected = choices.probabilities(theta)
    assert policy.marginals(lists) == pytest.approx(expected[choices.eligible], rel=1e-12)
    best = [row[offered].argmax() for row, offered in zip(expected, choices.eligible, strict=True)]
    assert policy.greedy(lists).tolist() == best
    log_prob = policy.log_prob(lists, choices.position, choices.context)
    assert log_prob == pytest.approx(np.log(choices.of_rows(expected)), rel=1e-12)


@restricted
def test_probabilities_add_up_to_1_whatever_the_scores(restricted):
    choices = Choices.drawn(3, restricted=restricted)
    segments = np.r_[0, np.cumsum(choices.eligible.sum(axis=1))][:-1]
    for scale in (1e-3, 1.0, 30.0, 1e3, 1e6, 1e12):
        theta = coef(2, scale=scale)
        single = SoftmaxPolicy(theta).marginals(choices.X, **allowed(choices))
        listed = SoftmaxPolicy(theta.ravel()).marginals(choices.lists())
        assert single.sum(axis=1) == pytest.approx(1, rel=1e-12)
        assert np.add.reduceat(listed, segments) == pytest.approx(1, rel=1e-12)
        assert single == pytest.approx(choices.probabilities(theta), rel=1e-9, abs=1e-60)


@pytest.mark.parametrize("scale", [1, 30, 1e3, 1e5])
def test_log_prob_is_never_above_zero_and_sums_to_1(scale):
    choices = Choices.drawn(4, contexts=30, actions=5)
    theta = coef(3, (4, 5), scale)
    for policy, X, known in (
        (SoftmaxPolicy(theta), choices.X, allowed(choices)),
        (SoftmaxPolicy(theta.ravel()), choices.lists(), {}),
    ):
        total = np.zeros(30)
        sizes = choices.eligible.sum(axis=1)
        for place in range(5):
            has = sizes > place
            A = np.array([np.flatnonzero(row)[place] for row in choices.eligible[has]]) if known else place
            log_prob = policy.log_prob(X, np.broadcast_to(A, has.sum()), np.flatnonzero(has), **known)
            assert log_prob.max() <= 0
            assert np.isfinite(log_prob).all()
            total[has] += np.exp(log_prob)
        assert total == pytest.approx(1, rel=1e-9)
        assert policy.log_prob(X, policy.greedy(X, **known), **known).max() <= 0


def test_scores_far_apart_do_not_overflow():
    for u in (
        [0.0, 2e4, -3e4],
        [1e300, -1e300, 0.0],
        [-1e4, -1e4, -1e4],
        [710.0, 709.0, 0.0],
        [709.5, 709.5, 709.0],
        [1e-300, 0.0, 0.0],
    ):
        policy, listed = SoftmaxPolicy([u]), SoftmaxPolicy([1.0])
        expected = softmax(np.array([u]))
        lists = ActionLists(np.array(u)[:, None], [0, 3])
        assert policy.marginals([[1.0]]) == pytest.approx(expected, rel=1e-12)
        assert listed.marginals(lists) == pytest.approx(expected[0], rel=1e-12)
        log_prob = [policy.log_prob([[1.0]], [a])[0] for a in range(3)]
        assert log_prob == pytest.approx(u - np.logaddexp.reduce(u), rel=1e-12, abs=1e-12)
        assert [listed.log_prob(lists, [a])[0] for a in range(3)] == pytest.approx(log_prob, rel=1e-12, abs=1e-12)


def test_actions_are_drawn_as_often_as_the_policy_says():
    """χ² of 40 000 draws of each context below its quantile at 10⁻⁶; what is not eligible never."""
    choices, theta, draws = Choices.drawn(5, contexts=4, actions=4), coef(4, (4, 4)), 40_000
    choices.eligible[1] = [True, False, False, True]
    expected, repeated = choices.probabilities(theta), np.repeat(np.arange(4), draws)
    single = SoftmaxPolicy(theta).sample(choices.X[repeated], 0, eligible=choices.eligible[repeated])
    places = SoftmaxPolicy(theta.ravel()).sample(choices.lists()[repeated], 1)
    listed = [np.flatnonzero(row) for row in choices.eligible]
    for k in range(4):
        of_lists = listed[k][places[repeated == k]]
        for drawn in (single[repeated == k], of_lists):
            counts, mean = np.bincount(drawn, minlength=4), draws * expected[k]
            offered = choices.eligible[k]
            assert counts[~offered].sum() == 0
            assert ((counts - mean)[offered] ** 2 / mean[offered]).sum() < 30
    again = SoftmaxPolicy(theta).sample(choices.X[repeated], 0, eligible=choices.eligible[repeated])
    assert np.array_equal(single, again)


def test_draws_of_certain_policies_are_eligible():
    """Also where rounding leaves the probabilities below 1, and where the best action is not eligible."""
    K, rng = 1000, np.random.default_rng(6)
    X, eligible = np.ones((3000, 1)), rng.random((3000, K)) < 0.01
    eligible[np.arange(3000), rng.integers(0, K, 3000)] = True
    for scale in (0.0, 1.0, 1e3):
        policy = SoftmaxPolicy(scale * rng.normal(size=(1, K)))
        A = policy.sample(X, 0, eligible=eligible)
        assert eligible[np.arange(3000), A].all()
        assert eligible[np.arange(3000), policy.greedy(X, eligible=eligible)].all()


@every_form
def test_lists_are_selected_as_rows_are(form):
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 5, 9)
    starts = np.r_[0, np.cumsum(sizes)]
    features = rng.normal(size=(starts[-1], 3)) * (rng.random((starts[-1], 3)) < 0.6)
    lists = ActionLists(form(features), starts)
    assert (len(lists), lists.shape) == (9, (9, 3))
    mask = rng.random(9) < 0.5
    for rows in (np.array([4, 0, 4, 8]), mask, slice(2, 7), slice(None, None, -2), [1, 2], np.array([-1, 3])):
        chosen = np.arange(9)[rows]
        part = lists[rows]
        expected = np.concatenate([features[starts[k] : starts[k + 1]] for k in chosen])
        dense = part.features.toarray() if sparse.issparse(part.features) else part.features
        assert np.array_equal(dense, expected)
        assert part.starts.tolist() == [0, *np.cumsum(sizes[chosen])]


@kinds
@restricted
@every_form
@pytest.mark.parametrize("trains", [True, False], ids=["trains", "once"])
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "none"])
@pytest.mark.parametrize("rows", [30, 400], ids=["few rows", "many rows"])
def test_backward_is_the_transpose_of_the_derivative_of_forward(kind, restricted, form, trains, intercept, rows):
    if kind == "listed" and intercept:
        pytest.skip("lists have no intercept: it is common to all actions of a context")
    choices, rng = Choices.drawn(8, rows=rows, restricted=restricted), np.random.default_rng(9)
    log = getattr(choices, kind)(form)
    effects = rng.normal(size=choices.eligible.shape)
    design = LinearPredictor(log, effects if kind == "single" else effects[choices.eligible], intercept, trains)
    theta, direction = rng.normal(size=(2, *design.shape))
    step = 1e-6
    ahead, behind = (design.forward(theta + side * step * direction) for side in (1, -1))
    moved = [(here - there) / (2 * step) for here, there in zip(ahead, behind, strict=True)]
    by_row, by_context = (rng.normal(size=len(each)) for each in moved)
    slope = backward(design, theta, by_row, by_context)
    assert slope.ravel() @ direction.ravel() == pytest.approx(
        by_row @ moved[0] + by_context @ moved[1], rel=1e-6, abs=1e-7
    )
    for part in (backward(design, theta, by_row, None), backward(design, theta, None, by_context)):
        slope = slope - part
    assert slope == pytest.approx(0, abs=1e-11)


@every_form
@restricted
def test_a_pass_is_what_the_policy_says_of_the_rows_that_occur(form, restricted):
    choices, theta, B = Choices.drawn(10, restricted=restricted), coef(5), coef(6)
    pi, modelled = choices.probabilities(theta), choices.X @ B
    present = choices.count > 0
    used = np.unique(choices.context[present])
    for log, policy, model in (
        (choices.single(form), SoftmaxPolicy(theta), cost_model(B)),
        (choices.listed(form), SoftmaxPolicy(theta.ravel()), cost_model(B.ravel())),
    ):
        design, log_prob, expected = forward_policy(policy, log, action_effects(model, log.X, log.actions))
        weight = (choices.of_rows(pi) / choices.propensity)[present]
        assert importance_weights(log_prob, design.log) == pytest.approx(weight, rel=1e-11)
        assert expected == pytest.approx(np.where(choices.eligible, pi * modelled, 0).sum(axis=1)[used], rel=1e-11)
        assert design.modelled_cost == pytest.approx(choices.of_rows(modelled)[present], rel=1e-12)


@kinds
def test_equal_rows_are_merged(kind):
    """As many rows as differ in context, action, propensity or cost; counts and what is learned from them stay."""
    choices = Choices.drawn(11, rows=40)
    choices.propensity, choices.cost = np.round(choices.propensity), -np.floor(-choices.cost)
    choices.propensity = 0.25 + choices.propensity / 2
    log = getattr(choices, kind)()
    merged, group = log.merge_duplicates()
    keys = list(zip(choices.context, choices.A, choices.propensity, choices.cost, strict=True))
    assert len(merged.Y) == len(set(keys)) < 40
    assert np.array_equal(merged.count, np.bincount(group, choices.count))
    for name in ("context", "Y", "propensity", "cost"):
        assert np.array_equal(getattr(merged, name)[group], getattr(log, name))


@kinds
@restricted
def test_recounting_leaves_out_what_does_not_occur(kind, restricted):
    choices = Choices.drawn(12, rows=60, restricted=restricted)
    count = choices.count * np.isin(choices.context, [1, 4, 7])
    log = getattr(choices, kind)()
    theta = coef(7)
    policy = SoftmaxPolicy(theta if kind == "single" else theta.ravel())
    part = log.recount(count)
    _, log_prob, _ = forward_policy(policy, part)
    expected = np.log(choices.of_rows(choices.probabilities(theta)))[count > 0]
    assert log_prob == pytest.approx(expected, rel=1e-11, abs=1e-13)
    assert part.size == count.sum()


def test_a_log_knows_its_kind():
    X, p, c = np.ones((4, 2)), np.full(4, 0.5), -np.arange(4.0)
    assert repr(BanditLog(X, [0, 1, 2, 1], p, c)) == "BanditLog(4 rows, 4 contexts, 2 features, one of 3 actions)"
    assert BanditLog(X, [0, 1, 2, 1], p, c, n_actions=7).actions.shape == (7,)
    assert BanditLog(X, [0, 1, 2, 1], p, c, eligible=np.ones((4, 5), dtype=bool)).actions.shape == (5,)
    assert BanditLog(X, np.array([0.0, 1.0, 2.0, 1.0]), p, c).Y.tolist() == [0, 1, 2, 1]
    assert BanditLog(X, [[0, 1], [1, 0], [1, 1], [0, 0]], p, c).actions.shape == (2,)


LISTS = ActionLists(np.ones((7, 2)), [0, 3, 4, 7])
GOOD = {"X": np.ones((3, 2)), "Y": [0, 2, 1], "propensity": np.full(3, 0.5), "cost": -np.arange(3.0)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"Y": [0, 1.5, 1]}, r"Y is 1\.5 in row 1, expected a whole number"),
        ({"Y": [0, -1, 1]}, r"Y is -1 in row 1, expected .*0 or more"),
        ({"Y": [0, np.nan, 1]}, "Y is nan in row 1"),
        ({"Y": [0, 1]}, "Y has 2 rows, expected 3"),
        ({"Y": ["a", "b", "a"]}, "Y is not an array of numbers, but of text such as 'a'"),
        ({"n_actions": 2}, "Y is 2 in row 1, expected one of 2 actions, numbered from 0"),
        ({"n_actions": 0}, "n_actions is 0, expected a whole number of at least 1"),
        ({"n_actions": 2.5}, "n_actions is 2.5, expected a whole number"),
        (
            {"n_actions": 4, "eligible": np.ones((3, 3), dtype=bool)},
            "eligible has 3 columns, expected one for each of 4 actions",
        ),
        ({"eligible": np.ones((2, 3), dtype=bool)}, "eligible has 2 rows, expected 3"),
        ({"eligible": np.ones(3, dtype=bool)}, r"eligible has shape \(3,\), expected"),
        (
            {"eligible": [[True, True, True], [False, False, False], [True, True, True]]},
            "eligible has no action in row 1, expected at least one",
        ),
        ({"eligible": [[1, 1, 1], [1, 1, 2], [1, 1, 1]]}, r"eligible has 2 in row 1, .* 2, expected 0 or 1"),
        (
            {"eligible": [[True, True, True], [True, True, False], [True, True, True]]},
            "Y is 2 in row 1, expected an action that is eligible",
        ),
        ({"X": LISTS, "Y": [0, 1, 0]}, "Y is 1 in row 1, expected a place in its list of 1, from 0"),
        ({"X": LISTS, "Y": [0, 0, -1]}, "Y is -1 in row 2"),
        ({"X": LISTS, "Y": np.zeros((3, 2))}, r"Y has shape \(3, 2\), expected"),
        ({"X": LISTS, "Y": [0, 0, 0], "n_actions": 3}, "n_actions needs"),
        ({"X": LISTS, "Y": [0, 0, 0], "eligible": np.ones((3, 3), dtype=bool)}, "eligible needs"),
        ({"Y": [[0, 1], [1, 0], [1, 1]], "n_actions": 2}, r"Y has shape \(3, 2\), expected \(rows,\)"),
        ({"Y": [[0, 1], [1, 0], [1, 1]], "eligible": np.ones((3, 2), dtype=bool)}, "eligible needs"),
        ({"context": [0, 1, 3]}, "context is 3 in row 2"),
    ],
)
def test_a_log_that_is_wrong_says_how(arguments, message):
    with pytest.raises(InputError, match=message) as error:
        BanditLog(**{**GOOD, **arguments})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        ([0, 3, 3, 7], "list 1 is empty"),
        ([0, 3, 7, 7], "list 2 is empty"),
        ([0, 4, 3, 7], "list 1"),
        ([1, 3, 7], "starts .*0"),
        ([0, 3, 6], "starts .*7"),
        ([0, 3, 8], "starts .*7"),
        ([0], "starts"),
        ([], "starts"),
        ([0, 2.5, 7], r"starts is 2\.5 in row 1, expected a whole number"),
        ([[0, 7]], "starts"),
        (["a", "b"], "starts"),
    ],
)
def test_lists_that_are_wrong_say_how(starts, message):
    with pytest.raises(InputError, match=message) as error:
        ActionLists(np.ones((7, 2)), starts)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0], [np.nan]], "row 1|features"),
        ([["a"], ["b"]], "features .*numbers"),
        ([1.0, 2.0], r"features has shape \(2,\)"),
        (np.zeros((2, 0)), "features"),
    ],
)
def test_features_that_are_wrong_say_how(features, message):
    with pytest.raises(InputError, match=message) as error:
        ActionLists(features, [0, 2])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda policy: policy.marginals(np.ones((2, 3))), "X has 3 features, the policy has 2"),
        (lambda policy: policy.marginals(LISTS), "ActionLists"),
        (lambda policy: policy.log_prob(np.ones((2, 2)), [0, 3]), "Y is 3 in row 1"),
        (lambda policy: policy.log_prob(np.ones((2, 2)), [0, -1]), "Y is -1 in row 1"),
        (lambda policy: policy.log_prob(np.ones((2, 2)), [0]), "Y has 1 rows, expected 2"),
        (lambda policy: policy.log_prob(np.ones((2, 2)), [[0, 1, 0], [1, 0, 0]]), "Y"),
        (
            lambda policy: policy.marginals(np.ones((2, 2)), eligible=np.ones((2, 2), dtype=bool)),
            "eligible has 2 columns, expected one for each of 3 actions",
        ),
        (
            lambda policy: policy.log_prob(np.ones((2, 2)), [0, 1], eligible=[[True, True, True], [True, False, True]]),
            "Y is 1 in row 1.*eligible",
        ),
        (lambda policy: policy.sample(np.ones((1, 2)), 0, eligible=[[False, False, False]]), "eligible"),
        (lambda policy: SoftmaxPolicy([1.0, 1.0]).marginals(np.ones((2, 2))), "[Ll]ists"),
        (lambda policy: SoftmaxPolicy([1.0, 1.0]).log_prob(LISTS, [0, 1, 0]), "Y is 1 in row 1"),
        (lambda policy: SoftmaxPolicy([1.0]).marginals(LISTS), "2 features"),
        (lambda policy: SoftmaxPolicy(1.0), "coef"),
        (lambda policy: SoftmaxPolicy([[np.inf]]), "coef has a NaN or infinite entry"),
        (lambda policy: SoftmaxPolicy(np.ones((2, 3)), [1.0, 2.0]), "intercept"),
        (lambda policy: ExponentialPolicy(np.ones((2, 3))).marginals(LISTS), "ActionLists"),
        (
            lambda policy: ExponentialPolicy(np.ones((2, 3))).marginals(np.ones((1, 2)), eligible=[[True] * 3]),
            "eligible",
        ),
    ],
)
def test_a_policy_says_what_it_cannot_take(call, message):
    with pytest.raises(InputError, match=message) as error:
        call(SoftmaxPolicy(np.ones((2, 3))))
    assert "\n" not in str(error.value)


def test_a_policy_of_another_kind_is_refused():
    """Of as many labels as there are actions, too."""
    labels, single = ExponentialPolicy(np.zeros((2, 3))), SoftmaxPolicy(np.zeros((2, 3)))
    of_labels = BanditLog(GOOD["X"], np.eye(3, dtype=int), GOOD["propensity"], GOOD["cost"])
    of_choices, of_lists = BanditLog(**GOOD), BanditLog(**{**GOOD, "X": LISTS, "Y": [0, 0, 2]})
    for policy, log in (
        (labels, of_choices),
        (single, of_labels),
        (single, of_lists),
        (SoftmaxPolicy(np.zeros(2)), of_choices),
        (SoftmaxPolicy(np.zeros((2, 4))), of_choices),
        (SoftmaxPolicy(np.zeros(3)), of_lists),
    ):
        with pytest.raises(InputError, match=r"expected|is over .*, the log has") as error:
            forward_policy(policy, log)
        assert "\n" not in str(error.value)


def test_a_kind_has_its_policy():
    for log, coef, kind in (
        (BanditLog(**GOOD), np.zeros((2, 3)), SoftmaxPolicy),
        (BanditLog(**{**GOOD, "X": LISTS, "Y": [0, 0, 2]}), np.zeros(2), SoftmaxPolicy),
        (
            BanditLog(GOOD["X"], np.eye(3, dtype=int), GOOD["propensity"], GOOD["cost"]),
            np.zeros((2, 3)),
            ExponentialPolicy,
        ),
    ):
        policy = make_policy(log.actions, coef)
        assert type(policy) is kind
        assert as_policy(policy) is policy
        forward_policy(policy, log)
    assert repr(SoftmaxPolicy(np.zeros((2, 3)))) == "SoftmaxPolicy(2 features, one of 3 actions)"
