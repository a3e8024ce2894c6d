"""Time one decision of a loaded linear policy: ten features, five actions.

Run ``python benchmarks/serving.py``. The target is 50 µs for a context as a dict. The floor is the product of the
features and the coefficients, the exponentials and a random number, as numpy calls. The last line is the time of a
decision in a list of 1000 contexts. The smallest of five times counts.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path

import numpy as np

from drcrm import SoftmaxPolicy, load_policy
from drcrm.logs.encoding.tables import TableEncoding
from drcrm.logs.policy_file import StoredPolicy, write_policy

TARGET = 50  # µs
NAMES = ["news", "sport", "music", "film", "food"]
CONTEXT = {f"x{number}": 0.3 * number for number in range(7)} | {"city": "Bern", "device": None, "page": "unknown"}


def write_random_policy(path: Path) -> None:
    """Write a policy on seven numbers, one with missing values in training, and three categories of four values."""
    scales = {f"x{number}": (1.0, 2.0) for number in range(7)}
    known = {name: ["", "Bern", "Genf", "phone"] for name in ("city", "device", "page")}
    encoding = TableEncoding("single", NAMES, scales, known, ("x0",))
    coef = np.random.default_rng(0).normal(size=(encoding.n_features, len(NAMES)))
    write_policy(path, StoredPolicy(SoftmaxPolicy(coef), encoding, None, {}))


def microseconds(function: Callable[[], object], number: int) -> float:
    """Return the time of a call."""
    return min(timeit.repeat(function, number=number, repeat=5)) / number * 1e6


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_random_policy(Path(folder) / "policy.npz")
        policy = load_policy(Path(folder) / "policy.npz")
    rng, coef, entries = np.random.default_rng(0), policy.policy.coef[:10], np.ones(10)

    def floor() -> float:
        return np.exp(entries @ coef).sum() * rng.random()

    single, least = microseconds(lambda: policy.decide(CONTEXT), 5000), microseconds(floor, 5000)
    many = microseconds(lambda: policy.decide([CONTEXT] * 1000), 20) / 1000
    print(f"one decision: {single:.1f} µs (target {TARGET} µs), {single / least:.1f} times the floor of {least:.1f} µs")
    print(f"a decision of 1000: {many:.1f} µs")


if __name__ == "__main__":
    main()
