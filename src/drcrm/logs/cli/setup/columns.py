"""Columns of a log, and the keys of the mapping that their names, types and values fit."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from drcrm.arrays.number_formats import format_number
from drcrm.arrays.validation import LARGEST_PROBABILITY
from drcrm.errors import escape_unprintable
from drcrm.logs.encoding.columns import MISSING_TEXTS

SHOWN = 3  # number of values in a comment
MAX_ACTIONS = 1000
FEW = 20  # a column with more values may have ids
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
NAMES = {  # words that are typical of the names of columns
    "propensity": "propensity propensities prob probability pscore ps p pi0 pi",
    "reward": "reward rewards click clicks clicked conversion converted purchase purchased bought revenue profit gain "
    "rating payoff outcome response",
    "cost": "cost costs loss regret penalty",
    "action": "action act arm item decision treatment variant choice chosen offer ad banner campaign creative product "
    "recommendation recommended section article headline content template layout",
    "group": "user visitor customer client member account session cookie person patient household uid userid",
    "time": "time timestamp date datetime day dt ts when at",
}
STRONG = {"action", "arm", "propensity", "reward", "cost"}  # a column with such a word is preferred
ID = {"id", "ids", "key", "hash", "uuid"}
CHOSEN = {"chosen", "shown", "selected", "displayed", "presented", "logged", "picked", "taken"}
LOGGED = "score logging logged policy log of the selection sampling 0 b"  # other words of a propensity's name
BEFORE = (  # words of the names of features that describe earlier outcomes, or predictions
    "before previous prev past prior last since history historic historical lag avg average mean median rate ratio ctr "
    "expected predicted prediction pred"
)
BENEFITS = "signup signed subscribed registered dwell watched completed"  # words of the names of other outcomes
HARMS = (
    "unsubscribed unsubscribe unsub unsubscription unsubscriptions unsubscribes churned returned refund refunded "
    "refunds complaint complaints complained cancelled canceled cancellation bounced optout chargeback chargebacks"
)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a log.

    Attributes
    ----------
    name : str
    codes : integer array (n,)
        Place of each row's value among ``values``.
    values : list of str
        The distinct values as texts.
    numbers : array (n,) or None
        The values as numbers, NaN if missing. None if not all values are numbers.
    is_time : bool
        Whether all values are dates, or dates and times, or missing.
    decimal : str
        "," if numbers have decimal commas, "?" if their commas may separate thousands, "." if they have points, or "".
    booleans : str
        The texts among the values that are read as 1 and 0, such as yes/no; empty if there are none.
    obstacle : str
        Why the values are not numbers; empty if they are numbers or times.
    """

    name: str
    codes: np.ndarray
    values: list[str]
    numbers: np.ndarray | None
    is_time: bool
    decimal: str = ""
    booleans: str = ""
    obstacle: str = ""

    @property
    def words(self) -> set[str]:
        """The words of the name, in lower case."""
        return {word.lower() for word in WORD.findall(self.name)}

    @property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers."""
        return self.numbers is not None and bool((self.numbers[~np.isnan(self.numbers)] % 1 == 0).all())

    @property
    def is_binary(self) -> bool:
        """Whether the values are 0 and 1."""
        return self.numbers is not None and set(self.numbers[~np.isnan(self.numbers)]) == {0, 1}

    @property
    def is_outcome(self) -> bool:
        """Whether the name suggests an outcome other than the reward."""
        after = f"{BENEFITS} {HARMS}".split()
        return not self.is_time and not self.words.isdisjoint(after) and self.words.isdisjoint(BEFORE.split())

    def has_word(self, key: str) -> bool:
        """Whether the name has a word that is typical of a key.

        For a group or an action, all words must be typical or mean ID: user_id is a group, but user_age is not. For a
        propensity, too, but it may name the action: p_arm is a propensity, but p_churn is not. Earlier outcomes and
        ratings of items are not rewards.
        """
        typical, words = set(NAMES[key].split()), self.words
        if words.isdisjoint(typical):
            return False
        if key in ("group", "action"):
            return words <= typical | ID or not STRONG.isdisjoint(words)
        if key == "propensity":
            return words <= typical | {*LOGGED.split()} | set(NAMES["action"].split())
        is_item = "rating" in words and not words.isdisjoint(NAMES["action"].split())
        return key == "time" or (words.isdisjoint(BEFORE.split()) and not is_item)

    def fits(self, key: str) -> bool:
        """Whether the values are possible for a key of the mapping."""
        n, distinct = len(self.codes), len(self.values)
        if key == "propensity":
            return self.numbers is not None and bool(((self.numbers > 0) & (self.numbers <= LARGEST_PROBABILITY)).all())
        if key in ("reward", "cost"):
            return self.numbers is not None and len(np.unique(self.numbers[np.isfinite(self.numbers)])) > 1
        if key == "action":
            is_complete = MISSING_TEXTS.isdisjoint(self.values)
            return 2 <= distinct <= min(MAX_ACTIONS, n // 2) and is_complete and (self.numbers is None or self.is_whole)
        if key == "group":
            return FEW < distinct < n
        return self.is_time and MISSING_TEXTS.isdisjoint(self.values)

    def suggests(self, key: str) -> bool:
        """Whether the name says that the column is for a key, even if its values cannot be read.

        Texts are for a propensity, a reward or a cost only if the name has no other word: click is an outcome,
        click_source is a feature.
        """
        if key not in ("propensity", "reward", "cost") or self.fits(key):
            return self.has_word(key) and self.fits(key)
        unexpected = {word for word in self.words - {*NAMES[key].split()} if not word.isdigit()}
        return self.has_word(key) and (self.numbers is not None or self.is_time or not unexpected)

    def describe(self) -> str:
        """Return the number of values and examples, or the range of the numbers."""
        if self.numbers is not None and len(self.values) > SHOWN:
            low, high = np.nanmin(self.numbers), np.nanmax(self.numbers)
            return f"{len(self.values)} values from {format_number(low)} to {format_number(high)}"
        examples = ", ".join(value if len(value) < 20 else f"{value[:19]}…" for value in self.values[:SHOWN])
        return escape_unprintable(f"{len(self.values)} values: {examples}{', …' if len(self.values) > SHOWN else ''}")

    def at(self, rows: np.ndarray) -> Column:
        """Return the column of rows with these numbers."""
        numbers = None if self.numbers is None else self.numbers[rows]
        values = [self.values[code] for code in np.unique(self.codes[rows])]
        return Column(self.name, self.codes[rows], values, numbers, self.is_time)


def assign_roles(columns: list[Column]) -> dict[str, str]:
    """Return the name of the column of each key of the mapping, unless several columns fit.

    Without a name for the reward, the only column of 0 and 1 is the reward. In a table with a row for each candidate,
    the other keys are those of the chosen rows.
    """
    roles: dict[str, str] = {}
    if lists := _find_lists(columns):
        roles = {"list": lists[0].name, "chosen": lists[1].name}
        chosen = np.flatnonzero(lists[1].numbers == 1)
        columns = [column.at(chosen) for column in columns if column not in lists]
    for key in NAMES:
        fitting = [column for column in columns if column.has_word(key) and column.fits(key)]
        free = [column for column in fitting if column.name not in roles.values()]
        strong = [column for column in free if not STRONG.isdisjoint(column.words)]
        if len(strong or free) == 1 and not (lists and key == "action"):
            roles[key] = (strong or free)[0].name
    if not any(column.suggests(key) and not column.is_time for key in ("reward", "cost") for column in columns):
        binary = [column.name for column in columns if column.is_binary and column.name not in roles.values()]
        roles |= {"reward": binary[0]} if len(binary) == 1 else {}
    if any(column.has_word("reward") and column.fits("reward") for column in columns):
        roles.pop("cost", None)
    return roles


def _find_lists(columns: list[Column]) -> tuple[Column, Column] | None:
    """Return the columns of the list and of the chosen candidate, if the values show them.

    The rows of a list follow one another. Exactly one of them is 1 in the column of the chosen candidate; in the last
    list, it may come after the rows that were read. Few lists count only if a name says what was chosen. If several
    columns have a value for each list, an id comes first, and a time last.
    """
    pairs = []
    for ids in columns:
        n_lists, starts = len(ids.values), np.append(True, np.diff(ids.codes) != 0)
        for column in columns if 1 < n_lists < len(starts) and starts.sum() == n_lists else ():
            is_named = not CHOSEN.isdisjoint(column.words)
            if column.is_binary and (is_named or n_lists > FEW):
                is_single = np.bincount(ids.codes, column.numbers == 1) == 1
                is_single[ids.codes[-1]] |= not (column.numbers == 1)[ids.codes == ids.codes[-1]].any()
                if is_single.all():
                    pairs.append((not is_named, ids.is_time, ID.isdisjoint(ids.words), len(pairs), ids, column))
    best = {column for is_unnamed, *_, column in pairs if is_unnamed == min(pairs)[0]}
    return min(pairs)[-2:] if len(best) == 1 else None
