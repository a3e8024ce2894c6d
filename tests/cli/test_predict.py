"""What predict writes: names that a spreadsheet would run, and what it says of greedy actions."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shop import MAPPING, NAMES, decisions

from drcrm.logs import opened_log
from drcrm.logs.encoding.columns import escape_formula, unescape_formula
from drcrm.logs.policy_file import read_policy, write_policy
from drcrm.logs.readers.log_files import read_records

ODD = ["=cmd|' /C calc'!A0", "-1", "'@home"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("+49 30 1", "'+49 30 1"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("-", "'-"),
        ("-1+1", "'-1+1"),
        ("-inf", "'-inf"),
        ("'=1", "''=1"),
        *[(text, text) for text in ("-1", "+5", "-.5", "-1.e-5", "1e5", "a=b", "'a", "'", "", "art", " =1")],
        *[(number, number) for number in (-1, -0.5)],
    ],
)
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text, expected):
    assert escape_formula(text) == expected
    if isinstance(text, str):
        assert unescape_formula(expected) == text


@given(st.text("'=+-@\t\r1.ea", max_size=6) | st.text())
def test_every_text_comes_back(text):
    assert unescape_formula(escape_formula(text)) == text


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A folder with a log whose actions have odd names, and a policy that was learned from it."""
    from drcrm.__main__ import main

    folder = tmp_path_factory.mktemp("odd")
    frame = decisions(1500)
    frame["item"] = np.array(ODD)[pd.Index(NAMES).get_indexer(frame["item"])]
    frame.to_parquet(folder / "log.parquet", index=False)
    (folder / "map.json").write_text(json.dumps(MAPPING))
    given = f"{folder}/log.parquet --config {folder}/map.json --output {folder}/policy.npz"
    assert main(f"learn {given}".split()) == 0
    return folder


@pytest.mark.parametrize(
    ("file", "options", "names"),
    [
        ("o.csv", [], ["'" + ODD[0], "-1", "''@home"]),
        ("o.csv", ["--raw-names"], ODD),
        ("o.parquet", [], ODD),
    ],
)
def test_names_in_csv_are_safe_and_said(odd, tmp_path, run, file, options, names):
    status, _, said = run("predict", odd / "policy.npz", odd / "log.parquet", "--output", tmp_path / file, *options)
    assert status == 0
    read = (lambda path: pd.read_csv(path, dtype=str)) if file.endswith("csv") else pd.read_parquet
    assert set(read(tmp_path / file)["item"]) == set(names)
    expected = f"{tmp_path}/o.csv: 2 names begin like a formula of a spreadsheet, so they have an apostrophe in front"
    assert (expected in said) == (names != ODD)
    assert ("--raw-names" in said) == (names != ODD)


@pytest.mark.parametrize("large", [2**29, -1])
def test_a_log_of_what_predict_wrote_has_the_actions_of_the_policy(odd, tmp_path, run, monkeypatch, large):
    """In memory and on disk."""
    monkeypatch.setattr(opened_log, "LARGE", large)
    run("predict", odd / "policy.npz", odd / "log.parquet", "--output", tmp_path / "o.csv", "--explore", "0.2")
    chosen = pd.read_csv(tmp_path / "o.csv", dtype=str)
    log = pd.read_parquet(odd / "log.parquet").assign(item=chosen["item"], p=chosen["propensity"])
    log.to_csv(tmp_path / "next.csv", index=False)
    assert set(read_records(tmp_path / "next.csv", MAPPING).names) == set(ODD)
    status, said, _ = run("evaluate_policy", odd / "policy.npz", tmp_path / "next.csv")
    assert (status, bool(said)) == (0, True)
    status, _, _ = run(*("learn", tmp_path / "next.csv", "--config", odd / "map.json", "--output", tmp_path / "p.npz"))
    assert status == 0
    assert set(read_policy(tmp_path / "p.npz").encoding.names) == set(ODD)


def test_names_of_columns_are_safe_too(tmp_path, run):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "=a": rng.integers(0, 2, 300), "b": rng.integers(0, 2, 300)})
    frame.assign(p=0.25, cost=-frame["b"].astype(float)).to_csv(tmp_path / "log.csv", index=False)
    mapping = {"labels": ["=a", "b"], "propensity": "p", "cost": "cost", "features": {"numeric": ["x"]}}
    run(
        *("learn", tmp_path / "log.csv", "--config", json.dumps(mapping | {"algorithm": "kl_dro_dr"})),
        *("--output", tmp_path / "p.npz"),
    )
    run("predict", tmp_path / "p.npz", tmp_path / "log.csv", "--output", tmp_path / "o.csv")
    assert list(pd.read_csv(tmp_path / "o.csv")) == ["'=a", "b", "propensity"]


class TestGreedy:
    """The certificate is of actions that are drawn."""

    CAUTION = "the certificate covers actions drawn from the policy, not --greedy"

    def said(self, run, policy, shop, tmp_path, *options) -> str:
        status, _, said = run("predict", policy, shop / "log.csv", "--output", tmp_path / "o.csv", *options)
        assert status == 0
        return said

    def test_it_is_said_with_the_share_of_contexts(self, shop, tmp_path, run):
        stored = read_policy(shop / "policy.npz")
        probability = stored.policy.marginals(stored.encoding.contexts(pd.read_csv(shop / "log.csv")))
        uncertain = int((probability.max(axis=1) < 1 - 1e-6).sum())
        assert 0 < uncertain <= 3000
        said = self.said(run, shop / "policy.npz", shop, tmp_path, "--greedy")
        assert f"{self.CAUTION}: the policy was not certain of its action in {uncertain} of 3000 contexts" in said

    def test_nothing_is_said_of_actions_that_are_drawn(self, shop, tmp_path, run):
        assert self.CAUTION not in self.said(run, shop / "policy.npz", shop, tmp_path)

    def test_nothing_is_said_of_a_policy_that_is_certain(self, shop, tmp_path, run):
        """One that takes the same action always."""
        stored = read_policy(shop / "policy.npz")
        coef = np.zeros_like(stored.policy.coef)
        coef[-1, 0] = 40  # of the constant
        policy = type(stored.policy)(coef)
        write_policy(tmp_path / "certain.npz", replace(stored, policy=policy))
        assert self.CAUTION not in self.said(run, tmp_path / "certain.npz", shop, tmp_path, "--greedy")

    def test_help_says_so(self, run):
        status, said, _ = run("predict", "--help")
        assert status == 0
        assert "The certificate covers actions drawn from the policy. It does not cover --greedy." in said
