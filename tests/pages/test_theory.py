"""Numbers of docs/paper/theory.md in the committed results of the lemmas."""

import numpy as np
import pandas as pd
from page_numbers import ROOT, numbers

from drcrm.certificates import upper_bound


def test_what_akl_crm_adds_at_the_radius_of_lemma_1():
    pattern = "aKL-CRM adds # % less .{,50}light tail, # % less with a tail downwards, and # % more with a tail upwards"
    rows = pd.read_csv(ROOT / "docs/results/theory_lemma5_digits.csv.gz")
    expected = []
    for tail, sign in [("light", -1), ("left", -1), ("right", 1)]:
        part = rows[rows["tail"] == tail].sort_values("radius")
        added = np.interp(np.log(part["calibrated"].iloc[0]), np.log(part["radius"]), part["premium"])
        expected.append(round(100 * sign * (added - 1)))
    assert numbers("docs/paper/theory.md", pattern) == expected


def test_how_often_bounds_are_ever_false():
    page = "docs/user-guide/every-look.md"
    rows = pd.read_csv(ROOT / "docs/results/theory_anytime_digits.csv.gz")
    last = rows[rows["n"] == rows["n"].max()].set_index(["method", "tail"])["false"]
    student = 100 * last["student"]
    stated = numbers(page, "with # looks at samples growing to # rows, Student's bound .{,30} in # to # % of # samples")
    assert stated == [rows["n"].nunique(), rows["n"].max(), round(student.min()), round(student.max()), 500]
    assert numbers(page, "is false at any look in at most # %") == [round(100 * last["anytime"].max(), 1)]
    assert (rows[rows["method"] == "anytime"].groupby("tail")["low"].max() < 0.05).all()
    table = pd.read_csv(ROOT / "docs/results/anytime.csv").set_index(["kind", "estimate"])
    ratios = {n: table[f"width {n}"] / table[f"ball {n}"] for n in (400, 1000, 3200)}
    assert {(n, *cell) for n, ratio in ratios.items() for cell in ratio.index[ratio > 1]} == {
        (400, "revenue", "ips"),
        (400, "heavy weights", "ips"),
        (400, "groups", "ips, paired"),
        (1000, "heavy weights", "dr, paired"),
    }
    largest = max(ratio.max() for ratio in ratios.values())
    assert numbers(page, "wider than the ball in four cells, by at most # %") == [round(100 * largest - 100)]
    wider = [
        upper_bound([-1.0, 1.0] * (n // 2), method="confidence_sequence")
        / upper_bound([-1.0, 1.0] * (n // 2), method="student")
        for n in (400, 1000, 3200)
    ]
    assert numbers(page, "From 400 to 3200 rows, it is # to # times") == [round(min(wider), 1), round(max(wider), 1)]
