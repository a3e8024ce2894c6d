"""Columns that predict keeps: each value is written as it was read, in CSV and Parquet, for every chunk size."""

import csv
import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from fixtures.user_logs import decisions
from pyarrow import parquet

from drcrm.logs import read_log

DAY = datetime.datetime(2024, 5, 1)
AMOUNTS = [f"{'9' * 30}.{tail}" for tail in (10, 20, 11, 99)]
KEPT = {  # Arrow columns, and their texts in CSV
    "id": (pa.array([2**60 + 1, None, 2**60 + 3, -5]), ["1152921504606846977", "", "1152921504606846979", "-5"]),
    "unsigned": (pa.array([2**64 - 1, 0, None, 1], pa.uint64()), ["18446744073709551615", "0", "", "1"]),
    "zip": (pa.array(["007", None, "1e5", "=1+1"]), ["007", "", "1e5", "=1+1"]),
    "amount": (pa.array([*map(Decimal, AMOUNTS)]), AMOUNTS),
    "x": (pa.array([0.1, None, 1e16, 2.0]), ["0.1", "", "1e+16", "2.0"]),
    "narrow": (pa.array([0.1, None, 1.5, 2.0], pa.float32()), ["0.1", "", "1.5", "2.0"]),
    "is_new": (pa.array([True, None, False, True]), ["True", "", "False", "True"]),
    "day": (pa.array([DAY.date(), None, datetime.date(1, 1, 1), None]), ["2024-05-01", "", "0001-01-01", ""]),
    "at": (pa.array([DAY, DAY, None, DAY.replace(hour=7)]), [*["2024-05-01 00:00:00"] * 2, "", "2024-05-01 07:00:00"]),
    "code": (pa.array([b"00x1", None, b"7", b"8"]), ["00x1", "", "7", "8"]),
    "kind": (pa.array(["a", None, "b", "a"]).dictionary_encode(), ["a", "", "b", "a"]),
}


def predict(run, folder, log, output, names) -> tuple[int, str]:
    """Run predict on a log and keep columns; return the status and the messages."""
    options = [word for name in names for word in ("--keep", name)]
    status, _, error = run("predict", folder / "policy.npz", log, "--output", output, *options)
    return status, error


def texts_of(path) -> dict[str, list[str]]:
    """Return the columns of a CSV file, read by the standard library."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


def write_log(path, **columns) -> None:
    """Write a Parquet log of four rows with the features of the shop and other columns."""
    table = pa.Table.from_pandas(decisions(4)[["age", "price", "city"]], preserve_index=False)
    for name, column in columns.items():
        table = table.append_column(name, column)
    parquet.write_table(table, path)


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Return a folder with two Parquet files, of which the first has no values in the columns to keep."""
    monkeypatch.setattr(read_log, "ROWS", 3)
    (tmp_path / "log").mkdir()
    write_log(tmp_path / "log/0.parquet", **{name: pa.nulls(4) for name in KEPT})
    write_log(tmp_path / "log/1.parquet", **{name: column for name, (column, _) in KEPT.items()})
    return tmp_path / "log"


def test_parquet_has_the_values_and_the_types_of_the_log(shop, tmp_path, run, log):
    assert predict(run, shop, log, tmp_path / "o.parquet", KEPT) == (0, "")
    written = parquet.read_table(tmp_path / "o.parquet")
    assert written.column_names == [*KEPT, "item", "propensity"]
    for name, (column, _) in KEPT.items():
        assert written[name].type in (column.type, getattr(column.type, "value_type", None))
        assert written[name].to_pylist() == [None] * 4 + column.to_pylist()


def test_csv_has_the_values_of_a_parquet_log(shop, tmp_path, run, log):
    assert predict(run, shop, log, tmp_path / "o.csv", KEPT)[0] == 0
    written = texts_of(tmp_path / "o.csv")
    for name, (_, texts) in KEPT.items():
        assert written[name] == [""] * 4 + texts


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_texts_of_csv_stay_as_they_are(form, shop, tmp_path, run, monkeypatch):
    """A number that is a feature keeps its decimal comma."""
    monkeypatch.setattr(read_log, "ROWS", 2)
    texts = {
        "id": [str(2**60 + 1), "", str(2**60 + 3), "007", "1e5"],
        "day": ["03.03.2025", "", " 2025-03-03", "x,y", '"'],
        "amount": ["1,10", "0.100000000000000000000001", "", "+5", "1.0"],
        "age": ["40,50", "1", "", "3,0", "-7,25"],
    }
    with open(tmp_path / "log.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow([*texts, "price", "city"])
        writer.writerows([*row, "1,5", "Bern"] for row in zip(*texts.values(), strict=True))
    assert predict(run, shop, tmp_path / "log.csv", tmp_path / f"o.{form}", texts)[0] == 0
    if form == "csv":
        written = texts_of(tmp_path / "o.csv")
    else:
        table = parquet.read_table(tmp_path / "o.parquet")
        written = {name: [text or "" for text in table[name].to_pylist()] for name in texts}
    assert {name: written[name] for name in texts} == texts


@pytest.mark.parametrize(
    ("types", "column", "expected"),
    [
        ((pa.int32(), pa.int64()), [2**31 - 1], pa.int64()),
        ((pa.int64(), pa.float64()), [3], pa.float64()),
        ((pa.timestamp("ms"), pa.timestamp("ns")), [DAY], pa.timestamp("ns")),
        ((pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.string())), ["a"], pa.string()),
        ((pa.dictionary(pa.int8(), pa.string()), pa.string()), ["a"], pa.string()),
        ((pa.int64(), pa.float64()), [2**60 + 1], "--keep id: Integer value 1152921504606846977 not in range"),
        ((pa.int64(), pa.string()), [3], "Field id has incompatible types: int64 vs string"),
    ],
)
def test_files_with_different_types_get_a_joint_type_or_are_refused(types, column, expected, shop, tmp_path, run):
    (tmp_path / "log").mkdir()
    values = [pa.array(column * 4, types[0]), pa.array([None] * 4, types[1])]
    for number, ids in enumerate(values):
        write_log(tmp_path / f"log/{number}.parquet", id=ids)
    status, error = predict(run, shop, tmp_path / "log", tmp_path / "o.parquet", ["id"])
    if isinstance(expected, str):
        assert (status, error.count("\n"), expected in error) == (1, 1, True)
        assert not (tmp_path / "o.parquet").exists()
        assert predict(run, shop, tmp_path / "log", tmp_path / "o.csv", ["id"]) == (0, "")
        assert texts_of(tmp_path / "o.csv")["id"] == [*map(str, column * 4), *[""] * 4]
    else:
        written = parquet.read_table(tmp_path / "o.parquet")["id"]
        assert (status, written.type, written.to_pylist()) == (0, expected, [*column * 4, *[None] * 4])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["none"], "column 'none' is missing"),
        (["item"], "the output has a column 'item' already"),
        (["propensity"], "the output has a column 'propensity' already"),
        (["age", "age"], "the output has a column 'age' already"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused(names, message, shop, tmp_path, run):
    status, error = predict(run, shop, shop / "log.csv", tmp_path / "out.csv", names)
    assert (status, error.count("\n"), message in error) == (1, 1, True)
    assert not (tmp_path / "out.csv").exists()


def test_values_in_json_are_kept_as_written(shop, tmp_path, run):
    kept = {
        "when": ["2026-06-01T00:30:00+08:00", ""],
        "day": ["2026-06-01", "x"],
        "order": ["18000000000000000001", "18000000000000000002"],
        "amount": ["2.50", "3"],
        "is_new": ["true", "false"],
    }
    values = [
        '"when": "2026-06-01T00:30:00+08:00", "day": "2026-06-01", "order": 18000000000000000001, "amount": 2.50',
        '"when": null, "day": "x", "order": 18000000000000000002, "amount": 3',
    ]
    start, ends = '{"age": 31, "price": 12.5, "city": "Bern", ', [', "is_new": true}\n', ', "is_new": false}\n']
    lines = [start + line + end for line, end in zip(values, ends, strict=True)]
    (tmp_path / "log.jsonl").write_text("".join(lines))
    assert predict(run, shop, tmp_path / "log.jsonl", tmp_path / "kept.csv", kept) == (0, "")
    assert {name: texts for name, texts in texts_of(tmp_path / "kept.csv").items() if name in kept} == kept
