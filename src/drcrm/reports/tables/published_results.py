"""Comparison of our results with the paper's tables and the public POEM code, with differences in data and protocol."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm.reports.roles import LOGGING, REFERENCE, SKYLINE, WITHOUT_HYPERPARAMETER
from drcrm.reports.tables.plan import Plan
from drcrm.selection.score_names import SCORES

CELL = ["metric", "paper_dataset", "algorithm"]
FOLDER = Path(__file__).parent / "data"
COMPARISON = ["metric", "dataset", "algorithm", "selection", "paper_dataset", "paper", "ours", "difference"]
COMPARISON += ["standard_error", "difference_in_errors", "n_seeds", "code", "code_standard_error"]
COMPARISON += ["code_difference_in_errors", "differs"]

PAPER = {  # protocol of the paper
    "replay_count": 4,
    "logging_fraction": 0.05,
    "logging_c": 0.1,
    "logging_sharpness": 1,
    "heldout_fraction": 0.25,
    "split_unit": "context",
    "absent_label_score": "logged",
    "variance_penalty_scale": "unit",
    "selection": "IPS",
}
CODE = {  # protocol of the public code
    **PAPER,
    "split_unit": "row",
    "absent_label_score": "half",
    "variance_penalty_scale": "calibrated",
    "stopping": "public_code",  # the paper's text does not mention it
    "selection": "SNIPS",
}


def differences(ours: Mapping, theirs: Mapping, source: str, algorithm: str) -> list[str]:
    """Return the differences between two protocols that concern an algorithm, in words."""
    words = {  # option → sentence, and whether it concerns the algorithm
        "replay_count": ("replay count {}, {}: {}", True),
        "logging_fraction": ("π0 trained on {:.3g} of the contexts, {}: {:.3g}", algorithm != SKYLINE),
        "logging_c": ("π0 with C = {:g}, {}: {:g}", algorithm != SKYLINE),
        "logging_sharpness": ("π0's coefficients times {:g}, {}: {:g}", algorithm != SKYLINE),
        "heldout_fraction": ("held out {:.3g}, {}: {:.3g}", algorithm != SKYLINE),
        "split_unit": ("held out by {}, {}: by {}", algorithm != SKYLINE),
        "selection": ("chosen by {}, {}: {}", algorithm not in WITHOUT_HYPERPARAMETER),
        "absent_label_score": ("labels absent from π0's contexts: {}, {}: {}", algorithm == LOGGING),
        "variance_penalty_scale": ("scale of λ: {}, {}: {}", algorithm == REFERENCE),
        "stopping": ("stopping: {}, {}: {}", algorithm not in (LOGGING, SKYLINE)),
    }
    return [
        sentence.format(ours[key], source, theirs[key])
        for key, (sentence, concerns) in words.items()
        if concerns and key in theirs and ours[key] != theirs[key]
    ]


def published(name: str, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return the first row of a published table for each metric, data set and algorithm, with renamed columns."""
    table = pd.read_csv(FOLDER / f"{name}.csv").rename(columns={"dataset": "paper_dataset"})
    return table.drop_duplicates(CELL)[[*CELL, *columns]].rename(columns=columns)


def paper_comparison(tables: Mapping[str, pd.DataFrame], plan: Plan) -> pd.DataFrame:
    """Compare each cell of the loss tables with the paper, and with the public code if it has the cell.

    Returns
    -------
    DataFrame
        One row per metric, data set, algorithm and selection. ``difference_in_errors`` is the difference from the paper
        in our standard errors, ``code_difference_in_errors`` that from the public code in joint standard errors.
        ``differs`` lists differences in data and protocol.
    """
    ours = pd.concat([table.assign(metric=metric) for metric, table in tables.items()], ignore_index=True)
    ours = ours[ours["dataset"].isin(plan.papers)].rename(columns={"mean": "ours"})
    ours["paper_dataset"] = [plan.papers[name][0] for name in ours["dataset"]]
    code = published("reference_code", {"mean": "code", "standard_error": "code_standard_error"})
    table = ours.merge(published("paper_tables", {"value": "paper"}), on=CELL).merge(code, "left", on=CELL)
    errors, code_difference = table["standard_error"], table["ours"] - table["code"]
    table["difference"] = table["ours"] - table["paper"]
    table["difference_in_errors"] = table["difference"] / errors
    table["code_difference_in_errors"] = code_difference / np.hypot(errors, table["code_standard_error"])
    table["differs"] = [_differs(row, plan) for row in table.to_dict("records")]
    return table.reindex(columns=COMPARISON)


def _differs(row: Mapping, plan: Plan) -> str:
    """Return the differences of a cell in data and protocol, in words."""
    ours = {"replay_count": plan.counts[0], **plan.protocol, "selection": SCORES[row["selection"]]}
    words = [plan.papers[row["dataset"]][1], *differences(ours, PAPER, "the paper's text", row["algorithm"])]
    if not np.isnan(row["code"]):
        words += differences(ours, CODE, "the public code", row["algorithm"])
    return "; ".join(filter(None, words))
