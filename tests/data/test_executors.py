"""Threads that map functions over chunks."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from drcrm.data.chunked_log import PREFETCH, Chunks, count_threads, limit_openmp, use_threads
from drcrm.errors import InputError


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
