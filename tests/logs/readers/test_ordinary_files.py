"""Ordinary files that other tools write: each is read as the log that it means, in every format and command."""

import bz2
import gzip
import json
import lzma
import unicodedata
import zipfile
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pandas as pd
import pyarrow
import pytest
from fixtures.text_logs import LOGS, read_contexts
from fixtures.user_logs import assert_same_log, read_as

import drcrm
from drcrm.__main__ import main
from drcrm.errors import InputError
from drcrm.logs.batches import encode, fit_encoding
from drcrm.logs.read_log import read_raw_log
from drcrm.mapping.log_mapping import as_mapping

FORMS = "frame", "csv", "parquet"


def read_answer(*arguments: object, folder: Path) -> dict:
    """Run a command and return its answer."""
    assert main([*map(str, arguments), "--json", str(folder / "answer.json")]) == 0
    return json.loads((folder / "answer.json").read_text())


def reference_values(frame: pd.DataFrame, policy: str = "new") -> tuple[float, float]:
    """Return IPS and SNIPS of the rewards of a table like ``base.csv`` by their definitions."""
    weight = frame[policy] / np.minimum(frame["p"], 1)
    return (weight * frame["reward"]).mean(), (weight * frame["reward"]).sum() / weight.sum()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("texts", "mapped"),
    [
        (("True", "False"), {}),
        (("TRUE", "false"), {}),
        ((" true", "FALSE "), {}),
        (("yes", "No"), {"booleans": "yes/no"}),
        (("JA", "nein"), {"booleans": ["oui/non", "ja/nein"]}),
        ((True, False), {}),
    ],
)
def test_booleans_are_1_and_0(frame, mapping, tmp_path, form, texts, mapped):
    rng = np.random.default_rng(0)
    features = {"numeric": ["age", "vip"], "categorical": ["city"]}
    frame["click"], frame["vip"] = rng.integers(0, 2, (2, len(frame)))
    expected = drcrm.BanditLog.from_frame(frame, mapping | {"features": features})
    for name in ("click", "vip"):
        frame[name] = np.where(frame[name] == 1, *texts)
    log = read_as(form, frame, mapping | mapped | {"features": features}, tmp_path)
    assert_same_log(log, expected)
    assert np.array_equal(log.encoding.contexts(frame), expected.X)


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]", "category", object, "string"])
def test_booleans_of_every_type_are_labels_and_may_be_missing_features(frame, mapping, dtype):
    labels = np.random.default_rng(0).integers(0, 2, (len(frame), 2))
    del mapping["action"]
    mapping |= {"labels": ["a", "b"], "features": {"numeric": ["vip"]}}
    frame["a"], frame["b"] = labels.T
    frame["vip"] = [None, 1.0, *labels[2:, 0]]
    expected = drcrm.BanditLog.from_frame(frame, mapping)
    for name in ("a", "b", "vip"):
        frame[name] = frame[name].map({1: True, 0: False}).astype(dtype)
    assert_same_log(drcrm.BanditLog.from_frame(frame, mapping), expected)


def test_commands_accept_several_files(tmp_path):
    frames = [own_log(200, seed) for seed in range(3)]
    paths = [tmp_path / name for name in ("monday.csv", "tuesday.parquet", "days")]
    frames[0].to_csv(paths[0], index=False)
    frames[1].to_csv(tmp_path / "tuesday.csv", index=False)
    for seed in (1, 2):
        write_part(frames[seed], tmp_path / f"days/{seed}.csv")
    mapping = tmp_path / "m.json"
    mapping.write_text(json.dumps(OWN_MAPPING))
    learn = "learn", paths[0], tmp_path / "tuesday.csv", "--config", mapping, "--output", tmp_path / "p.npz"
    assert read_answer(*learn, folder=tmp_path)["log"]["rows"] == 400
    whole = pd.concat(frames)
    write_part(whole, tmp_path / "whole.csv")
    answers = []
    for log in ([paths[0], paths[2]], [tmp_path / "whole.csv"]):
        answers.append(read_answer("evaluate_policy", "column:new", *log, "--config", mapping, folder=tmp_path))
        assert answers[-1]["candidates"] == answers[0]["candidates"]
        answer = read_answer("certify", tmp_path / "p.npz", *log, folder=tmp_path)
        assert answer["recognised"] == {"training": 300, "heldout": 100, "new": 200}
    ips, snips = reference_values(whole)
    estimates = answers[0]["candidates"][0]["estimates"]
    assert (-estimates["ips"]["value"], -estimates["snips"]["value"]) == pytest.approx((ips, snips), rel=1e-9)
    for log in ([paths[0], paths[2]], [tmp_path / "whole.csv"]):
        command = ["predict", tmp_path / "p.npz", *log, "--output", tmp_path / "actions.csv", "--keep", "x"]
        assert main([*map(str, command)]) == 0
        answers.append(pd.read_csv(tmp_path / "actions.csv", dtype={"x": str}))
    assert answers[-1].equals(answers[-2])
    assert np.array_equal(answers[-1]["x"].astype(float), whole["x"])


@pytest.mark.parametrize(("first", "second"), [("1", "01"), ("True", "true"), ("wait", "Wait "), ("2", "2.50")])
def test_parts_that_write_one_action_in_two_ways_get_a_caution(tmp_path, first, second):
    for number, name in enumerate((first, second)):
        write_part(own_log(100, number).replace({"action": {"a": name}}), tmp_path / f"log/{number}.csv")
    log = tmp_path / "log", "--config", json.dumps(OWN_MAPPING)
    cautions = {
        check["name"]: check["sentence"]
        for check in read_answer("diagnose", *log, folder=tmp_path)["diagnostics"]
        if check["level"] == "caution"
    }
    named = cautions.get("names of actions", "")
    assert (repr(first) in named and repr(second) in named) == (second != "2.50")


OWN_MAPPING = {"action": "action", "propensity": "p", "reward": "reward", "features": {"numeric": ["x"]}}
OWN_MAPPING["algorithm"] = "cips"


def own_log(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=n), "action": rng.choice(["a", "b"], n), "p": 0.5})
    return frame.assign(reward=rng.integers(0, 2, n), new=rng.choice([0.2, 0.7], n))


def test_other_words_are_no_booleans(frame, mapping, tmp_path):
    frame["click"] = ["yes", "no"] * 20
    with pytest.raises(InputError, match=r"reward 'click' is 'yes' in row 0, expected a finite number"):
        read_as("csv", frame, mapping, tmp_path)
    with pytest.raises(InputError, match=r"booleans is 'yes', expected two texts without digits"):
        read_as("csv", frame, mapping | {"booleans": "yes"}, tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_probabilities_may_exceed_1_by_rounding(frame, mapping, tmp_path, form):
    def read(value: float) -> drcrm.BanditLog:
        frame.loc[7, "p"] = value
        return read_as(form, frame, mapping, tmp_path)

    assert read(float(np.float32(1.0000001))).propensity[7] == 1
    assert read(1.00001).propensity.max() <= 1
    with pytest.raises(InputError, match=r"1\.0000[23].* \(0, 1\]"):
        read(1.00003)


def write_part(frame: pd.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path, index=False) if path.suffix == ".parquet" else frame.to_csv(path, index=False)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_parts_without_rows_are_skipped(frame, mapping, tmp_path, form):
    folder = tmp_path / "log"
    empty = frame[:0]
    for number, part in enumerate([empty, frame[:25], empty, frame.iloc[25:, ::-1], empty]):
        write_part(part, folder / f"part-{number}.{form}")
    (folder / f"part-0.{form}.crc").write_text("crc")
    for name in ("_SUCCESS", ".part-0.crc", f"part-9.{form}"):
        (folder / name).touch()
    log = drcrm.read_log(folder, mapping)
    assert_same_log(log, drcrm.BanditLog.from_frame(frame, mapping))
    assert np.array_equal(read_contexts(folder, log.encoding)[0], log.X)


@pytest.mark.parametrize("form", ["dsjson", "vw"])
def test_parts_without_decisions_are_skipped_and_their_lines_counted(tmp_path, form):
    text, comment = LOGS["log.dsjson" if form == "dsjson" else "single.txt"], "\n"
    if form == "dsjson":
        comment = '[CHECKPOINT,{"a":1}]\n'
    (tmp_path / f"whole.{form}").write_text(text + comment * 4)
    expected = read_raw_log(tmp_path / f"whole.{form}")
    folder = tmp_path / "log"
    folder.mkdir()
    for number, content in enumerate([comment, "", text, comment * 2, comment]):
        (folder / f"part-{number}.{form}").write_text(content)
    raw_log = read_raw_log(folder)
    assert len(raw_log.Y) == len(expected.Y)
    assert np.array_equal(raw_log.cost, expected.cost)
    assert raw_log.skipped == expected.skipped


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_folders_of_hive_are_columns(frame, mapping, tmp_path, form):
    for (place, city), part in frame.groupby(["place", "city"]):
        write_part(part.drop(columns=["place", "city"]), tmp_path / f"log/place={place}/city={quote(city)}/0.{form}")
    mapping["features"]["numeric"].append("place")
    expected = drcrm.BanditLog.from_frame(frame.sort_values(["place", "city"], key=by_quoted, kind="stable"), mapping)
    assert_same_log(drcrm.read_log(tmp_path / "log", mapping), expected)


def by_quoted(column: pd.Series) -> pd.Series:
    return column.map(lambda value: quote(str(value)))


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zst", "zip"])
@pytest.mark.parametrize("form", ["csv", "dsjson"])
def test_compressed_files_are_read(frame, mapping, tmp_path, ending, form):
    content = frame.to_csv(index=False) if form == "csv" else LOGS["log.dsjson"]
    plain, packed = tmp_path / f"log.{form}", tmp_path / f"log.{form}.{ending}"
    plain.write_text(content)
    if ending == "zip":
        with zipfile.ZipFile(packed, "w") as archive:
            archive.write(plain, "log/table")
            archive.writestr("__MACOSX/log/._table", "")
    elif ending == "zst":
        packed.write_bytes(pyarrow.compress(content.encode(), "zstd", asbytes=True))
    else:
        packed.write_bytes({"gz": gzip, "bz2": bz2, "xz": lzma}[ending].compress(content.encode()))
    mapping = mapping if form == "csv" else None
    log, expected = drcrm.read_log(packed, mapping), drcrm.read_log(plain, mapping)
    assert abs(log.X - expected.X).max() == 0
    assert np.array_equal(log.cost, expected.cost)
    packed.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    with pytest.raises(InputError, match=f"{packed}: is truncated or damaged"):
        drcrm.read_log(packed, mapping)


def with_sep_line(text: str) -> bytes:
    return b"\xef\xbb\xbfsep=;\r\n" + text.replace(",", ";").encode()


def decomposed(text: str) -> bytes:
    return unicodedata.normalize("NFD", text.partition("\n")[0]).encode() + b"\n" + text.partition("\n")[2].encode()


def test_names_of_actions_are_the_same_in_another_format(frame, mapping, tmp_path):
    """Python writes a boolean as True in CSV, and as a value in Parquet."""
    frame["item"] = frame["item"] == frame["item"][0]
    frame.to_parquet(tmp_path / "log.parquet")
    frame.to_csv(tmp_path / "log.csv", index=False)
    logs = [read_raw_log(tmp_path / f"log.{suffix}", as_mapping(mapping)) for suffix in ("csv", "parquet")]
    encodings = [fit_encoding(log) for log in logs]
    assert [encoding.names for encoding in encodings] == [["False", "True"], ["false", "true"]]
    for log, encoding in zip(logs, reversed(encodings), strict=True):
        assert np.array_equal(encode(log, encoding).Y, frame["item"])


VARIANTS = {  # how another program writes a CSV file, and keys of the mapping for it
    "blanks after commas in the header": (
        lambda text: text.replace(",", ", ", text.count(",", 0, text.find("\n"))),
        {},
    ),
    "blanks around names": (lambda text: text.replace("größe", '"größe  "').replace("click", "\u00a0click"), {}),
    "another Unicode form": (decomposed, {}),
    "the delimiter in the first line": (with_sep_line, {}),
    "the delimiter after blank lines": (lambda text: "\n\nsep=,\n" + text, {}),
    "nulls of MySQL": (lambda text: text.replace(",,", r",\N,"), {}),
    "quoted nulls": (lambda text: text.replace(",,", r',"\N",'), {}),
    "Latin-1": (lambda text: text.encode("latin-1"), {"encoding": "latin-1"}),
    "Windows": (lambda text: text.encode("cp1252"), {"encoding": "cp1252"}),
    "UTF-16 with a mark": (lambda text: text.encode("utf-16"), {}),
    "UTF-16 of big-endian machines": (lambda text: text.encode("utf-16-be"), {"encoding": "utf-16-be"}),
}


@pytest.mark.parametrize(("write", "keys"), VARIANTS.values(), ids=VARIANTS)
def test_csv_of_other_programs_is_read(frame, mapping, tmp_path, write, keys):
    frame = frame.rename(columns={"age": "größe"}).replace({"city": {"東京": "Köln"}})
    frame.loc[3, "größe"], frame.loc[[4, 5], "city"] = None, None
    mapping |= {"features": {"numeric": ["größe", "price"], "categorical": ["city"]}}
    expected = drcrm.BanditLog.from_frame(frame, mapping)
    content = write(frame[["price", "größe", "city", "item", "p", "click"]].to_csv(index=False))
    for name in ("log.csv",) if "encoding" in keys else ("log.csv", "log.txt", "part-00000"):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        log = drcrm.read_log(tmp_path / name, mapping | keys)
        assert_same_log(log, expected)
        contexts, _ = read_contexts(tmp_path / name, log.encoding, as_mapping(mapping | keys))
        assert np.array_equal(contexts, log.X)


def test_messages_count_rows_from_the_header_and_name_spreadsheets(frame, mapping, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("\nsep=,\n" + frame.to_csv(index=False) + "1,2\n")
    with pytest.raises(InputError, match="has 2 columns in row 40, expected 9"):
        drcrm.read_log(path, mapping)
    with zipfile.ZipFile(tmp_path / "log.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    with pytest.raises(InputError, match="is a spreadsheet, expected CSV"):
        drcrm.read_log(tmp_path / "log.xlsx", mapping)


def test_text_in_another_encoding_is_refused_with_the_key(frame, mapping, tmp_path):
    path, message = tmp_path / "log.csv", "in row .*; set its encoding in the mapping, such as encoding: cp1252"
    path.write_bytes(frame.replace({"city": {"東京": "Köln"}}).to_csv(index=False).encode("cp1252"))
    with pytest.raises(InputError, match=f"is not UTF-8 {message}"):
        drcrm.read_log(path, mapping)
    with pytest.raises(InputError, match=r"is not ASCII in row .*; set its encoding"):
        drcrm.read_log(path, mapping | {"encoding": "ascii"})
    with pytest.raises(InputError, match="encoding is 'utf-77', expected an encoding such as 'cp1252'"):
        drcrm.read_log(path, mapping | {"encoding": "utf-77"})


@pytest.mark.parametrize("name", ["c", "x1", "note"])
@pytest.mark.parametrize(("first", "last", "newline"), [(101, 401, "\n"), (3, 4, "\r\n"), (598, 601, "")])
def test_stray_quotation_marks_are_refused_with_their_lines(tmp_path, name, first, last, newline):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(600, 2)), columns=["x0", "x1"])
    frame["note"], frame["a"] = "a text", rng.choice(["a0", "a1"], 600)
    frame["p"], frame["r"], frame["c"] = 0.5, rng.integers(0, 2, 600), rng.integers(0, 3, 600)
    lines = frame.astype(str).to_csv(index=False).splitlines()
    for line in (first, last):
        cells = lines[line - 1].split(",")
        cells[frame.columns.get_loc(name)] = f'"{cells[frame.columns.get_loc(name)]}'
        lines[line - 1] = ",".join(cells)
    path, end = tmp_path / "log.csv", newline or "\n"
    path.write_text(end.join(lines) + newline, newline="")
    mapping = {"action": "a", "propensity": "p", "reward": "r", "features": {"numeric": ["x0", "x1", "c"]}}
    with pytest.raises(InputError, match=f"has a quoted text from line {first} to line {last} that contains rows"):
        drcrm.read_log(path, mapping)


def test_quoted_texts_may_have_several_lines_and_commas(frame, mapping, tmp_path):
    frame["note"] = ["Dear shop,\nI like 5, 6, or 7,\nthat is, all", 'a "quoted", text\n', "1,2\n\n3,4", ""] * 10
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert_same_log(drcrm.read_log(tmp_path / "log.csv", mapping), drcrm.BanditLog.from_frame(frame, mapping))
    frame[["note", *frame.columns[:-1]]].to_csv(tmp_path / "log.csv", index=False, sep=";")
    assert_same_log(drcrm.read_log(tmp_path / "log.csv", mapping), drcrm.BanditLog.from_frame(frame, mapping))


def test_escapes_of_spark_are_named(frame, mapping, tmp_path):
    frame["note"] = [r"a \"b\", c", *[""] * 39]
    frame.to_csv(tmp_path / "log.csv", index=False, escapechar="\\", doublequote=False)
    text = (tmp_path / "log.csv").read_text().replace(r"\\", "\\")
    for content in (text, text.replace("b", "\n")):
        (tmp_path / "log.csv").write_text(content)
        with pytest.raises(InputError, match=r'; \\" is not read as a quotation mark'):
            drcrm.read_log(tmp_path / "log.csv", mapping)


@pytest.mark.parametrize("columns", [[0, 1], [3, 7], [-1, 2**40]])
def test_columns_of_a_frame_may_have_numbers_as_names(frame, mapping, columns):
    renames = dict(zip(("age", "price", "item", "p"), (*columns, 90, 91), strict=True))
    expected, numbered = drcrm.BanditLog.from_frame(frame, mapping), frame.rename(columns=renames)
    for name in (int, str, np.int64):
        features = {"numeric": [*map(name, columns)], "categorical": ["city"]}
        keys = {"action": name(90), "propensity": name(91), "features": features}
        assert_same_log(drcrm.BanditLog.from_frame(numbered, mapping | keys), expected)
