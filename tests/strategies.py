"""Hypothesis strategies for arguments, arrays and files that are valid, nearly valid or damaged.

Every property test on such inputs asks for the same two outcomes: a correct result, or an ``InputError`` of one line.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from drcrm.errors import InputError

NUMBERS = ["0", "-1", "1e308", "1e999", "nan", "-inf", "1e-320", "-0", "+1", "1_0", "0x1", "1.", ".5", "1e", ""]
NUMBERS += ["4294967297", "9223372036854775808", "1" + "0" * 400, "１", "1,2", "1:1"]
CONTROL_CHARACTERS = ["\n", "\r", "\r\n", "\t", "\x00", "\x0b", "\x1c", "\x85", "\ufeff"]
TEXTS = [*NUMBERS, *CONTROL_CHARACTERS, ":", "::", ",", ",,", "#", '"', "qid:1", "é", "名", "\u202e", "a b", "<script>"]
BYTES = [*map(str.encode, TEXTS), b"\xff", b"\xff\xfe", b"PK\x03\x04", b"BZh9", b"\x93NUMPY", b"\x1f\x8b\x08"]
OBJECTS = [None, "x", "auto", "", b"x", [], [[]], {}, (), object(), math.nan, math.inf, -math.inf, -1, 0, 1, 2, 0.5]
OBJECTS += [1e-320, 1e308, 10**400, True, 1j, Fraction(1, 3), np.float32(2), np.array(1.0), np.array([1.0, 2.0])]
EXTREMES = [0.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 1e150, -1.0, 0.5, 2.0, 1e19, -1e19, 256.0]
TYPES = ["f4", "f2", "i1", "i8", "u8", "?", "U3", "S3", "O", "c16", "M8[s]", "m8[s]", ">f8", "longdouble"]
TYPES += [[("a", "f8"), ("b", "i4")]]
FIT_ARGUMENTS = ["X", "Y", "propensity", "cost", "context", "count", "logging_policy", "cost_model"]
COSTS = [[-1.0, -2.0, 0.0], [-1.0], [-0.5, -1.25], [1.0, -1.0], [3.0]]

ORDINARY = st.floats(-9, 9, width=32)
ODD_OBJECTS = st.sampled_from(OBJECTS)
ODD_TEXTS = st.sampled_from(TEXTS)


def examples(number: int) -> settings:
    """Return settings with this many examples in ``make test``, and in proportion with another profile."""
    count = number * settings.default.max_examples // 100
    return settings(max_examples=count, suppress_health_check=[HealthCheck.too_slow])


def result_or_message(function: Callable, *arguments, **options) -> tuple[object, str | None]:
    """Return the result and None, or None and the message of an ``InputError`` after checking that it is one line."""
    try:
        return function(*arguments, **options), None
    except InputError as error:
        message = str(error)
        assert message.strip() != ""
        assert message.isprintable()
        return None, message


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """Draw up to three changes of some bytes: a flipped bit, a cut, a repetition, an insertion, a replacement."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(changed)))
        span = slice(start, start + draw(st.sampled_from([1, 2, 4, 16, 64])))
        kind = draw(st.sampled_from(["flip", "delete", "truncate", "repeat", "insert", "replace"]))
        if kind == "flip" and start < len(changed):
            changed[start] ^= 1 << draw(st.integers(0, 7))
        elif kind == "delete":
            del changed[span]
        elif kind == "truncate":
            del changed[start:]
        elif kind == "repeat":
            changed[start:start] = changed[span]
        elif kind == "insert":
            changed[start:start] = draw(st.sampled_from(BYTES))
        else:
            changed[span] = draw(st.sampled_from(BYTES))
    return bytes(changed)


def cast(array: np.ndarray, dtype) -> np.ndarray:
    """Return the array with another type if numpy can convert it, else the array."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        try:
            return array.astype(np.dtype(dtype))
        except (TypeError, ValueError):
            return array


@st.composite
def spoilt_arrays(draw, array: np.ndarray) -> np.ndarray:
    """Draw an array with an extreme element, another type, another shape or another length."""
    kind = draw(st.sampled_from(["element", "element", "type", "shape", "length", "constant"]))
    if kind == "element" and array.size:
        changed = cast(array, float).copy()
        changed.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(EXTREMES))
        return changed
    if kind == "type":
        return cast(array, draw(st.sampled_from(TYPES)))
    if kind == "constant":
        return np.full_like(array, draw(st.integers(0, 1)))
    shapes = [array[None], array.ravel(), np.array(1.0), np.array([])]
    lengths = [array[:-1], np.concatenate([array, array[:1]]), array.T, array[::-1]] if array.ndim else shapes
    return draw(st.sampled_from(shapes if kind == "shape" else lengths))


@st.composite
def fit_arguments(draw, max_rows: int = 8) -> dict[str, object]:
    """Draw the arguments of ``fit``: a small log of label vectors, with counts and repeated contexts in some."""
    n, d, q = draw(st.integers(1, max_rows)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n_contexts = draw(st.one_of(st.just(n), st.integers(1, n)))
    propensities = st.one_of(st.sampled_from([1.0, 0.5, 0.01]), st.floats(0.01, 1))
    log = {
        "X": draw(arrays(float, (n_contexts, d), elements=st.one_of(st.sampled_from([0.0, 1.0]), ORDINARY))),
        "Y": draw(arrays(int, (n, q), elements=st.integers(0, 1))),
        "propensity": draw(arrays(float, n, elements=propensities)),
        "cost": draw(arrays(float, n, elements=st.sampled_from(draw(st.sampled_from(COSTS))))),
    }
    if n_contexts < n:
        log["context"] = draw(arrays(int, n, elements=st.integers(0, n_contexts - 1)))
    if draw(st.integers(0, 2)) == 2:
        log["count"] = np.array([1, *draw(st.lists(st.integers(0, 2), min_size=n - 1, max_size=n - 1))])
    return log


@st.composite
def spoilt_fit_arguments(draw, valid: Mapping[str, object], names: Sequence[str] = FIT_ARGUMENTS) -> dict[str, object]:
    """Draw arguments of ``fit``; change the type, shape, container or value of one or two."""
    arguments = dict(valid)
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(names))
        value = arguments.get(name)
        if not isinstance(value, np.ndarray) or not value.ndim:
            arguments[name] = draw(ODD_OBJECTS)
            continue
        containers = [value.tolist(), np.ma.masked_array(value), value.astype(object), [*value], [[1], [1, 2]]]
        if value.ndim == 2 and value.dtype.kind in "biuf":
            containers += [sparse.coo_array(cast(value, float)), sparse.csc_matrix(cast(value, float))]
        arguments[name] = draw(st.one_of(spoilt_arrays(value), st.sampled_from(containers), ODD_OBJECTS))
    return arguments
