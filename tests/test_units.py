"""A policy does not depend on the units of costs and features, nor, under snips and dr, on where costs have their 0."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drcrm
from drcrm import ExponentialPolicy
from drcrm.selection.algorithms import ESTIMATORS

README = (Path(__file__).parents[1] / "README.md").read_text()
NAMES = [*sorted(set(ESTIMATORS) & set(drcrm.__all__)), "DoublyRobustDRO"]
IN_COSTS = {"temperature": 1, "smoothing": -1, "sharpness": -1}  # hyper-parameters in a power of the costs' unit
MOVED = [
    (name, estimate)
    for name in NAMES
    for estimate in ("snips", "dr")
    if name not in ("LogSmoothing", "WeightedLikelihood")
]


@pytest.fixture(scope="module")
def example() -> dict:
    """The log of the README's example."""
    [text] = re.findall(r"```python\n(.*?)policy = ", README, re.S)
    found = {}
    exec(text, found)
    return found


def fitted(name: str, example: dict, unit=1.0, zero=0.0, scales=1.0, **options):
    """An estimator of the example in other units."""
    estimator = getattr(drcrm, name)(**options)
    for parameter, power in IN_COSTS.items():
        if parameter in estimator.get_params():
            estimator.set_params(**{parameter: getattr(estimator, parameter) * unit**power})
    scales = np.broadcast_to(scales, 5)
    X, cost = example["X"] * scales, unit * example["c"] + zero
    logging_policy = ExponentialPolicy(example["logger"].coef / scales[:, None])
    estimator.fit(X, example["Y"], propensity=example["p"], cost=cost, logging_policy=logging_policy)
    return estimator.coef_ * scales[:, None], estimator


@pytest.fixture(scope="module")
def as_it_is(example):
    """Each estimator's Θ in the example's own units."""
    found = {}

    def of(name: str, **options):
        key = (name, *options.items())
        if key not in found:
            found[key] = fitted(name, example, **options)[0]
        return found[key]

    return of


def agree(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(abs(found - expected).max() <= 1e-6 * max(abs(expected).max(), 1))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6)
@given(unit=st.floats(-12, 12), scales=st.lists(st.floats(-6, 6), min_size=5, max_size=5))
def test_the_units_of_costs_and_features_do_not_matter(name, example, as_it_is, unit, scales):
    found, estimator = fitted(name, example, unit=10**unit, scales=10 ** np.array(scales))
    assert agree(found, as_it_is(name))
    assert estimator.n_iter_ > 0


@pytest.mark.parametrize(("name", "estimate"), MOVED)
@settings(max_examples=3)
@given(zero=st.integers(-(10**6), 10**6))
def test_where_the_costs_have_their_zero_does_not_matter(name, estimate, example, as_it_is, zero):
    found, estimator = fitted(name, example, zero=zero, estimate=estimate)
    assert agree(found, as_it_is(name, estimate=estimate))
    assert estimator.n_iter_ > 0


def test_what_a_fit_found_is_in_the_users_units(example):
    """Its objective, its tilt, and its cost model."""
    _, here = fitted("DoublyRobustDRO", example)
    _, there = fitted("DoublyRobustDRO", example, unit=1e3, zero=1e5, scales=1e-2)
    assert there.objective_ == pytest.approx(1e3 * here.objective_ + 1e5, rel=1e-9)
    assert there.tilt_ == pytest.approx(here.tilt_ / 1e3, rel=1e-9)
    X, Y = example["X"], example["Y"]
    predicted = here.cost_model_.predict(X, Y)
    assert there.cost_model_.predict(X * 1e-2, Y) == pytest.approx(1e3 * predicted + 1e5, rel=1e-9)
