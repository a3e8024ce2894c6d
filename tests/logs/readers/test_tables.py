"""Tables in JSON and Parquet: values and types like those of CSV, and columns of nested objects and lists."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from fixtures.text_logs import read_contexts
from fixtures.user_logs import assert_same_log

import drcrm
from drcrm.errors import InputError
from drcrm.logs.read_log import has_lists, read_raw_log
from drcrm.mapping.log_mapping import as_mapping


@pytest.mark.parametrize("name", ["log.jsonl", "log.json", "log.txt", "log.jsonl.gz"])
@pytest.mark.parametrize("form", ["lines", "list", "indented list"])
def test_tables_in_json_are_read(frame, mapping, tmp_path, name, form, monkeypatch):
    monkeypatch.setattr("drcrm.logs.readers.tables.JSON_ROWS", 70)
    frame["vip"] = frame["click"] == 1
    mapping |= {"features": {"numeric": ["age", "price"], "categorical": ["city"]}, "reward": "vip"}
    frame.loc[2, "age"] = None
    text = frame.to_json(orient="records", lines=True, double_precision=15, force_ascii=False).encode()
    rows = [json.loads(line) for line in text.splitlines()]
    content = text if form == "lines" else json.dumps(rows, indent=2 if form == "indented list" else None).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    log = drcrm.read_log(tmp_path / name, mapping)
    frame["age"] = pd.Series([row["age"] for row in rows], dtype=float)
    frame["p"] = [row["p"] for row in rows]
    assert_same_log(log, drcrm.BanditLog.from_frame(frame, mapping))
    assert np.array_equal(read_contexts(tmp_path / name, log.encoding)[0], log.X)


def test_values_in_json_are_read_like_the_texts_of_csv(frame, mapping, tmp_path):
    """Times keep the hour as written, texts that look like dates stay texts, and codes stay codes."""
    frame["when"] = [f"2026-01-{1 + row % 20:02d}T{row % 24:02d}:30:00+02:00" for row in range(len(frame))]
    frame["day"] = [f"2026-01-{1 + row % 5:02d}" for row in range(len(frame))]
    frame["code"] = [["1E5", "100000", "2.50", "True"][row % 4] for row in range(len(frame))]
    mapping |= {"features": {"numeric": ["age"], "categorical": ["day", "code"], "time": ["when"]}}
    frame.to_csv(tmp_path / "log.csv", index=False)
    lines = [dict(zip(frame, row, strict=True)) for row in frame.astype(object).itertuples(index=False)]
    numbers = {"100000": 1e5, "2.50": 2.5, "True": True}
    lines = [line | {"code": numbers.get(line["code"], line["code"])} for line in lines]
    text = "\n".join(json.dumps(line) for line in lines).replace("100000.0", "1e5").replace("NaN", "null")
    (tmp_path / "log.jsonl").write_text("\n" + text)
    logs = [drcrm.read_log(tmp_path / name, mapping) for name in ("log.csv", "log.jsonl")]
    assert_same_log(*logs)
    assert logs[1].encoding.known == logs[0].encoding.known
    assert logs[1].encoding.known["code"] == ["100000", "1E5", "2.5", "true"]
    assert logs[1].encoding.known["day"] == [f"2026-01-{day:02d}" for day in range(1, 6)]
    hours = set(logs[1].encoding.known["when: hour"])
    assert hours == {time[11:13] for time in frame["when"]}


@pytest.mark.parametrize(
    ("first", "last", "kind"),
    [
        ({"tag": None}, {"tag": "x"}, "categorical"),
        ({}, {"tag": "x"}, "categorical"),
        ({}, {"user": {"tag": "x"}, "tag": "y"}, "categorical"),
        ({"tag": "2026-06-01"}, {"tag": "unknown"}, "categorical"),
        ({"tag": 3}, {"tag": 3.5}, "numeric"),
        ({"tag": 3}, {"tag": "4"}, "numeric"),
    ],
)
def test_types_in_json_may_change_in_later_rows(first, last, kind, tmp_path, monkeypatch):
    monkeypatch.setattr("drcrm.logs.readers.tables.JSON_BLOCK", 1000)
    rows = [(first if row < 90 else last) | {"a": "uv"[row % 2], "p": 0.5, "y": row // 2 % 2} for row in range(100)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    mapping = {"action": "a", "propensity": "p", "reward": "y", "features": {kind: ["tag"]}}
    frame = pd.DataFrame([{"tag": None} | row for row in rows])
    frame["tag"] = pd.to_numeric(frame["tag"]) if kind == "numeric" else frame["tag"]
    assert_same_log(drcrm.read_log(tmp_path / "log.jsonl", mapping), drcrm.BanditLog.from_frame(frame, mapping))
    message = "column 'other' is missing, expected one of the file's columns"
    with pytest.raises(InputError, match=message):
        drcrm.read_log(tmp_path / "log.jsonl", mapping | {"features": {"numeric": ["other"]}})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"tag": 1, "tag": 2}', "line 2: a key occurs twice in one object"),
        ('{"tag": 1', "line 2: Expecting ',' delimiter"),
        ("[1]", "line 2 is not an object"),
        ('{"tag": "\\ud800", "a": "u", "p": 0.5, "y": 1}', "column 'tag' has a text that is not Unicode"),
        ('{"tag": ["x", 1, null], "a": "u", "p": 0.5, "y": 1}', "tag has values such as lists or maps"),
        ('{"tag": {"x": {}}, "a": "u", "p": 0.5, "y": Infinity}', "reward 'y' is 'Infinity' in row 1, expected a fin"),
    ],
)
def test_invalid_lines_in_json_are_refused(line, message, tmp_path):
    (tmp_path / "log.jsonl").write_text('{"tag": "x", "a": "v", "p": 0.5, "y": 0}\n' + line)
    mapping = {"action": "a", "propensity": "p", "reward": "y", "features": {"categorical": ["tag"]}}
    with pytest.raises(InputError, match=message):
        drcrm.read_log(tmp_path / "log.jsonl", mapping)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"a": "v", "p": 0.5, "y": 0}, 1]', "element 2 is not an object"),
        ('[{"a": "v", "p": 0.5, "y": 0},', "is not a readable table in JSON: Expecting value: line 1 column 31"),
        ('\n[{"a": "v"}]\n[]', "is not a readable table in JSON: Extra data: line 2"),
        ("[]", "log.json: has no rows that can be read"),
    ],
)
def test_invalid_lists_in_json_are_refused(text, message, tmp_path):
    (tmp_path / "log.json").write_text(text)
    mapping = {"action": "a", "propensity": "p", "reward": "y", "features": {}}
    with pytest.raises(InputError, match=message):
        drcrm.read_log(tmp_path / "log.json", mapping)


@pytest.mark.parametrize("number", ["1.8e19", "18000000000000000001.0"])
def test_rounded_ids_in_json_are_refused(number, tmp_path):
    line = '{"tag": "x", "a": "v", "p": 0.5, "y": 0, "order": '
    mapping = {"action": "a", "propensity": "p", "reward": "y", "features": {"categorical": ["tag"]}, "id": "order"}
    (tmp_path / "log.jsonl").write_text(f"{line}18000000000000000001}}\n{line}18000000000000000002}}\n")
    assert len({*read_raw_log(tmp_path / "log.jsonl", as_mapping(mapping)).column("ids")}) == 2
    (tmp_path / "log.jsonl").write_text(f"{line}{number}}}\n")
    with pytest.raises(InputError, match="expected an integer or a text"):
        drcrm.read_log(tmp_path / "log.jsonl", mapping)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("is_flat", [False, True])
def test_fields_of_nested_objects_are_columns(frame, mapping, tmp_path, form, is_flat):
    """A column of the table comes before a field of the same name."""
    expected = drcrm.BanditLog.from_frame(frame, mapping)
    users = [{"age": age, "home": {"city": city}} for age, city in zip(frame["age"], frame["city"], strict=True)]
    nested, path = frame.drop(columns=["age", "city"]).assign(user=users), tmp_path / f"log.{form}"
    if is_flat:
        nested = nested.assign(**{"user.age": frame["age"], "user": [user | {"age": -1} for user in users]})
    is_json = form == "jsonl"
    path.write_text(
        nested.to_json(orient="records", lines=True, double_precision=15)
    ) if is_json else nested.to_parquet(path)
    renamed = {"numeric": ["user.age", "price"], "categorical": ["user.home.city"]}
    log = drcrm.read_log(path, mapping | {"features": renamed})
    assert_same_log(
        log.replace(propensity=log.propensity.round(12)), expected.replace(propensity=expected.propensity.round(12))
    )
    assert np.allclose(read_contexts(path, log.encoding)[0], expected.X)


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
