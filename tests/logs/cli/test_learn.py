"""The command learn: from a log file to a policy, a verdict and a report."""

import json

import numpy as np
import pandas as pd
import pytest
from fixtures.user_logs import MAPPING, NAMES, answer_of, decisions

from drcrm import off_policy_value, read_log
from drcrm.certificates import policy_certificate
from drcrm.cost_models.missing_cells import mark_missing
from drcrm.data.folds import held_out
from drcrm.errors import InputError
from drcrm.logs.decisions.candidates import DEFAULT, POLICY_TREE, SINGLE_ACTION, WITH_SCORES, read_algorithms
from drcrm.logs.policy_file import read_policy
from drcrm.logs.read_log import read_raw_log
from drcrm.mapping.log_mapping import as_mapping
from drcrm.selection.algorithms import Algorithm

SIMPLE = [SINGLE_ACTION, POLICY_TREE]
FAST = MAPPING | {"algorithm": "cips"}


@pytest.fixture
def learn(answer, tmp_path):
    """Learn from a table by a mapping; return the answer."""

    def learn(frame: pd.DataFrame, mapping: dict, *options) -> dict:
        frame.to_csv(tmp_path / "log.csv", index=False)
        config, output = json.dumps(mapping), tmp_path / "p.npz"
        return answer("learn", tmp_path / "log.csv", "--config", config, "--output", output, *options)[0]

    return learn


def test_a_better_policy_is_kept_and_reported(shop):
    answer = answer_of(shop / "answer.json")
    assert (answer["verdict"]["verdict"], answer["kept"]) == ("better", "kl_dro_dr")
    assert answer["log"] | {"digest": ""} == {
        "name": "log.csv",
        "format": "csv",
        "digest": "",
        "rows": 3000,
        "training": 2250,
        "heldout": 750,
        "contexts": 3000,
        "features": 6,
        "kind": "one of 3 actions",
        "actions": [*map(str, sorted(NAMES))],
        "skipped": {},
        "imputed": {},
        "propensities": "logged",
        "reward": True,
        "split": "random 25 %",
    }
    [candidate] = answer["candidates"]
    assert candidate["certificate"]["choices"] == answer["choices"] > 4
    report = (shop / "report.html").read_text(encoding="utf-8")
    assert "art &amp; &lt;b&gt;music&lt;/b&gt;" in report
    assert "<b>music" not in report


def test_estimates_and_certificates_equal_those_of_the_library(shop):
    stored, raw_log = read_policy(shop / "policy.npz"), read_raw_log(shop / "log.csv", MAPPING)
    is_heldout = held_out(raw_log, 0)
    assert is_heldout.sum() == 750
    log = read_log(shop / "log.csv", MAPPING)
    part = log.replace(X=stored.encoding.encode(raw_log.X)).recount(is_heldout.astype(int))
    part = mark_missing(part, stored.cells)
    answer, options = answer_of(shop / "answer.json"), {"cost_model": stored.model}
    [candidate] = answer["candidates"]
    for estimate in ("ips", "snips", "dm", "dr"):
        value = off_policy_value(stored.policy, part, estimate, **options)
        assert candidate["estimates"][estimate]["value"] == pytest.approx(value, rel=1e-9)
    for key, baseline in (("certificate", None), ("difference", "logging")):
        certificate = policy_certificate(
            stored.policy, part, "dr", choices=answer["effective_choices"], baseline=baseline, **options
        )
        assert candidate[key]["bound"] == pytest.approx(certificate.bound, rel=1e-9)
    assert -answer["logging"]["value"] == pytest.approx(decisions(3000)["click"][is_heldout].mean())


def test_the_logging_policy_is_returned_if_nothing_is_better(learn, tmp_path, run):
    frame = decisions(400)
    frame["click"] = np.random.default_rng(3).integers(0, 2, 400)
    answer = learn(frame, MAPPING)
    assert answer["verdict"]["sentence"].startswith(
        "No candidate was shown to beat the logging policy on the 100 held-out rows, so an estimate of the logging "
        "policy is written."
    )
    stored = read_policy(tmp_path / "p.npz")
    assert answer["kept"] == stored.header["kept"] == "logging"
    probability = stored.policy.marginals(stored.encoding.contexts(frame))
    logged = [list(stored.encoding.names).index(name) for name in frame["item"]]
    assert np.corrcoef(probability[np.arange(400), logged], frame["p"])[0, 1] > 0.8
    arguments = ["learn", tmp_path / "log.csv", "--config", json.dumps(FAST), "--output", tmp_path / "q.npz"]
    assert run(*arguments, "--fail-unless", "better")[0] == 4
    assert (tmp_path / "q.npz").exists()
    _, _, error = run("predict", tmp_path / "p.npz", tmp_path / "log.csv", "--output", tmp_path / "out.csv")
    assert "the policy is an estimate of the logging policy" in error


def test_a_candidate_that_is_not_yet_proven_is_proven_by_later_rows(learn, tmp_path, answer):
    learned = learn(decisions(260, seed=4), MAPPING)
    assert learned["verdict"]["verdict"] == "not shown"
    assert "The best candidate is in p.candidate.npz" in learned["verdict"]["changes"][-1]
    candidate = read_policy(tmp_path / "p.candidate.npz")
    assert candidate.header["kept"] == candidate.header["algorithm"]["name"] == "kl_dro_dr"
    decisions(4000, seed=5).to_csv(tmp_path / "later.csv", index=False)
    arguments = tmp_path / "p.candidate.npz", tmp_path / "later.csv", "--fail-unless", "better"
    certified, _ = answer("certify", *arguments)
    assert (certified["choices"], certified["candidates"][0]["certificate"]["choices"]) == (1, 1)


def test_the_candidate_has_the_name_that_the_user_gives(tmp_path, run):
    decisions(300).assign(click=1).to_csv(tmp_path / "log.csv", index=False)
    arguments = ["learn", tmp_path / "log.csv", "--config", json.dumps(FAST), "--best", tmp_path / "b.npz"]
    assert run(*arguments, "--output", tmp_path / "p.npz")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.npz", "log.csv", "p.npz"]
    earlier = (tmp_path / "b.npz").read_bytes()
    error = run(*arguments, "--seed", 1, "--output", tmp_path / "p.npz")[2]
    assert error == ""
    assert earlier != (earlier := (tmp_path / "b.npz").read_bytes())
    decisions(4000).to_csv(tmp_path / "log.csv", index=False)
    status, _, error = run(*arguments, "--output", tmp_path / "p.npz")
    assert status == 0
    assert (tmp_path / "b.npz").read_bytes() == earlier  # it may have been deployed
    assert error == f"{tmp_path / 'b.npz'} is the candidate of an earlier log, and is kept.\n"
    status, _, error = run(*arguments, "--output", tmp_path / "b.npz")
    assert (status, "is both --output and best, expected two different files" in error) == (1, True)


@pytest.mark.parametrize("features", [None, {"nystroem": 30}], ids=str)
def test_labels_and_feature_maps(features, tmp_path, run, answer):
    """Only a feature map can represent the best rule, x² > 1."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=600), "a": rng.integers(0, 2, 600), "b": rng.integers(0, 2, 600)})
    is_right = frame["a"] == (frame["x"] ** 2 > 1)
    frame["cost"] = -is_right.astype(float) - frame["b"] + rng.normal(size=600) * 0.1
    frame.assign(p=0.25).to_parquet(tmp_path / "log.parquet", index=False)
    options = {"estimate": "dr", "start": "model", "tilt": "auto", **({"features": features} if features else {})}
    mapping = {
        "labels": ["a", "b"],
        "propensity": "p",
        "cost": "cost",
        "features": {"numeric": ["x"]},
        "algorithm": {"estimator": "KLDRO", "parameter": "radius", "grid": [0.001, 0.01], "options": options},
    }
    log, policy = tmp_path / "log.parquet", tmp_path / "p.npz"
    learned, _ = answer("learn", log, "--config", json.dumps(mapping), "--output", policy)
    assert learned["verdict"]["verdict"] == "better"
    run("predict", policy, log, "--output", tmp_path / "o.csv", "--greedy")
    chosen = pd.read_csv(tmp_path / "o.csv")
    assert (chosen["b"] == 1).mean() > 0.95
    assert ((chosen["a"] == (frame["x"] ** 2 > 1)).mean() > 0.9) == bool(features)


def test_a_deterministic_rule_without_propensities_cannot_be_improved(learn):
    frame = decisions(1200)
    frame = frame.assign(item=np.where(frame["age"] > 40, "a", "b")).drop(columns="p")
    verdict = learn(frame, FAST | {"propensity": None, "propensity_model": "softmax"})["verdict"]
    assert verdict["verdict"] == "the log cannot say"
    assert "The logging policy is near-deterministic" in verdict["sentence"]
    assert verdict["changes"][0] == "Randomise some decisions, for example 5 %, and log their propensities."
    assert any("estimated from the log itself" in caution for caution in verdict["cautions"])


@pytest.mark.usefixtures("audited_by_trees")
def test_estimated_propensities_that_miss_a_product_show_no_gain(learn):
    """The logging policy and the reward depend on x·y. All actions have the same reward."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 1000))
    item = (rng.random(1000) < 1 / (1 + np.exp(-2 * x * y))).astype(int)
    frame = pd.DataFrame({"x": x, "y": y, "item": item, "click": x * y + 0.5 * rng.normal(size=1000)})
    mapping = {"action": "item", "reward": "click", "features": {"numeric": ["x", "y"]}, "algorithm": "cips"}
    result = learn(frame, mapping | {"propensity": None, "propensity_model": "auto"})
    assert result["verdict"]["verdict"] != "better"
    [overlap] = [check for check in result["diagnostics"] if check["name"] == "overlap of estimated propensities"]
    assert overlap["level"] == "good"  # all 1000 rows suffice for the check; the 250 held-out rows would not


@pytest.mark.usefixtures("audited_by_trees")
def test_a_gain_by_estimated_propensities_names_its_assumption(tmp_path, run):
    log, path = tmp_path / "log.csv", tmp_path / "answer.json"
    decisions(3000).drop(columns="p").to_csv(log, index=False)
    for entry, expected in (("auto", 4), ({"model": "auto", "trusted": True}, 0)):
        config = json.dumps(FAST | {"propensity": None, "propensity_model": entry})
        outputs = "--output", tmp_path / "q.npz", "--json", path, "--fail-unless", "better"
        status, text, _ = run("learn", log, "--config", config, *outputs)
        assert (status, "Better, if the estimated propensities are right" in text) == (expected, True)
    result = answer_of(path)
    assert (result["verdict"]["verdict"], result["log"]["propensities"]) == ("better", "imitated")
    assert result["verdict"]["assumption"] == "the estimated propensities are right"


def test_the_seed_determines_the_answer(learn):
    answers = [learn(decisions(100), FAST, "--seed", seed) for seed in ("0", "0", "1")]
    assert answers[0] == answers[1]
    assert answers[0]["logging"] != answers[2]["logging"]


def test_copies_of_a_row_are_on_one_side_of_the_split(learn):
    """Clicks are noise and each row occurs eight times. Copies on both sides would make the noise look real."""
    rng = np.random.default_rng(0)
    frame = decisions(250).assign(click=rng.integers(0, 2, 250), p=1 / 3)
    frame["item"] = NAMES[rng.integers(0, 3, 250)]
    answer = learn(pd.concat([frame] * 8).sample(frac=1, random_state=0), MAPPING)
    assert answer["verdict"]["verdict"] != "better"
    assert answer["log"]["heldout"] % 8 == 0


def test_costs_outside_of_the_stated_range_are_refused(tmp_path, run):
    decisions(100).to_csv(tmp_path / "log.csv", index=False)
    mapping = json.dumps(MAPPING | {"cost_range": [0, 1]})
    status, _, error = run("learn", tmp_path / "log.csv", "--config", mapping, "--output", tmp_path / "p.npz")
    assert (status, "cost_range" in error) == (1, True)


def test_an_unreachable_scheduler_is_one_line(tmp_path, run, monkeypatch):
    pytest.importorskip("distributed", reason="the extra drcrm[dask] is not installed")
    monkeypatch.setattr("drcrm.logs.decisions.learning.CONNECTION_TIMEOUT", 0.2)
    decisions(50).to_csv(tmp_path / "log.csv", index=False)
    arguments = ["learn", tmp_path / "log.csv", "--config", json.dumps(FAST), "--output", tmp_path / "p.npz"]
    status, _, error = run(*arguments, "--cluster", "tcp://127.0.0.1:9")
    assert (status, error.count("\n")) == (1, 1)
    assert error.startswith("drcrm learn: --cluster tcp://127.0.0.1:9 does not answer: ")


def algorithms_of(algorithm=None, *arguments) -> list[Algorithm]:
    return read_algorithms(as_mapping({"algorithm": algorithm}), *arguments)


def test_default_and_named_algorithms():
    assert [entry.name for entry in algorithms_of(None, [WITH_SCORES])] == [DEFAULT, WITH_SCORES]
    assert [entry.name for entry in algorithms_of(None, [WITH_SCORES], True)] == SIMPLE
    assert algorithms_of({"estimator": "PolicyTree", "options": {"depth": 3}}, [], True)[0].settings.depth == 3
    with pytest.raises(InputError, match="--readable needs policy trees, but the mapping has the algorithm cips"):
        algorithms_of(["policy_tree", "cips"], [], True)
    with pytest.raises(InputError, match="depth"):
        algorithms_of({"estimator": "PolicyTree", "options": {"depth": -1}})
    assert [entry.name for entry in algorithms_of()] == [DEFAULT]
    [entry] = algorithms_of({"estimator": "CIPS", "label": "mine", "options": {"safe": False}})
    assert (entry.name, entry.label, entry.settings.safe) == ("CIPS", "mine", False)
    assert [entry.name for entry in algorithms_of(["cips", "kl_dro_dr"])] == ["cips", "kl_dro_dr"]


@pytest.mark.parametrize(
    ("lists", "fault"),
    [({}, "every row has the same action"), ({"starts": np.arange(61)}, "every list has only one action")],
)
def test_logs_without_a_choice_are_refused(tmp_path, run, lists, fault):
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(60, 2)), "Y": np.zeros(60, dtype=int), "propensity": np.ones(60)}
    np.savez(tmp_path / "log.npz", **arrays, **lists, cost=rng.normal(size=60))
    status, _, error = run("learn", tmp_path / "log.npz", "--output", tmp_path / "p.npz")
    assert (status, fault in error) == (1, True)


def test_exportable_policies_are_linear_or_trees(tmp_path, run, monkeypatch):
    decisions(400).to_csv(tmp_path / "log.csv", index=False)
    fitted = []
    fit = "drcrm.logs.decisions.learning.fit_candidates"
    monkeypatch.setattr(fit, lambda *arguments: fitted.extend(arguments[1]) or 1 / 0)
    learn = "learn", tmp_path / "log.csv", "--output", tmp_path / "p.npz", "--config"
    shown = ((), [DEFAULT, WITH_SCORES, *SIMPLE]), (("--exportable",), [DEFAULT, *SIMPLE]), (("--readable",), SIMPLE)
    for options, expected in shown:
        fitted.clear()
        with pytest.raises(ZeroDivisionError):
            run(*learn, json.dumps({key: MAPPING[key] for key in MAPPING if key != "algorithm"}), *options)
        assert [entry.name for entry in fitted] == expected
    status, _, error = run(*learn, json.dumps(MAPPING | {"algorithm": "kl_dro_dr_map"}), "--exportable")
    assert (status, "needs linear policies or trees, but the mapping has" in error) == (1, True)
    timed = MAPPING | {"features": {"time": ["at"]}, "algorithm": "policy_tree"}
    status, _, error = run(*learn, json.dumps(timed), "--exportable")
    assert (status, "needs features without times for policy_tree" in error) == (1, True)
    lists = {key: MAPPING[key] for key in MAPPING if key != "action"} | {"list": "visitor", "chosen": "shown"}
    status, _, error = run(*learn, json.dumps(lists), "--exportable")
    assert (status, "--exportable needs a log without lists" in error) == (1, True)


KL = {"estimator": "KLDRO", "parameter": "radius"}


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("kl_dor", "kl_dor"),
        ([], "algorithm"),
        ({"estimator": "CIPS", "gird": [1]}, "gird"),
        ({"grid": [1]}, "estimator"),
        ({"estimator": "KLDRO"}, "KLDRO"),
        ({"estimator": ["KLDRO"]}, "algorithm.estimator"),
        ({"estimator": "CIPS", "options": "safe"}, "algorithm.options"),
        ({"estimator": "CIPS", "options": {3: 4}}, "algorithm.options"),
        (KL | {"grid": 0.1}, "algorithm.grid"),
        (KL | {"grid": [True]}, "algorithm.grid"),
        ({"estimator": "CIPS", "options": {"features": {"nystroem; x": 3}}}, "features"),
        ({"estimator": "CIPS", "options": {"features": "nystroem"}}, "features"),
    ],
)
def test_invalid_entries_are_refused_with_their_key(algorithm, key):
    with pytest.raises(InputError, match=key):
        algorithms_of(algorithm)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", "npz"])
def test_files_of_others_are_neither_replaced_nor_deleted(tmp_path, run, content):
    decisions(300).to_csv(tmp_path / "log.csv", index=False)
    path = tmp_path / "p.candidate.npz"
    path.write_bytes(b"" if content == "npz" else content)
    if content == "npz":
        np.savez(path, header=np.array("{}"), coef=np.ones(3))
    before = path.read_bytes()
    arguments = "learn", tmp_path / "log.csv", "--config", json.dumps(FAST), "--output", tmp_path / "p.npz"
    status, _, error = run(*arguments)
    assert (status, path.read_bytes()) == (1, before)
    assert f"--best {path} has a file that drcrm learn did not write" in error
    assert not (tmp_path / "p.npz").exists()
    assert run(*arguments, "--best", tmp_path / "c.npz")[0] == 0
    assert path.read_bytes() == before
