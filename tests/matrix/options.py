"""Options of a question to drcrm, pairs of values that drcrm must refuse, and a covering array of all other pairs."""

from collections import namedtuple
from functools import cache
from itertools import combinations, product

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


class Row(namedtuple("Row", OPTIONS, defaults=[values[0] for values in OPTIONS.values()])):
    """A value of each option, by default its first one."""

    __slots__ = ()

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


TABLES = "csv", "parquet", "jsonl", "frame"
REFUSALS = [  # values of two options that cannot be together, and words of the refusal
    *(("format", UNNAMED, option, values, "no named columns") for option, values in COLUMNS.items()),
    *(
        ("units", (units,), option, values, f"key '{units}'")
        for option, values in COLUMNS.items()
        if option != "units"
        for units in ("count", "pdrop")
    ),
    ("format", (*TABLES, "dsjson"), "units", ("count",), "key 'count'"),
    ("format", (*TABLES, "npz", "arrays"), "units", ("pdrop",), "key 'pdrop'"),
    ("kind", ("single", "labels"), "units", ("pdrop",), "key 'pdrop'"),
    ("kind", ("single", "labels"), "format", ("dsjson",), "_multi"),
    ("kind", ("labels",), "propensity", ("rule",), "propensity is a rule"),
    ("kind", ("labels", "lists"), "propensity", ("weights",), "propensity has weights"),
    ("format", UNNAMED, "propensity", ("weights",), "propensity has weights"),
    ("format", ("npz", "arrays"), "files", ("several", "folder"), "single file"),
    ("units", ("count",), "files", ("several", "folder"), "key 'count'"),
    ("units", ("count",), "look", ("anytime", "asymptotic"), "occur once"),
    ("look", ("anytime", "asymptotic"), "shift", ("shift",), "--anytime bounds the mean cost"),
    ("look", ("anytime",), "estimate", ("snips", "dr"), "--anytime needs --estimate ips"),
    ("look", ("asymptotic",), "estimate", ("snips",), "--anytime needs --estimate ips"),
    ("estimate", ("ips",), "shift", ("shift",), "no worst case for shift"),
    ("reference", ("column",), "estimate", ("dr",), "needs a cost model"),
]


def refused_pairs() -> dict[Pair, str]:
    """Return the pairs of values that cannot be, each with words of the refusal. A later refusal replaces others."""
    names, refused = [*OPTIONS], {}
    for first, firsts, second, seconds, words in REFUSALS:
        for pair in product([(first, value) for value in firsts], [(second, value) for value in seconds]):
            refused[tuple(sorted(pair, key=lambda cell: names.index(cell[0])))] = words
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
