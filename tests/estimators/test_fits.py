"""Properties of fits that hold for all estimators, and warnings: each names its cause, once, at the caller's line."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from fixtures.action_logs import every_form
from fixtures.user_input import ODD_OBJECTS, examples, fit_arguments, result_or_message, spoilt_fit_arguments
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import drcrm
from drcrm import CIPS, KLDRO, ActionLists, Chi2DRO, WeightedLikelihood
from drcrm.errors import InputError
from drcrm.estimates import ESTIMATES
from drcrm.optimization.starts import STARTS
from drcrm.selection.algorithms import ESTIMATORS

CLASSES = {name: getattr(drcrm, name) for name in [*ESTIMATORS, "DoublyRobustDRO"]}
WEIGHTS = [drcrm.Implicit(0.1), drcrm.Smoothed(0.5), drcrm.Shrunk(2)]
SHARED_PARAMETERS = {"max_iter", "tol", "clip", "tilt", "estimate", "weight", "start"}


@st.composite
def estimators(draw) -> object:
    """Draw an estimator with valid parameters."""
    estimator = CLASSES[draw(st.sampled_from([*CLASSES]))]()
    optional = {
        "estimate": st.sampled_from([*ESTIMATES]),
        "start": st.sampled_from([*STARTS]),
        "weight": st.sampled_from(WEIGHTS),
        "clip": st.sampled_from([None, 1, 2.5, 100]),
        "tilt": st.sampled_from([0, 0.5, "auto"]),
    }
    for name in sorted(estimator.get_params(deep=False).keys() - SHARED_PARAMETERS)[:1]:
        optional[name] = st.sampled_from([1e-3, 0.1, 1.0, 1e4])
    chosen = draw(st.fixed_dictionaries({"max_iter": st.sampled_from([5, 20])}, optional=optional))
    return estimator.set_params(**chosen)


@examples(30)
@given(st.data(), estimators(), fit_arguments())
def test_invalid_arguments_are_refused_in_one_line_or_fitted(data, estimator, valid):
    name = data.draw(st.sampled_from([None, *sorted(estimator.get_params(deep=False))]))
    arguments = valid
    if name is None:
        arguments = data.draw(spoilt_fit_arguments(valid))
    else:
        estimator.set_params(**{name: data.draw(ODD_OBJECTS)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a ConvergenceWarning is a UserWarning
        fitted, _ = result_or_message(estimator.fit, **arguments)
    if fitted is not None:
        assert np.isfinite([*fitted.coef_.ravel(), fitted.objective_]).all()
        assert isinstance(fitted.converged_, bool)
        marginals = fitted.predict_proba(arguments["X"])
        assert ((marginals >= 0) & (marginals <= 1)).all()


FEW_CLICKS = {"cost": -1.0 * (np.arange(1000) < 5)}
CLICKS = {"X": np.ones((1000, 1)), "Y": np.arange(1000)[:, None] % 2, "propensity": np.full(1000, 0.5)}


def rows(log, **changes) -> dict:
    return {"propensity": log.propensity, "cost": log.cost, "context": log.context, **changes}


@pytest.mark.parametrize(
    ("estimator", "arguments", "reason"),
    [
        (KLDRO(), FEW_CLICKS, "less robust hyper-parameter"),
        (KLDRO(estimate="snips"), {"cost": np.r_[-1.0, np.zeros(999)]}, "largest cost"),
        (CIPS(estimate="snips"), {"cost": np.full(1000, -2.0)}, "all costs are equal"),
        (
            CIPS(clip=2.0),
            {"cost": -np.arange(1.0, 1001), "propensity": np.full(1000, 1e-3)},
            "all weights are clipped",
        ),
        (CIPS(tol=1e3), {"cost": -np.arange(1000.0)}, "within tol of 0"),
    ],
)
def test_a_fit_that_does_not_move_gives_the_reason_once(estimator, arguments, reason):
    with pytest.warns(ConvergenceWarning) as warnings:
        estimator.fit(**{**CLICKS, **arguments})
    [warning] = warnings
    assert warning.filename == __file__
    pattern = f"^{type(estimator).__name__} ends where it began: .*({reason})"
    assert re.search(pattern, str(warning.message)), warning.message
    assert estimator.n_iter_ == 0
    assert not estimator.coef_.any()


def test_a_fit_that_does_not_converge_is_warned_of(log):
    with pytest.warns(ConvergenceWarning, match="KLDRO did not converge in 2 iterations"):
        estimator = KLDRO(max_iter=2).fit(log.X, log.Y, **rows(log))
    assert not estimator.converged_


def test_costs_on_a_kink_of_the_ball_end_the_fit():
    """All costs are on the threshold of the χ² ball at Θ = 0."""
    Y = [[0, 0], *[[0, 1]] * 3, *[[1, 0]] * 3, [1, 1]]
    with pytest.warns(ConvergenceWarning, match="Chi2DRO ends where it began: .*gradient"):
        fitted = Chi2DRO(0.25).fit(np.ones((8, 1)), Y, np.full(8, 0.25), [0, -1, -1, -1, -1, -1, -1, -2])
    assert fitted.objective_ <= -0.75


def test_tiny_propensities_need_clipping():
    """Unclipped weights are finite at Θ = 0, but not on the way of the fit."""
    log = np.ones((4, 1)), [[0], [1], [1], [0]], np.full(4, 1e-160), [-1.0, -2.0, -1.0, 0.0]
    with pytest.raises(InputError, match=r"the risk is not finite after .* clip the weights"):
        CIPS(clip=None).fit(*log)
    with pytest.warns(ConvergenceWarning, match="CIPS ends where it began: .*weights are clipped"):
        assert np.isfinite(CIPS().fit(*log).objective_)


def test_costs_without_a_negative_one_are_warned_of_under_ips(log):
    costs = rows(log, cost=log.cost + 5)
    with pytest.warns(UserWarning, match="no cost is below 0, the smallest is 3: with 'ips'") as warnings:
        CIPS().fit(log.X, log.Y, **costs)
    assert warnings[0].filename == __file__
    CIPS(estimate="snips").fit(log.X, log.Y, **costs)
    WeightedLikelihood().fit(log.X, log.Y, **costs)


@every_form
def test_contexts_without_a_constant_are_warned_of(log, form):
    X = log.X[:, :-1]
    with pytest.warns(UserWarning, match="no constant column and the policy has no intercept: set fit_intercept=True"):
        KLDRO().fit(form(X), log.Y, **rows(log))
    one_hot = np.column_stack([X, (np.arange(len(X)) % 3)[:, None] == np.arange(3)])
    for whole in (np.column_stack([X, np.full(len(X), 3.0)]), one_hot, 1e9 * one_hot):
        KLDRO().fit(form(whole), log.Y, **rows(log))


def test_features_far_from_zero_are_warned_of_by_name(log):
    frame = pd.DataFrame(log.X, columns=["age", "year", "size", "one"])
    frame["year"] = 2000 + 3 * frame["year"]
    with pytest.warns(UserWarning, match="^column 'year' .*: standardise all columns of X except") as warnings:
        KLDRO().fit(frame, log.Y, **rows(log))
    assert warnings[0].filename == __file__
    with pytest.warns(UserWarning, match="^column 1 "):
        KLDRO().fit(sparse.csr_array(frame.to_numpy()), log.Y, **rows(log))


@pytest.mark.parametrize("name", ["KLDRO", "DoublyRobustDRO"])
def test_a_single_action_teaches_nothing_and_is_always_taken(name):
    X, costs = np.ones((12, 1)), {"propensity": np.ones(12), "cost": -np.arange(12.0)}
    lists = ActionLists(np.random.default_rng(7).normal(size=(12, 2)), np.arange(13))
    options = {"safe": False} if name == "DoublyRobustDRO" else {}
    for contexts, actions in ((X, {"n_actions": 1}), (lists, {})):
        with pytest.warns(ConvergenceWarning, match=f"{name} ends where it began"):
            estimator = getattr(drcrm, name)(**options).fit(contexts, np.zeros(12, dtype=int), **costs, **actions)
        assert estimator.predict_proba(contexts).ravel() == pytest.approx(1, rel=1e-14)
        assert estimator.predict(contexts).tolist() == [0] * 12
