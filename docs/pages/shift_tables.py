"""Tables of the page on environment shift, next to the results that Kallus, Mao, Wang & Zhou (2022) published."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from pages.published import losses, study
from pages.reference_pages import format_table

RADII = (0.1, 0.2, 0.3)
# Mean squared errors × 10⁵ at n = 20 000, by kind of propensities.
EFFICIENCY_BOUND = (1.48, 2.14, 2.96)
EVALUATED = {
    "known": {"SNIPS": (3.6, 4.6, 5.7), "LDR": (1.6, 2.2, 3.0)},
    "estimated": {"SNIPS": (91, 105, 117), "LDR": (6.4, 8.2, 9.4)},
}
SHIFTED_SETS = {  # label, factor of the loss, and digits
    "digits": ("Digits, labels", 1, 3),
    "scene": ("Scene, labels", 1, 3),
    "digits_single": ("Digits, %", 100, 1),
    "satimage": ("Satimage, %", 100, 1),
    "pendigits": ("Pendigits, %", 100, 1),
}
TESTS = ("environment_shift_today", "environment_shift")
ALGORITHMS = ("logging", "snips", "shift_snips", "dr", "kl_dro_dr")


def with_errors(values: Sequence[float], errors: Sequence[float], digits: int) -> list[str]:
    return [f"{value:.{digits}f} ± {error:.{digits}f}" for value, error in zip(values, errors, strict=True)]


def rows_of(n: int, propensities: str, estimate: str) -> pd.DataFrame:
    """Return a row of the study for each κ."""
    rows = study("shift_accuracy").set_index(["n", "propensities", "estimate", "radius"])
    return rows.loc[[(n, propensities, estimate, radius) for radius in RADII]]


def shift_evaluation() -> str:
    """Return mean squared errors of estimates of R_κ at n = 20 000, × 10⁵."""
    lines = [("known", "efficiency bound", "–", *map(str, EFFICIENCY_BOUND))]
    for kind, published in EVALUATED.items():
        lines += [(kind, f"{name}, theirs", "30", *map(str, of)) for name, of in published.items()]
        for estimate in ("snips", "dr"):
            rows = rows_of(20_000, kind, estimate)
            name = f"`shift=`, {estimate}"
            lines.append(
                (
                    kind,
                    name,
                    str(rows["logs"].iloc[0]),
                    *with_errors(1e5 * rows["square"], 1e5 * rows["square_error"], 1),
                )
            )
    return format_table(("propensities", "estimate", "logs", *(f"κ = {radius}" for radius in RADII)), lines)


def shift_coverage() -> str:
    """Return the coverage at n = 2000 and 10 000."""
    wanted = {"cost": "R_κ", "difference": "difference of R_κ from π0's", "breakeven": "Γ*"}
    lines = []
    for (kind, estimate), rows in study("shift_coverage").groupby(["kind", "estimate"], sort=False):
        cells = []
        for quantity in wanted:
            shown = rows[rows["quantity"] == quantity].sort_values(["radius", "n"])["coverage"]
            cells.append(" · ".join("–" if pd.isna(value) else f"{value:.3f}" for value in shown))
        lines.append((f"{kind}, {estimate}", *cells))
    return format_table(("costs, estimate", *wanted.values()), lines)


def shifted_tests() -> str:
    """Return mean expected losses on the test sets of today and on shifted ones."""
    lines = []
    for name in ALGORITHMS:
        cells = []
        for data, (_, factor, digits) in SHIFTED_SETS.items():
            means = [factor * losses(experiment, data, name).mean() for experiment in TESTS]
            cells.append(" · ".join(f"{mean:.{digits}f}" for mean in means))
        lines.append(("π0" if name == "logging" else f"`{name}`", *cells))
    return format_table(("policy", *(label for label, _, _ in SHIFTED_SETS.values())), lines)


TABLES = (shift_evaluation, shift_coverage, shifted_tests)
