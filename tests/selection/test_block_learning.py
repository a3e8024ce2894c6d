"""Learning in blocks: what each policy is learned from, which candidate it is, and its test on the next block."""

import numpy as np
import pytest
from fixtures.action_logs import block_log
from scipy import stats
from sklearn.linear_model import LinearRegression

from drcrm import BanditLog, off_policy_value
from drcrm.data.folds import draw_folds, number_blocks
from drcrm.logging_policy import LoggingPolicy
from drcrm.optimization.lbfgs import LbfgsSettings
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.block_learning import Learner, _Key, learn_in_blocks
from drcrm.selection.fit_settings import FitSettings, SafeCandidates
from drcrm.selection.grid_search import learn_with_features
from drcrm.selection.learned_scores import ScoredLog

OPTIONS = {"confidence": 0.95, "estimate": "dr", "start": "model", "tilt": "auto", "safe": True}
ROUGH = LbfgsSettings(tol=1e-3)
ALGORITHM = Algorithm(
    "KLDRO",
    options=OPTIONS | {"radius": 0.01},
    settings=FitSettings(ROUGH, around=SafeCandidates(ridges=(), steps=(0.5,))),
)
AROUND = SafeCandidates(ridges=(1e-2,), steps=(0.5,), sharpened=(2.0,), greedy=5.0)
GRID = Algorithm("KLDRO", "radius", (0.001, 0.1), OPTIONS, FitSettings(ROUGH, around=AROUND))
pytestmark = pytest.mark.filterwarnings("ignore:the (estimate by|effective sample size|mean weight)")


class Regressor(LinearRegression):
    """A regressor whose fits a test records."""


def fit(train, heldout, algorithm):
    return learn_with_features(train, algorithm, heldout)


def log_of(n: int = 300, seed: int = 0, gain: float = 1.0) -> BanditLog:
    """Return a log of uniform choices among three actions, whose costs depend on the context."""
    rng = np.random.default_rng(seed)
    X, A = np.column_stack([np.ones(n), rng.normal(size=n)]), rng.integers(0, 3, n)
    return BanditLog(X, A, np.full(n, 1 / 3), rng.normal(size=n) - gain * (1 + (X[:, 1] > 0) == A))


def learn(log: BanditLog, blocks: int = 2, algorithm: Algorithm = ALGORITHM):
    return learn_in_blocks(log, number_blocks(log.unit_numbers, blocks), Learner([algorithm], fit))


def coefficients(learned) -> list[np.ndarray]:
    return [block.policy.coef for block in learned.blocks]


def test_a_policy_does_not_depend_on_the_rows_of_its_block_and_later_ones():
    log = log_of(150)
    block = number_blocks(log.unit_numbers, 2)
    policies = coefficients(learn(log))
    for number in (1, 2):
        rng = np.random.default_rng(number)
        cost = np.where(block < number, log.cost, rng.normal(size=150))
        changed = coefficients(learn(log.with_cost(cost)))
        assert all(np.array_equal(*pair) for pair in zip(policies[:number], changed[:number], strict=True))
        assert not any(np.array_equal(*pair) for pair in zip(policies[number:], changed[number:], strict=True))


@pytest.mark.parametrize("kind", ["single", "eligible", "lists", "labels"])
def test_changes_are_doubly_robust_differences_on_the_blocks(kind):
    """The cost model of each block's policy is fitted to the rows before; the bound is their stabilised mean."""
    log = block_log(kind, 100).merge_duplicates()[0]
    block = number_blocks(log.unit_numbers, 2)
    learner = Learner([ALGORITHM.with_settings(support=0.0)], fit)
    learned = learn_in_blocks(log, block, learner)
    for number, tested in enumerate(learned.blocks, 1):
        rows = log.recount(log.count * (block == number))
        before = log.recount(log.count * (block < number))
        model = fit(before, None, learner.algorithms[0]).cost_model
        value = off_policy_value(tested.policy, rows, "dr", cost_model=model, baseline="logging")
        assert tested.rows == rows.size
        assert tested.low < tested.change < tested.high
        assert tested.change >= float(value) - 1e-9  # charges for missing actions can only raise it
    assert learned.blocks[0].first == log.count[block == 0].sum() + 1
    assert learned.blocks[-1].last == log.size


def test_the_bound_follows_from_the_printed_blocks():
    """Independent route: standard deviations from the intervals, and the formula of the weights."""
    learned = learn(log_of(1000))
    n = np.array([block.rows for block in learned.blocks])
    change = np.array([block.change for block in learned.blocks])
    width = np.array([block.high - block.low for block in learned.blocks]) / 2
    deviation = width / stats.t(n - 1).ppf(0.975) * np.sqrt(n)
    precision = n / deviation
    error = np.sqrt(n.sum()) / precision.sum()
    u = stats.norm.ppf(0.95)
    quantile = stats.t(n.sum() - 2).ppf(0.95) + learned.bound.skewness * (2 * u**2 + 1) / 6
    assert learned.improvement_bound == pytest.approx(change @ precision / precision.sum() + quantile * error, rel=1e-9)
    assert [block.weight for block in learned.blocks] == pytest.approx(precision / precision.sum())
    assert learned.improvement_bound < 0


@pytest.mark.parametrize("algorithm", [ALGORITHM, GRID])
def test_each_candidate_can_be_fitted_again(algorithm):
    """An algorithm that is restricted to a candidate has the candidate in its place."""
    log = log_of()
    whole = fit(log, None, algorithm)
    assert len(whole.candidates) == (3 if algorithm is ALGORITHM else 9)
    for index, candidate in enumerate(whole.candidates[:-1]):
        key = _Key.of(candidate, index < len(algorithm.values))
        again = fit(log, None, key.restrict(algorithm)).candidates
        assert len(again) == 2 + (not key.is_in_grid)
        found = again[0 if key.is_in_grid else 1]
        assert _Key.of(found, key.is_in_grid) == key
        assert found.policy.coef == pytest.approx(candidate.policy.coef, abs=1e-3)


def test_the_choice_is_the_candidate_with_the_least_mean_plus_one_standard_error():
    log = log_of(200, gain=0.3)
    fold = draw_folds(log.unit_numbers, 3)
    algorithms = [ALGORITHM, GRID]
    chosen = Learner(algorithms, fit).learn(log, fold)
    bounds = {}
    for number, algorithm in enumerate(algorithms):
        folds = [fit(log.take(fold != k), log.take(fold == k), algorithm) for k in range(3)]
        for index, candidate in enumerate(folds[0].candidates[:-1]):
            z = np.concatenate([learned.differences.clipped[:, index] for learned in folds])
            bounds[number, _Key.of(candidate, index < len(algorithm.values))] = z.mean() + stats.sem(z)
    number, key = min(bounds, key=bounds.get)
    assert chosen.algorithm == key.restrict(algorithms[number])
    assert chosen.learned.selected == (0 if key.is_in_grid else 1)


@pytest.mark.parametrize("logging", [None, LoggingPolicy(SoftmaxPolicy(np.zeros((2, 3))))])
def test_learned_scores_are_fitted_once_for_the_choice_and_the_chosen_fit(logging, monkeypatch):
    """The choice is that of cross-fitting over the shared scores, and the chosen candidate is the one that was best."""
    log = log_of(300)
    fold, sizes = draw_folds(log.unit_numbers, 3), []
    monkeypatch.setattr(Regressor, "fit", lambda self, X, y: sizes.append(len(X)) or LinearRegression.fit(self, X, y))
    algorithm = GRID.with_settings(features=[Regressor()])
    chosen = Learner([algorithm], fit, logging).learn(log, fold)
    assert sum(sizes) == 3 * 300  # without each of three folds, and all rows
    scored = ScoredLog.of(log, algorithm, logging, fold)
    parts = [scored.take(fold != k).fit(algorithm, scored.take(fold == k).listed) for k in range(3)]
    bounds = {}
    for index, candidate in enumerate(parts[0].candidates[:-1]):
        z = np.concatenate([learned.differences.clipped[:, index] for learned in parts])
        bounds[_Key.of(candidate, index < len(algorithm.values))] = z.mean() + stats.sem(z)
    best = min(bounds, key=bounds.get)
    candidate = chosen.learned.candidates[chosen.learned.selected]
    assert _Key.of(candidate, best.is_in_grid) == best == chosen.key
    [again] = [fit for fit in scored.learn(algorithm).candidates if _Key.of(fit, best.is_in_grid) == best]
    assert candidate.policy.coef == pytest.approx(again.policy.coef, abs=1e-3 * np.abs(again.policy.coef).max())


def test_groups_are_in_one_block_and_are_the_units_of_the_test():
    """Each row is a group with four copies of itself, so that only the number of rows differs."""
    log, rows = log_of(200), np.repeat(np.arange(200), 4)
    groups = log.take(rows).with_groups(rows).merge_duplicates()[0]
    plain, grouped = learn(log), learn(groups)
    for one, other in zip(plain.blocks, grouped.blocks, strict=True):
        assert other.rows == 4 * one.rows
        assert other.high - other.low == pytest.approx(one.high - one.low, rel=0.1)


def test_fits_to_more_rows_begin_at_those_to_fewer_rows():
    """The first block's fits begin at the start, and the others at the last fit without the same fold."""
    begins = []

    def record(train, heldout, algorithm):
        if heldout is not None:
            begins.append(algorithm.settings.begins)
        return fit(train, heldout, algorithm)

    log = log_of()
    learn_in_blocks(log, number_blocks(log.unit_numbers, 2), Learner([ALGORITHM], record))
    assert [len(of_fit) for of_fit in begins] == [0, 0, 0, 1, 1, 1]
