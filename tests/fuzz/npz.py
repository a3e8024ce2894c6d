"""npz files: wrong arrays in them, or wrong bytes."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from random import Random

import numpy as np
from scipy import sparse

from drcrm.experiments.datasets.array_files import read_contexts, read_policy, read_split
from drcrm.experiments.steps.cost_model import read_cost_model

from . import arrays
from .harness import Kind, expect, in_one_line
from .mutations import mutated

KINDS = {"contexts": arrays.contexts, "split": arrays.split, "policy": arrays.policy, "cost_model": arrays.cost_model}


def make(r: Random) -> tuple[str, dict, bytes]:
    """Draw what a file is read as, its arrays, and its bytes."""
    name = r.choice(sorted(KINDS))
    content = KINDS[name](r)
    if r.random() < 0.4:
        content = arrays.spoilt(r, content)
    packed = arrays.packed(r, content)
    return name, content, mutated(r, packed) if r.random() < 0.4 else packed


def check(case: tuple[str, dict, bytes], folder: Path) -> bool:
    name, content, packed = case
    path = folder / "a.npz"
    path.write_bytes(packed)
    read, message = in_one_line(getattr(THEM, name), path)
    if read is None:
        expect(message.startswith(str(path)), f"no place in: {message}")
        expect(not good(name, content) or not loads(packed, content), f"a good file is refused: {message}")
        return False
    expect(good(name, content), "arrays that are no such file are accepted")
    for found, meant in zip(read, meanings(name, content), strict=True):
        expect(np.array_equal(found, meant), "other arrays than in the file")
    return True


class THEM:
    """What each kind of file is read as: its arrays."""

    @staticmethod
    def contexts(path):
        X, labels = read_contexts(path)
        return X.toarray() if sparse.issparse(X) else X, labels

    @staticmethod
    def split(path):
        return tuple(read_split(path, 5).values())

    @staticmethod
    def policy(path):
        return (read_policy(path).coef,)

    @staticmethod
    def cost_model(path):
        return (read_cost_model(path).coef_,)


def loads(packed: bytes, content: dict) -> bool:
    """Whether numpy reads all arrays of a file, to their ends, and they are those."""
    try:
        with np.load(io.BytesIO(packed)) as archive:
            return archive.zip.testzip() is None and all(archive[name].shape == content[name].shape for name in content)
    except Exception:
        return False


def numbers(array: np.ndarray, ndim: int) -> np.ndarray | None:
    """An array as finite floats; None unless it is one of real numbers, not empty, of so many dimensions."""
    array = np.asarray(array)
    if array.dtype.kind not in "biuf" or array.ndim != ndim or array.size == 0:
        return None
    with np.errstate(over="ignore"):
        array = array.astype(float)
    return array if np.isfinite(array).all() else None


def dense(name: str, content: dict) -> np.ndarray | None:
    """A matrix of a file as finite floats, put together from its parts where it is sparse."""
    if f"{name}.shape" not in content:
        return numbers(content[name], 2) if name in content else None
    try:
        data, indices, indptr, shape = (content[f"{name}.{part}"] for part in ("data", "indices", "indptr", "shape"))
    except KeyError:
        return None
    empty = np.zeros(0) if data.dtype.kind in "biuf" else None
    data, shape = numbers(data, 1) if np.size(data) else empty, numbers(shape, 1)
    if (
        data is None
        or shape is None
        or len(shape) != 2
        or content[f"{name}.data"].ndim != 1
        or indices.ndim != 1
        or indptr.ndim != 1
    ):
        return None
    if not all(array.dtype.kind in "iu" for array in (indices, indptr, content[f"{name}.shape"])):
        return None
    n, d = map(int, shape)
    if not (
        0 < n < 100
        and 0 < d < 100
        and len(indptr) == n + 1
        and indptr[0] == 0
        and len(indices) == len(data) == indptr[-1]
    ):
        return None
    if (np.diff(indptr.astype(int)) < 0).any() or ((indices < 0) | (indices >= d)).any():
        return None
    X = np.zeros((n, d))
    for row, (a, b) in enumerate(itertools.pairwise(indptr)):
        for at in range(int(a), int(b)):
            X[row, int(indices[at])] += data[at]
    return X


def meanings(name: str, content: dict) -> list[np.ndarray]:
    """The arrays that a good file is read as."""
    if name == "contexts":
        X = dense("X", content)
        return [np.column_stack([X, np.ones(len(X))]), content["labels"]]
    if name == "split":
        return [content[part] for part in ("logging", "train", "heldout")]
    return [content["coef"].astype(float)]


def good(name: str, content: dict) -> bool:
    """Whether arrays are what a file of a kind has, by its definition."""
    if name == "contexts":
        X, labels = dense("X", content), numbers(content.get("labels"), 2)
        return X is not None and labels is not None and len(X) == len(labels) and set(labels.ravel()) <= {0, 1}
    if name == "split":
        parts = [numbers(content.get(part), 1) for part in ("logging", "train", "heldout")]
        return all(part is not None and set(part) <= set(range(5)) for part in parts)
    return numbers(content.get("coef"), 2) is not None


KIND = Kind("npz", 200, make, check)
