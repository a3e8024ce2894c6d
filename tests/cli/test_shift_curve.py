"""The worst cases by radius in the answers and the report of the commands."""

from __future__ import annotations

import json

import numpy as np
import pytest
from shop import MAPPING, decisions
from shop_fixtures import answer_of

SECTION = "Shift of the environment"


def test_a_better_policy_has_worst_cases_up_to_its_breakeven(shop):
    answer, page = answer_of(shop / "answer.json"), (shop / "report.html").read_text(encoding="utf-8")
    view = answer["shift_curve"]
    curve = np.array(view["curve"], dtype=float)
    assert curve[-1, 0] == pytest.approx(1.5 * view["breakeven"])
    assert curve[0, 2] == pytest.approx(answer["logging"]["value"], abs=2e-4)
    [chosen] = [entry for entry in answer["candidates"] if entry["chosen"]]
    usual = chosen["estimates"]["dr"]
    assert curve[0, 1] == pytest.approx(usual["value"], abs=usual["standard_error"] / 2), "its limit is self-normalised"
    assert SECTION in page
    assert f"κ = {np.floor(1000 * view['breakeven']) / 1000:g})" in page
    assert "not the policies in every environment" in page


def test_the_option_computes_it_without_a_better_policy(shop, tmp_path, run):
    log = tmp_path / "later.csv"
    coins = np.random.default_rng(1).integers(0, 2, 900)
    decisions(900, seed=5).assign(click=coins).to_csv(log, index=False)
    arguments = ["certify", shop / "policy.npz", log, "--json", tmp_path / "a.json", "--report", tmp_path / "r.html"]
    assert run(*arguments)[0] == 0
    assert answer_of(tmp_path / "a.json")["shift_curve"] is None
    assert SECTION not in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert run(*arguments, "--shift", "0.1")[0] == 0
    view = answer_of(tmp_path / "a.json")["shift_curve"]
    assert (view["breakeven"], view["curve"][-1][0]) == (None, pytest.approx(0.15))
    assert "does not show that the policy's worst case is better" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_bounds_at_every_look_have_no_worst_cases(shop, tmp_path, run):
    log = tmp_path / "later.csv"
    decisions(900, seed=5).to_csv(log, index=False)
    mapping = tmp_path / "mapping.json"
    mapping.write_text(json.dumps(MAPPING | {"cost_range": [-1, 0]}), encoding="utf-8")
    arguments = ["certify", shop / "policy.npz", log, "--config", mapping, "--json", tmp_path / "a.json", "--anytime"]
    assert run(*arguments)[0] == 0
    assert answer_of(tmp_path / "a.json")["shift_curve"] is None
