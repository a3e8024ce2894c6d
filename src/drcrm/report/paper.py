"""Our cells beside those of the paper and of the public POEM code, and in words where data or protocol differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..core.names import SCORES
from ..roles import LOGGING, REFERENCE, SKYLINE, UNCHOSEN

COMPARISON = ["metric", "dataset", "algorithm", "selection", "paper_dataset", "paper", "ours", "difference"]
COMPARISON += ["standard_error", "difference_in_errors", "n_seeds", "code", "code_standard_error"]
COMPARISON += ["code_difference_in_errors", "differs"]


@dataclass(frozen=True)
class Protocol:
    """The options of an experiment in which the paper's text and the public POEM code differ."""

    replay_count: int
    split_unit: str
    logging_c: float
    absent_label_score: str
    variance_penalty_scale: str

    def differences(self, data: str, algorithm: str, selection: str, other: Protocol, by: str, whose: str) -> list[str]:
        """Say in words where a cell's data or protocol differ from another's: its protocol, selection and name."""
        pairs = {  # in words: ours, theirs, and whether they concern the algorithm
            "replay count {}, {}: {}": (self.replay_count, other.replay_count, True),
            "π0 with C = {:g}, {}: {:g}": (self.logging_c, other.logging_c, algorithm != SKYLINE),
            "held out by {}, {}: by {}": (self.split_unit, other.split_unit, algorithm != SKYLINE),
            "chosen by {}, {}: {}": (SCORES[selection], SCORES[by], algorithm not in UNCHOSEN),
            "labels absent from π0's contexts: {}, {}: {}": (
                self.absent_label_score,
                other.absent_label_score,
                algorithm == LOGGING,
            ),
            "scale of λ: {}, {}: {}": (
                self.variance_penalty_scale,
                other.variance_penalty_scale,
                algorithm == REFERENCE,
            ),
        }
        differing = [
            words.format(ours, whose, theirs)
            for words, (ours, theirs, concerned) in pairs.items()
            if concerned and ours != theirs
        ]
        return [data, *differing] if data else differing


TEXT = {"split_unit": "context", "absent_label_score": "logged", "variance_penalty_scale": "unit"}
PUBLIC = {"split_unit": "row", "absent_label_score": "half", "variance_penalty_scale": "calibrated"}
PAPER = Protocol(replay_count=4, logging_c=0.1, **TEXT), "ips", "the paper's text"
CODE = Protocol(replay_count=4, logging_c=0.1, **PUBLIC), "snips", "the public code"


def paper_comparison(
    tables: Mapping[str, pd.DataFrame],
    paper: pd.DataFrame,
    code: pd.DataFrame,
    stands_for: Mapping[str, tuple[str, str]],
    protocol: Protocol,
) -> pd.DataFrame:
    """Put each cell beside the paper's, and the public code's where there is one: a row per (metric, dataset, …).

    Parameters
    ----------
    tables : metric → loss table
    paper, code : DataFrame
        Cells of the paper, which come without errors, and of the public code.
    stands_for : data set → (the paper's data set, how the data differ)

    Returns
    -------
    DataFrame
        ``difference`` and ``difference_in_errors`` are to the paper's cell, the second in our standard errors;
        ``code_difference_in_errors`` is in joint ones. ``differs`` says where data or protocol are not the same.
    """
    rows = []
    for metric, table in tables.items():
        for row in table[table["dataset"].isin(stands_for)].to_dict("records"):
            theirs, data = stands_for[row["dataset"]]
            cell = {"metric": metric, "dataset": theirs, "algorithm": row["algorithm"]}
            printed, known = _find(paper, cell), _find(code, cell)
            if printed is not None:
                ours = data, row["algorithm"], row["selection"]
                differs = protocol.differences(*ours, *PAPER)
                if known is not None:
                    differs += [words for words in protocol.differences(*ours, *CODE) if words != data]
                beside = _beside_paper(row, printed) | (_beside_code(row, known) if known is not None else {})
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
