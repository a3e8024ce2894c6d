"""CSV and Parquet: the same log as their frame, whatever their format; ambiguous and damaged files are rejected."""

import bz2
import gzip

import numpy as np
import pandas as pd
import pytest
from fixtures.text_logs import read_contexts
from fixtures.user_input import refusal
from fixtures.user_logs import assert_same_log, read_as, write_table

import drcrm
from drcrm.errors import InputError
from drcrm.logs.read_log import context_batches
from drcrm.logs.readers.csv_files import head_of

SEMICOLONS = "item;p;click;age;price;city\n"


@pytest.mark.parametrize(
    ("suffix", "delimiter", "decimal"),
    [("tsv.gz", "\t", "."), ("tsv", "\t", ","), ("csv.bz2", ";", ","), ("csv", ";", ".")],
)
def test_delimiter_and_decimal_sign_are_detected(frame, mapping, tmp_path, suffix, delimiter, decimal):
    path = tmp_path / f"log.{suffix}"
    frame.to_csv(path, sep=delimiter, decimal=decimal, index=False)
    log = drcrm.read_log(path, mapping)
    assert_same_log(log, drcrm.BanditLog.from_frame(frame, mapping))
    assert np.array_equal(read_contexts(path, log.encoding)[0], log.X)
    assert sum(len(X) for X, *_ in context_batches(path, log.encoding, 7)) == 40
    assert_same_log(drcrm.read_log(path, {**mapping, "delimiter": delimiter, "decimal": decimal}), log)


def test_files_of_a_folder_have_one_decimal_sign(frame, mapping, tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    frame[:20].to_csv(folder / "a.tsv", sep="\t", index=False)
    frame[20:].to_csv(folder / "b.tsv.gz", sep="\t", index=False)
    assert_same_log(drcrm.read_log(folder, mapping), drcrm.BanditLog.from_frame(frame, mapping))
    frame[20:].to_csv(folder / "c.tsv", sep="\t", decimal=",", index=False)
    with pytest.raises(InputError, match=r"c.tsv: .* with a decimal point; if commas are decimal signs"):
        drcrm.read_log(folder, mapping)
    (folder / "0.tsv").write_text(frame[:20].to_csv(sep="\t", decimal=",", index=False))
    with pytest.raises(InputError, match=r"a.tsv: .* expected a number with a decimal comma, like in other rows"):
        drcrm.read_log(folder, mapping)


@pytest.mark.parametrize(
    ("text", "delimiter", "names"),
    [
        ("a,b\n1,2\n", ",", ["a", "b"]),
        ("a;b\n1,5;2,5\n", ";", ["a", "b"]),
        ("a\tb\n1,5\t2\n", "\t", ["a", "b"]),
        ('"a;x","b"\n1,2\n', ",", ["a;x", "b"]),
        ('"a,x";"b"\n1;2\n', ";", ["a,x", "b"]),
        ("a;x,b\n1,2\n", ",", ["a;x", "b"]),
        ("a,x;b\n1;2\n", ";", ["a,x", "b"]),
        ("a,x\tb;c\n1\t2\n", "\t", ["a,x", "b;c"]),
        ('a;b\n"x;y";2\n', ";", ["a", "b"]),
        ("a\n1\n", ",", ["a"]),
        ("a\n1;2\n", ",", ["a"]),
        ('"a;b"\n1\n', ",", ["a;b"]),
        ("\n\na;b\n", ";", ["a", "b"]),
        ('a;"b\nc"\n1;2', ";", ["a", "b\nc"]),
        (",".join(f"column {at}" for at in range(20_000)) + "\n", ",", None),
    ],
)
def test_the_delimiter_follows_from_the_header(text, delimiter, names):
    head = head_of(text)
    assert head.delimiter == delimiter
    assert head.names == names or (names is None and len(head.names) == 20_000)


@pytest.mark.parametrize("text", ["a;b,c;d\n1,5;2;d\n", "a;x,b\n", "a;x,b\n1\n", "a\tb,c\n1\t2,3\n"])
def test_an_ambiguous_header_is_rejected(text):
    with pytest.raises(InputError, match=r"may have .* or .* between its columns; set delimiter in the mapping"):
        head_of(text)
    assert head_of(text, ",").delimiter == ","


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a;0,5;1;1.5;2;x\n", "must have one decimal sign, but age is '1.5' in row 0 and p is '0,5' in row 0; remove"),
        ("a;0,5;1;1.234,5;2;x\n", "age is '1.234,5' in row 0, expected a number with a decimal comma"),
        ("a;0,5;1;1,234,567;2;x\n", "age is '1,234,567' in row 0, expected a number with a decimal comma"),
        ("a;0.5;1;1,234.5;2;x\n", "age is '1,234.5' in row 0, expected a finite number without thousands separators"),
        ("a;0.5;1;1 234;2;x\n", "age is '1 234' in row 0, expected a finite number without thousands separators"),
        ("a;1;1;1,234;2;x\n", "age is '1,234' in row 0: its comma may be a decimal sign or a thousands separator"),
        ("a;0.5;1;1,234;2;x\n", "must have one decimal sign"),
    ],
)
def test_ambiguous_numbers_are_rejected(mapping, tmp_path, rows, message):
    path = tmp_path / "a.csv"
    path.write_text(SEMICOLONS + rows)
    assert f"{path}: {message}" in refusal(drcrm.read_log, path, mapping)


def test_the_mapping_settles_the_decimal_sign(mapping, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(SEMICOLONS + "a;1;1;1,234;2;x\nb;1;1;2;2;y\n")
    log = drcrm.read_log(path, {**mapping, "decimal": ","})
    assert log.encoding.scales["age"][0] == pytest.approx((1.234 + 2) / 2)
    with pytest.raises(InputError, match="age is '1,234' in row 0"):
        drcrm.read_log(path, {**mapping, "decimal": "."})
    path.write_text(SEMICOLONS.replace(";", ",") + 'a,1,1,"1,234",2,x\nb,1,1,2,2,y\n')
    assert_same_log(drcrm.read_log(path, {**mapping, "decimal": ","}), log)


def test_another_decimal_sign_in_a_late_row_is_rejected(mapping, tmp_path):
    path = tmp_path / "a.csv"
    row = "a;0{0}5;1;1{0}5;2;x\n"
    for sign, late_sign in ((",", "."), (".", ",")):
        path.write_text(SEMICOLONS + row.format(sign) * 80_000 + row.format(late_sign))
        with pytest.raises(InputError, match="row 80000"):
            drcrm.read_log(path, mapping)


@pytest.mark.parametrize("line", [";;;;;;\n", '"";"";"";"";"";"";""\n'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_empty_rows_at_the_end_are_skipped(mapping, tmp_path, line, encoding):
    """A row with a value in any column is no empty row, and no row before the last value is skipped."""
    head, rows = (
        SEMICOLONS.replace("city", "city;note"),
        "".join(f"{'ab'[row % 2]};0.5;1;2;3;x;\n" for row in range(20)),
    )
    path = tmp_path / "log.csv"
    path.write_text(head + rows, encoding)
    log = drcrm.read_log(path, mapping)
    path.write_text(head + rows + 3 * line + "\n", encoding)
    skipping = drcrm.read_log(path, mapping)
    assert_same_log(skipping, log)
    assert skipping.skipped == {"empty rows at the end": 3}
    assert sum(len(X) for X, *_ in context_batches(path, log.encoding, 7)) == 20
    path.write_text(head + rows + line + ";;;;;;total\n" + line, encoding)
    with pytest.raises(InputError, match="in row 20, expected"):
        drcrm.read_log(path, mapping)
    assert sum(len(X) for X, *_ in context_batches(path, log.encoding, 7)) == 22
    path.write_text(head + rows + line + rows, encoding)
    with pytest.raises(InputError, match="in row 20, expected"):
        drcrm.read_log(path, mapping)


@pytest.mark.parametrize("odd", ["<script>", "$x$", " a ", 'b"c', "a,b", "x\ny", "名前"])
@pytest.mark.parametrize("name", ["A.CSV", "packed_gz", "a.parquet"])
def test_names_and_values_may_be_any_text(frame, mapping, tmp_path, odd, name):
    """A file may be packed, whatever its name is, and may have other columns than the mapping."""
    frame = frame.rename(columns={"city": odd}).assign(other="\u202ea,\n\"'")
    frame[odd] = odd + frame[odd]
    mapping = {**mapping, "features": {"numeric": ["age", "price"], "categorical": [odd]}}
    log, expected = (
        drcrm.read_log(write_table(frame, tmp_path, name), mapping),
        drcrm.BanditLog.from_frame(frame, mapping),
    )
    assert_same_log(log, expected)
    assert log.encoding == expected.encoding


COMMAS = "item,p,click,age,price,city\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "has no rows that can be read, expected at least one"),
        ("a.csv", b"\n\n", "has no rows"),
        ("a.csv", COMMAS.encode(), "has no rows"),
        ("a.csv", b"item;p;click\n1;2;3\n", "column 'age' is missing, expected one of the file's columns: item, p"),
        ("a.csv", b"item,p,click,age,price\n", "column 'city' is missing"),
        ("a.csv", f"{COMMAS}a,.5,1,1,1\n".encode(), "has 5 columns in row 0, expected 6"),
        ("a.csv", f"{COMMAS}a,.5,1,1,1,x\na,.5,1,1,1,x,9\n".encode(), "has 7 columns in row 1, expected 6"),
        ("a.csv", f"{COMMAS}a,.5,1,1,1,Zürich\n".encode("latin-1"), "is not UTF-8 in row 0"),
        (
            "a.csv",
            f"{COMMAS}a,.5,1,1,1,x".encode("utf-16-le"),
            "is not text, expected CSV; if it is UTF-16, set",
        ),
        ("a.csv", f'{COMMAS}a,.5,1,1,1,"x\na,.5,1,1,1,x\n'.encode(), "has a quoted text from line 2 to line 3 that"),
        ("a.csv", b"PK\x03\x04\x00\x00\x00\x00", "is truncated or damaged"),
        ("a.csv.gz", gzip.compress(b"item,p,click\n" * 999, mtime=0)[:50], "is truncated or damaged"),
        ("a.csv.bz2", bz2.compress(b"item,p,click\n" * 999)[:50], "is truncated or damaged"),
        ("a.parquet", b"PAR1", "is not a readable Parquet file"),
        ("a.parquet", b"", "is not a readable Parquet file"),
        (
            "a.xls",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00",
            "has no known format, expected CSV, Vowpal Wabbit's text",
        ),
        ("a", b"", "has no rows"),
    ],
)
def test_other_content_is_rejected(mapping, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert f"{tmp_path / name}: {message}" in refusal(drcrm.read_log, tmp_path / name, mapping)


@pytest.mark.parametrize("name", ["none.csv", "folder.csv", "none.parquet"])
def test_files_that_cannot_be_opened_are_rejected(mapping, tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=f"{name}: "):
        drcrm.read_log(tmp_path / name, mapping)


def change(column: str, value: object):
    def apply(frame: pd.DataFrame) -> pd.DataFrame:
        frame[column] = frame[column].astype(object)
        frame.loc[17, column] = value
        return frame

    return apply


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change("p", 1.2), "propensity 'p' is 1.2 in row 17, expected a value in (0, 1]"),
        (change("p", 0), "in row 17, expected a value in (0, 1]"),
        (change("p", -0.5), "propensity 'p' is -0.5 in row 17"),
        (change("p", 1e-200), "in row 17, expected at least 1e-100"),
        (change("p", None), "in row 17, expected a value in (0, 1]"),
        (change("p", "1/3"), "propensity 'p' is '1/3' in row 17, expected a value in (0, 1]"),
        (change("p", "20 %"), "'20 %' in row 17, expected a value in (0, 1]; write 0.2 for 20 %"),
        (lambda frame: frame.assign(p=100 * frame["p"]), "expected a value in (0, 1]; divide percentages by 100"),
        (lambda frame: frame.assign(p=np.log(frame["p"]) - 1), "; take the exponential of log probabilities"),
        (
            change("click", "yes"),
            "expected a finite number; to read such texts as 1 and 0, set booleans: yes/no in the mapping, or add it",
        ),
        (change("click", np.inf), "reward 'click' is "),
        (change("age", np.inf), "in row 17, expected a finite number"),
        (
            change("click", None),
            "in row 17, expected a finite number; only features may be missing: remove such rows, and if outcomes "
            "arrive late, all rows that are as new",
        ),
        (change("p", "NA"), "'NA' in row 17, expected a value in (0, 1]; only features may be missing"),
        (change("age", "1 234"), "age is '1 234' in row 17, expected a finite number without thousands separators"),
        (change("age", "2024-05-01"), "expected a finite number; list dates and times in features: {time: [...]}"),
        (change("age", "old"), "age is 'old' in row 17, expected a finite number"),
        (change("item", None), "action 'item' is missing in row 17, expected an action's name"),
        (change("item", ""), "in row 17, expected an action's name"),
        (lambda frame: frame.drop(columns="click"), "column 'click' is missing, expected one of"),
        (lambda frame: frame[:0], "has no rows"),
    ],
)
@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_invalid_values_are_rejected_with_their_row(frame, mapping, tmp_path, spoil, message, form):
    frame = spoil(frame)
    if form == "parquet":
        frame = frame.map(lambda value: value if value is None else str(value))  # columns have one type
    error = refusal(read_as, form, frame, mapping, tmp_path)
    assert message in error
    assert error.startswith("" if form == "frame" else f"{tmp_path / 'log'}.{form}: ")
