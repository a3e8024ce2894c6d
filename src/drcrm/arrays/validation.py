"""Checks of arrays and numbers that users pass. Each check raises InputError with the first bad entry.

``append_constant``, ``find_constant_features`` and ``column_range`` check nothing. They work on valid feature matrices.
"""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from drcrm.arrays.mapped_arrays import Features
from drcrm.errors import InputError

BLOCK = 2**20  # number of entries that are checked at once
LARGEST_PROBABILITY = 1 + 1e-5  # a larger one is no rounding error of float32
LARGEST_COST, SMALLEST_COST = 1e100, 1e-100  # costs of other magnitudes have squares that overflow or vanish
LARGEST_INTEGER = 1e15  # exact in floats, which represent all whole numbers up to 2^53

# Feature matrices


def check_features(X: Any, name: str = "X") -> Features:
    """Return ``X`` as a finite float array (rows, features), dense or CSR, with at least one row and column."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        _as_numbers(X.data, name)
        X = X.astype(float, copy=False)
        values = X.data
    else:
        X = values = np.ascontiguousarray(as_float_array(X, name))
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise InputError(f"{name} has shape {X.shape}, expected (rows, features) with at least one of each")
    position = _first_not_finite(values)
    if position is not None:
        if sparse.issparse(X):
            row, column = np.searchsorted(X.indptr, position, side="right") - 1, X.indices[position]
        else:
            row, column = divmod(position, X.shape[1])
        raise InputError(f"{name} has {values.flat[position]} in row {row}, column {column}, expected finite features")
    return X


def _first_not_finite(values: np.ndarray) -> int | None:
    """Return the position of the first NaN or infinite number in the flattened array; None if all are finite."""
    flat = values.reshape(-1)
    for start in range(0, len(flat), BLOCK):
        is_bad = ~np.isfinite(flat[start : start + BLOCK])
        if is_bad.any():
            return start + int(np.argmax(is_bad))
    return None


def append_constant(X: Features) -> Features:
    """Return X with a last column of ones."""
    ones = np.ones((X.shape[0], 1))
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


def find_constant_features(X: Features, feature_range: tuple | None = None) -> np.ndarray:
    """Return a mask (d,) of the features that have the same value, not 0, in all contexts."""
    low, high = feature_range or column_range(X)
    return (low == high) & (low != 0)


def column_range(X: Features) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest value of each column, as two arrays (d,)."""
    low, high = X.min(axis=0), X.max(axis=0)
    return (low.toarray().ravel(), high.toarray().ravel()) if sparse.issparse(X) else (low, high)


def check_coefficients(coef: Any) -> np.ndarray:
    """Return ``coef`` as a finite dense array (features, columns) with at least one of each."""
    return check_features(as_float_array(coef, "coef"), "coef")


# Columns of a log


def check_actions(Y: Any, rows: int | None = None, name: str = "Y", columns: str = "label") -> np.ndarray:
    """Return ``Y`` as a C-contiguous uint8 array (n, q) of 0 and 1."""
    Y = _as_numbers(Y, name)
    if Y.ndim != 2 or Y.shape[1] == 0:
        raise InputError(f"{name} has shape {Y.shape}, expected (rows, {columns}s)")
    if rows is not None and len(Y) != rows:
        raise InputError(f"{name} has {len(Y)} rows, expected {rows}")
    is_bad = ~((Y == 0) | (Y == 1))
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0]
        value = Y[row, column]
        value = value.item() if isinstance(value, np.generic) else value
        raise InputError(f"{name} has {value!r} in row {row}, {columns} {column}, expected 0 or 1")
    return np.ascontiguousarray(Y, dtype=np.uint8)


def check_vector(values: Any, rows: int, name: str) -> np.ndarray:
    """Return ``values`` as a finite float vector of length ``rows``."""
    values = np.asarray(as_float_array(values, name), order="C")
    if values.shape != (rows,):
        raise InputError(f"{name} has shape {values.shape}, expected ({rows},)")
    reject_rows(~np.isfinite(values), values, name, "a finite number")
    return values


def round_probabilities(values: np.ndarray) -> np.ndarray:
    """Return probabilities with 1 in place of values above 1 that are rounding errors of float32."""
    is_one = (values > 1) & (values <= LARGEST_PROBABILITY)
    return np.where(is_one, 1.0, values) if is_one.any() else values


def check_costs(cost: Any, rows: int, count: Any = 1) -> np.ndarray:
    """Return ``cost`` like ``check_vector``. Reject huge unsigned numbers, which are wrapped negative costs.

    The magnitude of costs whose ``count``, a number or (n,), is 0 does not matter.
    """
    checked, dtype = check_vector(cost, rows, "cost"), np.asarray(cost).dtype
    if dtype.kind == "u":
        wrapped = (
            f"a smaller number, because negative costs wrap around in the unsigned type {dtype.name}: −1 becomes "
            f"{np.iinfo(dtype).max}; use a signed type"
        )
        reject_rows(checked > np.iinfo(dtype).max // 2, checked, "cost", wrapped)
    check_magnitude(checked, "cost", count)
    return checked


def check_magnitude(values: np.ndarray, name: str, weights: Any = 1) -> None:
    """Raise InputError if the largest magnitude of costs, (n,), is not 0 and their squares could overflow or vanish.

    Costs with the weight 0 do not matter.
    """
    largest = np.abs(values).max(initial=0, where=np.not_equal(weights, 0))
    if largest and not SMALLEST_COST <= largest <= LARGEST_COST:
        raise InputError(
            f"{name} has the largest magnitude {largest:.3g}, expected 0 or a number from {SMALLEST_COST:g} to "
            f"{LARGEST_COST:g}; give the costs in another unit"
        )


def check_integers(values: Any, rows: int, name: str) -> np.ndarray:
    """Return ``values`` as a vector of whole numbers of length ``rows``. Integers are not copied."""
    if not (type(values) is np.ndarray and values.dtype.kind == "i" and values.shape == (rows,)):
        values = check_vector(values, rows, name)
        reject_rows(values != np.round(values), values, name, "a whole number")
    reject_rows(abs(values) >= LARGEST_INTEGER, values, name, "a whole number of less than 16 digits")
    return values.astype(np.intp, copy=False)


def as_integer_vector(values: Any, name: str) -> np.ndarray:
    """Return ``values`` as a vector of whole numbers of any length."""
    values = values if isinstance(values, np.ndarray) and values.dtype.kind == "i" else as_float_array(values, name)
    return check_integers(values, values.shape[0] if values.ndim else 1, name)


def check_context(context: Any, rows: int, n_contexts: int) -> np.ndarray:
    """Return ``context`` as a vector of length ``rows`` whose entries are row numbers of X."""
    context = check_integers(context, rows, "context")
    reject_rows((context < 0) | (context >= n_contexts), context, "context", f"a row of X, 0 to {n_contexts - 1}")
    return context


def reject_rows(is_bad: np.ndarray, values: np.ndarray, name: str, expected: str) -> None:
    """Raise InputError for the first row in which ``is_bad`` is true."""
    if is_bad.any():
        row = int(np.argmax(is_bad))
        raise InputError(f"{name} is {values[row]} in row {row}, expected {expected}")


def require_finite(values: Any, message: str) -> Any:
    """Return computed values; InputError with this message unless all are finite."""
    if not np.isfinite(values).all():
        raise InputError(message)
    return values


def column_names(X: Any) -> np.ndarray | None:
    """Return the names of the columns of a DataFrame; None for other arrays, and unless all names are strings."""
    names = [*getattr(X, "columns", ())]
    return np.array(names, dtype=object) if names and all(isinstance(name, str) for name in names) else None


def check_column_names(fitted: object, names: np.ndarray | None, owner: str) -> None:
    """Raise InputError unless columns have the names to which a policy or a cost model was fitted, in the same order.

    The names are in its attribute ``feature_names_in_``, as in scikit-learn. Without names on both sides, columns count
    by their places.
    """
    known = getattr(fitted, "feature_names_in_", None)
    if known is None or names is None or np.array_equal(known, names):
        return
    expected, actual = [*known], [*names]
    differences = {
        "lacks": [name for name in expected if name not in actual],
        "has in addition": [name for name in actual if name not in expected],
    }
    mismatch = "; it ".join(f"{verb} {', '.join(columns[:5])}" for verb, columns in differences.items() if columns)
    mismatch = mismatch or f"has them in another order: {', '.join(actual[:5])}"
    raise InputError(
        f"X must have the columns of the fit of the {owner}, {', '.join(expected[:5])}{' …' * (len(expected) > 5)}, in "
        f"this order; it {mismatch}. Select them by X[estimator.feature_names_in_]"
    )


# Parameters


def check_choice(allowed: Iterable[str], value: object, name: str) -> str:
    """Return ``value`` if it is one of the allowed names."""
    if not (isinstance(value, str) and value in allowed):
        raise InputError(f"{name} is {value!r}, expected one of {', '.join(map(repr, allowed))}")
    return value


def check_nonnegative(value: object, name: str) -> float:
    """Return ``value`` as a float if it is finite and at least 0."""
    return _check_real(value, name, 0 <= to_float(value) < np.inf, "a finite number ≥ 0")


def check_positive(value: object, name: str) -> float:
    """Return ``value`` as a float if it is finite and above 0."""
    return _check_real(value, name, 0 < to_float(value) < np.inf, "a finite number > 0")


def check_fraction(value: object, name: str) -> float:
    """Return ``value`` as a float if it is in [0, 1]."""
    return _check_real(value, name, 0 <= to_float(value) <= 1, "a number from 0 to 1")


def check_open_fraction(value: object, name: str) -> float:
    """Return ``value`` as a float if it is in (0, 1)."""
    return _check_real(value, name, 0 < to_float(value) < 1, "a number above 0 and below 1")


def check_confidence(value: object, name: str) -> float:
    """Return ``value`` as a float if it is in (½, 1)."""
    return _check_real(value, name, 0.5 < to_float(value) < 1, "a number above ½ and below 1")


def _check_real(value: object, name: str, is_valid: bool, expected: str) -> float:
    if not is_valid:
        raise InputError(f"{name} is {value!r}, expected {expected}")
    return to_float(value)


def check_positive_integer(value: Any, name: str) -> int:
    """Return ``value`` if it is a whole number of at least 1."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not (is_integer and 1 <= to_float(value) < np.inf):
        raise InputError(f"{name} is {value!r}, expected a whole number of at least 1")
    return value


def check_bool(value: Any, name: str) -> bool:
    """Return ``value`` if it is True or False."""
    is_bool = isinstance(value, bool | np.bool_)
    if not is_bool:
        raise InputError(f"{name} is {value!r}, expected True or False")
    return value


def to_float(value: object) -> float:
    """Return a real number as a float; NaN for anything else and for numbers beyond the range of floats."""
    try:
        return float(value) if isinstance(value, Real) else np.nan
    except OverflowError:
        return np.nan


# Conversion to numbers


def as_float_array(values: Any, name: str) -> np.ndarray:
    """Return ``values`` as an array of floats; numbers beyond their range become infinite."""
    values = _as_numbers(values, name)
    try:
        with np.errstate(over="ignore"):
            return values.astype(float, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise _not_numbers(values, name) from None


def _as_numbers(values: Any, name: str) -> np.ndarray:
    """Return an array of booleans, real numbers or objects; reject text, dates and complex numbers."""
    if sparse.issparse(values):
        raise InputError(f"{name} is a sparse matrix, expected an array: {name}.toarray()")
    if np.ma.is_masked(values):
        raise InputError(f"{name} has masked values, expected numbers in their place")
    try:
        values = np.asarray(values)
    except (TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers") from None
    if values.dtype.kind not in "biufO":
        raise _not_numbers(values, name)
    return values


def _not_numbers(values: np.ndarray, name: str) -> InputError:
    text = next((value for value in values.flat if isinstance(value, str | bytes)), None)
    kind = f", but of {values.dtype.name}" if values.dtype.kind != "O" else ""
    kind = kind if text is None else f", but of text such as {str(text)!r}"
    advice = "; number the actions from 0, for example by pandas.factorize" if name == "Y" and text is not None else ""
    return InputError(f"{name} is not an array of numbers{kind}{advice}")
