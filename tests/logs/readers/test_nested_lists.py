"""Rows with a list of objects are read like a table with a row for each object."""

import json

import numpy as np
import pandas as pd
import pytest
from fixtures.text_logs import read_contexts
from fixtures.user_logs import assert_same_log

import drcrm
from drcrm.errors import InputError
from drcrm.logs.read_log import has_lists

MAPPING = {
    "list": "items",
    "chosen": "shown",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["items.price", "user.age"], "categorical": ["device", "items.seller.name"]},
}


@pytest.fixture
def decisions():
    """Return 60 decisions with 1 to 4 candidates; some prices are missing."""
    rng = np.random.default_rng(0)
    rows = []
    for row in range(60):
        size = int(rng.integers(1, 5)) if row else 2
        items = [
            {
                "price": None if rng.random() < 0.1 else float(rng.normal()),
                "seller": {"name": str(rng.choice(["a", "b"]))},
            }
            for _ in range(size)
        ]
        shown = int(rng.integers(size))
        user = {"age": int(rng.integers(18, 80))}
        rows.append(
            {
                "items": items,
                "device": str(rng.choice(["phone", "desktop"])),
                "user": user,
                "shown": shown,
                "p": 1 / size,
                "click": int(rng.integers(2)),
            }
        )
    rows[0]["items"][0]["price"] = 0.1 + 0.2
    return rows


@pytest.fixture
def flat(decisions):
    """Return the table with a row for each candidate."""
    return pd.DataFrame(
        {
            "items": row,
            "items.price": item["price"],
            "items.seller.name": item["seller"]["name"],
            "device": decision["device"],
            "user.age": decision["user"]["age"],
            "shown": int(place == decision["shown"]),
            "p": decision["p"],
            "click": decision["click"],
        }
        for row, decision in enumerate(decisions)
        for place, item in enumerate(decision["items"])
    )


def write(decisions, path):
    """Write decisions as JSON lines or Parquet."""
    if path.suffix == ".parquet":
        pd.DataFrame(decisions).to_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in decisions), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("rows", [None, 7])
def test_nested_lists_are_read_like_a_row_for_each_candidate(decisions, flat, tmp_path, form, rows, monkeypatch):
    """In one batch and in several, whose numbers of lists continue."""
    if rows:
        monkeypatch.setattr("drcrm.logs.read_log.ROWS", rows)
    path = write(decisions, tmp_path / f"log.{form}")
    expected, log = drcrm.BanditLog.from_frame(flat, MAPPING), drcrm.read_log(path, MAPPING)
    assert_same_log(log, expected)
    contexts = read_contexts(path, log.encoding)[0]
    assert np.allclose(contexts.features, expected.X)


def test_a_frame_with_lists_is_read_like_its_file(decisions, flat):
    """Without rounding."""
    assert_same_log(drcrm.read_log(pd.DataFrame(decisions), MAPPING), drcrm.BanditLog.from_frame(flat, MAPPING))


def test_a_field_may_mark_the_logged_candidate(decisions, flat, tmp_path):
    """Instead of a position."""
    for row in decisions:
        for place, item in enumerate(row["items"]):
            item["shown"] = int(place == row["shown"])
    path = write([{name: row[name] for name in row if name != "shown"} for row in decisions], tmp_path / "log.jsonl")
    log = drcrm.read_log(path, MAPPING | {"chosen": "items.shown"})
    assert_same_log(log, drcrm.BanditLog.from_frame(flat, MAPPING))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shown": 4}, "position 'shown' is 4.0 in row 3, expected a position in the list, from 0 to its number"),
        ({"shown": -1}, "position 'shown' is -1.0 in row 3"),
        ({"shown": 0.5}, "position 'shown' is 0.5 in row 3"),
        ({"shown": "first"}, "position 'shown' is 'first' in row 3, expected a position in the list"),
        ({"items": []}, "row 3 has no object in 'items', expected at least one"),
        ({"items": None}, "row 3 has no object in 'items', expected at least one"),
        ({"items": ["i7", "i3"]}, "the lists in 'items' must have objects such as"),
    ],
)
def test_invalid_lists_name_their_row(decisions, tmp_path, change, message):
    """The rows are counted from 0, as in all messages."""
    path = write([*decisions[:3], decisions[3] | change], tmp_path / "log.jsonl")
    with pytest.raises(InputError, match=message):
        drcrm.read_log(path, MAPPING)


def test_a_field_that_no_object_has_is_named(decisions, tmp_path):
    features = {"numeric": ["items.prize"]}
    with pytest.raises(
        InputError, match=r"the objects in 'items' have no field for 'items.prize', expected one of items.p"
    ):
        drcrm.read_log(write(decisions, tmp_path / "log.jsonl"), MAPPING | {"features": features})


def test_a_column_of_texts_has_no_fields(flat, tmp_path):
    path = tmp_path / "log.parquet"
    flat.drop(columns="items.price").to_parquet(path)
    with pytest.raises(InputError, match="'items' must be a column of lists of objects, because its fields are used"):
        drcrm.read_log(path, MAPPING)


def test_a_frame_with_weights_or_missing_values_is_read_without_a_file(decisions):
    """Lists of numbers are weights. A missing value of a nullable column stays missing next to lists of objects."""
    frame = pd.DataFrame({"a": ["x", "y"] * 5, "w": [[0.5, 0.5]] * 10, "r": [0, 1] * 5, "age": [1.0, 2.0] * 5})
    assert not has_lists(frame)
    city = pd.Series(["Bern", pd.NA] * 30, dtype="string")
    log = drcrm.read_log(
        pd.DataFrame(decisions).assign(device=city, seen=pd.NaT),
        MAPPING,
    )
    assert "<NA>" not in str(log.encoding.as_dict())
