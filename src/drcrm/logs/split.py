"""What is held out of a log."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from .records import Records


def held_out(records: Records, seed: int = 0) -> np.ndarray:
    """Return which rows are held out, a mask (n,): a share of the units, at least one and not all.

    A unit is a group, where the log has groups, else a context; of "last 25 %" those that appear last in the file.

    Parameters
    ----------
    records : Records
    seed : int
        Of what is drawn.

    Raises
    ------
    InputError
        A log of a single unit.
    """
    kind, share = records.mapping.split_rule
    by_group = records.groups is not None
    _, first, unit = np.unique(records.groups if by_group else records.context, return_index=True, return_inverse=True)
    if len(first) < 2:
        raise InputError(f"the log has a single {'group' if by_group else 'context'}, of which nothing can be held out")
    order = np.argsort(first) if kind == "last" else np.random.default_rng(seed).permutation(len(first))
    many = int(np.clip(round(share * len(first)), 1, len(first) - 1))
    held = np.zeros(len(first), dtype=bool)
    held[order[-many:]] = True
    return held[unit]
