"""The studies of the Open Bandit Dataset and of the jobseekers' programme, on synthetic files in their formats."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

ITEMS, ROWS = 3, 900
ALGORITHMS = {"cips": {"estimator": "CIPS", "options": {}}}


@pytest.fixture(scope="module")
def obd(study):
    return study("obd")


def logged_clicks(policy: str, seed: int) -> pd.DataFrame:
    """Draw a log in which item p − 1 is clicked most in position p; bts prefers item 0."""
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
    for seed, name in enumerate(["bts_men", "bts_women", "random_men", "random_women"]):
        logged_clicks(name.partition("_")[0], seed).to_csv(folder / f"{name}.csv.bz2")
    return folder


@pytest.fixture(scope="module")
def table(obd, files):
    return pd.DataFrame(obd.measure(0, files, ALGORITHMS))


def row_of(table: pd.DataFrame, policy: str, learned: str, name: str = "men") -> dict:
    keys = (table["policy"] == policy) & (table["learned"] == learned) & (table["set"] == name)
    [row] = table[keys].to_dict("records")
    return row


def test_logging_policies_have_the_average_of_their_logs(table, files):
    assert len(table) == 4 * 5
    for name in ("men", "women"):
        for policy in ("bts", "random"):
            clicks = pd.read_csv(files / f"{policy}_{name}.csv.bz2")["click"]
            half = stats.t.ppf(0.975, ROWS - 1) * clicks.std() / np.sqrt(ROWS)
            for learned in ("bts", "random"):
                row = row_of(table, policy, learned, name)
                measured = row["ips"], row["clicks"], (row["ips_high"] - row["ips_low"]) / 2
                assert measured == pytest.approx((clicks.mean(), clicks.sum(), half), rel=1e-9)


def test_the_best_item_of_each_position_is_evaluated_on_the_rows_that_show_it(obd, table, files):
    for learned, evaluated in (("bts", "random"), ("random", "bts")):
        rows = pd.read_csv(files / f"{evaluated}_men.csv.bz2")
        is_best = rows["item_id"] == rows["position"] - 1
        weight = is_best / rows["propensity_score"]
        row = row_of(table, "best item", learned)
        assert row["ips"] == pytest.approx((weight * rows["click"]).mean())
        assert row["snips"] == pytest.approx((weight * rows["click"]).sum() / weight.sum())
        clicked = weight[rows["click"] == 1]
        assert row["clicks"] == pytest.approx(clicked.sum() ** 2 / (clicked**2).sum())
        assert row["verdict"] == "better"


def test_a_later_file_with_other_columns_is_refused(tmp_path, run):
    """The mapping of the dataset's csv comes from the columns of each file."""
    folder = tmp_path / "obd"
    folder.mkdir()
    frame = logged_clicks("bts", 0)
    frame.to_csv(folder / "a.csv")
    frame.assign(user_feature_1="x").to_csv(folder / "b.csv")
    status, _, error = run("diagnose", folder)
    assert (status, "b.csv" in error, "user_feature_1" in error) == (1, True, True)


@pytest.fixture(scope="module")
def behaghel(study):
    return study("behaghel")


def write_file(path: Path, rows: int = 800) -> pd.DataFrame:
    """Write a file in which the share of the public arm depends on the month, and only public counselling helps."""
    rng = np.random.default_rng(0)
    month, unit = rng.integers(1, 3, rows), rng.integers(0, 2, (rows, 2))
    is_public = rng.random(rows) < np.where(month == 1, 0.6, 0.3)
    columns = {"sw": rng.random(rows), "A_public": is_public, "A_private": ~is_public, "A_standard": False}
    columns |= {"Y": rng.random(rows) < np.where(is_public, 0.8, 0.2), "mois_saisie_occ": month}
    frame = pd.DataFrame(columns | {"Interim": unit[:, 0], "Conseil": unit[:, 1], "age": rng.integers(20, 60, rows)})
    frame.astype({name: int for name in frame if name != "sw"}).to_csv(path)
    return frame


def test_the_study_writes_the_arm_and_its_share_and_reads_the_curve(behaghel, tmp_path):
    truth = write_file(tmp_path / "behaghel.csv.bz2")
    log = behaghel.read_log(tmp_path / "behaghel.csv.bz2")
    assert (log["provider"] == np.where(truth["A_public"], "public", "private")).all()
    assert not {"sw", "A_public", ""} & {*log}
    shares = behaghel.add_shares(log, ["mois_saisie_occ"])
    for (_, provider), part in shares.groupby(["mois_saisie_occ", "provider"]):
        of_month = truth["mois_saisie_occ"].isin(part["mois_saisie_occ"])
        assert part["p"].to_numpy() == pytest.approx(truth.loc[of_month, f"A_{provider}"].mean())
    rows = pd.DataFrame(behaghel.rows_of("arm by month", behaghel.learn(shares, "arm by month")))
    [verdict] = rows[rows["part"] == "verdict"].to_dict("records")
    assert verdict["verdict"] == "better"
    assert 0 < verdict["bound"] < verdict["value"] < 60
    curve = rows[rows["part"] == "sensitivity"]
    assert (np.diff(curve["value"]) <= 1e-9).all()
    assert (curve["bound"][curve["x"] < 0.9 * verdict["sensitivity"]] > 0).all()
    assert 0 < verdict["breakeven_shift"] <= 3
    assert list(behaghel.summary(rows)["verdict"]) == ["better"]
