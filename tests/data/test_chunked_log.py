"""A log in blocks gives the numbers that it gives as one, whatever the order of its rows and the number of threads."""

import numpy as np
import pytest
from scipy import sparse

from drcrm import ActionLists, BanditLog, DoublyRobustDRO
from drcrm.cost_models import second_moments as moments
from drcrm.cost_models.context_effects import context_effects
from drcrm.cost_models.ridge_model import CostModel
from drcrm.cost_models.second_moments import moments_by_fold
from drcrm.data import chunked_log
from drcrm.data.chunked_log import ChunkedLog
from drcrm.data.executors import PREFETCH, Chunks, count_threads, use_threads
from drcrm.data.scaling import describe_offset_features
from drcrm.errors import InputError
from drcrm.optimization import lbfgs as optimiser
from drcrm.optimization.lbfgs import LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies import linear_predictor as design
from drcrm.policies.linear_predictor import LinearPredictor, modelled_cost
from drcrm.risks import Chi2Ball, KLBall, MeanRisk
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.grid_search import learn

KINDS = ["labels", "labels, shuffled", "own", "single", "eligible", "lists", "sparse"]


def logged(kind: str, m: int = 60, seed: int = 0) -> BanditLog:
    """A log of m contexts, with several rows each unless each has its own."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(m, 3)), np.ones(m)])
    n = m if kind == "own" else 4 * m
    context = np.arange(m) if kind == "own" else np.sort(np.append(np.arange(m), rng.integers(0, m, n - m)))
    if kind.endswith("shuffled"):
        context = rng.permutation(context)
    p, cost, count = rng.uniform(0.1, 1, n), rng.normal(size=n) - 1, rng.integers(1, 4, n)
    if kind == "lists":
        sizes = rng.integers(2, 5, m)
        starts = np.append(0, np.cumsum(sizes))
        X = ActionLists(rng.normal(size=(starts[-1], 3)), starts)
        return BanditLog(X, rng.integers(0, sizes[context]), p, cost, context, count)
    if kind == "single":
        return BanditLog(X, rng.integers(0, 4, n), p, cost, context, count, n_actions=4)
    if kind == "eligible":
        eligible = rng.random((m, 4)) < 0.7
        eligible[:, 0] = True
        Y = np.where(eligible[context, 3], 3, 0)
        return BanditLog(X, Y, p, cost, context, count, n_actions=4, eligible=eligible)
    return BanditLog(
        sparse.csr_array(X) if kind == "sparse" else X, rng.integers(0, 2, (n, 3)), p, cost, context, count
    )


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few contexts, for a log that is not larger."""

    def begin(size: int = 7) -> None:
        monkeypatch.setattr(chunked_log, "LARGE", 1)
        monkeypatch.setattr(chunked_log, "MOST_CONTEXTS", size)

    return begin


def passed_over(log: BanditLog, coef: np.ndarray, effects: np.ndarray) -> list:
    objective = Objective(LinearPredictor(log, effects, trains=True), KLBall(0.1), None, "dr")
    return [*objective.design.forward(coef), *objective(coef), modelled_cost(log, effects)]


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_the_log(kind, small_blocks):
    log, rng = logged(kind), np.random.default_rng(1)
    coef = rng.normal(size=(log.X.shape[1], *log.actions.shape))
    effects = rng.normal(size=(log.X.shape[0], *log.actions.effect_space.shape))
    whole = passed_over(log, coef, effects)
    for size in (1, 7, 59, 60):
        small_blocks(size)
        for found, expected in zip(passed_over(log, coef, effects), whole, strict=True):
            assert found == pytest.approx(expected, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_has_its_contexts_and_their_rows(kind, small_blocks):
    log = logged(kind)
    small_blocks()
    chunked = ChunkedLog(log, log.X, None)
    rows = np.concatenate([np.arange(len(log.Y))[block.rows] for block in chunked.blocks])
    assert np.array_equal(np.sort(rows), np.arange(len(log.Y))), "each row is in one block"
    assert [*chunked.blocks.map_groups(len)] == [4, 4, 1]
    for block in chunked.blocks:
        assert block.context_arrays[1] is None
        assert np.array_equal(block.log.context + block.contexts.start, log.context[block.rows])
        assert np.array_equal(block.log.cost, log.cost[block.rows])
    assert np.array_equal(chunked.map_rows(lambda block: block.log.cost), log.cost)


@pytest.mark.parametrize(
    ("m", "K", "size", "blocks"), [(40_000, 5, 40_000, 1), (70_000, 5, 2**15, 3), (5000, 400, 256, 20)]
)
def test_blocks_depend_on_the_shape_of_the_log(m, K, size, blocks):
    chunked = ChunkedLog(BanditLog(np.ones((m, 2)), np.zeros(m), np.ones(m), np.zeros(m), n_actions=K))
    assert len(chunked.blocks) == blocks
    assert chunked.blocks[0].log.n_contexts == size


@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_no_digit(kind, small_blocks):
    log, rng = logged(kind, 300), np.random.default_rng(2)
    coef = rng.normal(size=(log.X.shape[1], *log.actions.shape))
    effects = rng.normal(size=(log.X.shape[0], *log.actions.effect_space.shape))
    small_blocks()
    alone = passed_over(log, coef, effects)
    for jobs in (2, 3):
        with use_threads(jobs):
            assert all(np.array_equal(*pair) for pair in zip(passed_over(log, coef, effects), alone, strict=True))


def test_scores_beyond_numbers_are_as_in_one_block(small_blocks):
    log = logged("own")
    coef = np.full((4, 3), 1e200)
    whole = LinearPredictor(log, trains=True).forward(coef)[0]
    small_blocks()
    assert np.array_equal(LinearPredictor(log, trains=True).forward(coef)[0], whole, equal_nan=True)


@pytest.mark.parametrize("kind", ["labels", "labels, shuffled", "own", "single"])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_cost_model_by_moments_is_that_by_conjugate_gradients(kind, intercept, small_blocks):
    log = logged(kind, 200)
    log = log.replace(X=log.X * [1e3, 1, 1e-3, 1][: log.X.shape[1]])
    slow = CostModel().fit_log(log, intercept)
    small_blocks()
    assert moments_by_fold(log, np.ones(4), np.arange(len(log.Y)) % 4) is not None
    fast = CostModel().fit_log(log, intercept)
    assert fast.penalty_ == slow.penalty_
    scale = np.abs(slow.effects(log.X)).max()
    assert fast.effects(log.X) == pytest.approx(slow.effects(log.X), abs=1e-8 * scale)


def test_moments_are_sums_of_rows_and_give_squared_errors(small_blocks):
    log, rng = logged("labels", 40), np.random.default_rng(3)
    small_blocks()
    fold, scales = rng.integers(0, 3, 40), np.array([1.0, 2.0, 3.0, 4.0])
    found = moments_by_fold(log, scales, fold[log.context])
    B, intercept = rng.normal(size=(4, 4)), 0.3
    z = np.einsum("ia,ij->ija", np.column_stack([log.Y, np.ones(len(log.Y))]), (log.X / scales)[log.context])
    squared = log.count * (log.cost - (z * B).sum(axis=(1, 2)) - intercept) ** 2
    for number, each in enumerate(found):
        rows = fold[log.context] == number
        assert each.size == log.count[rows].sum()
        assert each.squared_error(B, intercept) == pytest.approx(squared[rows].sum(), rel=1e-12)
    whole = found[0] + found[1] + found[2]
    assert (whole - found[1]).sums == pytest.approx((found[0] + found[2]).sums)
    [coef] = whole.solve([0.1])
    flat = z.reshape(len(z), -1)
    share = log.count / log.size
    centred = flat - share @ flat
    left = (centred * share[:, None]).T @ centred + 0.1 * np.eye(16)
    assert coef.ravel() == pytest.approx(np.linalg.solve(left, centred.T @ (share * log.cost)), rel=1e-9)


@pytest.mark.parametrize("most", ["MAX_ACTIONS", "MAX_BLOCK_COLUMNS", "MAX_NUMBERS"])
def test_moments_that_are_too_many_are_not_made(most, small_blocks, monkeypatch):
    log = logged("labels")
    small_blocks()
    monkeypatch.setattr(moments, most, 1)
    assert moments_by_fold(log, np.ones(4), np.zeros(len(log.Y), dtype=int)) is None


@pytest.mark.parametrize("kind", ["labels", "single", "lists"])
def test_samples_grow_and_are_of_the_log(kind, monkeypatch):
    log = logged(kind, 200)
    monkeypatch.setattr(design, "SAMPLE", 5)
    monkeypatch.setattr(design, "GROWTH", 3)
    whole = LinearPredictor(log, np.zeros((log.X.shape[0], *log.actions.effect_space.shape)), trains=True)
    sizes, last = [], set()
    for some, rows in whole.samples:
        sizes.append(some.log.n_contexts)
        assert np.array_equal(some.log.cost, log.cost[rows])
        assert last <= {*rows}, "each has the one before"
        last = {*rows}
    assert sizes == [5, 15, 45]
    assert not LinearPredictor(logged(kind, 19)).samples


@pytest.mark.parametrize("radius", [0.01, "auto"])
def test_an_objective_on_a_sample_is_as_robust_as_its_rows_ask_for(radius, monkeypatch):
    monkeypatch.setattr(design, "SAMPLE", 10)
    log = logged("labels", 80)
    objective = Objective(LinearPredictor(log, trains=True), KLBall(radius))
    some = next(objective.samples())
    known = [each.risk.radius_at(each.estimate.size) * each.estimate.size for each in (objective, some)]
    assert known[0] == pytest.approx(known[1], rel=1e-12)
    assert some.estimate.size == some.design.log.size
    assert type(MeanRisk().for_fewer_rows(8)) is MeanRisk


@pytest.mark.parametrize("kind", ["labels", "single", "lists"])
@pytest.mark.parametrize("estimate", ["ips", "dr"])
@pytest.mark.parametrize(
    "risk",
    [MeanRisk(), KLBall(0.01), KLBall(0.5), KLBall("auto"), KLBall(0), KLBall(3), KLBall(90), Chi2Ball(0.1)],
    ids=repr,
)
def test_sums_over_blocks_give_what_all_rows_at_once_do(kind, estimate, risk, small_blocks):
    log, rng = logged(kind, 90), np.random.default_rng(1)
    effects = rng.normal(size=(log.X.shape[0], *log.actions.effect_space.shape))
    whole = Objective(LinearPredictor(log, effects, trains=True), risk, estimate=estimate)
    assert len(whole.design.chunked.blocks) == 1
    small_blocks()
    objective = Objective(LinearPredictor(log, effects, trains=True), risk, estimate=estimate)
    assert len(objective.design.chunked.blocks) > 4
    guess = None
    for _ in range(3):
        coef = rng.normal(size=objective.design.shape)
        value, gradient, guess = objective.evaluate(coef, guess)
        expected, slope = whole(coef)
        assert value == pytest.approx(expected, rel=1e-10, abs=1e-12)
        assert gradient == pytest.approx(slope, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("cost", [0.0, 1e-200, 1e200, 1e-8], ids=str)
def test_sums_over_blocks_of_costs_of_any_size(cost, small_blocks):
    log = logged("single", 90)
    log = log.replace(cost=cost * np.arange(len(log.Y)))
    coef = np.random.default_rng(2).normal(size=(log.X.shape[1], *log.actions.shape))
    expected, slope = Objective(LinearPredictor(log, trains=True), KLBall(0.1))(coef)
    small_blocks()
    value, gradient = Objective(LinearPredictor(log, trains=True), KLBall(0.1))(coef)
    assert value == pytest.approx(expected, rel=1e-9)
    assert gradient == pytest.approx(slope, rel=1e-8, abs=0)


@pytest.mark.parametrize("estimate", ["ips", "snips", "dr", "dm"])
def test_a_fit_by_stages_ends_where_one_in_one_go_does(estimate, monkeypatch, small_blocks):
    log = logged("labels", 400)
    effects = CostModel().fit_log(log).effects(log.X)

    def fitted() -> list:
        built = LinearPredictor(log, None if estimate in ("ips", "snips") else effects, trains=True)
        objectives = [Objective(built, risk, estimate=estimate) for risk in (MeanRisk(), KLBall(0.01))]
        return list(
            minimize_objectives(objectives, np.zeros(built.shape), LbfgsSettings(tol=1e-9), ridges=[0.05, 0.05])
        )

    plain = fitted()
    small_blocks(50)
    monkeypatch.setattr(optimiser, "LARGE_TOLERANCE", 1e-9)
    monkeypatch.setattr(design, "LARGE", 1)
    monkeypatch.setattr(design, "SAMPLE", 20)
    monkeypatch.setattr(design, "GROWTH", 4)
    staged = fitted()
    for one, other in zip(staged, plain, strict=True):
        assert one.converged
        assert one.objective == pytest.approx(other.objective, abs=1e-6)


def test_a_large_log_is_learned_from_by_any_number_of_threads(capsys):
    rng = np.random.default_rng(4)
    n = 2**17
    X = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    Y = rng.integers(0, 3, n)
    cost = -(rng.random(n) < np.where((X[:, 0] > 0) == (Y == 1), 0.7, 0.2)).astype(float)
    found = [
        DoublyRobustDRO(n_jobs=jobs, verbose=jobs == 2).fit(X, Y, propensity=np.full(n, 1 / 3), cost=cost)
        for jobs in (None, 2)
    ]
    assert np.array_equal(found[0].coef_, found[1].coef_)
    assert found[0].improvement_bound_ < -0.1
    greedy = found[0].predict(X[:1000])
    assert ((greedy == 1) == (X[:1000, 0] > 0)).mean() > 0.98
    said = capsys.readouterr()
    assert not said.out
    assert said.err.count("\n") == 1
    assert said.err.startswith("DoublyRobustDRO: ")
    assert "passes, " in said.err
    assert said.err.endswith(" million rows a second\n")


@pytest.mark.parametrize("jobs", [0, 1.5, True, "2"])
def test_jobs_are_a_number(jobs):
    with pytest.raises(InputError, match="n_jobs is"):
        count_threads(jobs)


def test_jobs_are_as_scikit_learn_has_them():
    assert count_threads(None) == 1
    assert count_threads(3) == 3
    assert count_threads(-1) >= 1
    assert count_threads(-1000) == 1


def test_more_jobs_than_chunks_work():
    with use_threads(2**62):
        assert [*Chunks([1, 2, 3]).map(float)] == [1, 2, 3]


def test_far_features_are_seen_in_blocks(monkeypatch):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=100), 2000 + rng.normal(size=100)])
    monkeypatch.setattr("drcrm.data.scaling.BLOCK", 7)
    assert describe_offset_features(X, ["a", "year"]).startswith("column 'year' has a mean")


def test_variances_of_a_large_log_are_those_of_some_contexts(monkeypatch):
    log = logged("labels", 400)
    effects = CostModel().fit_log(log).effects(log.X)
    whole = context_effects(log, effects)
    monkeypatch.setattr(design, "SAMPLE", 100)
    some = context_effects(log, effects)
    assert some.delta.shape == whole.delta.shape
    assert some.rounds == 0, "nothing is estimated on all"
    again = context_effects(log, effects, (some.covariance, some.noise))
    assert np.array_equal(again.delta, some.delta)


def test_a_fit_by_stages_asks_of_its_coefficients_whether_it_is_hopeless(monkeypatch, small_blocks):
    log, asked = logged("labels", 400), []
    small_blocks(50)
    for name, value in {"LARGE": 1, "SAMPLE": 20, "GROWTH": 4}.items():
        monkeypatch.setattr(design, name, value)
    monkeypatch.setattr(optimiser, "MIN_ITERATIONS", 3)
    built = LinearPredictor(log, trains=True)
    objectives = [Objective(built, risk, estimate="snips") for risk in (MeanRisk(), KLBall(0.01))]

    def hopeless(coef: np.ndarray) -> bool:
        asked.append(objectives[len(asked)](coef)[0])
        return False

    fits = list(minimize_objectives(objectives, np.zeros(built.shape), ridges=[0.01, 0.01], give_up=hopeless))
    start = [objective(np.zeros(built.shape))[0] for objective in objectives]
    assert len(asked) == 2
    for before, there, fit in zip(start, asked, fits, strict=True):
        assert there < before, "on the way"
        assert fit.converged


def test_threads_do_not_run_far_ahead_of_what_is_taken():
    """Results that come faster than they are written to disk would fill the memory."""
    begun, most_waiting = [], 0
    with use_threads(2):
        for taken, result in enumerate(Chunks(range(200)).map(lambda item: begun.append(item) or item)):
            assert result == taken
            most_waiting = max(most_waiting, len(begun) - taken)
    assert sorted(begun) == [*range(200)]
    assert most_waiting <= 2 * PREFETCH + 1


@pytest.mark.parametrize("large", [500, 10**6])
def test_contexts_without_rows_are_as_if_they_were_not_there(large, monkeypatch):
    monkeypatch.setattr(chunked_log, "LARGE", large)
    monkeypatch.setattr(design, "LARGE", large)
    monkeypatch.setattr(design, "SAMPLE", 200)
    rng = np.random.default_rng(0)
    m, algorithm = 1500, Algorithm("KLDRO", "radius", (0.1,), {"estimate": "dr", "start": "model"})
    X, Y, cost, count = rng.normal(size=(m, 3)), rng.integers(0, 2, m), -rng.random(m), rng.integers(0, 4, m)
    occurs = count > 0
    found, expected = (
        learn(BanditLog(X[rows], Y[rows], np.full(len(Y[rows]), 0.5), cost[rows], count=count[rows]), algorithm)
        for rows in (slice(None), occurs)
    )
    assert found.fits.coef == pytest.approx(expected.fits.coef, rel=1e-10)
