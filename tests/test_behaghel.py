"""The study of the jobseekers' programme: on a synthetic file in its format, and on the real file of a mirror."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
MIRROR = Path(os.environ.get("MIRROR", ROOT.parent / "shared/data"))


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
