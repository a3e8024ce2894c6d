"""Comparison of our results with the paper's tables and the public POEM code, with differences in data and protocol."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from drcrm.reports.roles import LOGGING, REFERENCE, SKYLINE, WITHOUT_HYPERPARAMETER
from drcrm.reports.tables.plan import Plan
from drcrm.selection.score_names import SCORES

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


def published() -> tuple[dict[tuple, dict], dict[tuple, dict]]:
    """Return the cells of the paper and of the public code by metric, data set and algorithm."""
    cells: list[Any] = []
    for name in ("paper_tables", "reference_code"):
        table = pd.read_csv(FOLDER / f"{name}.csv").drop_duplicates(["metric", "dataset", "algorithm"])
        cells.append(table.set_index(["metric", "dataset", "algorithm"]).to_dict("index"))
    return cells[0], cells[1]


def paper_comparison(tables: Mapping[str, pd.DataFrame], plan: Plan) -> pd.DataFrame:
    """Compare each cell of the loss tables with the paper, and with the public code if it has the cell.

    Returns
    -------
    DataFrame
        One row per metric, data set, algorithm and selection. ``difference_in_errors`` is the difference from the paper
        in our standard errors, ``code_difference_in_errors`` that from the public code in joint standard errors.
        ``differs`` lists differences in data and protocol.
    """
    (paper, code), rows = published(), []
    for metric, table in tables.items():
        for row in table[table["dataset"].isin(plan.papers)].to_dict("records"):
            paper_dataset, data = plan.papers[row["dataset"]]
            key = metric, paper_dataset, row["algorithm"]
            if key not in paper:
                continue
            ours = {"replay_count": plan.counts[0], **plan.protocol, "selection": SCORES[row["selection"]]}
            differs = ([data] if data else []) + differences(ours, PAPER, "the paper's text", row["algorithm"])
            cells = _compare_with_paper(row, paper[key]["value"])
            if key in code:
                differs += differences(ours, CODE, "the public code", row["algorithm"])
                cells |= _compare_with_code(row, code[key])
            rows.append({"metric": metric, "paper_dataset": paper_dataset, **cells, "differs": "; ".join(differs)})
    return pd.DataFrame(rows, columns=COMPARISON)


def _compare_with_paper(row: Mapping, value: float) -> dict[str, object]:
    """Return our cell and its difference from the paper's, which has no standard error."""
    difference = row["mean"] - value
    return {
        **{name: row[name] for name in ("dataset", "algorithm", "selection", "standard_error", "n_seeds")},
        "paper": value,
        "ours": row["mean"],
        "difference": difference,
        "difference_in_errors": difference / row["standard_error"],
    }


def _compare_with_code(row: Mapping, cell: Mapping) -> dict[str, float]:
    """Return the public code's cell, and our difference from it in joint standard errors."""
    joint_error = np.hypot(row["standard_error"], cell["standard_error"])
    return {
        "code": cell["mean"],
        "code_standard_error": cell["standard_error"],
        "code_difference_in_errors": (row["mean"] - cell["mean"]) / joint_error,
    }
