"""Properties of every fit: it is finite, or refused in one line."""

import warnings

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import ODD_OBJECTS, examples, fit_arguments, result_or_message, spoilt_fit_arguments

import drcrm
from drcrm.estimates import ESTIMATES
from drcrm.optimization.starts import STARTS
from drcrm.selection.registry.algorithms import ESTIMATORS

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
