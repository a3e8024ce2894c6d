"""Check all rows of a log for copies, dependence, repeated contexts and rows that trained a policy, and hash rows.

**Copies.** Rows are copies if they are equal in features, action, propensity and cost more often than by chance. Copies
may be anywhere in the file. Two one-sided tests have independent rows as their null hypothesis. Each test is
conditional on the number of rows with the same features.

agreement    Two independent rows with equal features are equal with probability at most the propensity of the second.
frequencies  Let F_k be the number of distinct rows that occur k times. By the Cauchy–Schwarz inequality,
             E F₃ ≥ ⅔ (E F₂)²/E F₁. A log with copies has fewer rows that occur three times.

**Dependent rows.** Of two independent rows with equal features, the later one has the action of the earlier one with a
probability of at most π0(a|x), its logged propensity if it has this action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import pdtr

from drcrm.arrays.formats import format_number, percent
from drcrm.arrays.mapped_arrays import as_mapped, scratch_path
from drcrm.arrays.tables import Table, join_tables
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import run_in_order
from drcrm.data.folds import join_units
from drcrm.errors import InputError
from drcrm.logs.batches import blocks_of
from drcrm.logs.diagnostics.check import LEVEL, Check, Consequence, worst_level
from drcrm.logs.encoding.base import MATRIX
from drcrm.logs.encoding.columns import canonical_text
from drcrm.logs.read_log import Source, first_frame
from drcrm.logs.readers.base import Columns
from drcrm.logs.row_identity import (
    LearnedRows,
    RecognisedRows,
    RowHashes,
    agreement_p_value,
    hash_codes,
    hash_lists,
    hash_matrix,
    hash_numbers,
    hash_texts,
    mix,
    pair_equal_values,
    round_numbers,
)

IDENTIFY = (
    "Set `id:` to a column with a different value in each row of all logs, or `time:` to the time of the row. "
    "Then learn the policy again."
)
MIN_CONTEXTS, MIN_ROWS_PER_CONTEXT = 20, 5  # of a log with repeated contexts
LEAST_KNOWN, FEW_EQUAL = 0.5, 0.2  # shares of known values, and of values with the features of others
FIRST_ROWS = 50_000  # number of rows in which columns that the mapping does not name are checked
NAME = "independence of rows"


@dataclass(frozen=True)
class RowChecks:
    """Checks of all rows of a log.

    Attributes
    ----------
    hashes : RowHashes
    propensity : array (n,)
        Logged or estimated propensities.
    groups : array (n,) or None
        Ids of independent groups: those of the mapping, joined if they share an id. Without groups, copies
        of a row are a group if the log has any, whether they are rows or counts.
    diagnostics : tuple of Check
    """

    hashes: RowHashes
    propensity: np.ndarray
    groups: np.ndarray | None
    diagnostics: tuple[Check, ...]


def check_repeated_rows(log: BanditLog, path: Source | None = None) -> RowChecks:
    """Check the rows of a log whose X is a table of features, and whose propensities were logged or estimated.

    Columns of the file ``path`` that the mapping does not name may be identifiers of users.
    """
    hashes, groups = hash_log(log), log.column("groups")
    copies_check, copies = check_copies(hashes, log.propensity)
    copies = as_mapped(copies, log.cost)
    if groups is None:
        is_single = copies is None and (log.count != 1).any()
        groups = as_mapped(np.arange(len(log.count)), log.cost) if is_single else copies
    elif copies is not None and hashes.ids is not None:
        groups = as_mapped(join_units(groups, copies), log.cost)
    imitated = log.imitated_propensities
    checks = [copies_check, check_independence(hashes.features, hashes.actions, log.propensity, groups, imitated)]
    if log.column("groups") is None:
        first = log.take(slice(0, FIRST_ROWS))
        checks.append(check_repeated_contexts(hashes.features[:FIRST_ROWS], _unmapped_columns(first, path)))
    return RowChecks(hashes, log.propensity, groups, tuple(filter(None, checks)))


def check_repeated_contexts(features: np.ndarray, columns: Mapping[str, np.ndarray]) -> Check | None:
    """Return None unless contexts repeat and one column, such as a user's id, identifies them.

    Else return a caution: the verdict holds only for these users. Rows that are held out at random have the same users,
    so they cannot show whether the policy suits others.

    Parameters
    ----------
    features : array (n,)
        Hashes of the features of each row.
    columns : mapping of str to integer array (n,)
        Codes of the values of columns, −1 for a missing one; shorter if a column was read in part.
    """
    context = pd.factorize(features)[0]
    n_contexts = context.max(initial=-1) + 1
    if not MIN_CONTEXTS <= n_contexts <= len(context) / MIN_ROWS_PER_CONTEXT:
        return None
    for name, codes in columns.items():
        known = codes >= 0
        code, of_code = pd.factorize(codes[known])[0], context[: len(codes)][known]
        n_codes, n_pairs = code.max(initial=-1) + 1, len(np.unique(code * n_contexts + of_code))
        # A few users may have equal features. Ids of rows and sessions have far more values than there are contexts.
        if known.mean() >= LEAST_KNOWN and n_pairs == n_codes and n_codes <= (1 + FEW_EQUAL) * len(np.unique(of_code)):
            sentence = (
                f"the rows have only {n_contexts} contexts, which `{name}` identifies. If its values are users, the "
                f"verdict holds only for these users; for others, add `group: {name}`"
            )
            return Check(
                "repeated_contexts",
                "caution",
                Consequence.NONE,
                "repeated contexts",
                len(context) / n_contexts,
                f"fewer than {MIN_ROWS_PER_CONTEXT} rows per context",
                sentence,
                "this project",
            )
    return None


def check_recognition(recognised: RecognisedRows, has_ids: bool) -> Check:
    """Return the check of a log with rows that may have trained the policy.

    It fails if the log has such rows, but does not show which. It is a caution if equal rows are no evidence.
    """
    share = recognised.undecided or recognised.equal
    sentence = f"{percent(share, 1)} of the rows {'share their id' if has_ids else 'are equal in features and action'}"
    if recognised.undecided:
        sentence += (
            " with rows that the policy was learned from, and without an `id:` that differs in all rows, the log does "
            "not show which of them are the same rows"
        )
    else:
        sentence += (
            " with rows that the policy was learned from, but new rows may be, too, so drcrm cannot tell whether "
            "they trained the policy. If they did, the results are too good; set `id:` or `time:` to rule this out"
        )
    return _learned_rows("fail" if recognised.undecided else "caution", share, "at most 1 %", sentence)


def check_identity(learned: LearnedRows, propensity: np.ndarray) -> tuple[Check, ...]:
    """Return a caution if later commands will not recognise the rows of this log; nothing if they will."""
    if learned.ids is not None or learned.is_recognisable(propensity):
        return ()
    sentence = (
        "many rows are equal in features and action, so later commands cannot tell the rows of this log from new rows. "
        "Set `id:` to a column with a different value in each row of all logs, or `time:` to the time of the row"
    )
    return (_learned_rows("caution", 1.0, "rows differ", sentence),)


def _learned_rows(level: str, share: float, threshold: str, sentence: str) -> Check:
    name, source = "rows learned from", "this project"
    return Check("learned_rows", level, Consequence.LEARNED_ROWS, name, share, threshold, sentence, source)


def _unmapped_columns(log: BanditLog, path: Source | None) -> dict[str, np.ndarray]:
    """Return codes of the values of the columns that the mapping does not name, −1 for a missing value."""
    if path is None:
        return {}
    mapping, numbers = log.description.mapping, log.column("number")

    def unmapped(header: list[str]) -> Columns:
        return Columns([name for name in header if header.count(name) == 1 and name not in mapping.columns], [])

    try:
        frame = first_frame(path, unmapped, FIRST_ROWS, mapping)
    except (InputError, OSError):  # these columns may contain anything, so errors do not matter
        return {}
    rows = numbers[: np.searchsorted(numbers, len(frame))]
    texts = {name: frame[name].iloc[rows].map(str, na_action="ignore") for name in unmapped([*frame.columns]).names}
    return {name: pd.factorize(values)[0] for name, values in texts.items()}


def hash_log(log: BanditLog) -> RowHashes:
    """Return the hashes of the rows of a log whose X is a table of features, computed block by block."""
    tables = run_in_order(partial(_hash_block, block) for _, block in blocks_of(log))
    return RowHashes(**join_tables(tables, scratch_path(log.cost)).columns)


def _hash_block(log: BanditLog) -> Table:
    features, actions = _hash_features(log.X), hash_actions(log)
    features = log.actions.combine_rows(features, hash_lists)[log.context]
    hashes = {"features": features, "actions": actions, "decisions": mix([features, actions])}
    hashes["rows"] = mix([features, actions, hash_numbers(log.cost)])
    description = log.description
    if not (description.mapping.lacks_propensities if description else log.imitated_propensities):
        hashes["rows"] = mix([hashes["rows"], hash_numbers(log.propensity)])
    time = log.column("time")
    hashes |= {"times": None if time is None else hash_numbers(time), "ids": log.column("ids")}
    return Table(len(log.Y), hashes)


def hash_actions(log: BanditLog) -> np.ndarray:
    """Return the hash of each row's action, (n,): the hash of its name, of its labels, or of its place in a list."""
    if log.description is not None and log.actions.n_classes:
        return hash_texts([canonical_text(str(name)) for name in log.description.names])[log.Y]
    return mix(hash_numbers(column) for column in np.atleast_2d(log.Y.T))


def _hash_features(features: Table) -> np.ndarray:
    """Return the hash of each row's features, (n,)."""
    if MATRIX in features.columns:
        return hash_matrix(features.columns[MATRIX])
    if not features.columns:
        return np.zeros(features.size, dtype=np.uint64)
    return mix(
        hash_codes(column, features.values[name], canonical_text)
        if name in features.values
        else hash_numbers(round_numbers(column))
        for name, column in features.columns.items()
    )


def check_copies(hashes: RowHashes, propensity: np.ndarray) -> tuple[Check, np.ndarray | None]:
    """Check a log for copies of rows. If rows have ids, rows with the same id are copies, and no other rows.

    Parameters
    ----------
    hashes : RowHashes
    propensity : array (n,)

    Returns
    -------
    check : Check
    copies : integer array (n,) or None
        For each row, a number that equal rows share; None if the log has no copies.
    """
    has_ids = hashes.ids is not None
    rows = hashes.ids if has_ids else hashes.rows
    n, ordered = len(rows), np.sort(rows)  # sorting needs less memory than numbering the distinct rows
    repeats = int((ordered[1:] == ordered[:-1]).sum())
    del ordered
    row = pd.factorize(rows)[0] if repeats else None
    has_copies = row is not None and (has_ids or _has_copies(hashes.features, row, propensity))
    repeated = "the id of another row" if has_ids else "another row in features, action, propensity and cost"
    reason = "These rows depend on each other" if has_ids else "This is more than by chance"
    sentence = f"{repeats} of {n} rows, {percent(repeats / n, 1)}, repeat {repeated}"
    sentence += f". {reason}, so intervals count each distinct row once" if has_copies else ""
    sentence += ". If ids are of users, set `group:` instead of `id:`" if has_copies and has_ids else ""
    check = Check(
        "duplicated_rows",
        worst_level(False, has_copies),
        Consequence.NONE,
        "duplicated rows",
        repeats / n,
        "no more than by chance",
        sentence,
        "this project",
    )
    return check, row if has_copies else None


def _has_copies(features: np.ndarray, row: np.ndarray, propensity: np.ndarray) -> bool:
    """Return whether one of the tests finds copies.

    ``row`` (n,) has a number for each row, which equal rows share. Rows with equal features are a group. The tests use
    the ``occurrences`` of each distinct row, its group, and the number of rows of each group, ``sizes``.
    """
    first, second = pair_equal_values(features)
    features, _ = pd.factorize(features)
    group = features[np.diff(np.maximum.accumulate(row), prepend=-1) > 0]  # groups of the first copies
    occurrences, sizes = np.bincount(row), np.bincount(features)
    agreement = agreement_p_value(row[first] == row[second], propensity[second])
    return min(agreement, _test_frequencies(occurrences, sizes[group])) < LEVEL / 2


def _test_frequencies(occurrences: np.ndarray, size: np.ndarray) -> float:
    """Return the p-value of the number of distinct rows that occur three times.

    In a group of m rows, E F₁ E F₃ ≥ ⅔ (m − 2)/(m − 1) (E F₂)². To be conservative, F₁ is raised and F₂ is lowered by
    two standard errors.
    """
    weight = np.maximum(size - 2, 0) / np.maximum(size - 1, 1)
    once, twice = (weight[occurrences == times].sum() for times in (1, 2))
    lowered = max(twice - 2 * np.sqrt(twice), 0)
    expected = 2 / 3 * lowered**2 / (once + 2 * np.sqrt(once) + 3)
    return float(pdtr(((occurrences == 3) & (size > 2)).sum(), expected))


def check_independence(
    features: np.ndarray,
    action: np.ndarray,
    propensity: np.ndarray,
    units: np.ndarray | None = None,
    imitated: bool = False,
) -> Check:
    """Check whether rows with equal features have the same action more often than their propensities allow.

    Parameters
    ----------
    features, action : integer array (n,)
        Hashes of the features and of the action.
    propensity : array (n,)
    units : array (n,), optional
        Ids of units of rows. Only the first row of each unit is tested.
    imitated : bool
        Whether propensities are estimated. Estimates may be too small, so the level is at most "caution".
    """
    tested = np.arange(len(action)) if units is None else np.sort(np.unique(units, return_index=True)[1])
    first, second = (tested[rows] for rows in pair_equal_values(features[tested]))
    agrees, chance = action[first] == action[second], propensity[second]
    ratio = float((agrees / chance).mean()) if len(first) else 0.0
    is_dependent = agreement_p_value(agrees, chance) < LEVEL
    sentence = "rows with equal features do not share their action more often than their propensities allow"
    if is_dependent:
        sentence = (
            f"rows with equal features have the same action {format_number(ratio)} times as often as their "
            f"propensities allow, in {len(first)} pairs. If the rows depend on each other, set `group:` to the column "
            "of user ids; otherwise the propensities are too small"
        )
    return Check(
        "independence",
        worst_level(is_dependent and not imitated, is_dependent),
        Consequence.DEPENDENT_ROWS,
        NAME,
        ratio,
        "no more agreement than by chance",
        sentence,
        "Ville 1939",
    )
