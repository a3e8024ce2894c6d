"""How often do policy trees show a gain on logs in which no policy can be better, and do intervals by leaf hold?

The logs are those of the study `null_verdicts` without a fault. `learn --readable` compares the tree and the best
single action on held-out rows, or in blocks. Rewards do not depend on actions, so the true gain is 0 in every leaf.

The table has a row per validation: the number of ``logs``, the share of logs with the verdict *better*, the p-value of
a one-sided binomial test that this share is more than 5 %, the share of logs whose answer has leaves (``leaves``), and
among these the share in which all intervals contain 0 (``covered``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from cells import means, number, table_of
from null_verdicts import ALLOWED, draw_log, mapping
from scipy.stats import binom

import drcrm

VALIDATIONS = ("holdout", "blocks")


def measure(repetition: int, validations: tuple[str, ...] = VALIDATIONS) -> Iterator[dict[str, object]]:
    """Yield a row per validation."""
    frame = draw_log("none", np.random.default_rng([0, repetition]))
    for validation in validations:
        answer = drcrm.learn(frame, mapping("none"), readable=True, validation=validation, seed=repetition)
        differences = [leaf["difference"] for leaf in answer.as_dict().get("leaves") or []]
        ends = [(part["low"], part["high"]) for part in differences if part["low"] is not None]
        covered = all(low <= 0 <= high for low, high in ends) if ends else np.nan
        yield {"validation": validation, "better": answer.is_better, "leaves": bool(ends), "covered": covered}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares by validation."""
    table = means(rows, ["validation"])
    return table.assign(p_value=binom.sf((table["better"] * table["logs"]).round() - 1, table["logs"], ALLOWED))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return how often a gain was shown, and how often all intervals by leaf contain 0."""
    counts = (table["better"] * table["logs"]).round().astype(int).astype(str)
    shares = [table["leaves"].map(number), table["covered"].map(number)]
    cells = zip(table["validation"], table["logs"].astype(str), counts, *shares, strict=True)
    return table_of(("validation", "logs", "*better*", "with leaves", "all intervals hold"), cells)
