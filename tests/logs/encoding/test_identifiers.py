"""Ids of 64 bits that are integers in one file and floats or texts in another."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from drcrm.errors import InputError
from drcrm.logs.readers.log_files import read_records
from drcrm.logs.split import held_out

MAPPING = {"action": "a", "propensity": "p", "reward": "r", "features": {}}
USERS = 2**60 + 300 * np.arange(40)  # floats near 2⁶⁰ are multiples of 256


def part(users) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": users, "a": rng.integers(0, 2, len(users)), "p": 0.5})
    return frame.assign(r=rng.integers(0, 2, len(users)))


def floats(users) -> pd.Series:
    return pd.Series([*users, None], dtype="Int64").astype(float)


PARTS = {
    "parquet floats": (lambda users: part(floats(users)), "parquet"),
    "csv floats": (lambda users: part(floats(users)), "csv"),
    "csv missing": (lambda users: part(pd.array([*users, None], dtype="Int64")), "csv"),
    "texts": (lambda users: part([str(user) for user in users]), "parquet"),
    "16 digits": (lambda users: part(floats(users // 2**7)), "parquet"),
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_user_is_one_group_whatever_the_type_of_the_column_is(kind, tmp_path):
    make, suffix = PARTS[kind]
    users = USERS // 2**7 if kind == "16 digits" else USERS
    first, second = part(users), make(USERS)
    for number, frame in enumerate((first, second)):
        path = tmp_path / f"{number}.{suffix}"
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    records = read_records(tmp_path, MAPPING | {"group": "user"})
    assert (records.groups[:40] == records.groups[40:80]).all()
    assert len(set(records.groups[80:]) & set(records.groups[:80])) == 0
    is_heldout = held_out(records)
    assert (is_heldout[:40] == is_heldout[40:80]).all()
    if "floats" not in kind and kind != "16 digits":
        assert len(set(records.groups[:40])) == 40


def test_integers_beyond_floats_remain_different_groups(tmp_path):
    part(2**60 + np.arange(40)).to_parquet(tmp_path / "a.parquet")
    assert len(set(read_records(tmp_path / "a.parquet", MAPPING | {"group": "user"}).groups)) == 40


@pytest.mark.parametrize("key", ["id", "slice", "action"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rounded_identifiers_are_refused(key, suffix, tmp_path):
    frame, path = part(USERS.astype(float)), tmp_path / f"a.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    with pytest.raises(InputError, match=r"1\.1529215046068\d*e\+18'? in row 0, expected an integer or a text"):
        read_records(path, MAPPING | {key: "user"})


def test_ids_are_the_same_in_all_formats_and_required(tmp_path):
    users = np.arange(40) - 3
    ids = []
    for number, frame in enumerate((part(users), part(users.astype(float)), part(users.astype(str)))):
        for suffix in ("csv", "parquet"):
            path = tmp_path / f"{number}.{suffix}"
            frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
            ids.append(read_records(path, MAPPING | {"id": "user"}).ids)
    assert all(np.array_equal(ids[0], other) for other in ids)
    assert len(set(ids[0])) == 40
    part(users).assign(user=["0", None, *map(str, users[2:])]).to_parquet(path)
    with pytest.raises(InputError, match="id 'user' is missing in row 1, expected an id in every row"):
        read_records(path, MAPPING | {"id": "user"})
