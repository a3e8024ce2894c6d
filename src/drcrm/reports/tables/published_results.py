"""Our cells beside those of the paper and of the public POEM code, and in words where data or protocol differ."""

from collections.abc import Mapping
from importlib.resources import files

import numpy as np
import pandas as pd

from drcrm.reports.roles import LOGGING, REFERENCE, SKYLINE, WITHOUT_HYPERPARAMETER
from drcrm.reports.tables.plan import Plan
from drcrm.selection.score_names import SCORES

COMPARISON = ["metric", "dataset", "algorithm", "selection", "paper_dataset", "paper", "ours", "difference"]
COMPARISON += ["standard_error", "difference_in_errors", "n_seeds", "code", "code_standard_error"]
COMPARISON += ["code_difference_in_errors", "differs"]


PAPER = {  # by option; these are the protocol of an experiment, with the score that chose
    "replay_count": 4,
    "logging_c": 0.1,
    "split_unit": "context",
    "absent_label_score": "logged",
    "variance_penalty_scale": "unit",
    "selection": "IPS",
}
CODE = {
    **PAPER,
    "split_unit": "row",
    "absent_label_score": "half",
    "variance_penalty_scale": "calibrated",
    "selection": "SNIPS",
}


def differences(ours: Mapping, theirs: Mapping, whose: str, algorithm: str) -> list[str]:
    """Say in words where the protocol of an algorithm's cell differs from another's."""
    words = {  # and whether they concern the algorithm
        "replay_count": ("replay count {}, {}: {}", True),
        "logging_c": ("π0 with C = {:g}, {}: {:g}", algorithm != SKYLINE),
        "split_unit": ("held out by {}, {}: by {}", algorithm != SKYLINE),
        "selection": ("chosen by {}, {}: {}", algorithm not in WITHOUT_HYPERPARAMETER),
        "absent_label_score": ("labels absent from π0's contexts: {}, {}: {}", algorithm == LOGGING),
        "variance_penalty_scale": ("scale of λ: {}, {}: {}", algorithm == REFERENCE),
    }
    differing = [key for key, (_, concerned) in words.items() if concerned and ours[key] != theirs[key]]
    return [words[key][0].format(ours[key], whose, theirs[key]) for key in differing]


def published() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells of the paper, which come without errors, and of the public code, run elsewhere."""
    paper, code = (pd.read_csv(files(__package__) / f"data/{name}.csv") for name in ("paper_tables", "reference_code"))
    return paper, code


def paper_comparison(tables: Mapping[str, pd.DataFrame], plan: Plan) -> pd.DataFrame:
    """Put each cell of the loss tables beside the paper's, and the public code's where there is one.

    Returns
    -------
    DataFrame
        A row per (metric, dataset, …). ``difference`` and ``difference_in_errors`` are to the paper's cell, the second
        in our standard errors; ``code_difference_in_errors`` is in joint ones. ``differs`` says where data or protocol
        are not the same.
    """
    (paper, code), rows = published(), []
    for metric, table in tables.items():
        for row in table[table["dataset"].isin(plan.papers)].to_dict("records"):
            theirs, data = plan.papers[row["dataset"]]
            cell = {"metric": metric, "dataset": theirs, "algorithm": row["algorithm"]}
            printed, known = _find(paper, cell), _find(code, cell)
            if printed is None:
                continue
            ours = {"replay_count": plan.counts[0], **plan.protocol, "selection": SCORES[row["selection"]]}
            differs = [data] if data else []
            differs += differences(ours, PAPER, "the paper's text", row["algorithm"])
            beside = _beside_paper(row, printed)
            if known is not None:
                differs += differences(ours, CODE, "the public code", row["algorithm"])
                beside |= _beside_code(row, known)
            rows.append({"metric": metric, "paper_dataset": theirs, **beside, "differs": "; ".join(differs)})
    return pd.DataFrame(rows, columns=COMPARISON)


def _beside_paper(row: Mapping, printed: Mapping) -> dict[str, object]:
    """Our cell, and its difference to the printed one in labels and in our standard errors."""
    difference = row["mean"] - printed["value"]
    return {
        **{name: row[name] for name in ("dataset", "algorithm", "selection", "standard_error", "n_seeds")},
        "paper": printed["value"],
        "ours": row["mean"],
        "difference": difference,
        "difference_in_errors": difference / row["standard_error"],
    }


def _beside_code(row: Mapping, known: Mapping) -> dict[str, float]:
    """The public code's cell, and our difference to it in joint standard errors."""
    joint = np.hypot(row["standard_error"], known["standard_error"])
    return {
        "code": known["mean"],
        "code_standard_error": known["standard_error"],
        "code_difference_in_errors": (row["mean"] - known["mean"]) / joint,
    }


def _find(table: pd.DataFrame, key: Mapping[str, str]) -> dict | None:
    """The row of a table with these values, if it has one."""
    rows = table[np.logical_and.reduce([table[name] == value for name, value in key.items()])].to_dict("records")
    return rows[0] if rows else None
