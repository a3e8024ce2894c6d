"""The formulas of what jobs ask for; tests/test_needs.py has them beside what was used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drcrm.experiments.needs import NONZEROS, ROWS, STEPS, Size, asked, size_of

CONFIG = {
    "datasets": {"toy": {"features": 3, "labels": 2, "rows": [40, 20]}, "wide": {"features": 500, "labels": [4, 7, 9]}},
    "algorithms": {"cips": {}, "poem": {"grid": [0.1, 1.0]}, "kl": {"grid": [0.1, 1.0, 10.0]}},
    "experiments": {
        "tiny": {
            "datasets": ["toy"],
            "seeds": 2,
            "replay_count": 4,
            "algorithms": ["cips", "poem", "kl"],
            "replay_curve": {"algorithms": ["poem"]},
        }
    },
    "theory": {"repetitions": 100},
}
RUN = {"experiment": "tiny", "dataset": "toy", "seed": "1", "replays": "4"}
SIZE = Size(rows=(10_000, 5_000), features=50, labels=8, replays=4, grids=(7,), repetitions=100)


@pytest.mark.parametrize(
    ("wildcards", "expected"),
    [
        ({"experiment": "tiny"}, Size()),
        ({"dataset": "toy", "lemma": "lemma2"}, Size((40, 20), 3, 2)),
        ({"dataset": "wide", "lemma": "lemma1"}, Size(ROWS, 500, 3, repetitions=100)),
        (RUN | {"algorithm": "kl"}, Size((40, 20), 3, 2, 4, (3,))),
        (RUN, Size((40, 20), 3, 2, 4, (1, 2, 3))),
        (RUN | {"replays": "16"}, Size((40, 20), 3, 2, 16, (2,))),
    ],
)
def test_the_size_of_a_job_is_in_its_wildcards_and_the_configuration(wildcards, expected):
    """Of a job that measures a run: the algorithms that the run has, fewer beside the tables."""
    assert size_of(CONFIG, wildcards) == expected


def test_what_follows_from_sizes():
    assert (SIZE.nonzeros(), SIZE.nonzeros(1), SIZE.logged, SIZE.coefficients) == (500_000, 250_000, 40_000, 408)
    assert replace(SIZE, features=10**6).nonzeros() == 10_000 * NONZEROS
    assert (SIZE.contexts(), SIZE.log) == pytest.approx((8, 16 + 0.32 * 13))


@pytest.mark.parametrize("step", STEPS)
def test_more_of_anything_takes_no_less(step):
    more = {"rows": (30_000, 15_000), "features": 200, "labels": 12, "replays": 16, "grids": (11,), "repetitions": 1000}
    expected = STEPS[step](SIZE)
    assert min(expected) > 0
    for name, value in more.items():
        larger = STEPS[step](replace(SIZE, **{name: value}))
        assert larger.megabytes >= expected.megabytes
        assert larger.seconds >= expected.seconds


def test_what_is_asked_grows_with_the_attempt():
    """350 MB around a step and half as much again as it takes, whole minutes, at least one."""
    assert asked(CONFIG, "collect", {"experiment": "tiny"}) == (350 + 120, 3)
    assert asked(CONFIG, "collect", {"experiment": "tiny"}, attempt=2) == (940, 6)
    assert asked(CONFIG, "split", {"dataset": "toy", "seed": "0"}) == (456, 1)
