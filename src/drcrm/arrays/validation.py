"""Checks of arrays that come from outside, shared by the policy, the bandit log and the data sets."""

from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np
from scipy import sparse

from drcrm.arrays.mapped_arrays import Features
from drcrm.errors import InputError

BLOCK = 2**20  # numbers that are checked at once
WHOLE = 1e15  # floats tell whole numbers apart up to 2^53


def check_features(X, name: str = "X") -> Features:
    """Return ``X`` as a finite two-dimensional float array, dense or CSR.

    Raises InputError for a wrong number of dimensions, no rows, or a NaN or infinite value, with its row and column.
    """
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        _as_numbers(X.data, name)
        X = X.astype(float, copy=False)
        values = X.data
    else:
        X = values = np.ascontiguousarray(as_float_array(X, name))
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise InputError(f"{name} has shape {X.shape}, expected (rows, features) with at least one of each")
    at = _first_not_finite(values)
    if at is not None:
        if sparse.issparse(X):
            row, column = np.searchsorted(X.indptr, at, side="right") - 1, X.indices[at]
        else:
            row, column = divmod(at, X.shape[1])
        raise InputError(f"{name} has {values.flat[at]} in row {row}, column {column}, expected finite features")
    return X


def _first_not_finite(values: np.ndarray) -> int | None:
    """Return the place of the first NaN or infinite number in an array, counted in its flat form; None without one."""
    flat = values.reshape(-1)
    for start in range(0, len(flat), BLOCK):
        bad = ~np.isfinite(flat[start : start + BLOCK])
        if bad.any():
            return start + int(np.argmax(bad))
    return None


def append_constant(X: Features) -> Features:
    """Return X with a last column of ones."""
    ones = np.ones((X.shape[0], 1))
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


def find_constant_features(X: Features, feature_range: tuple | None = None) -> np.ndarray:
    """Return which features are the same in all contexts, and not 0, a mask (d,)."""
    least, most = feature_range or column_range(X)
    return (least == most) & (least != 0)


def column_range(X: Features) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest value of each column, (d,) each."""
    least, most = X.min(axis=0), X.max(axis=0)
    return (least.toarray().ravel(), most.toarray().ravel()) if sparse.issparse(X) else (least, most)


def check_coefficients(coef) -> np.ndarray:
    """Return ``coef`` as a finite array (features, columns), with at least one of each; it is dense."""
    return check_features(as_float_array(coef, "coef"), "coef")


def check_actions(Y, rows: int | None = None, name: str = "Y", columns: str = "label") -> np.ndarray:
    """Return ``Y`` as a C-contiguous (n, q) array of 0 and 1 in one byte each; InputError names the first bad row."""
    Y = _as_numbers(Y, name)
    if Y.ndim != 2 or Y.shape[1] == 0:
        raise InputError(f"{name} has shape {Y.shape}, expected (rows, {columns}s)")
    if rows is not None and len(Y) != rows:
        raise InputError(f"{name} has {len(Y)} rows, expected {rows}")
    bad = ~((Y == 0) | (Y == 1))
    if bad.any():
        row, label = np.argwhere(bad)[0]
        odd = Y[row, label]
        odd = odd.item() if isinstance(odd, np.generic) else odd
        raise InputError(f"{name} has {odd!r} in row {row}, {columns} {label}, expected 0 or 1")
    return np.ascontiguousarray(Y, dtype=np.uint8)


def check_vector(values, rows: int, name: str) -> np.ndarray:
    """Return ``values`` as a finite float vector of ``rows`` entries; InputError says what else it was."""
    values = np.asarray(as_float_array(values, name), order="C")
    if values.shape != (rows,):
        raise InputError(f"{name} has shape {values.shape}, expected ({rows},)")
    reject_rows(~np.isfinite(values), values, name, "a finite number")
    return values


def check_costs(cost, rows: int) -> np.ndarray:
    """Return ``cost`` as :func:`check_vector` does; InputError where an unsigned type seems to have wrapped around."""
    checked, given = check_vector(cost, rows, "cost"), np.asarray(cost).dtype
    if given.kind == "u":
        wrapped = f"less in the unsigned type {given.name}, in which −1 is {np.iinfo(given).max}; give a signed type"
        reject_rows(checked > np.iinfo(given).max // 2, checked, "cost", wrapped)
    return checked


def check_integers(values, rows: int, name: str) -> np.ndarray:
    """Return ``values`` as a vector of ``rows`` whole numbers, which floats tell apart; integers are not copied."""
    if type(values) is np.ndarray and values.dtype.kind == "i" and values.shape == (rows,):
        reject_rows(abs(values) >= WHOLE, values, name, "a whole number of less than 16 digits")
        return values.astype(np.intp, copy=False)
    values = check_vector(values, rows, name)
    reject_rows(values != np.round(values), values, name, "a whole number")
    reject_rows(abs(values) >= WHOLE, values, name, "a whole number of less than 16 digits")
    return values.astype(np.intp)


def as_integer_vector(values, name: str) -> np.ndarray:
    """Return ``values`` as a vector of whole numbers of any length; InputError for anything else."""
    values = values if isinstance(values, np.ndarray) and values.dtype.kind == "i" else as_float_array(values, name)
    return check_integers(values, values.shape[0] if values.ndim else 1, name)


def check_context(context, rows: int, n_contexts: int) -> np.ndarray:
    """Return ``context`` as a vector of ``rows`` row numbers of X."""
    context = check_integers(context, rows, "context")
    reject_rows((context < 0) | (context >= n_contexts), context, "context", f"a row of X, 0 to {n_contexts - 1}")
    return context


def reject_rows(bad: np.ndarray, values: np.ndarray, name: str, expected: str) -> None:
    """Raise InputError for the first row where ``bad`` is true."""
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name} is {values[row]} in row {row}, expected {expected}")


def check_choice(allowed: Iterable[str], value: object, name: str) -> str:
    """Return ``value``; InputError unless it is one of the names allowed."""
    if not (isinstance(value, str) and value in allowed):
        raise InputError(f"{name} is {value!r}, expected one of {', '.join(map(repr, allowed))}")
    return value


def check_nonnegative(value: object, name: str) -> float:
    """Return ``value`` as a float; InputError unless it is finite and 0 or more."""
    return _real(value, name, 0 <= to_float(value) < np.inf, "a finite number ≥ 0")


def check_positive(value: object, name: str) -> float:
    """Return ``value`` as a float; InputError unless it is finite and above 0."""
    return _real(value, name, 0 < to_float(value) < np.inf, "a finite number > 0")


def check_fraction(value: object, name: str) -> float:
    """Return ``value`` as a float; InputError unless it is from 0 to 1."""
    return _real(value, name, 0 <= to_float(value) <= 1, "a number from 0 to 1")


def check_open_fraction(value: object, name: str) -> float:
    """Return ``value`` as a float; InputError unless it is above 0 and below 1."""
    return _real(value, name, 0 < to_float(value) < 1, "a number above 0 and below 1")


def check_confidence(value: object, name: str) -> float:
    """Return ``value`` as a float; InputError unless it is a probability above one half and below 1."""
    return _real(value, name, 0.5 < to_float(value) < 1, "a number above ½ and below 1")


def _real(value: object, name: str, fits: bool, expected: str) -> float:
    if not fits:
        raise InputError(f"{name} is {value!r}, expected {expected}")
    return to_float(value)


def check_positive_integer(value: object, name: str) -> int:
    """Return ``value``; InputError unless it is a whole number of at least 1."""
    if isinstance(value, bool) or not (isinstance(value, Integral) and 1 <= to_float(value) < np.inf):
        raise InputError(f"{name} is {value!r}, expected a whole number of at least 1")
    return value


def check_bool(value: object, name: str) -> bool:
    """Return ``value``; InputError unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {value!r}, expected True or False")
    return value


def to_float(value: object) -> float:
    """A real number as a float; NaN for what is none, or is beyond the range of floats."""
    try:
        return float(value) if isinstance(value, Real) else np.nan
    except OverflowError:
        return np.nan


def as_float_array(values, name: str) -> np.ndarray:
    """Return ``values`` as an array of floats; InputError where they are no numbers."""
    values = _as_numbers(values, name)
    try:
        with np.errstate(over="ignore"):  # numbers beyond the range of floats are infinite, which is refused
            return values.astype(float, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is not an array of numbers") from None


def _as_numbers(values, name: str) -> np.ndarray:
    """An array of truth values, real numbers or objects; not of texts, dates or complex numbers."""
    if sparse.issparse(values):
        raise InputError(f"{name} is a sparse matrix, expected an array: {name}.toarray()")
    if np.ma.is_masked(values):
        raise InputError(f"{name} has masked values, expected numbers in their place")
    try:
        values = np.asarray(values)
    except (TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers") from None
    if values.dtype.kind not in "biufO":
        text = values.dtype.kind in "US" and values.size
        kind = f"text such as {values.flat[0].item()!r}" if text else values.dtype.name
        raise InputError(f"{name} is not an array of numbers, but of {kind}")
    return values
