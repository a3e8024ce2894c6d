"""Ids of 64 bits that are integers in one file and texts in another; floats are refused."""

import numpy as np
import pandas as pd
import pytest

from drcrm.data.folds import held_out
from drcrm.errors import InputError
from drcrm.logs.read_log import read_raw_log

MAPPING = {"action": "a", "propensity": "p", "reward": "r", "features": {}}
USERS = 2**60 + 300 * np.arange(40)  # floats near 2⁶⁰ are multiples of 256


def part(users) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": users, "a": rng.integers(0, 2, len(users)), "p": 0.5})
    return frame.assign(r=rng.integers(0, 2, len(users)))


@pytest.mark.parametrize("kind", ["csv", "parquet", "texts"])
def test_a_user_is_one_group_whatever_the_type_of_the_column_is(kind, tmp_path):
    suffix = "csv" if kind == "csv" else "parquet"
    users = [*map(str, USERS), None] if kind == "texts" else pd.array([*USERS, None], dtype="Int64")
    for number, frame in enumerate((part(USERS), part(users))):
        path = tmp_path / f"{number}.{suffix}"
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    raw_log = read_raw_log(tmp_path, MAPPING | {"group": "user"})
    groups = raw_log.rows.get("groups")
    assert (groups[:40] == groups[40:80]).all()
    assert (len({*groups[:40]}), groups[80] in groups[:80]) == (40, False)
    is_heldout = held_out(raw_log)
    assert (is_heldout[:40] == is_heldout[40:80]).all()


def test_integers_beyond_floats_remain_different_groups(tmp_path):
    part(2**60 + np.arange(40)).to_parquet(tmp_path / "a.parquet")
    assert len(set(read_raw_log(tmp_path / "a.parquet", MAPPING | {"group": "user"}).rows.get("groups"))) == 40


@pytest.mark.parametrize("key", ["id", "slice", "action", "group"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rounded_identifiers_are_refused(key, suffix, tmp_path):
    frame, path = part(USERS.astype(float)), tmp_path / f"a.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    with pytest.raises(InputError, match=r"1\.1529215046068\d*e\+18'? in row 0, expected an integer or a text"):
        read_raw_log(path, MAPPING | {key: "user"})


def test_ids_are_the_same_in_all_formats_and_required(tmp_path):
    users = np.arange(40) - 3
    ids = []
    for number, frame in enumerate((part(users), part(users.astype(float)), part(users.astype(str)))):
        for suffix in ("csv", "parquet"):
            path = tmp_path / f"{number}.{suffix}"
            frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
            ids.append(read_raw_log(path, MAPPING | {"id": "user"}).rows.get("ids"))
    assert all(np.array_equal(ids[0], other) for other in ids)
    assert len(set(ids[0])) == 40
    part(users).assign(user=["0", None, *map(str, users[2:])]).to_parquet(path)
    with pytest.raises(InputError, match="id 'user' is missing in row 1, expected an id in every row"):
        read_raw_log(path, MAPPING | {"id": "user"})
