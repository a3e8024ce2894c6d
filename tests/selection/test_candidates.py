"""The choice among correlated candidates, and the effective number of candidates."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from drcrm.errors import InputError
from drcrm.evaluation.bounds.independent_units import grouped_values
from drcrm.selection.candidates import LEVELS, EffectiveNumber, PairedDifferences, effective_number

ROWS = 400


def differences(values: np.ndarray, **changes: np.ndarray) -> PairedDifferences:
    """Return the differences of candidates that are judged, with equal weights with and without clipping."""
    parts = {"clipped": values, "grade": np.full(values.shape[1], 2), "count": np.ones(len(values))}
    return PairedDifferences(values, **parts | changes)


def by_unit(values: np.ndarray, units: np.ndarray) -> PairedDifferences:
    """Return the differences in units of rows."""
    *columns, count = grouped_values(units, np.ones(len(values)), *values.T)
    return differences(np.column_stack(columns), count=count)


def correlated(rng: np.random.Generator, k: int, correlation: float) -> np.ndarray:
    """Return rows of k normal differences with mean 0, which all have the same correlation."""
    common = np.sqrt(correlation) * rng.normal(size=(ROWS, 1))
    return common + np.sqrt(1 - correlation) * rng.normal(size=(ROWS, k))


def test_equal_candidates_count_once_and_independent_ones_nearly_all():
    rng = np.random.default_rng(0)
    column = rng.normal(size=(ROWS, 1))
    assert differences(np.hstack([column, 3 * column, column])).effective_choices() <= 2  # 1, up to the draws
    assert differences(np.hstack([column, 0 * column])).effective_choices() == 1  # a candidate without noise
    assert differences(rng.normal(size=(ROWS, 12))).effective_choices() in (11, 12)


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_the_effective_number_is_that_of_the_normal_law(correlation):
    values = correlated(np.random.default_rng(1), 4, correlation)
    law = multivariate_normal(cov=np.corrcoef(values.T))
    quantiles = np.linspace(1.5, 2.5, 2001)
    quantile = quantiles[np.searchsorted([law.cdf(np.full(4, c)) for c in quantiles[::50]], 0.95) * 50 - 50 :]
    low, high = (0.05 / norm.sf(c) for c in (quantile[0], quantile[50]))
    assert np.floor(0.93 * low) <= differences(values).effective_choices() <= np.ceil(1.07 * high)


def test_the_number_grows_with_the_confidence_and_is_stored_by_level():
    values = correlated(np.random.default_rng(1), 12, 0.7)
    number = effective_number(values, np.ones(ROWS), 0.93)
    assert set(number.by_level) == {*LEVELS, 0.93}
    for level in (0.8, 0.93, 0.99):
        assert number.at(level) == differences(values).effective_choices(level)
    assert (
        number.at(0.5)
        < number.at(0.93)
        <= number.at(0.94)
        == number.at(0.95)
        < number.at(0.99)
        < number.at(0.991)
        == 12
    )
    assert EffectiveNumber.of_list(12, number.as_list()) == number


@pytest.mark.parametrize(
    "pairs", [[[0.95, 0]], [[0.95, 13]], [[0.95, 1.5]], [[1.0, 2]], [[0.95]], [["a", 2]], {"0.95": 2}]
)
def test_numbers_that_are_none_of_the_candidates_are_refused(pairs):
    with pytest.raises(InputError, match="from 1 to the number of candidates, 12"):
        EffectiveNumber.of_list(12, pairs)


def test_counts_are_repetitions():
    values, count = correlated(np.random.default_rng(2), 6, 0.7), np.random.default_rng(3).integers(1, 4, ROWS)
    repeated = differences(np.repeat(values, count, axis=0))
    counted = differences(values, count=count.astype(float))
    assert counted.effective_choices() == repeated.effective_choices()


def test_units_are_summed():
    """Candidates that differ within units only by noise of mean 0 are one candidate for the sums over units."""
    rng = np.random.default_rng(6)
    common, sign = np.repeat(rng.normal(size=ROWS // 2), 2)[:, None], np.tile([1.0, -1.0], ROWS // 2)[:, None]
    values = common + 3 * sign * np.repeat(rng.normal(size=(ROWS // 2, 8)), 2, axis=0)
    assert differences(values).effective_choices() >= 6
    assert by_unit(values, np.repeat(np.arange(ROWS // 2), 2)).effective_choices() <= 2
    assert by_unit(values, np.arange(ROWS)).effective_choices() == differences(values).effective_choices()


@pytest.mark.parametrize("users", [20, 60])
def test_the_choice_errs_at_its_level_if_rows_depend(users):
    """Five candidates equal π0, and users with 1 to 19 rows have effects of their own. Rows as units err often."""
    repetitions, rng, errors = 200, np.random.default_rng(0), np.zeros(2)
    for _ in range(repetitions):
        user = np.repeat(np.arange(users), rng.permutation(np.arange(users) % 19 + 1))
        effects = rng.normal(size=(users, 1)) + rng.normal(size=(users, 5))
        values = effects[user] + rng.normal(size=(len(user), 5))
        parts = by_unit(values, user), differences(values)
        errors += [part.choose(5) is not None for part in parts]
    assert errors[0] / repetitions <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / repetitions) < 0.3 < errors[1] / repetitions


def test_the_best_clipped_estimate_is_chosen_unless_its_valid_bound_fails():
    rng = np.random.default_rng(5)
    valid = rng.normal([-0.5, -0.45, -0.9], [1.0, 0.2, 9.0], size=(ROWS, 3))
    clipped = rng.normal([-0.5, -0.45, -0.9], [1.0, 0.2, 1.0], size=(ROWS, 3))
    assert differences(valid, clipped=clipped).choose(3) == 1  # 2 is too noisy, and 1 has the smallest valid bound
    assert differences(clipped).choose(3) == 2
    assert differences(clipped).choose(3, np.array([True, True, False])) == 0
    assert differences(clipped + 1).choose(3) is None
    assert differences(valid, clipped=clipped + 1).choose(3) is None


def test_bounds_are_at_the_level_of_all_choices():
    """With a mean of −2.42 standard errors, the bound is below 0 at level δ, t = 1.65, but not at δ/20, t = 2.82."""
    noise = np.random.default_rng(0).normal(size=(ROWS, 1))
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    part = differences(noise - 2.42 / np.sqrt(ROWS))
    assert (part.choose(1), part.choose(20)) == (0, None)
    assert (part.choose(1, confidence=0.995), part.choose(6), part.choose(7)) == (None, 0, None)


def test_the_choice_among_dependent_candidates_errs_no_more_often_than_one_test(monkeypatch):
    """Twenty dependent candidates equal π0. Testing each of them at this level errs more often."""
    monkeypatch.setattr("drcrm.selection.candidates.DRAWS", 2**12)  # 400 effective numbers, each within 10 %
    repetitions, rng, errors = 400, np.random.default_rng(0), np.zeros(2)
    for _ in range(repetitions):
        part = differences(correlated(rng, 20, 0.5))
        errors += [part.choose(part.effective_choices()) is not None, part.choose(1) is not None]
    assert errors[0] / repetitions <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / repetitions) < 0.2 < errors[1] / repetitions


def test_a_large_log_has_the_number_of_bonferroni(monkeypatch):
    monkeypatch.setattr("drcrm.selection.candidates.MOST_VALUES", 100)
    assert differences(np.random.default_rng(0).normal(size=(ROWS, 1)) @ np.ones((1, 5))).effective_choices() == 5
