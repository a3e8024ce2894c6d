"""A log in blocks gives the same numbers as one block, for any order of its rows and any number of threads."""

import numpy as np
import pytest
from fixtures.action_logs import (
    BLOCK_KINDS,
    block_log,
    evaluate_all,
    random_coef,
    random_effects,
    use_small_blocks,
    use_small_samples,
)
from threadpoolctl import threadpool_info

from drcrm import KLDRO, BanditLog
from drcrm.data import chunked_log
from drcrm.data.chunked_log import PREFETCH, ChunkedLog, Chunks, count_threads, limit_openmp, use_threads
from drcrm.errors import InputError
from drcrm.optimization import objective
from drcrm.optimization.objective import Objective
from drcrm.policies import prepared_log
from drcrm.policies.prepared_log import PreparedLog, modelled_cost
from drcrm.risks import Chi2Ball, KLBall, MeanRisk


def assert_close(values: list, expected: list, tolerance: float = 1e-10) -> None:
    for value, known in zip(values, expected, strict=True):
        assert value == pytest.approx(known, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("kind", BLOCK_KINDS)
def test_blocks_and_threads_give_the_values_of_one_block(kind, monkeypatch):
    log = block_log(kind, 150)
    effects = random_effects(log)
    whole, modelled = evaluate_all(log, effects), modelled_cost(log, effects)
    for size in (7, 149, 150):
        use_small_blocks(monkeypatch, size)
        assert_close(evaluate_all(log, effects), whole)
        assert modelled_cost(log, effects) == pytest.approx(modelled, rel=1e-12)
    use_small_blocks(monkeypatch)
    in_blocks = evaluate_all(log, effects)
    with use_threads(2):
        assert all(np.array_equal(*pair) for pair in zip(evaluate_all(log, effects), in_blocks, strict=True))
    monkeypatch.setattr(objective, "MAX_KEPT_SCORES", 0)  # nothing is kept between the passes of an evaluation
    assert_close(evaluate_all(log, effects), in_blocks)


@pytest.mark.parametrize("kind", ["labels", "lists"])
@pytest.mark.parametrize(
    "risk",
    [MeanRisk(), KLBall(0.01), KLBall(0.5), KLBall("auto"), KLBall(0), KLBall(3), KLBall(90), Chi2Ball(0.1)],
    ids=repr,
)
def test_searches_over_blocks_find_the_value_of_one_block(kind, risk, monkeypatch):
    log, rng = block_log(kind, 90), np.random.default_rng(1)
    prepared = PreparedLog(log, random_effects(log))
    whole = [Objective(prepared, risk, estimate=estimate) for estimate in ("ips", "dr")]
    use_small_blocks(monkeypatch)
    prepared = PreparedLog(log, random_effects(log))
    assert len(prepared.chunked.blocks) > 4
    for expected, estimate in zip(whole, ("ips", "dr"), strict=True):
        in_blocks, guess = Objective(prepared, risk, estimate=estimate), None
        for _ in range(3):
            coef = rng.normal(size=prepared.shape)
            *result, guess = in_blocks.evaluate(coef, guess)
            assert_close(result, expected(coef), 1e-9)


@pytest.mark.parametrize("cost", [0.0, 1e-90, 1e90, 1e-8], ids=str)
def test_blocks_take_costs_of_any_size(cost, monkeypatch):
    log = block_log("single", 90)
    log, coef = log.replace(cost=cost * np.arange(len(log.Y))), random_coef(log)
    expected, gradient = Objective(PreparedLog(log), KLBall(0.1))(coef)
    use_small_blocks(monkeypatch)
    result = Objective(PreparedLog(log), KLBall(0.1))(coef)
    assert result[0] == pytest.approx(expected, rel=1e-9)
    assert result[1] == pytest.approx(gradient, rel=1e-8, abs=0)


@pytest.mark.parametrize(
    ("m", "K", "size", "blocks"), [(40_000, 5, 40_000, 1), (70_000, 5, 2**15, 3), (5000, 400, 256, 20)]
)
def test_blocks_depend_only_on_the_shape_of_the_log(m, K, size, blocks):
    chunked = ChunkedLog(BanditLog(np.ones((m, 2)), np.zeros(m), np.ones(m), np.zeros(m), n_actions=K))
    assert len(chunked.blocks) == blocks
    assert chunked.blocks[0].log.n_contexts == size


@pytest.mark.parametrize("is_large", [True, False])
def test_contexts_without_rows_do_not_change_a_fit(is_large, monkeypatch):
    if is_large:
        use_small_samples(monkeypatch, 200, prepared_log.GROWTH)
        monkeypatch.setattr(chunked_log, "LARGE", 500)
    rng, m = np.random.default_rng(0), 1500
    X, Y, cost, count = rng.normal(size=(m, 3)), rng.integers(0, 2, m), -rng.random(m), rng.integers(0, 4, m)
    result, expected = (
        KLDRO(radius=0.1, estimate="dr", fit_intercept=True).fit(
            X[rows], Y[rows], propensity=np.full(len(Y[rows]), 0.5), cost=cost[rows], count=count[rows]
        )
        for rows in (slice(None), count > 0)
    )
    assert result.coef_ == pytest.approx(expected.coef_, rel=1e-10)


@pytest.mark.parametrize("jobs", [0, 1.5, True, "2"])
def test_n_jobs_must_be_a_whole_number_other_than_zero(jobs):
    with pytest.raises(InputError, match="n_jobs is"):
        count_threads(jobs)


def test_negative_n_jobs_count_from_the_number_of_cores():
    assert (count_threads(None), count_threads(3), count_threads(-1000)) == (1, 3, 1)
    assert [count_threads(kind(3)) for kind in (np.int64, np.int8, np.uint16)] == [3, 3, 3]
    assert count_threads(-1) == max(count_threads(-2) + 1, 1) or count_threads(-1) == 1


def test_threads_run_only_a_few_calls_ahead():
    """Results that are computed faster than the caller stores them would fill the memory."""
    begun, most_waiting = [], 0
    with use_threads(2):
        for number, result in enumerate(Chunks(range(200)).map(lambda item: begun.append(item) or item)):
            assert result == number
            most_waiting = max(most_waiting, len(begun) - number)
    assert sorted(begun) == [*range(200)]
    assert most_waiting <= 2 * PREFETCH + 1


@pytest.mark.parametrize("threads", [1, 2])
def test_openmp_takes_the_threads_of_the_executor(threads):
    """scikit-learn's boosted trees use OpenMP."""
    import sklearn.ensemble  # noqa: F401  loads its library

    with use_threads(threads), limit_openmp():
        used = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "openmp"]
    assert used
    assert set(used) == {threads}
