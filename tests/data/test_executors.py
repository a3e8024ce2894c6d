"""Threads that map functions over chunks."""

import numpy as np
import pytest

from drcrm import DoublyRobustDRO
from drcrm.data.executors import PREFETCH, Chunks, count_threads, use_threads
from drcrm.errors import InputError


@pytest.mark.parametrize("jobs", [0, 1.5, True, "2"])
def test_n_jobs_must_be_a_whole_number_other_than_zero(jobs):
    with pytest.raises(InputError, match="n_jobs is"):
        count_threads(jobs)


def test_negative_n_jobs_count_from_the_number_of_cores():
    assert (count_threads(None), count_threads(3), count_threads(-1000)) == (1, 3, 1)
    assert count_threads(-1) == max(count_threads(-2) + 1, 1) or count_threads(-1) == 1


def test_there_may_be_more_threads_than_chunks():
    with use_threads(2**62):
        assert [*Chunks([1, 2, 3]).map(float)] == [1, 2, 3]


def test_groups_are_consecutive_chunks():
    assert [*Chunks(range(9), 4).map_groups(list)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert [*Chunks([1, 2]).map(pow, by_chunk=[3, 4])] == [1, 16]


def test_threads_run_only_a_few_calls_ahead():
    """Results that are computed faster than the caller stores them would fill the memory."""
    begun, most_waiting = [], 0
    with use_threads(2):
        for number, result in enumerate(Chunks(range(200)).map(lambda item: begun.append(item) or item)):
            assert result == number
            most_waiting = max(most_waiting, len(begun) - number)
    assert sorted(begun) == [*range(200)]
    assert most_waiting <= 2 * PREFETCH + 1


def test_an_estimator_learns_from_a_large_log_with_any_number_of_threads(capsys):
    rng, n = np.random.default_rng(4), 2**16
    X = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    Y = rng.integers(0, 3, n)
    cost = -(rng.random(n) < np.where((X[:, 0] > 0) == (Y == 1), 0.7, 0.2)).astype(float)
    sequential, threaded = (
        DoublyRobustDRO(n_jobs=jobs, verbose=jobs == 2, safe=False).fit(X, Y, propensity=np.full(n, 1 / 3), cost=cost)
        for jobs in (None, 2)
    )
    assert np.array_equal(sequential.coef_, threaded.coef_)
    assert ((sequential.predict(X[:1000]) == 1) == (X[:1000, 0] > 0)).mean() > 0.98
    output = capsys.readouterr()
    assert not output.out
    assert output.err.startswith("DoublyRobustDRO: ")
    assert output.err.endswith(" million rows a second\n")
    assert output.err.count("\n") == 1
