"""Small log as a frame, and its mapping."""

import bz2
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import drcrm
from drcrm.logs.batches import encode, fit_encoding


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 40
    return pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "price": rng.integers(1, 9, n),
            "city": rng.choice(["Bern", "Zürich", "東京"], n),
            "item": rng.choice(["b", "a", "c"], n),
            "p": rng.uniform(0.1, 1, n),
            "click": rng.integers(0, 2, n),
            "place": rng.integers(1, 4, n),
            "user": rng.integers(0, 12, n),
            "q": rng.uniform(0, 1, n),
        }
    )


@pytest.fixture
def mapping() -> dict:
    return {
        "action": "item",
        "propensity": "p",
        "reward": "click",
        "features": {"numeric": ["age", "price"], "categorical": ["city"]},
    }


def write_table(frame: pd.DataFrame, folder: Path, name: str) -> Path:
    """Write a frame as Parquet, or as CSV packed according to the end of the name; return the path."""
    path = folder / name
    if "parquet" in name:
        frame.to_parquet(path)
    else:
        pack = {"gz": gzip.compress, "z2": bz2.compress}.get(name[-2:], bytes)
        path.write_bytes(pack(frame.to_csv(index=False).encode()))
    return path


def read_as(form: str, frame: pd.DataFrame, mapping: dict, folder: Path) -> drcrm.BanditLog:
    """Return the log of a frame: from the frame itself, or from the file ``log.FORM`` that this function writes."""
    if form == "frame":
        return drcrm.BanditLog.from_frame(frame, mapping)
    return drcrm.read_log(write_table(frame, folder, f"log.{form}"), mapping)


def encoded(raw_log: drcrm.BanditLog) -> drcrm.BanditLog:
    """Return a reader's log with the encoding that is fitted to all its rows."""
    return encode(raw_log, fit_encoding(raw_log))


def assert_same_log(first, second) -> None:
    for name in ("X", "Y", "propensity", "cost", "context", "count"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert first.actions.shape == second.actions.shape
