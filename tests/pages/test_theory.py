"""Numbers of docs/paper/theory.md in the committed results of the lemmas."""

from __future__ import annotations

import numpy as np
import pandas as pd
from page_numbers import ROOT, numbers


def test_what_akl_crm_adds_at_the_radius_of_lemma_1():
    pattern = "aKL-CRM adds # % less .{,50}light tail, # % less with a tail downwards, and # % more with a tail upwards"
    rows = pd.read_csv(ROOT / "docs/results/theory_lemma5_digits.csv.gz")
    expected = []
    for tail, sign in [("light", -1), ("left", -1), ("right", 1)]:
        part = rows[rows["tail"] == tail].sort_values("radius")
        added = np.interp(np.log(part["calibrated"].iloc[0]), np.log(part["radius"]), part["premium"])
        expected.append(round(100 * sign * (added - 1)))
    assert numbers("docs/paper/theory.md", pattern) == expected
