"""The command predict: actions with their propensities, exploration, greedy actions, and names in spreadsheets."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.user_logs import MAPPING, NAMES, decisions

from drcrm.__main__ import main
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
