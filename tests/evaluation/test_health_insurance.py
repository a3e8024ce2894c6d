"""Groups, heavy tails, shift and sensitivity on a real log: the RAND Health Insurance Experiment of statsmodels.

It assigned families at random to plans by site, and followed each person for 3 or 5 years. An action is the plan's
coinsurance, none, low or high. Costs are medical expenses in dollars, or visits to a doctor. Sites 1 and 2 have 2396
persons with 8498 years.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels
from statsmodels.regression.linear_model import WLS

from drcrm import BanditLog, off_policy_value

FILE = Path(statsmodels.__file__).parent / "datasets/randhie/src/randhie.csv"
NONE, LOW, HIGH = range(3)
MOSTLY_HIGH = np.array([0.1, 0.1, 0.8])


@pytest.fixture(scope="module")
def years() -> pd.DataFrame:
    """A row per person and year, with the plan and its share of the persons of the site."""
    if not FILE.exists():
        pytest.skip(f"statsmodels has no {FILE.name}")
    rows = pd.read_csv(FILE).query("site <= 2")
    rows["action"] = np.select([rows["coins"] == 0, rows["coins"] <= 50], [NONE, LOW], HIGH)
    persons = rows.drop_duplicates("zper").groupby("site")["action"].value_counts(normalize=True)
    rows["p"] = persons.loc[list(zip(rows["site"], rows["action"], strict=True))].to_numpy()
    return rows.reset_index(drop=True)


def read_log(years: pd.DataFrame, cost: str = "mdvis", most: float = np.inf) -> BanditLog:
    features = years[["xage", "female", "disea", "linc"]].to_numpy()
    columns = years["action"], years["p"], years[cost].clip(upper=most).astype(float)
    return BanditLog(np.column_stack([features, np.ones(len(years))]), *map(np.asarray, columns), n_actions=3)


def policy_of(years: pd.DataFrame) -> np.ndarray:
    return np.tile(MOSTLY_HIGH, (len(years), 1))


@pytest.mark.parametrize("cost", ["mdvis", "meddol"])
def test_estimates_and_errors_of_persons_equal_a_clustered_regression(years, cost):
    """SNIPS is weighted least squares on a constant; its errors are those of statsmodels, clustered by person."""
    log, person = read_log(years, cost), years["zper"].to_numpy()
    weight = MOSTLY_HIGH[log.Y] / log.propensity
    fit = WLS(log.cost, np.ones(len(log.cost)), weights=weight).fit(
        cov_type="cluster", cov_kwds={"groups": person, "use_correction": True}
    )
    by_person = off_policy_value(policy_of(years), log, "snips", groups=person)
    assert by_person == pytest.approx(fit.params[0], rel=1e-10)
    assert by_person.standard_error == pytest.approx(fit.bse[0], rel=1e-6)
    by_year = off_policy_value(policy_of(years), log, "snips")
    assert by_year == pytest.approx(by_person, rel=1e-12)
    assert by_person.standard_error > 1.1 * by_year.standard_error
