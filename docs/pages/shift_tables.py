"""Table of losses on shifted test sets."""

from __future__ import annotations

from pages.published import losses
from pages.reference_pages import format_table

SHIFTED_SETS = {  # label, factor of the loss, and digits
    "digits": ("Digits, labels", 1, 3),
    "scene": ("Scene, labels", 1, 3),
    "digits_single": ("Digits, %", 100, 1),
    "satimage": ("Satimage, %", 100, 1),
    "pendigits": ("Pendigits, %", 100, 1),
}
TESTS = ("environment_shift_today", "environment_shift")
ALGORITHMS = ("logging", "snips", "shift_snips", "dr", "kl_dro_dr")


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
