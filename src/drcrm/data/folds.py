"""Units of dependent rows, which folds and the held-out rows keep together, and the order of rows in time."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import first_equal_rows
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

MOST = 2**19  # held-out units; a verdict does not need more
DAY = 86_400_000_000  # microseconds
LEAST_PERIODS = 12  # weeks or days, if blocks end where these end
FIRST_BLOCK = 0.25  # share of the units from which the first policy is learned


def draw_folds(units: np.ndarray, folds: int) -> np.ndarray:
    """Return a random fold for each row, (n,); all rows of a unit are in the same fold.

    Parameters
    ----------
    units : array (n,)
        Unit of each row.
    folds : int
        Number of folds; at most the number of units.
    """
    _, unit = np.unique(units, return_inverse=True)
    return (np.random.default_rng(0).permutation(unit.max() + 1) % folds)[unit]


def row_folds(log: BanditLog, folds: int) -> np.ndarray:
    """Return a random fold for each row, (n,), which keeps the units of the log together."""
    return draw_folds(log.unit_numbers, folds)


def context_folds(log: BanditLog, folds: int | np.ndarray) -> np.ndarray:
    """Return a random fold for each context, (m,), numbered from 0 without gaps.

    Folds keep the units of the log together. If rows of several units share a context, the first row decides on its
    fold: :func:`separate_units` gives them contexts of their own. ``folds`` is their number, or the fold of each row.
    """
    of_rows = row_folds(log, folds) if isinstance(folds, int) else folds
    fold = np.zeros(log.n_contexts, dtype=int)
    fold[log.context[::-1]] = of_rows[::-1]
    return np.unique(fold, return_inverse=True)[1]


def separate_units(log: BanditLog) -> tuple[BanditLog, np.ndarray | None]:
    """Return a log with one context for each pair of a context and a unit, and the old context of each new one.

    All rows of a context are then in one fold. Label vectors may have context effects, so their contexts with equal X
    count as one context. Results thus do not depend on how X is stored. A log that already has one context for each
    pair is returned as it is, with None.
    """
    if log.units is None:
        contexts, context = log.context, np.arange(len(log.Y))
        is_separate = np.bincount(log.context).max() == 1
    else:
        stored = first_equal_rows(log.X)[log.context] if log.actions.prefers_context_effects else log.context
        pairs, context = np.unique(np.column_stack([stored, log.units]), axis=0, return_inverse=True)
        contexts = pairs[:, 0]
        is_separate = np.array_equal(stored, log.context) and np.diff(contexts).all()
    if is_separate:
        return log, None
    actions, X = log.actions.select(contexts, log.X)
    return log.subset(slice(None), context.ravel(), X, actions), contexts


def training_parts(log: BanditLog, fold: np.ndarray, most: int | None = None) -> Iterator[BanditLog]:
    """Yield for each fold the log of the contexts outside it; the whole log if these have no rows.

    Parameters
    ----------
    log : BanditLog
    fold : int array (m,)
        Fold of each context.
    most : int, optional
        A part has at most this many contexts, drawn at random.
    """
    order = np.random.default_rng(1).permutation(log.n_contexts)
    for number in range(fold.max() + 1):
        is_training = np.zeros(log.n_contexts, dtype=bool)
        is_training[order[fold[order] != number][:most]] = True
        count = log.count * is_training[log.context]
        yield log.recount(count if count.any() else log.count)


def merge_folds(fold: np.ndarray, actions: Actions, of_fold: Callable[[int], np.ndarray]) -> np.ndarray:
    """Return values of m contexts in the shape of scores or effects.

    ``of_fold(k)`` gives values of all contexts, of which those of fold k are used.
    """
    merged: Any = 0.0
    for number in np.unique(fold).tolist() or [0]:  # without contexts, values of any fold have the right shape
        merged = np.where(actions.broadcast(fold == number), of_fold(number), merged)
    return merged


def join_units(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the smallest units, (n,), that keep rows together which share a value of either array."""
    (_, rows), (_, columns) = (np.unique(values, return_inverse=True) for values in (first, second))
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns + rows.max() + 1)), (2 * len(rows), 2 * len(rows)))
    return sparse.csgraph.connected_components(graph, directed=False)[1][rows]


def ranks(time: np.ndarray) -> np.ndarray:
    """Return the place of each row in the order of time, (n,); ties are in file order."""
    return np.argsort(np.argsort(time, kind="stable"))


def _first_places(unit: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return the place of each unit's first row in the order of time, for units that are numbered without gaps."""
    first = np.full(unit.max() + 1, len(unit))
    np.minimum.at(first, unit, ranks(time))
    return first


def number_blocks(
    units: np.ndarray,
    blocks: int,
    time: np.ndarray | None = None,
    seed: Any = 0,
    first: float = FIRST_BLOCK,
    period: Callable[[np.ndarray], np.ndarray] = np.zeros_like,
) -> np.ndarray:
    """Return the block of each row, (n,): 0 for the first block, and 1 to ``blocks`` for those that share the rest.

    Parameters
    ----------
    units : array (n,)
        Ids of units whose rows are in the same block.
    blocks : int
        Number of blocks after the first one.
    time : array (n,), optional
        Times of the rows: a unit is in the block of its first row. By default, units have a random order.
    seed : int or Generator
        Seed of the random order.
    first : float
        Share of the units in the first block.
    period : callable
        Function of sorted times that gives the number of each time's period, such as :func:`calendar_periods`. Blocks
        end where periods end, as near as possible to equal blocks.

    Raises
    ------
    InputError
        If there are too few units for the blocks.
    """
    _, unit = np.unique(units, return_inverse=True)
    n_units = unit.max() + 1
    n_first = math.ceil(first * n_units)
    if n_units - n_first < blocks:
        raise InputError(f"{blocks} blocks need more units than {n_units}: choose fewer blocks")
    starts = n_first + np.ceil(np.arange(blocks) * (n_units - n_first) / blocks).astype(int)
    if time is None:
        ordered = np.random.default_rng(seed).permutation(n_units)
    else:
        first_places = _first_places(unit, time)
        ordered = np.argsort(first_places)
        starts = _move_to_periods(starts, np.sort(time)[first_places[ordered]], period)
    block = np.zeros(n_units, dtype=int)
    block[ordered] = np.searchsorted(starts, np.arange(n_units), side="right")
    return block[unit]


def _move_to_periods(starts: np.ndarray, time: np.ndarray, period: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the nearest starts at which a period begins, for sorted times; the same starts if two would meet."""
    begins = np.flatnonzero(np.diff(period(time))) + 1
    if not len(begins):
        return starts
    moved = begins[np.abs(begins[:, None] - starts).argmin(axis=0)]
    return moved if (np.diff(moved) > 0).all() else starts


def calendar_periods(time: np.ndarray) -> np.ndarray:
    """Return the numbers of weeks that begin on Mondays, or of days if there are fewer than 12 weeks, (n,).

    With fewer than 12 days, all times are in one period. Times are in microseconds since 1970, in UTC.
    """
    day = np.floor_divide(time, DAY).astype(np.int64)
    week = (day + 3) // 7  # 1 January 1970 was a Thursday
    for period in (week, day):
        if np.ptp(period) + 1 >= LEAST_PERIODS:
            return period
    return np.zeros(len(time), dtype=np.int64)


def held_out(log: BanditLog, seed: int = 0) -> np.ndarray:
    """Return the held-out rows, a mask (n,): a share of the units, at least one, not all, and at most 2¹⁹.

    A unit is a group, or a row if the log has no groups. "last 25 %" holds out the units that appear last, by
    time or in the file.

    Parameters
    ----------
    log : BanditLog
        Log of a reader.
    seed : int
        Seed of the draw.

    Raises
    ------
    InputError
        If the log has a single unit.
    """
    kind, share = log.description.mapping.split_rule
    unit = log.unit_numbers
    first = np.unique(unit, return_index=True)[1]
    if len(first) < 2:
        name = "row" if log.column("groups") is None else "group"
        raise InputError(f"the log has a single {name}, expected at least two: one is held out")
    if kind == "last" and (time := log.column("time")) is not None:
        first = _first_places(unit, time)
    order = np.argsort(first) if kind == "last" else np.random.default_rng(seed).permutation(len(first))
    n_heldout = int(np.clip(round(share * len(first)), 1, min(len(first) - 1, MOST)))
    is_heldout = np.zeros(len(first), dtype=bool)
    is_heldout[order[-n_heldout:]] = True
    return is_heldout[unit]
