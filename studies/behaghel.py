"""What does drcrm say about a randomised programme, if its propensities are shares of rows, or estimated?

Behaghel, Crépon & Gurgand (2014) assigned 33 797 French jobseekers to public or private counselling. The reward is
re-employment within six months. The file has a column of 0 and 1 for each arm, and no propensities. So the study
writes a column with the name of the arm, and learns by ``drcrm learn`` with four kinds of propensities:

arm                 The share of the arm in all rows.
arm by month        The share of the arm among the rows with the same month of registration.
arm by month, unit  The same by month and by two indicators of the local unit, Interim and Conseil.
estimated           By ``propensity_model: auto``.

The table has two parts. A row of the part "verdict" has the answer with one kind of propensities. ``audit`` is the
log to base 10 of the ratio of likelihoods in the propensity audit. ``value`` is the gain on the held-out rows, and
``bound`` its lower bound with 95 % confidence. ``sensitivity`` is the break-even Γ*, and ``breakeven_shift`` is κ*.

A row of "sensitivity" is a point of a curve, and ``x`` is Γ. ``value`` is the policy's worst mean reward. ``bound`` is
the lower bound of the difference. Rewards and gains are re-employment in percentage points.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import drcrm

ARMS = ("A_public", "A_private", "A_standard")
STRATA: dict[str, list[str]] = {
    "arm": [],
    "arm by month": ["mois_saisie_occ"],
    "arm by month, unit": ["mois_saisie_occ", "Interim", "Conseil"],
}
ESTIMATED = "estimated"
AUDIT = "propensity audit, likelihood ratio"


def read_log(path: Path) -> pd.DataFrame:
    """Return the file with one column for the arm, without the sampling weights."""
    log = pd.read_csv(path, index_col=0)
    provider = log[list(ARMS)].idxmax(axis=1).str.removeprefix("A_")
    return log.drop(columns=[*ARMS, "sw"]).assign(provider=provider)


def add_shares(log: pd.DataFrame, strata: list[str]) -> pd.DataFrame:
    """Return the log with the share of each row's arm in its stratum as the propensity p."""
    rows = log.groupby([*strata, "provider"])["Y"].transform("size")
    return log.assign(p=rows / (log.groupby(strata)["Y"].transform("size") if strata else len(log)))


def mapping(log: pd.DataFrame, kind: str) -> dict:
    """Return the mapping of a kind of propensities."""
    features = {"numeric": [name for name in log if name not in ("provider", "Y", "p")]}
    source = {"propensity": None, "propensity_model": "auto"} if kind == ESTIMATED else {"propensity": "p"}
    return {"action": "provider", "reward": "Y", "features": features} | source


def learn(log: pd.DataFrame, kind: str) -> dict:
    """Return the answer of ``drcrm learn``."""
    return drcrm.learn(log, mapping(log, kind)).as_dict()


def rows_of(kind: str, answer: dict) -> list[dict]:
    """Return the rows of an answer. Costs are negated rewards."""
    key = {"propensities": kind}
    [audit] = [check["value"] for check in answer["diagnostics"] if check["name"] == AUDIT] or [np.nan]
    result = {"part": "verdict", "verdict": answer["verdict"]["verdict"], "audit": audit, "kept": answer["kept"]}
    result |= {"logging": -100 * answer["logging"]["value"]}
    if answer["verdict"]["verdict"] != "better":
        return [key | result]
    [difference] = [row["difference"] for row in answer["candidates"] if row["name"] == answer["kept"]]
    result |= {"value": -100 * difference["value"], "bound": -100 * difference["bound"]}
    breakevens = {"sensitivity": answer["sensitivity"]["breakeven"], "breakeven_shift": answer["breakeven_shift"]}
    rows = [key | result | breakevens]
    for gamma, worst, bound in answer["sensitivity"]["curve"]:
        rows.append(key | {"part": "sensitivity", "x": gamma, "value": -100 * worst, "bound": -100 * bound})
    return rows


def measure(repetition: int, resources: Path) -> Iterator[dict]:
    """Yield the rows of all parts."""
    log = read_log(resources / "behaghel.csv.bz2")
    for kind in (*STRATA, ESTIMATED):
        yield from rows_of(kind, learn(log if kind == ESTIMATED else add_shares(log, STRATA[kind]), kind))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the verdicts."""
    return table[table["part"] == "verdict"].dropna(axis=1, how="all").drop(columns="part")
