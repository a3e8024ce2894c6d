"""Options of a question to drcrm, pairs of values that drcrm must refuse, and a covering array of all other pairs."""

from functools import cache
from itertools import combinations, product
from typing import NamedTuple

OPTIONS = {
    "kind": ("single", "lists", "labels"),
    "format": ("csv", "parquet", "jsonl", "dsjson", "npz", "arrays", "frame"),
    "units": ("rows", "groups_equal", "groups_unequal", "count", "pdrop"),
    "propensity": ("logged", "uniform", "constant", "rule", "weights", "estimated"),
    "outcome": ("click", "revenue", "cost", "reward_1000", "uptime", "negative_mean"),
    "reference": ("logging", "baseline", "column"),
    "guardrail": ("none", "absolute", "percent"),
    "look": ("once", "anytime", "asymptotic"),
    "estimate": ("auto", "ips", "snips", "dr"),
    "shift": ("none", "shift"),
    "features": ("numbers", "categories", "booleans", "times", "missing", "codes"),
    "extra": ("none", "time", "slices"),
    "files": ("one", "several", "folder"),
    "validation": ("holdout", "blocks"),
}
Pair = tuple[tuple[str, str], tuple[str, str]]


class Row(NamedTuple):
    """A value of each option."""

    kind: str = "single"
    format: str = "csv"
    units: str = "rows"
    propensity: str = "logged"
    outcome: str = "click"
    reference: str = "logging"
    guardrail: str = "none"
    look: str = "once"
    estimate: str = "auto"
    shift: str = "none"
    features: str = "numbers"
    extra: str = "none"
    files: str = "one"
    validation: str = "holdout"

    @property
    def is_watched(self) -> bool:
        return self.look != "once"

    @property
    def is_table(self) -> bool:
        return self.format not in UNNAMED

    @property
    def pairs(self) -> list[Pair]:
        return [*combinations(self._asdict().items(), 2)]


UNNAMED = ("dsjson", "npz", "arrays")  # formats without named columns
COLUMNS = {  # values that need a column in the mapping
    "units": ("groups_equal", "groups_unequal"),
    "propensity": ("rule", "weights"),
    "reference": ("column",),
    "guardrail": ("absolute", "percent"),
    "extra": ("time", "slices"),
}


def _both(first: str, firsts: tuple, second: str, seconds: tuple, words: str) -> dict[Pair, str]:
    names = [*OPTIONS]
    cells = product([(first, value) for value in firsts], [(second, value) for value in seconds])
    return {tuple(sorted(pair, key=lambda cell: names.index(cell[0]))): words for pair in cells}


def refused_pairs() -> dict[Pair, str]:
    """Return the pairs of values that cannot be, each with words of the refusal."""
    refused: dict[Pair, str] = {}
    for option, values in COLUMNS.items():
        refused |= _both("format", UNNAMED, option, values, "no named columns")
        if option != "units":
            refused |= _both("units", ("count",), option, values, "key 'count'")
            refused |= _both("units", ("pdrop",), option, values, "key 'pdrop'")
    tables = "csv", "parquet", "jsonl", "frame"
    refused |= _both("format", (*tables, "dsjson"), "units", ("count",), "key 'count'")
    refused |= _both("format", (*tables, "npz", "arrays"), "units", ("pdrop",), "key 'pdrop'")
    refused |= _both("kind", ("single", "labels"), "units", ("pdrop",), "key 'pdrop'")
    refused |= _both("kind", ("single", "labels"), "format", ("dsjson",), "_multi")
    refused |= _both("kind", ("labels",), "propensity", ("rule",), "propensity is a rule")
    weighted = "propensity", ("weights",), "propensity has weights"
    refused |= _both("kind", ("labels", "lists"), *weighted) | _both("format", UNNAMED, *weighted)
    refused |= _both("format", ("npz", "arrays"), "files", ("several", "folder"), "single file")
    refused |= _both("units", ("count",), "files", ("several", "folder"), "key 'count'")
    refused |= _both("units", ("count",), "look", ("anytime", "asymptotic"), "occur once")
    refused |= _both("look", ("anytime", "asymptotic"), "shift", ("shift",), "--anytime bounds the mean cost")
    refused |= _both("look", ("anytime",), "estimate", ("snips", "dr"), "--anytime needs --estimate ips")
    refused |= _both("look", ("asymptotic",), "estimate", ("snips",), "--anytime needs --estimate ips")
    refused |= _both("estimate", ("ips",), "shift", ("shift",), "no worst case for shift")
    refused |= _both("reference", ("column",), "estimate", ("dr",), "needs a cost model")
    return refused


REFUSED = refused_pairs()


@cache
def covering_array() -> tuple[Row, ...]:
    """Return rows that contain each pair of values except the refused ones, by a greedy search."""
    cells = [(name, value) for name, values in OPTIONS.items() for value in values]
    left = {pair for pair in combinations(cells, 2) if pair[0][0] != pair[1][0]} - REFUSED.keys()
    rows: list[Row] = []
    while left:
        first = min(left)
        row = dict(first)
        left_of = {cell: {other for pair in left if cell in pair for other in pair} for cell in cells}
        for name in [*sorted(OPTIONS, key=lambda name: -len(OPTIONS[name]))]:
            if name not in row:
                allowed = [value for value in OPTIONS[name] if _is_possible({**row, name: value})]
                if not allowed:
                    raise ValueError(f"{first} cannot be completed: list the pair as refused")
                row[name] = max(allowed, key=lambda value: len(left_of[name, value] & row.items()))
        rows.append(Row(**row))
        left -= {*rows[-1].pairs}
    return tuple(rows)


def _is_possible(row: dict[str, str]) -> bool:
    """Return whether no pair is refused, and each missing option has a value that fits all others."""
    names = [name for name in OPTIONS if name in row]
    if any(((one, row[one]), (two, row[two])) in REFUSED for one, two in combinations(names, 2)):
        return False
    return all(
        any(
            not any(
                REFUSED.keys() & {((name, row[name]), (free, value)), ((free, value), (name, row[name]))}
                for name in names
            )
            for value in OPTIONS[free]
        )
        for free in OPTIONS
        if free not in row
    )
