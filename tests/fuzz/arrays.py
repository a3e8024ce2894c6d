"""Arrays for npz files: a valid file of each kind that steps read, and what may be wrong with its arrays."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Mapping
from random import Random

import numpy as np
from scipy import sparse

HOSTILE = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 1e150, -1.0, 0.5, 2.0, 1e19, -1e19, 256.0]
TYPES = [
    "f4",
    "f2",
    "i1",
    "i8",
    "u8",
    "?",
    "U3",
    "S3",
    "O",
    "c16",
    "M8[s]",
    "m8[s]",
    ">f8",
    "longdouble",
    [("a", "f8"), ("b", "i4")],
]


def normal(r: Random) -> float:
    """A normal number, also where hypothesis draws it, from the far ends of all numbers."""
    return max(-9.0, min(9.0, r.gauss(0, 1)))


def contexts(r: Random) -> dict[str, np.ndarray]:
    n, d, q = r.randint(1, 5), r.randint(1, 4), r.randint(1, 3)
    return {
        **features("X", r, n, d),
        "labels": np.array([[r.randrange(2) for _ in range(q)] for _ in range(n)], dtype=np.uint8),
    }


def features(name: str, r: Random, n: int, d: int) -> dict[str, np.ndarray]:
    X = np.array([[r.choice([0.0, 0.0, 1.0, normal(r)]) for _ in range(d)] for _ in range(n)])
    if r.random() < 0.6:
        return {name: X}
    X = sparse.csr_array(X)
    parts = {part: getattr(X, part) for part in ("data", "indices", "indptr")}
    return {f"{name}.{part}": array for part, array in {**parts, "shape": np.array(X.shape)}.items()}


def split(r: Random) -> dict[str, np.ndarray]:
    rows = r.sample(range(5), 5)
    cut = r.randint(1, 4)
    return {"logging": np.array(rows[:1]), "train": np.array(rows[:cut]), "heldout": np.array(rows[cut:])}


def policy(r: Random, d: int | None = None, q: int | None = None) -> dict[str, np.ndarray]:
    d, q = d or r.randint(1, 4), q or r.randint(1, 3)
    coef = np.array([[r.choice([0.0, -1000.0, normal(r)]) for _ in range(q)] for _ in range(d)])
    return {"coef": coef, "absent": np.array([r.random() < 0.3 for _ in range(q)])}


def log(r: Random, d: int | None = None, q: int | None = None) -> dict[str, np.ndarray]:
    m, d, q = r.randint(1, 4), d or r.randint(1, 3), q or r.randint(1, 3)
    n = r.randint(1, 12)
    costs = r.choice([[-1.0, -2.0, 0.0], [-1.0], [-0.5, -1.25, -1e-3], [1.0, -1.0]])
    return {
        **features("X", r, m, d),
        "Y": np.array([[r.randrange(2) for _ in range(q)] for _ in range(n)], dtype=np.uint8),
        "propensity": np.array([r.choice([1.0, 0.5, 0.25, r.random() or 1.0]) for _ in range(n)]),
        "cost": np.array([r.choice(costs) for _ in range(n)]),
        "context": np.array([r.randrange(m) for _ in range(n)]),
        "train": np.array([r.choice([0, 1, 1, 2]) for _ in range(n)]),
        "heldout": np.array([r.choice([0, 1, 1, 3]) for _ in range(n)]),
    }


def cost_model(r: Random) -> dict[str, np.ndarray]:
    d, q = r.randint(1, 4), r.randint(1, 3)
    return {"coef": np.array([[normal(r) for _ in range(q + 1)] for _ in range(d)]), "penalty": np.array(0.01)}


def spoilt(r: Random, arrays: Mapping[str, np.ndarray], most: int = 2) -> dict[str, np.ndarray]:
    """Return arrays of which one or two have a wrong value, type or shape, or are missing."""
    arrays = dict(arrays)
    for _ in range(r.randint(1, most)):
        name = r.choice(sorted(arrays))
        array, change = arrays[name], r.randrange(9)
        if change <= 3 and array.size:
            array = array.astype(float) if array.dtype.kind != "f" and array.dtype.kind in "biu" else array.copy()
            if array.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    array.flat[r.randrange(array.size)] = r.choice(HOSTILE)
        elif change == 4:
            array = cast(array, r.choice(TYPES))
        elif change == 5:
            shapes = [array[None], array.ravel(), np.array(1.0), np.array([])]
            array = r.choice([*shapes, array[:0], array[..., :0]] if array.ndim else shapes)
        elif change == 6 and array.ndim:
            array = r.choice([array[:-1], np.concatenate([array, array[:1]]), array.T, array[::-1]])
        elif change == 7:
            array = np.full_like(array, r.choice([0, 1]))
        elif change == 8:
            array = arrays[r.choice(sorted(arrays))]
        arrays[name] = array
        if len(arrays) > 1 and r.random() < 0.05:
            del arrays[name]
    return arrays


def cast(array: np.ndarray, dtype) -> np.ndarray:
    """An array of another type, as far as it has one."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        try:
            return array.astype(np.dtype(dtype))
        except Exception:  # numpy has several for it
            return np.zeros(array.shape, np.dtype(dtype))


def packed(r: Random, arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of an npz file, compressed or not."""
    stream = io.BytesIO()
    way = r.choice([zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(stream, "w", way) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=True)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue(), compress_type=way)
    return stream.getvalue()
