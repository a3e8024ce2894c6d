"""DoublyRobustDRO with blocks: when it keeps the policy, its attributes, and how often noise passes for a gain."""

import pickle

import numpy as np
import pytest

from drcrm import DoublyRobustDRO, off_policy_value
from drcrm.errors import InputError

FAST = {"tol": 1e-3, "n_blocks": 2}
KEEPS = "DoublyRobustDRO keeps π0: "
keeps_logging_policy = pytest.mark.filterwarnings("ignore:DoublyRobustDRO keeps π0")


@pytest.fixture(params=["labels", "single", "eligible", "lists"])
def data(request, make_kind):
    return make_kind(request.param, contexts=200)


def simulate(n: int, effect: float, seed: int) -> tuple:
    """Return X, A, p and c of clicks: the rate of two of three actions depends on the context."""
    rng = np.random.default_rng(seed)
    X, A = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)]), rng.integers(0, 3, n)
    rate = 0.3 + effect * np.sign(X[:, 0]) * (A - 1)
    return X, A, np.full(n, 1 / 3), -(rng.random(n) < rate).astype(float)


def test_a_gain_is_shown_for_the_mixture_and_the_policy_is_fitted_to_all_rows(data):
    estimator = data.fit(DoublyRobustDRO(**FAST, validation="blocks"), logging_policy=data.logging_policy)
    assert estimator.improvement_bound_ < 0
    assert len(estimator.blocks_) == 2
    assert sum(block.weight for block in estimator.blocks_) == pytest.approx(1)
    assert estimator.blocks_[-1].last == data.rows["count"].sum()
    assert (estimator.heldout_.tolist(), estimator.n_candidates_) == ([], 1)
    if (estimator.step_, estimator.ridge_, estimator.sharpness_) == (1, 0, 1):
        again = data.fit(DoublyRobustDRO(safe=False, tol=1e-3), logging_policy=data.logging_policy)
        assert estimator.coef_ == pytest.approx(again.coef_, rel=1e-6)
    model = estimator.cost_model_
    value = off_policy_value(estimator.mixture_, data.log, "dr", cost_model=model)
    parts = [off_policy_value(block.policy, data.log, "dr", cost_model=model) for block in estimator.blocks_]
    assert value == pytest.approx(np.dot([block.weight for block in estimator.blocks_], parts), rel=1e-9)


def test_without_a_gain_the_logging_policy_is_kept_with_a_warning():
    log = simulate(200, 0.0, 3)
    message = f"^{KEEPS}the way of learning is not shown to be better on 150 rows in 2 blocks; log more rows"
    with pytest.warns(UserWarning, match=message):
        estimator = DoublyRobustDRO(**FAST, validation="blocks").fit(*log)
    assert estimator.improvement_bound_ >= 0
    assert estimator.step_ == 0
    assert len(estimator.blocks_) == 2


def test_small_logs_keep_the_logging_policy():
    with pytest.warns(UserWarning, match=f"^{KEEPS}no test is possible with fewer than 10 units or 30 rows in a block"):
        estimator = DoublyRobustDRO(**FAST, validation="blocks").fit(*simulate(116, 0.3, 0))
    assert (estimator.improvement_bound_, estimator.blocks_, estimator.mixture_) == (np.inf, [], None)
    enough = DoublyRobustDRO(**FAST, validation="blocks").fit(*simulate(120, 0.3, 0))
    assert len(enough.blocks_) == 2


@keeps_logging_policy
def test_equal_costs_show_nothing():
    X, A, p, _ = simulate(200, 0.0, 0)
    with pytest.warns(UserWarning, match="ends where it began: all costs are equal"):
        estimator = DoublyRobustDRO(**FAST, validation="blocks").fit(X, A, p, np.full(200, -1.0))
    assert estimator.improvement_bound_ == np.inf


@keeps_logging_policy
def test_the_order_of_the_blocks_depends_on_the_seed():
    log = simulate(200, 0.2, 0)
    first, other = (DoublyRobustDRO(**FAST, validation="blocks", random_state=seed).fit(*log) for seed in (0, 1))
    assert first.improvement_bound_ != other.improvement_bound_
    assert pickle.loads(pickle.dumps(first)).blocks_[0].change == first.blocks_[0].change


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation": "folds"}, "^validation is 'folds', expected one of 'holdout', 'blocks'$"),
        ({"n_blocks": 0}, "^n_blocks is 0, expected"),
    ],
)
def test_invalid_parameters_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        DoublyRobustDRO(**options).fit(*simulate(200, 0.0, 0))


@pytest.mark.slow
@keeps_logging_policy
def test_noise_is_called_better_at_the_level_and_more_gains_are_shown_than_with_holdout():
    """Of 60 logs, 7 or more are called better by chance with a probability of .02."""
    settings = {"max_iter": 60, "tol": 1e-4}
    fit = lambda effect, seed, **options: DoublyRobustDRO(**settings, **options).fit(*simulate(600, effect, seed))  # noqa: E731
    assert sum(fit(0.0, seed, validation="blocks").improvement_bound_ < 0 for seed in range(60)) <= 6
    shown = [sum(fit(0.12, s, validation=v).improvement_bound_ < 0 for s in range(30)) for v in ("holdout", "blocks")]
    assert shown[1] > shown[0]
