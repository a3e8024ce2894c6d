"""npz files: arrays of a bandit log, or of the Open Bandit Pipeline."""

from __future__ import annotations

import re

import numpy as np
import pytest

import drcrm
from drcrm.errors import InputError


@pytest.mark.parametrize("kind", ["single", "labels", "lists"])
@pytest.mark.parametrize("name", ["cost", "reward"])
def test_arrays_of_a_log_are_read(tmp_path, kind, name):
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(6, 2)), "propensity": np.full(6, 0.5), name: rng.normal(size=6)}
    arrays["Y"] = rng.integers(0, 2, (6, 3) if kind == "labels" else 6)
    X = arrays["X"]
    if kind == "lists":
        arrays["X"], arrays["starts"] = rng.normal(size=(12, 2)), np.arange(0, 13, 2)
        X = drcrm.ActionLists(arrays["X"], arrays["starts"])
    arrays |= {"context": np.array([0, 0, 1, 2, 4, 5]), "count": np.arange(1, 7)}
    np.savez(tmp_path / "a.npz", **arrays)
    log = drcrm.read_log(tmp_path / "a.npz")
    rest = {key: arrays[key] for key in ("propensity", "context", "count")}
    expected = drcrm.BanditLog(X, arrays["Y"], cost=arrays[name] * (1 if name == "cost" else -1), **rest)
    for key in ("X", "Y", "cost", "propensity", "context", "count"):
        assert np.array_equal(getattr(log, key), getattr(expected, key)), key


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "has the arrays none, expected X, Y, propensity, and cost or reward"),
        ({"X": np.eye(2), "propensity": np.ones(2), "cost": np.ones(2)}, "expected X, Y, propensity, and cost"),
        ({"X": np.eye(2), "Y": [0, 1], "cost": [1, 1], "reward": [1, 1]}, "expected X, Y, propensity, and cost"),
        ({"X": np.eye(2), "Y": [0, 1], "cost": [1, 1]}, "has no propensity, expected it"),
        ({"X": np.eye(2), "Y": [0, 1], "cost": [1, 1], "propensity": [1, 0]}, "propensity is 0.0 in row 1"),
        ({"X": np.eye(2), "Y": [0, 1, 1], "cost": [1, 1, 1], "propensity": [1, 1, 1]}, "Y has 3 rows, expected 2"),
        ({"X": ["a", "b"], "Y": [0, 1], "cost": [1, 1]}, "X is not an array of numbers"),
        ({"X": np.array([{}], dtype=object)}, "is not a readable npz file"),
    ],
)
def test_other_arrays_are_rejected(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=re.escape(message)):
        drcrm.read_log(tmp_path / "a.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x04."])
def test_damaged_bytes_are_rejected(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.npz: is not a readable npz file"):
        drcrm.read_log(tmp_path / "a.npz")
