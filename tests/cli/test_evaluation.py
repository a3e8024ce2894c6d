"""A policy of a file, or of a column, on a log: estimates, certificates, diagnoses, and actions."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from shop import MAPPING, decisions
from shop_fixtures import answer_of

from drcrm.cli.evaluate_policy import ALL_ROWS
from drcrm.logs.policy_file import read_policy


def test_on_the_log_it_was_learned_from_the_rows_held_out_judge_it(shop, tmp_path, run):
    learned = answer_of(shop / "answer.json")
    shutil.copy(shop / "log.csv", tmp_path / "renamed.csv")  # known by its digest, not by its name
    for command in ("certify", "evaluate_policy"):
        status, _, _ = run(command, shop / "policy.npz", tmp_path / "renamed.csv", "--json", tmp_path / "a.json")
        found = answer_of(tmp_path / "a.json")
        assert (status, found["choices"], found["log"]["rows"]) == (0, learned["choices"], 750)
        [theirs], [ours] = found["candidates"], learned["candidates"]
        assert theirs["certificate"] == pytest.approx(ours["certificate"])
        assert theirs["difference"] == pytest.approx(ours["difference"])
        assert theirs["estimates"]["dr"] == pytest.approx(ours["estimates"]["dr"])


def test_a_log_that_is_not_there(shop, tmp_path, run):
    status, _, said = run("certify", shop / "policy.npz", tmp_path / "log.csv")
    assert (status, said) == (
        1,
        f"drcrm certify: {tmp_path / 'log.csv'}: cannot be read: No such file or directory\n",
    )


def test_on_another_log_all_rows_do_and_it_is_one_choice(shop, tmp_path, run):
    _, said, _ = run("certify", shop / "policy.npz", shop / "later.parquet", "--json", tmp_path / "a.json")
    found = answer_of(tmp_path / "a.json")
    assert (found["choices"], found["log"]["rows"], found["judged_by"]) == (1, 2000, ALL_ROWS)
    assert (found["verdict"]["changes"], found["verdict"]["cautions"][-1]) == ([], f"Judged by {ALL_ROWS}.")
    bound = -found["candidates"][0]["certificate"]["bound"]
    assert f"With 95% confidence each, its reward is at least {bound:.4g} a row" in " ".join(said.split())
    run("certify", shop / "policy.npz", shop / "later.parquet", "--confidence", "0.8", "--json", tmp_path / "a.json")
    assert -answer_of(tmp_path / "a.json")["candidates"][0]["certificate"]["bound"] > bound


def test_a_policy_that_is_a_column(tmp_path, run):
    """That of π0 itself is level with π0; its cost is the logged mean."""
    frame = decisions(1000)
    frame.assign(mine=frame["p"]).to_csv(tmp_path / "log.csv", index=False)
    given = ["evaluate_policy", "column:mine", tmp_path / "log.csv", "--json", tmp_path / "a.json"]
    status, _, said = run(*given)
    assert (status, said) == (1, "drcrm evaluate_policy: column:mine needs --config, the mapping of the log\n")
    status, _, _ = run(*given, "--config", json.dumps(MAPPING))
    found = answer_of(tmp_path / "a.json")
    [candidate] = found["candidates"]
    assert status == 0
    assert candidate["estimates"]["ips"]["value"] == pytest.approx(-frame["click"].mean())
    assert candidate["estimates"]["dr"] is None
    assert candidate["difference"]["value"] == pytest.approx(0, abs=1e-12)
    assert found["verdict"]["verdict"] == "not shown"


def test_actions_come_under_their_own_names_with_the_propensity_they_were_drawn_with(shop, tmp_path, run):
    status, _, said = run("predict", shop / "policy.npz", shop / "later.parquet", "--output", tmp_path / "out.csv")
    assert (status, said) == (0, "")
    found, stored = pd.read_csv(tmp_path / "out.csv"), read_policy(shop / "policy.npz")
    probability = stored.policy.marginals(stored.encoding.contexts(decisions(2000, seed=1)))
    place = [stored.encoding.names.index(each) for each in found["item"]]
    np.testing.assert_allclose(found["propensity"], probability[np.arange(2000), place])
    assert list(found.columns) == ["item", "propensity"]
    run("predict", shop / "policy.npz", shop / "later.parquet", "--output", tmp_path / "greedy.parquet", "--greedy")
    greedy = pd.read_parquet(tmp_path / "greedy.parquet")
    assert (greedy["propensity"] == 1).all()
    assert [stored.encoding.names.index(each) for each in greedy["item"]] == list(probability.argmax(axis=1))


def test_the_seed_of_the_actions(shop, tmp_path, run):
    drawn = []
    for seed in ("0", "0", "1"):
        given = ["predict", shop / "policy.npz", shop / "later.parquet", "--seed", seed]
        run(*given, "--output", tmp_path / "out.csv")
        drawn.append((tmp_path / "out.csv").read_bytes())
    assert drawn[0] == drawn[1]


def test_a_new_category_is_handled_and_said(shop, tmp_path, run):
    frame = decisions(50).drop(columns=["item", "p", "click", "position"])
    frame.loc[[3, 7], "city"] = "Chur"
    frame.to_csv(tmp_path / "new.csv", index=False)
    status, _, said = run("predict", shop / "policy.npz", tmp_path / "new.csv", "--output", tmp_path / "out.csv")
    assert status == 0
    assert "in 2 rows, which the policy has not seen" in said
    assert "city" in said
    assert len(pd.read_csv(tmp_path / "out.csv")) == 50


def test_a_diagnosis_needs_no_policy(shop, tmp_path, run):
    status, said, _ = run("diagnose", shop / "log.csv", "--config", shop / "map.json", "--json", tmp_path / "a.json")
    assert (status, said.split(".")[0]) == (0, "No fault found")
    twice = decisions(500).assign(p=lambda frame: frame["p"] / 2)
    twice.to_csv(tmp_path / "wrong.csv", index=False)
    _, said, _ = run("diagnose", tmp_path / "wrong.csv", "--config", shop / "map.json")
    assert "FAIL: propensity audit" in said


BROKEN = {
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "text": lambda content: b"coef,1\n",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_policy_is_one_line(what, shop, tmp_path, run):
    path = tmp_path / "policy.npz"
    path.write_bytes(BROKEN[what]((shop / "policy.npz").read_bytes()))
    for command in (
        ["certify", path, shop / "log.csv"],
        ["predict", path, shop / "log.csv", "--output", tmp_path / "o.csv"],
    ):
        status, _, said = run(*command)
        assert (status, len(said.splitlines())) == (1, 1)
        assert "policy.npz" in said
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 99}, "the policy's file is of format 99, expected 1"),
        ({"format": None}, "the policy's file is of format None"),
        ({"encoding": {"of": "?"}}, "encoding is of '?'"),
        ({"model": {"limits": [0]}}, "the cost model is cut off, or from another version"),
    ],
)
def test_a_policy_of_another_version_is_one_line(change, said, shop, tmp_path, run):
    with np.load(shop / "policy.npz") as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays.pop("header"))) | change
    np.savez(tmp_path / "policy.npz", header=np.array(json.dumps(header)), **arrays)
    status, _, found = run("certify", tmp_path / "policy.npz", shop / "log.csv")
    assert status == 1
    assert said in found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["certify", "none.npz", "log.csv"], "none.npz: no such file"),
        (["learn", "log.csv", "--output", "p.npz", "--confidence", "0.3"], "expected a number above ½ and below 1"),
        (["learn", "log.csv", "--output", "p.npz", "--seed", "-1"], "expected a whole number from 0"),
        (["learn", "log.csv", "--output", "p.npz", "--config", "{"], "is not JSON"),
        (["learn", "log.csv", "--output", "p.npz", "--config", "none.yaml"], "none.yaml"),
        (["diagnose", "none.csv", "--config", "{}"], "none.csv"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, said, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, found = run(*arguments)
    assert status in (1, 2)
    assert len(found.splitlines()) == 1
    assert said in found


@pytest.mark.parametrize("how", [[], ["--greedy"]], ids=["drawn", "greedy"])
def test_a_share_of_the_actions_is_left_to_chance(how, shop, tmp_path, run):
    given = ["predict", shop / "policy.npz", shop / "later.parquet", *how, "--output", tmp_path / "out.csv"]
    assert run(*given, "--explore", "0.3")[0] == 0
    found, stored = pd.read_csv(tmp_path / "out.csv"), read_policy(shop / "policy.npz")
    probability = stored.policy.marginals(stored.encoding.contexts(decisions(2000, seed=1)))
    if how:
        probability = np.eye(3)[probability.argmax(axis=1)]
    place = np.array([stored.encoding.names.index(each) for each in found["item"]])
    np.testing.assert_allclose(found["propensity"], 0.7 * probability[np.arange(2000), place] + 0.1)
    likely = probability.max(axis=1) > 0.99
    taken = (place == probability.argmax(axis=1))[likely]
    assert likely.sum() > 500
    assert taken.mean() == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / len(taken)))
    assert (1 / found["propensity"]).mean() == pytest.approx(3, rel=0.15)
    assert run(*given, "--explore", "1.5")[0] == 2


def test_the_rows_that_judge_are_those_held_out_whatever_the_mapping_says(shop, run):
    """Another split of the log that the policy was learned from would have it judged by rows it was learned from."""
    for change, said in (({"split": "last 25 %"}, "split is 'last 25 %'"), ({"group": "city"}, "'group 25 %'")):
        given = ["certify", shop / "policy.npz", shop / "log.csv", "--config", json.dumps(MAPPING | change)]
        status, _, found = run(*given)
        assert (status, len(found.splitlines())) == (1, 1)
        assert said in found
    assert run("certify", shop / "policy.npz", shop / "log.csv", "--config", json.dumps(MAPPING))[0] == 0


def test_no_certificate_where_a_check_fails(shop, tmp_path, run):
    decisions(600).assign(p=lambda frame: frame["p"] / 2).to_csv(tmp_path / "wrong.csv", index=False)
    _, said, _ = run("certify", shop / "policy.npz", tmp_path / "wrong.csv")
    assert said.startswith("The log is wrong")
    decisions(8).to_csv(tmp_path / "few.csv", index=False)
    _, said, _ = run("certify", shop / "policy.npz", tmp_path / "few.csv")
    assert said.startswith("The log cannot say")


def test_certify_and_evaluate_give_one_bound_where_rows_are_told_twice(shop, tmp_path, run):
    frame = decisions(400, seed=5)
    pd.concat([frame] * 3).to_csv(tmp_path / "copies.csv", index=False)
    frame.to_csv(tmp_path / "once.csv", index=False)
    bounds = []
    for command, log in (("certify", "copies"), ("evaluate_policy", "copies"), ("certify", "once")):
        run(command, shop / "policy.npz", tmp_path / f"{log}.csv", "--json", tmp_path / "a.json")
        [candidate] = answer_of(tmp_path / "a.json")["candidates"]
        bounds.append(candidate["difference"]["bound"])
    assert bounds == pytest.approx([bounds[0]] * 3)


@pytest.mark.parametrize("command", ["diagnose", "learn"])
def test_many_actions_of_few_rows_each(command, tmp_path, run):
    rng = np.random.default_rng(0)
    frame = decisions(600).assign(item=rng.integers(0, 60, 600), p=1 / 60)
    frame.to_csv(tmp_path / "log.csv", index=False)
    given = [command, tmp_path / "log.csv", "--config", json.dumps(MAPPING | {"algorithm": "cips"})]
    status, said, errors = run(*given, *(["--output", tmp_path / "p.npz"] if command == "learn" else []))
    assert (status, errors) == (0, "")
    assert "log is wrong" not in said


def test_nothing_is_written_over_what_is_read(shop, tmp_path, run):
    log, policy = tmp_path / "log.csv", tmp_path / "policy.npz"
    shutil.copy(shop / "log.csv", log)
    shutil.copy(shop / "policy.npz", policy)
    before = log.read_bytes(), policy.read_bytes()
    config = ["--config", json.dumps(MAPPING)]
    for arguments, said in (
        (["learn", log, *config, "--output", log], "is both --output and log"),
        (
            ["learn", log, *config, "--output", policy, "--json", tmp_path / "../" / tmp_path.name / "policy.npz"],
            "both",
        ),
        (["predict", policy, log, "--output", log], "is both --output and contexts"),
        (["certify", policy, log, "--json", policy], "is both --json and policy"),
        (["learn", log, *config, "--output", tmp_path], "a folder, expected a file"),
    ):
        status, _, found = run(*arguments)
        assert status == 1
        assert said in found
    assert (log.read_bytes(), policy.read_bytes()) == before


def test_a_mapping_without_the_features_of_the_policy(shop, run):
    mapping = MAPPING | {"features": {"numeric": ["age"], "categorical": ["city"]}}
    _, _, said = run("certify", shop / "policy.npz", shop / "later.parquet", "--config", json.dumps(mapping))
    assert "'price' is no numeric feature here" in said
    assert len(said.splitlines()) == 1


def test_actions_in_a_column_of_that_name(tmp_path, run):
    frame = decisions(300).rename(columns={"item": "propensity"})
    frame.to_csv(tmp_path / "log.csv", index=False)
    mapping = MAPPING | {"action": "propensity"}
    run("learn", tmp_path / "log.csv", "--config", json.dumps(mapping), "--output", tmp_path / "p.npz")
    status, _, said = run("predict", tmp_path / "p.npz", tmp_path / "log.csv", "--output", tmp_path / "o.csv")
    assert (status, "its actions would be in the column of the propensities" in said) == (1, True)
    assert not (tmp_path / "o.csv").exists()


def test_a_denormal_propensity_is_refused(shop, tmp_path, run):
    frame = decisions(300)
    frame.loc[7, "p"] = 5e-324
    frame.to_csv(tmp_path / "log.csv", index=False)
    for command in ("certify", "evaluate_policy"):
        status, _, said = run(command, shop / "policy.npz", tmp_path / "log.csv")
        assert status == 1
        assert "'p' is 5e-324 in row 7, expected at least 1e-100" in said


@pytest.mark.parametrize(("confidence", "said"), [("0.995", "99.5%"), ("0.999999", "99.9999%"), ("0.9", "90%")])
def test_a_confidence_is_said_in_full(confidence, said, shop, run):
    assert f"With {said} confidence each" in run(
        "certify", shop / "policy.npz", shop / "later.parquet", "--confidence", confidence
    )[1].replace("\n", " ")


def test_numbers_with_a_point_are_the_same_categories(tmp_path, run):
    frame = decisions(500).assign(city=lambda frame: frame["city"].map({"Bern": 1, "Zürich": 2, "Genf": 30}))
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.assign(city=frame["city"].astype(float)).to_csv(tmp_path / "float.csv", index=False)
    given = ["learn", tmp_path / "log.csv", "--config", json.dumps(MAPPING), "--output", tmp_path / "p.npz"]
    assert run(*given)[0] == 0
    found = []
    for log in ("log", "float"):
        run("predict", tmp_path / "p.npz", tmp_path / f"{log}.csv", "--output", tmp_path / "o.csv", "--greedy")
        found.append((tmp_path / "o.csv").read_text())
    assert found[0] == found[1]


def test_new_categories_of_a_log_are_said(shop, tmp_path, run):
    decisions(500).assign(city="Rom").to_csv(tmp_path / "log.csv", index=False)
    run("evaluate_policy", shop / "policy.npz", tmp_path / "log.csv", "--json", tmp_path / "a.json")
    assert "new value of 'city' in 500 rows" in answer_of(tmp_path / "a.json")["judged_by"]


def test_costs_outside_of_their_range_are_refused(tmp_path, run):
    decisions(100).to_csv(tmp_path / "log.csv", index=False)
    mapping = json.dumps(MAPPING | {"cost_range": [0, 1]})
    status, _, said = run("learn", tmp_path / "log.csv", "--config", mapping, "--output", tmp_path / "p.npz")
    assert status == 1
    assert "costs, which are negated rewards, are from -1 to 0, cost_range is [0, 1]" in said


def test_actions_for_events_that_are_not_learned_from(tmp_path, run):
    """One for each, in their order; what has no context is no event."""
    rng = np.random.default_rng(0)
    lines = []
    for place in range(300):
        chosen = int(rng.integers(1, 3))
        actions = [{"A": {"id": name}} for name in "ab"]
        said = {
            "_label_cost": -float(chosen == 1),
            "_label_probability": 0.5,
            "_label_Action": chosen,
            "_labelIndex": chosen - 1,
        }
        event = {**said, "a": [chosen, 3 - chosen], "p": [0.5, 0.5], "c": {"U": {"x": 1.0}, "_multi": actions}}
        lines.append(json.dumps(event | ({"_skipLearn": True} if place % 3 == 0 else {})))
    lines.append(json.dumps({"_skipLearn": True}))
    (tmp_path / "log.dsjson").write_text("\n".join(lines) + "\n")
    given = ["learn", tmp_path / "log.dsjson", "--config", '{"algorithm": "cips"}', "--output", tmp_path / "p.npz"]
    status, said, _ = run(*given)
    assert status == 0
    assert "Not read: 101 rows" in said
    run("predict", tmp_path / "p.npz", tmp_path / "log.dsjson", "--output", tmp_path / "o.csv")
    assert len(pd.read_csv(tmp_path / "o.csv")) == 300
