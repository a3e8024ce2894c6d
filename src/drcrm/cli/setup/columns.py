"""Columns of a log, and the keys of the mapping that their names and values fit.

Propensities show in the values: if an action a has the propensity p, the mean of 1(a)/p over all rows is 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

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
PRECISION, NAMED_PRECISION = 0.025, 0.15  # largest standard error of the mean of 1/p ÷ the number of actions
LARGEST_SHARE = 0.05  # of the largest weight in the sum of squares; beyond, standard errors are not reliable
FAR, VERY_FAR = 3, 5  # standard errors


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
    has_commas : bool
        Whether the numbers have decimal commas.
    booleans : str
        The texts among the values that are read as 1 and 0, such as yes/no; empty if there are none.
    obstacle : str
        Why the values are not numbers; empty if they are numbers or times.
    is_misformatted : bool
        Whether the values are numbers with thousands separators or another decimal sign.
    """

    name: str
    codes: np.ndarray
    values: list[str]
    numbers: np.ndarray | None
    is_time: bool
    has_commas: bool = False
    booleans: str = ""
    obstacle: str = ""
    is_misformatted: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers."""
        return self.numbers is not None and bool((self.numbers[~np.isnan(self.numbers)] % 1 == 0).all())

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

    @property
    def words(self) -> set[str]:
        """The words of the name, in lower case."""
        return {word.lower() for word in WORD.findall(self.name)}

    def fits(self, key: str) -> bool:
        """Whether the values are possible for a key of the mapping."""
        n, distinct = len(self.codes), len(self.values)
        if key == "propensity":
            return self.numbers is not None and bool(((self.numbers > 0) & (self.numbers <= LARGEST_PROBABILITY)).all())
        if key in ("reward", "cost"):
            return self.numbers is not None and len(np.unique(self.numbers[np.isfinite(self.numbers)])) > 1
        if key == "action":
            return 2 <= distinct <= min(MAX_ACTIONS, n // 2) and (self.numbers is None or self.is_whole)
        if key == "group":
            return FEW < distinct < n
        return self.is_time and MISSING_TEXTS.isdisjoint(self.values)

    def suggests(self, key: str) -> bool:
        """Whether the name says that the column is for a key, even if its values cannot be read.

        Numbers and times named like a propensity, a reward or a cost are for that key. Texts are if they are
        misformatted or percentages, or if the name has no other word: click is an outcome, click_source is a feature.
        """
        if not self.has_word(key) or self.fits(key) or key not in ("propensity", "reward", "cost"):
            return self.has_word(key) and self.fits(key)
        if self.numbers is not None or self.is_time or self.is_misformatted:
            return True
        unexpected = {word for word in self.words - {*NAMES[key].split()} if len(word) > 1 and not word.isdigit()}
        return not unexpected or all(value.endswith("%") for value in self.values if value)

    def obstacle_to(self, key: str) -> str:
        """Return why the values are not possible for a propensity, a reward or a cost."""
        if self.numbers is None or key != "propensity":
            return self.obstacle or f"{self.name} has a single value"
        missing, inside = np.isnan(self.numbers), (self.numbers > 0) & (self.numbers <= LARGEST_PROBABILITY)
        if 1 < np.nanmedian(self.numbers) <= np.nanmax(self.numbers) <= 100 and (self.numbers[~missing] > 0).all():
            return f"{self.name} seems to be in percent: divide it by 100"
        rows = np.flatnonzero(missing if missing.any() else ~inside)
        value = "empty" if missing.any() else f"{self.numbers[rows[0]]:.4g}"
        place = f"row {rows[0]}" if len(rows) == 1 else f"{len(rows)} rows, first in row {rows[0]}"
        return f"{self.name} is {value} in {place}, expected a value in (0, 1]"

    @property
    def direction(self) -> str:
        """``cost`` if the name suggests that low values are better, ``reward`` for high values; otherwise empty."""
        words = {"cost": f"{NAMES['cost']} {HARMS}", "reward": f"{NAMES['reward']} {BENEFITS}"}
        return next((key for key, typical in words.items() if not self.words.isdisjoint(typical.split())), "")

    def describe(self) -> str:
        """Return the number of values and examples, or the range of the numbers."""
        if self.numbers is not None and len(self.values) > SHOWN:
            low, high = np.nanmin(self.numbers), np.nanmax(self.numbers)
            return f"{len(self.values)} values from {low:.4g} to {high:.4g}"
        examples = ", ".join(value if len(value) < 20 else f"{value[:19]}…" for value in self.values[:SHOWN])
        return escape_unprintable(f"{len(self.values)} values: {examples}{', …' if len(self.values) > SHOWN else ''}")


def assign_roles(columns: list[Column]) -> dict[str, Column]:
    """Return the column of each key of the mapping that its name or its values show, unless several columns fit.

    The values show propensities and their actions, and outcomes that depend on these actions.
    """
    roles: dict[str, Column] = {}
    for key in NAMES:
        fitting = [column for column in columns if column.has_word(key) and column.fits(key)]
        free = [column for column in fitting if column not in roles.values()]
        strong = [column for column in free if not STRONG.isdisjoint(column.words)]
        if len(strong or free) == 1:
            [roles[key]] = strong or free
    propensities = [roles["propensity"]] if "propensity" in roles else columns
    precision = NAMED_PRECISION if "propensity" in roles else PRECISION
    pairs = [
        (action, propensity)
        for propensity in propensities
        for action in columns
        if action.fits("action") and propensity.fits("propensity") and action is not propensity
        if _weights_agree(action, propensity, precision) and _are_balanced(columns, action, propensity)
    ]
    if len(pairs) > 1:  # a column that is independent of p, with equally frequent values, agrees by chance
        pairs = [(action, propensity) for action, propensity in pairs if _is_related(action, propensity)] or pairs
    pairs = [pair for pair in pairs if roles.get("action") is pair[0]] or pairs
    if len(pairs) == 1:
        roles = {key: column for key, column in roles.items() if column not in pairs[0]}
        roles["action"], roles["propensity"] = pairs[0]
    if not any(column.suggests(key) and not column.is_time for key in ("reward", "cost") for column in columns):
        free = [column for column in columns if column not in roles.values() and column.fits("reward")]
        outcomes = [column for column in free if known_after(column, roles)]
        binary = [column for column in free if set(column.numbers[np.isfinite(column.numbers)]) == {0, 1}]
        if len(outcomes or binary) == 1:
            [roles["reward"]] = outcomes or binary
    if any(column.has_word("reward") and column.fits("reward") for column in columns):
        roles.pop("cost", None)
    return roles


def _weights_agree(action: Column, propensity: Column, precision: float = NAMED_PRECISION) -> bool:
    """Return whether the mean of 1(a)/p is about 1 for each action, and the mean of 1/p about their number."""
    weights, n, n_actions = 1 / propensity.numbers, len(action.codes), len(action.values)
    error = max(weights.std(), 1e-9) / np.sqrt(n)
    if error > precision * n_actions or abs(weights.mean() - n_actions) > FAR * error + 1e-6 * n_actions:
        return False
    return bool((_standard_errors(action, weights, np.ones(n)) < VERY_FAR).all())


def _is_related(action: Column, propensity: Column) -> bool:
    """Return whether the mean propensity differs significantly between actions."""
    centred = propensity.numbers - propensity.numbers.mean()
    return bool((_standard_errors(action, np.ones(len(centred)), centred, 0.0) > VERY_FAR).any())


def _are_balanced(columns: list[Column], action: Column, propensity: Column) -> bool:
    """Return whether the weighted means of most numeric columns are equal for all actions; few columns are outcomes."""
    numeric = [column for column in columns if column.numbers is not None and column not in (action, propensity)]
    return 2 * sum(_depends(column, action, propensity) for column in numeric) <= len(numeric)


def known_after(column: Column, roles: dict[str, Column]) -> str:
    """Return why a column is probably known only after the decision, or an empty text.

    Means of features, weighted by 1(a)/p, are equal for all actions. Means of outcomes may differ.
    """
    after = f"{BENEFITS} {HARMS}".split()
    if not column.is_time and not column.words.isdisjoint(after) and column.words.isdisjoint(BEFORE.split()):
        return "its name suggests an outcome"
    if column.numbers is None:
        return ""
    missing, reward = np.isnan(column.numbers), roles.get("reward")
    if reward is not None:
        without = reward.numbers == np.nanmin(reward.numbers)
        with_value = ~missing if missing.any() else column.numbers != 0
        if 0.1 < without.mean() < 1 and with_value.sum() > FEW and not (with_value & without).any():
            return f"only rows with a {reward.name} have it"
    action, propensity = roles.get("action"), roles.get("propensity")
    if not (action and propensity and _weights_agree(action, propensity) and _depends(column, action, propensity)):
        return ""
    return f"it depends on {action.name}"


def _depends(column: Column, action: Column, propensity: Column) -> bool:
    """Return whether the means of a numeric column, weighted by 1(a)/p, differ significantly between actions."""
    weights, missing = 1 / propensity.numbers, np.isnan(column.numbers)
    if (weights**2).max() > LARGEST_SHARE * (weights**2).sum():
        return False
    centred = np.where(missing, 0.0, column.numbers - column.numbers[~missing].mean())
    return bool((_standard_errors(action, weights, centred, 0.0) > VERY_FAR).any())


def _standard_errors(action: Column, weights: np.ndarray, values: np.ndarray, expected: float = 1.0) -> np.ndarray:
    """Return how many standard errors the mean of 1(a) · weight · value is from its expectation, for each action."""
    n, terms = len(values), weights * values
    means, squares = (np.bincount(action.codes, term) / n for term in (terms, terms**2))
    return abs(means - expected) / np.sqrt(np.maximum(squares - means**2, 1e-18) / n)
