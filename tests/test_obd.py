"""The study of the Open Bandit Dataset, on made files of its form."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from workflows import jobs, snakemake, write_config

from drcrm.__main__ import main
from drcrm.experiments.datasets.sources import file_digest

ROOT = Path(__file__).parents[1]
ITEMS, ROWS = 3, 900
ALGORITHMS = {"cips": {"estimator": "CIPS", "options": {}}}


@pytest.fixture(scope="module")
def obd():
    folder = str(ROOT / "studies")
    sys.path.insert(0, folder)
    yield import_module("obd")
    sys.path.remove(folder)


def shown(policy: str, seed: int) -> pd.DataFrame:
    """A log in which item p − 1 of position p is clicked most; bts shows item 0 more often than others."""
    rng = np.random.default_rng(seed)
    mean = {"bts": [0.5, 0.3, 0.2], "random": [1 / ITEMS] * ITEMS}[policy]
    item, position = rng.choice(ITEMS, ROWS, p=mean), rng.integers(1, 4, ROWS)
    columns = {
        "timestamp": "2019-11-24 00:00:00",
        "item_id": item,
        "position": position,
        "click": (rng.random(ROWS) < np.where(item == position - 1, 0.6, 0.1)).astype(int),
        "propensity_score": np.array(mean)[item],
        "user_feature_0": rng.choice(["é", "b"], ROWS),
        "user-item_affinity_0": rng.random(ROWS),
    }
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mirror") / "obd"
    folder.mkdir()
    for place, name in enumerate(f"{policy}_{of}" for policy in ("bts", "random") for of in ("men", "women")):
        shown(name.partition("_")[0], place).to_csv(folder / f"{name}.csv.bz2")
    return folder


@pytest.fixture(scope="module")
def table(obd, files):
    return obd.table(files, ALGORITHMS)


def of(table: pd.DataFrame, policy: str, learned: str, which: str = "men") -> pd.Series:
    keys = (table["policy"] == policy) & (table["learned"] == learned) & (table["set"] == which)
    [found] = table[keys].to_dict("records")
    return found


def test_the_policies_that_logged_are_worth_their_own_averages(table, files):
    assert len(table) == 4 * 5
    for which in ("men", "women"):
        for policy in ("bts", "random"):
            clicks = pd.read_csv(files / f"{policy}_{which}.csv.bz2")["click"]
            half = stats.t.ppf(0.975, ROWS - 1) * clicks.std() / np.sqrt(ROWS)
            for learned in ("bts", "random"):
                found = of(table, policy, learned, which)
                assert found["ips"] == pytest.approx(clicks.mean())
                assert found["clicks"] == clicks.sum()
                assert (found["ips_high"] - found["ips_low"]) / 2 == pytest.approx(half, rel=1e-9)


def test_the_best_item_of_each_position_is_found_and_judged_by_the_rows_that_have_it(obd, table, files):
    for learned, judged in (("bts", "random"), ("random", "bts")):
        rows = pd.read_csv(files / f"{judged}_men.csv.bz2")
        has = rows["item_id"] == rows["position"] - 1
        weight = has / rows["propensity_score"]
        found = of(table, "best item", learned)
        assert found["ips"] == pytest.approx((weight * rows["click"]).mean())
        assert found["snips"] == pytest.approx((weight * rows["click"]).sum() / weight.sum())
        clicked = weight[rows["click"] == 1]
        assert found["clicks"] == pytest.approx(clicked.sum() ** 2 / (clicked**2).sum())
        assert found["verdict"] == "better"


def test_the_difference_to_bts_is_of_two_samples_or_paired(table):
    found, own = of(table, "cips", "bts"), of(table, "bts", "bts")
    assert found["more"] == pytest.approx(found["dr"] - own["ips"])
    widths = [found["dr_high"] - found["dr_low"], own["ips_high"] - own["ips_low"]]
    assert found["more_high"] - found["more_low"] == pytest.approx(np.hypot(*widths))
    paired, own = of(table, "cips", "random"), of(table, "bts", "random")
    assert paired["more"] == pytest.approx(paired["dr"] - own["ips"])
    assert paired["more_low"] < paired["more"] < paired["more_high"]


def test_items_that_are_hardly_shown_are_not_the_best(obd, files):
    """One click in one row is a rate of 1."""
    whole, _ = obd.learned(files, "random", "men", ALGORITHMS)
    frame = pd.read_csv(files / "random_men.csv.bz2")
    rows = np.flatnonzero((frame["position"] != 1) | (frame["item_id"] != 2))
    one = np.flatnonzero((frame["position"] == 1) & (frame["item_id"] == 2) & (frame["click"] == 1))[:1]
    assert len(one)
    rows = np.sort(np.append(rows, one))
    log = whole.log.replace(Y=whole.log.Y[rows], cost=whole.log.cost[rows])
    assert obd.best_items(log, whole.records.row_slices[rows]) == {"1": 0, "2": 1, "3": 2}


def test_a_policy_that_meets_no_click_rests_on_none(obd, files):
    whole, _ = obd.learned(files, "random", "men", ALGORITHMS)
    clicked = whole.log.cost < 0
    assert obd.clicks_of_equal_weight(np.where(clicked, 0.0, 0.5), whole.log) == 0
    assert obd.clicks_of_equal_weight(np.full(ROWS, 0.5), whole.log) == pytest.approx(clicked.sum())


def test_the_summary_has_a_line_for_each_row(obd, table):
    lines = obd.summary(table).splitlines()
    assert len(lines) == 1 + len(table)
    assert " better" in next(line for line in lines if "best item" in line)


def test_the_files_come_through_the_mirror_with_their_digests(files, tmp_path, capsys):
    name = "bts_men.csv.bz2"
    digest = file_digest(files / name)
    output = tmp_path / "resources" / name
    fetch = ["fetch_file", "--folder", "obd", "--output", str(output), "--sha256"]
    assert main([*fetch, digest]) == 1
    assert capsys.readouterr().err == f"drcrm fetch_file: {name}: could not be fetched: neither a mirror nor a url\n"
    mirror = ["--mirror", f"{files.parent}/"]
    assert main([*fetch, "0" * 64, *mirror]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"SHA-256 {digest}, expected {'0' * 64}" in said
    assert not output.exists()
    assert main([*fetch, digest, *mirror]) == 0
    assert output.read_bytes() == (files / name).read_bytes()


def test_one_command_fetches_the_files_and_makes_the_table(tmp_path):
    digests = {f"{policy}_{of}.csv.bz2": "0" * 64 for policy in ("bts", "random") for of in ("men", "women")}
    config = write_config(tmp_path, {"mirror": "m", "studies": {"obd": {"files": digests, "algorithms": ["cips"]}}})
    output = snakemake(tmp_path, config, "obd_study", "--dry-run", "--printshellcmds")
    assert jobs(output) == {"study_file": 4, "study_table": 1, "provenance": 1, "obd_study": 1}
    assert (
        f"drcrm fetch_file --mirror m --folder obd --sha256 {'0' * 64} --output resources/studies/obd/bts_men" in output
    )
    given = json.dumps({"algorithms": {"cips": {"estimator": "CIPS"}}})[:30]
    assert f"obd --resources resources/studies/obd --options '{given}" in output
