"""How often does `learn` with blocks say *better* about faulty logs in which no policy can be better?

The logs are those of the study `null_verdicts`, with its kinds of faults. A single algorithm, `kl_dro_dr` with one
radius, replaces the default ones. In the kind *learned from*, the verdict is that of `evaluate_policy`, which knows no
blocks. By hand, `--options '{"validations": ["blocks", "holdout"]}'` compares both.

The table has a row per kind and validation, with the columns of the study `null_verdicts`. Log number s of each kind
has seed s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import null_verdicts
import pandas as pd
from block_power import ALGORITHM
from cells import verdict_table
from null_verdicts import KINDS, verdict

from drcrm.mapping.checks import BLOCKS

KEYS = ["log", "validation"]


def measure(
    repetition: int, kinds: Sequence[str] = KINDS, validations: Sequence[str] = (BLOCKS,)
) -> Iterator[dict[str, object]]:
    """Yield a row per kind of log and validation."""
    for kind in kinds:
        for validation in validations:
            name = verdict(kind, repetition, algorithm=ALGORITHM, validation=validation)
            yield {"log": kind, "validation": validation, "verdict": name}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares by kind of log and validation."""
    return null_verdicts.tabulate(rows, KEYS)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    return verdict_table(table, KEYS)
