"""Properties of every upper bound and certificate, on generated costs and logs."""

import math
import warnings

import numpy as np
import pytest
from fixtures.strategies import ODD_OBJECTS, ORDINARY, examples, fit_arguments, result_or_message
from hypothesis import given
from hypothesis import strategies as st

import drcrm
from drcrm.certificates import policy_certificate, upper_bound

BALLS = ["kl", "chi2", "squared_hellinger", "reverse_kl"]
NEED_RANGE = ["empirical_bernstein", "betting", "hoeffding"]
METHODS = [*BALLS, "student", "log_smoothing", "anytime", *NEED_RANGE]
COSTS = [0.0, -1.0, -2.5, -1e-9, -3.0, -1e-200, 2.0]


@st.composite
def bound_settings(draw) -> dict[str, object]:
    method = draw(st.sampled_from(METHODS))
    settings = {"method": method, "confidence": draw(st.sampled_from([0.95, 0.6, 0.999]))}
    if method in NEED_RANGE:
        settings |= {"low": -50.0, "high": draw(st.sampled_from([2.0, 9.0]))}
    if method == "anytime":
        settings["high"] = draw(st.sampled_from([2.0, 9.0]))
    return settings


@st.composite
def costs(draw, with_groups: bool = False) -> dict[str, list]:
    """Draw costs z with counts, or with groups."""
    n = draw(st.integers(1, 9))
    parts = {"z": st.one_of(st.sampled_from(COSTS), ORDINARY)}
    parts |= {"groups": st.integers(0, 2)} if with_groups else {"weights": st.integers(0, 3)}
    return {name: draw(st.lists(elements, min_size=n, max_size=n)) for name, elements in parts.items()}


def tolerance(z: np.ndarray) -> float:
    return 1e-7 * (1 + np.ptp(z) + abs(z).max())


@examples(60)
@given(costs(), bound_settings())
def test_a_bound_lies_above_the_mean_and_counts_repeat_rows(rows, settings):
    bound, _ = result_or_message(upper_bound, **rows, **settings)
    if bound is None:
        return
    z, weights = np.array(rows["z"]), np.array(rows["weights"])
    assert bound >= weights @ z / weights.sum() - tolerance(z)
    if settings["method"] in BALLS:
        assert bound <= z[weights > 0].max() + tolerance(z)
    if settings["method"] != "betting":  # betting depends on the order of the rows
        repeated = upper_bound(np.repeat(z, weights)[::-1], **settings)
        assert math.isclose(bound, repeated, rel_tol=1e-9, abs_tol=tolerance(z))


@pytest.mark.parametrize("name", ["z", "weights", "confidence", "method", "low", "high", "smoothing"])
@examples(10)
@given(costs(), bound_settings(), ODD_OBJECTS)
def test_invalid_arguments_of_a_bound_are_refused_in_one_line(name, rows, settings, value):
    result_or_message(upper_bound, **rows | settings | {name: value})


@examples(40)
@given(
    fit_arguments(),
    bound_settings(),
    st.sampled_from(["ips", "snips", "dr", "dm"]),
    st.sampled_from(["row", "context"]),
    st.sampled_from([0.0, 0.3, -1.0, 5.0, 40.0, 800.0]),
)
def test_a_certificate_is_finite_and_adjusted_for_the_number_of_candidates(arguments, settings, estimate, by, coef):
    log = drcrm.BanditLog(**arguments)
    model = drcrm.CostModel(0.1).fit(log) if estimate == "dr" else None
    policy = drcrm.ExponentialPolicy(np.full((log.X.shape[1], log.Y.shape[1]), coef))
    options = {"estimate": estimate, "by": by, "cost_model": model, "check_tails": False, **settings}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the effective sample size is")
        certificate, _ = result_or_message(policy_certificate, policy, log, choices=7, **options)
        if certificate is None:
            return
        options["confidence"] = 1 - (1 - settings["confidence"]) / 7
        single = policy_certificate(policy, log, choices=1, **options)
    value, bound = certificate.value, certificate.bound
    assert all(map(math.isfinite, (value, bound, certificate.effective_size, certificate.mean_weight)))
    close = 1e-7 * (1 + abs(value) + abs(bound))
    assert bound >= value - close
    assert abs(single.bound - bound) <= close
    assert 0 < certificate.effective_size <= log.count.sum() * (1 + 1e-9)
    assert repr(certificate).isprintable()
