"""The sensitivity of a verdict to wrong propensities, in the answers and the report of the commands."""

from __future__ import annotations

import json

import numpy as np
import pytest
from shop import MAPPING, decisions
from shop_fixtures import answer_of

from drcrm import read_log
from drcrm.certificates import sensitivity
from drcrm.logs.policy_file import read_policy


def test_a_better_policy_has_a_factor_up_to_which_it_is_better(shop):
    answer = answer_of(shop / "answer.json")
    view = answer["sensitivity"]
    assert view["breakeven"] > 1
    factor = f"{np.floor(100 * view['breakeven']) / 100:.3g}"
    assert f"every propensity's odds are off by a factor of at most {factor}." in answer["verdict"]["sentence"]
    bounds = np.array(view["curve"])
    assert bounds[0, 2] < 0 < bounds[-1, 2]
    assert "Sensitivity to wrong propensities" in (shop / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["certify", "evaluate_policy"])
def test_the_answer_has_the_bound_at_a_given_factor(command, shop, tmp_path, run):
    log = tmp_path / "later.csv"
    decisions(900, seed=5).to_csv(log, index=False)
    arguments = [command, shop / "policy.npz", log, "--json", tmp_path / "a.json", "--sensitivity", "1.3"]
    assert run(*arguments)[0] == 0
    view = answer_of(tmp_path / "a.json")["sensitivity"]
    stored = read_policy(shop / "policy.npz")
    rows = read_log(log, MAPPING).replace(X=stored.encoding.contexts(decisions(900, seed=5)))
    expected = sensitivity(stored.policy, rows, 1.3, "dr", stored.model)
    assert view["gamma"] == 1.3
    assert (view["worst"], view["bound"]) == pytest.approx((expected.worst, expected.bound), abs=1e-9)


def test_without_a_better_policy_only_the_option_computes_it(tmp_path, run):
    decisions(300).assign(click=np.random.default_rng(1).integers(0, 2, 300)).to_csv(tmp_path / "log.csv", index=False)
    config = json.dumps(MAPPING | {"algorithm": "cips"})
    arguments = ["learn", tmp_path / "log.csv", "--config", config, "--output", tmp_path / "p.npz"]
    for options, is_computed in (([], False), (["--sensitivity", "2"], True)):
        assert run(*arguments, "--json", tmp_path / "a.json", *options)[0] == 0
        view = answer_of(tmp_path / "a.json")["sensitivity"]
        assert (view is not None) == is_computed
    status, _, error = run(*arguments, "--sensitivity", "0.5")
    assert (status, "'0.5', expected a number of at least 1" in error) == (2, True)
