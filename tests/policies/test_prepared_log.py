"""The map from coefficients to a log: its adjoint, its values for any policy, and samples of large logs."""

import numpy as np
import pytest
from fixtures.action_logs import Choices, block_log, every_form, use_small_samples
from fixtures.reference_formulas import backward

from drcrm import BanditLog
from drcrm.policies.prepared_log import PreparedLog


def label_log(form, rows: int) -> BanditLog:
    """Return a log of 12 contexts, some of which have no rows, with counts of 0 to 2."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 4)) * (rng.random((12, 4)) < 0.7)
    columns = rng.integers(0, 2, (rows, 3)), rng.uniform(0.05, 1, rows), -rng.exponential(2, rows)
    return BanditLog(form(X), *columns, rng.integers(0, 9, rows), rng.integers(0, 3, rows))


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("rows", [30, 400], ids=["few rows", "many rows"])
@pytest.mark.parametrize("kind", ["labels", "single", "listed"])
@every_form
def test_backward_is_the_adjoint_of_the_derivative_of_forward(kind, form, rows, intercept):
    if kind == "listed" and intercept:
        pytest.skip("an intercept does not change a policy over lists")
    rng = np.random.default_rng(1)
    log = label_log(form, rows) if kind == "labels" else getattr(Choices.drawn(8, rows=rows), kind)(form)
    log = log.without_empty_rows()
    effects = rng.normal(size=(log.X.shape[0], *log.actions.effect_shape))
    prepared = PreparedLog(log, effects, intercept)
    theta, direction = rng.normal(size=(2, *prepared.shape))
    ahead, behind = (prepared.forward(theta + step * direction) for step in (1e-6, -1e-6))
    derivatives = [(after - before) / 2e-6 for after, before in zip(ahead, behind, strict=True)]
    by_row, by_context = (rng.normal(size=len(derivative)) for derivative in derivatives)
    gradient = backward(prepared, theta, by_row, by_context)
    expected = by_row @ derivatives[0] + by_context @ derivatives[1]
    assert gradient @ direction.ravel() == pytest.approx(expected, rel=1e-6, abs=1e-7)
    parts = backward(prepared, theta, by_row, None) + backward(prepared, theta, None, by_context)
    assert parts == pytest.approx(gradient, abs=1e-11)


@pytest.mark.parametrize("kind", ["labels", "single", "lists"])
def test_samples_of_a_log_are_nested(kind, monkeypatch):
    use_small_samples(monkeypatch, 5, growth=3)
    log = block_log(kind, 200)
    effects = np.zeros((log.X.shape[0], *log.actions.effect_shape))
    sizes, previous = [], set()
    for sample, rows in PreparedLog(log, effects).samples():
        sizes.append(sample.log.n_contexts)
        assert np.array_equal(sample.log.cost, log.cost[rows])
        assert previous <= {*rows}
        previous = {*rows}
    assert sizes == [5, 15, 45]
    short = PreparedLog(block_log(kind, 19))
    assert (short.has_samples, [*short.samples()]) == (False, [])
