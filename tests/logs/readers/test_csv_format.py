"""CSV with other delimiters and decimal commas: read as the same log, or rejected if it is ambiguous."""

import numpy as np
import pytest
from fixtures.text_logs import read_contexts
from fixtures.user_input import refusal
from fixtures.user_logs import assert_same_log

import drcrm
from drcrm.errors import InputError
from drcrm.logs.read_log import context_batches
from drcrm.logs.readers.csv_files import head_of

HEAD = "item;p;click;age;price;city\n"


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
    path.write_text(HEAD + rows)
    assert f"{path}: {message}" in refusal(drcrm.read_log, path, mapping)


def test_the_mapping_settles_the_decimal_sign(mapping, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(HEAD + "a;1;1;1,234;2;x\nb;1;1;2;2;y\n")
    log = drcrm.read_log(path, {**mapping, "decimal": ","})
    assert log.encoding.scales["age"][0] == pytest.approx((1.234 + 2) / 2)
    with pytest.raises(InputError, match="age is '1,234' in row 0"):
        drcrm.read_log(path, {**mapping, "decimal": "."})
    path.write_text(HEAD.replace(";", ",") + 'a,1,1,"1,234",2,x\nb,1,1,2,2,y\n')
    assert_same_log(drcrm.read_log(path, {**mapping, "decimal": ","}), log)


def test_another_decimal_sign_in_a_late_row_is_rejected(mapping, tmp_path):
    path = tmp_path / "a.csv"
    row = "a;0{0}5;1;1{0}5;2;x\n"
    for sign, late_sign in ((",", "."), (".", ",")):
        path.write_text(HEAD + row.format(sign) * 80_000 + row.format(late_sign))
        with pytest.raises(InputError, match="row 80000"):
            drcrm.read_log(path, mapping)


@pytest.mark.parametrize("line", [";;;;;;\n", '"";"";"";"";"";"";""\n'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_empty_rows_at_the_end_are_skipped(mapping, tmp_path, line, encoding):
    """A row with a value in any column is no empty row, and no row before the last value is skipped."""
    head, rows = HEAD.replace("city", "city;note"), "".join(f"{'ab'[row % 2]};0.5;1;2;3;x;\n" for row in range(20))
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
