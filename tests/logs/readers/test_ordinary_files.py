"""Ordinary files that other tools write: each is read as the log that it means, in every format and command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from log_fixtures import assert_same_log, read_as

import drcrm
from drcrm.__main__ import main
from drcrm.errors import InputError

CASES = Path(__file__).parents[4] / "shared" / "cases"
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


def test_init_proposes_booleans_as_reward_and_learn_reads_them(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300).round(3), "vip": rng.random(300) < 0.5, "p": 0.5})
    frame["action"], frame["reward"] = rng.choice(["a", "b"], 300), np.where(rng.random(300) < 0.4, "True", "false")
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert main(["init", str(tmp_path / "log.csv"), "--output", str(tmp_path / "m.yaml")]) == 0
    proposal = yaml.safe_load((tmp_path / "m.yaml").read_text())
    assert (proposal["reward"], proposal["features"]["numeric"]) == ("reward", ["x", "vip"])
    (tmp_path / "m.yaml").write_text(f"{(tmp_path / 'm.yaml').read_text()}algorithm: cips\n")
    learn = "learn", tmp_path / "log.csv", "--config", tmp_path / "m.yaml", "--output", tmp_path / "p.npz"
    answer = read_answer(*learn, folder=tmp_path)
    assert answer["log"]["rows"] == 300
    policy = drcrm.load_policy(tmp_path / "p.npz")
    yes, no, *others = (policy.decide({"x": 0.5, "vip": vip}, 0)[1] for vip in (1, False, "True", True, "TRUE"))
    assert others == pytest.approx([yes] * 3, rel=1e-12)
    assert abs(yes - no) > 1e-6


def test_other_words_are_no_booleans(frame, mapping, tmp_path):
    frame["click"] = ["yes", "no"] * 20
    with pytest.raises(InputError, match=r"reward 'click' is 'yes' in row 0, expected a finite number"):
        read_as("csv", frame, mapping, tmp_path)
    with pytest.raises(InputError, match=r"booleans is 'yes', expected two texts without digits"):
        read_as("csv", frame, mapping | {"booleans": "yes"}, tmp_path)


@pytest.mark.parametrize("form", [*FORMS, "npz", "dsjson", "vw"])
def test_probabilities_may_exceed_1_by_rounding(frame, mapping, tmp_path, form):
    def read(value: float) -> drcrm.BanditLog:
        frame.loc[7, "p"] = value
        if form in FORMS:
            return read_as(form, frame, mapping, tmp_path)
        path, n = tmp_path / f"log.{form}", len(frame)
        if form == "npz":
            np.savez(path, X=np.ones((n, 1)), Y=np.arange(n) % 2, propensity=frame["p"], cost=np.zeros(n))
        elif form == "vw":
            path.write_text("".join(f"{1 + row % 2}:0:{p} | x\n" for row, p in enumerate(frame["p"])))
        else:
            event = {"_label_cost": 0, "c": {"_multi": [{"x": 1}]}, "a": [1], "_label_Action": 1}
            path.write_text("".join(json.dumps(event | {"p": [p]}) + "\n" for p in frame["p"]))
        return drcrm.read_log(path)

    assert read(float(np.float32(1.0000001))).propensity[7] == 1
    assert read(1.00001).propensity.max() <= 1
    with pytest.raises(InputError, match=r"1\.0000[23].* \(0, 1\]"):
        read(1.00003)
    arrays = [1.0, 1.0], [0, 1], np.float32([1.0000001, 0.5]), [0, 0]
    assert drcrm.BanditLog(np.ones((2, 1)), *arrays[1:]).propensity.tolist() == [1, 0.5]


needs_cases = pytest.mark.skipif(not CASES.exists(), reason="needs the shared cases")


@needs_cases
@pytest.mark.parametrize(("name", "mapping"), [("p_over.csv", "base.json")])
def test_shared_cases_have_their_values(name, mapping, tmp_path):
    paths = CASES / name, "--config", CASES / mapping
    answer = read_answer("evaluate_policy", "column:new", *paths, folder=tmp_path)
    [candidate] = answer["candidates"]
    ips, snips = reference_values(pd.read_csv(CASES / name))
    assert -candidate["estimates"]["ips"]["value"] == pytest.approx(ips, rel=1e-9)
    assert -candidate["estimates"]["snips"]["value"] == pytest.approx(snips, rel=1e-9)
