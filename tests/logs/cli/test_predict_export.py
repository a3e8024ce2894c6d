"""Predictions of a learned policy: actions with their propensities, and columns as the log has them."""

import csv
import datetime
import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fixtures.user_logs import MAPPING, NAMES, decisions
from pyarrow import parquet

from drcrm.__main__ import main
from drcrm.logs import read_log
from drcrm.logs.encoding.columns import escape_formula
from drcrm.logs.policy_file import read_policy, write_policy
from drcrm.mapping.log_mapping import EXPLORE

FORMULAS = ["=cmd|' /C calc'!A0", "-1", "'@home"]
GREEDY_CAUTION = "the certificate covers actions drawn from the policy, not --greedy"


def probabilities(folder, frame: pd.DataFrame, explore: float = EXPLORE) -> tuple[list[str], np.ndarray]:
    """Return the actions of a stored policy and their probabilities for the contexts of a table."""
    stored = read_policy(folder / "policy.npz")
    assert stored.policy.explore == EXPLORE
    policy = stored.policy.with_exploration(explore)
    return list(stored.encoding.names), policy.marginals(stored.encoding.contexts(frame))


def test_the_seed_determines_the_actions(shop, tmp_path, run):
    drawn = []
    for seed in ("0", "0", "1"):
        arguments = ["predict", shop / "policy.npz", shop / "later.parquet", "--explore", "0.5", "--seed", seed]
        run(*arguments, "--output", tmp_path / "out.csv")
        drawn.append((tmp_path / "out.csv").read_bytes())
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("options", [[], ["--greedy"]], ids=["drawn", "greedy"])
def test_a_share_of_the_actions_is_uniform(options, shop, tmp_path, run):
    arguments = ["predict", shop / "policy.npz", shop / "later.parquet", *options, "--output", tmp_path / "out.csv"]
    assert run(*arguments, "--explore", "0.3")[0] == 0
    drawn = pd.read_csv(tmp_path / "out.csv")
    names, probability = probabilities(shop, decisions(2000, seed=1), explore=0)
    if options:
        probability = np.eye(3)[probability.argmax(axis=1)]
    place = np.array([names.index(name) for name in drawn["item"]])
    np.testing.assert_allclose(drawn["propensity"], 0.7 * probability[np.arange(2000), place] + 0.1)
    is_likely = probability.max(axis=1) > 0.99
    is_best = (place == probability.argmax(axis=1))[is_likely]
    assert len(is_best) > 500
    assert is_best.mean() == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / len(is_best)))
    assert (1 / drawn["propensity"]).mean() == pytest.approx(3, rel=0.15)


def test_new_categories_are_reported(shop, tmp_path, run):
    frame = decisions(50).drop(columns=["item", "p", "click", "position"])
    frame.loc[[3, 7], "city"] = "Chur"
    frame.to_csv(tmp_path / "new.csv", index=False)
    status, _, error = run("predict", shop / "policy.npz", tmp_path / "new.csv", "--output", tmp_path / "out.csv")
    assert status == 0
    assert "'city' in 2 rows; the policy has not seen it" in error
    assert len(pd.read_csv(tmp_path / "out.csv")) == 50


def test_events_that_are_not_learned_from_get_actions(tmp_path, run):
    """Each event with a context gets one action, in order."""
    rng, lines = np.random.default_rng(0), []
    for number in range(300):
        chosen = int(rng.integers(1, 3))
        label = {"_label_cost": -float(chosen == 1), "_label_probability": 0.5, "_label_Action": chosen}
        label |= {"_labelIndex": chosen - 1, "a": [chosen, 3 - chosen], "p": [0.5, 0.5]}
        context = {"U": {"x": 1.0}, "_multi": [{"A": {"id": name}} for name in "ab"]}
        lines.append(json.dumps({**label, "c": context} | ({"_skipLearn": True} if number % 3 == 0 else {})))
    lines.append(json.dumps({"_skipLearn": True}))
    (tmp_path / "log.dsjson").write_text("\n".join(lines) + "\n")
    arguments = ["learn", tmp_path / "log.dsjson", "--config", '{"algorithm": "cips"}', "--output", tmp_path / "p.npz"]
    status, output, _ = run(*arguments)
    assert (status, "101 rows" in output) == (0, True)
    arguments = ["predict", tmp_path / "p.npz", tmp_path / "log.dsjson", "--output", tmp_path / "o.csv"]
    assert "--keep needs a log in CSV or Parquet" in run(*arguments, "--keep", "id")[2]
    assert run(*arguments)[0] == 0
    assert len(pd.read_csv(tmp_path / "o.csv")) == 300


def test_the_number_of_uncertain_greedy_actions_is_reported(shop, tmp_path, run):
    """The certificate covers drawn actions only."""
    stored = read_policy(shop / "policy.npz")
    coef = np.zeros_like(stored.policy.coef)
    coef[-1, 0] = 40  # of the constant feature
    write_policy(tmp_path / "certain.npz", replace(stored, policy=type(stored.policy)(coef)))
    _, probability = probabilities(shop, pd.read_csv(shop / "log.csv"), explore=0)
    uncertain = int((probability.max(axis=1) < 1 - 1e-6).sum())
    assert uncertain > 0
    warning = f"{GREEDY_CAUTION}: the policy was not certain of its action in {uncertain} of 3000 contexts"
    certain = (
        "3000 of 3000 propensities exceed 0.99: this log will say little about other actions; "
        "--explore 0.05 draws 5 % of the actions uniformly\n"
    )
    for policy, options, expected in (
        (shop / "policy.npz", ["--greedy"], f"{warning}\n{certain}"),
        (shop / "policy.npz", [], ""),
        (tmp_path / "certain.npz", ["--greedy"], certain),
        (tmp_path / "certain.npz", [], certain),
    ):
        assert run("predict", policy, shop / "log.csv", "--output", tmp_path / "o.csv", *options) == (0, "", expected)


def test_another_share_of_uniform_actions_is_not_covered_by_the_certificate(shop, tmp_path, run):
    arguments = ["predict", shop / "policy.npz", shop / "later.parquet", "--output", tmp_path / "out.csv", "--explore"]
    assert run(*arguments, "0.05") == (0, "", "")
    assert run(*arguments, "0.02")[2] == (
        "the certificate covers the policy's own share of uniform actions, 0.05, not --explore 0.02\n"
    )


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A folder with a log whose actions look like formulas, and a policy learned from it."""
    folder = tmp_path_factory.mktemp("odd")
    frame = decisions(500)
    frame["item"] = np.array(FORMULAS)[pd.Index(NAMES).get_indexer(frame["item"])]
    frame.to_parquet(folder / "log.parquet", index=False)
    (folder / "map.json").write_text(json.dumps(MAPPING | {"algorithm": "cips"}))
    files = f"{folder}/log.parquet --config {folder}/map.json --output {folder}/policy.npz"
    assert main(f"learn {files}".split()) == 0
    return folder


class TestFormulas:
    """Names are written as they are; on request, those that a spreadsheet would run get an apostrophe in CSV."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            *[
                (text, f"'{text}")
                for text in ("=1+1", "+49 30 1", "-x", "@SUM(A1)", "\t=1", "\r=1", "-", "-1+1", "-inf")
            ],
            *[
                (text, text)
                for text in ("-1", "+5", "-.5", "-1.e-5", "-7,25", "1e5", "a=b", "'a", "'=1", "", "art", " =1", -0.5)
            ],
        ],
    )
    def test_formulas_are_escaped(self, text, expected):
        assert escape_formula(text) == expected

    @pytest.mark.parametrize(
        ("file", "options", "names"),
        [
            ("o.csv", [], FORMULAS),
            ("o.csv", ["--escape-formulas"], ["'" + FORMULAS[0], *FORMULAS[1:]]),
            ("o.PARQUET", ["--escape-formulas"], FORMULAS),
        ],
    )
    def test_names_are_escaped_in_csv_only(self, odd, tmp_path, run, file, options, names):
        arguments = ["predict", odd / "policy.npz", odd / "log.parquet", "--output", tmp_path / file, *options]
        assert run(*arguments)[0] == 0
        chosen = pd.read_csv(tmp_path / file, dtype=str) if file == "o.csv" else pd.read_parquet(tmp_path / file)
        assert set(chosen["item"]) == set(names)

    def test_column_names_are_escaped_too(self, tmp_path, run):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"x": rng.normal(size=300), "=a": rng.integers(0, 2, 300), "b": rng.integers(0, 2, 300)})
        frame.assign(p=0.25, cost=-frame["b"].astype(float)).to_csv(tmp_path / "log.csv", index=False)
        mapping = {"labels": ["=a", "b"], "propensity": "p", "cost": "cost", "features": {"numeric": ["x"]}}
        config = json.dumps(mapping | {"algorithm": "cips"})
        run("learn", tmp_path / "log.csv", "--config", config, "--output", tmp_path / "p.npz")
        for options, name in (([], "=a"), (["--escape-formulas"], "'=a")):
            run("predict", tmp_path / "p.npz", tmp_path / "log.csv", "--output", tmp_path / "o.csv", *options)
            assert list(pd.read_csv(tmp_path / "o.csv")) == [name, "b", "propensity"]


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
