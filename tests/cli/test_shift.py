"""The option --shift and the mapping's key shift: comparisons of worst cases around the environment."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from shop import MAPPING, decisions
from shop_fixtures import answer_of

from drcrm import off_policy_value, read_log
from drcrm.certificates import policy_certificate
from drcrm.cli.common.candidates import read_algorithms
from drcrm.errors import InputError
from drcrm.logs.mapping import as_mapping
from drcrm.logs.policy_file import read_policy

KAPPA = 0.05


@pytest.mark.parametrize("command", ["certify", "evaluate_policy"])
def test_bounds_are_those_of_the_library(command, shop, tmp_path, run):
    log = tmp_path / "later.csv"
    decisions(900, seed=5).to_csv(log, index=False)
    arguments = [command, shop / "policy.npz", log, "--json", tmp_path / "a.json"]
    assert run(*arguments)[0] == 0
    plain = answer_of(tmp_path / "a.json")
    assert "shift" not in plain
    status, text, _ = run(*arguments, "--shift", str(KAPPA))
    assert (status, f"under a shift of {KAPPA}" in " ".join(text.split())) == (0, True)
    answer = answer_of(tmp_path / "a.json")
    assert (answer["shift"], answer["sensitivity"]) == (KAPPA, None)
    assert "worst case ≥" in text
    [caution] = [caution for caution in answer["verdict"]["cautions"] if "subpopulation" in caution]
    assert "at least 95.1 % of the traffic" in caution, "e^−0.05"
    stored = read_policy(shop / "policy.npz")
    rows = read_log(log, MAPPING).replace(X=stored.encoding.contexts(decisions(900, seed=5)))
    options = {"cost_model": stored.model, "shift": KAPPA, "baseline": "logging"}
    [entry] = answer["candidates"]
    difference = off_policy_value(stored.policy, rows, "dr", **options)
    assert entry["difference"]["value"] == pytest.approx(difference, abs=1e-9)
    assert entry["difference"]["low"] == pytest.approx(difference.low, abs=1e-9)
    bound = policy_certificate(stored.policy, rows, "dr", **options).bound
    assert entry["difference"]["bound"] == pytest.approx(bound, abs=1e-9)
    cost = policy_certificate(stored.policy, rows, "dr", **options | {"baseline": None})
    assert entry["certificate"]["bound"] == pytest.approx(cost.bound, abs=1e-9)
    assert entry["certificate"]["bound"] > plain["candidates"][0]["certificate"]["bound"]


def test_a_mapping_with_shift_learns_and_compares_at_its_radius(tmp_path, run):
    decisions(3000, seed=1).to_csv(tmp_path / "log.csv", index=False)
    mapping = {key: value for key, value in MAPPING.items() if key != "algorithm"} | {"shift": KAPPA}
    policy = tmp_path / "p.npz"
    arguments = ["learn", tmp_path / "log.csv", "--config", json.dumps(mapping), "--output", policy]
    assert run(*arguments, "--json", tmp_path / "a.json")[0] == 0
    answer = answer_of(tmp_path / "a.json")
    assert (answer["shift"], answer["log"]["rows"]) == (KAPPA, 3000)
    [candidate] = [entry for entry in answer["candidates"] if entry["name"] != "logging"]
    assert (candidate["name"], candidate["parameter"]) == ("shift_dr", "radius")
    assert candidate["value"] in (KAPPA, None)
    assert answer["verdict"]["verdict"] == "better"
    assert candidate["difference"]["bound"] < 0
    assert f"worst-case click under a shift of {KAPPA}" in answer["verdict"]["sentence"]
    status, _, _ = run("certify", policy, tmp_path / "log.csv", "--json", tmp_path / "b.json")
    assert (status, answer_of(tmp_path / "b.json")["shift"]) == (0, KAPPA)
    for option in (["--anytime"], ["--sensitivity", "2"]):
        status, _, error = run("certify", policy, tmp_path / "log.csv", *option)
        assert (status, f"{option[0]} " in error and "leave out one of them" in " ".join(error.split())) == (1, True)
    status, _, error = run(*arguments, "--shift", "0")
    assert (status, "expected a number above 0" in error) == (2, True)


def test_radii_beyond_the_largest_cost_are_named(tmp_path, run):
    decisions(600, seed=1).to_csv(tmp_path / "log.csv", index=False)
    arguments = ["learn", tmp_path / "log.csv", "--config", json.dumps(MAPPING), "--output", tmp_path / "p.npz"]
    assert run(*arguments, "--shift", "3", "--json", tmp_path / "a.json")[0] == 0
    verdict = answer_of(tmp_path / "a.json")["verdict"]
    assert verdict["verdict"] == "the log cannot say"
    assert "from there on R_κ is the largest cost" in verdict["sentence"]


def test_shipped_algorithms_take_the_radius_of_the_mapping():
    [entry] = read_algorithms(None, 100, shift=0.3)
    assert (entry.name, entry.grid, entry.shift) == ("shift_dr", (0.3,), 0.3)
    own = {"estimator": "EnvironmentDRO", "parameter": "radius", "grid": [0.1, 0.2]}
    entries = read_algorithms(["shift_snips", "kl_dro_dr", own], 100, shift=0.3)
    assert [entry.shift for entry in entries] == [0.3] * 3
    assert entries[0].grid == (0.3,)
    assert entries[2].grid == (0.1, 0.2)
    assert replace(entries[1], shift=None) == read_algorithms("kl_dro_dr", 100)[0]
    assert all(entry.shift is None for entry in read_algorithms(["shift_snips"], 100))


def test_mappings_keep_a_shift_above_0():
    assert as_mapping({"shift": 0.2}).as_dict()["shift"] == 0.2
    assert "shift" not in as_mapping({}).as_dict()
    for value in (0, -1, "a lot"):
        with pytest.raises(InputError, match=r"shift is .*, expected a number above 0"):
            as_mapping({"shift": value})
    assert np.isfinite(as_mapping({"shift": 1}).shift)
