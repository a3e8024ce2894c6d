"""Numbers on docs/user-guide/jobseekers.md come from docs/results/behaghel.csv."""

import pandas as pd
import pytest
from page_numbers import check_claims, page_text, rounded
from pages.published import study

PAGE = "docs/user-guide/jobseekers.md"


@pytest.fixture(scope="module")
def verdicts() -> pd.DataFrame:
    rows = study("behaghel")
    return rows[rows["part"] == "verdict"].set_index("propensities")


def test_sentences_on_verdicts_and_gains(verdicts):
    assert verdicts["verdict"].tolist() == ["the log is wrong"] * 2 + ["better"] * 2
    strata, estimated = (verdicts.loc[kind] for kind in ("arm by month, unit", "estimated"))
    table = r"\| better \| # \| # \| # \|"
    first = rf"local unit {table}"
    values = [[*rounded(row[["value", "bound"]], 1), round(row["sensitivity"], 2)] for row in (strata, estimated)]
    check_claims(
        PAGE,
        {
            "within six months: # % of the held-out rows": rounded([strata["logging"]], 1),
            first: values[0],
            rf"auto` {table}": values[1],
            r"The gain\*\* is # percentage points on the # held-out rows, and at least # with": [
                *(values[0][0], 8449.0, values[0][1]),
            ],
            r"Γ\* = #: if the odds of the propensities are off by more than # %": [
                values[0][2],
                round(100 * values[0][2] - 100),
            ],
        },
    )
    exponents = [int(verdicts.loc[kind, "audit"]) for kind in ("arm", "arm by month")]
    assert [f"10^{exponent}" for exponent in exponents] == ["10^74", "10^10"]
    assert all(f"10^{exponent}" in page_text(PAGE) for exponent in exponents)


def test_sentences_on_shift(verdicts):
    radius = verdicts.loc["arm by month, unit", "breakeven_shift"]
    lost = 100 - verdicts.loc["arm by month, unit", "logging"]
    check_claims(
        PAGE,
        {
            r"κ\* = #: up to this radius": [round(radius, 2)],
            "the comparison ends: # % of the held-out jobseekers": [round(lost, 1)],
        },
    )
