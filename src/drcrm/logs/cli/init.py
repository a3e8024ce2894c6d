"""``drcrm init``: propose a mapping for a log from the names, the types and the values of its columns.

A key is proposed only if one column fits it. Other candidates become comments.
"""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from drcrm.arrays.formats import format_number
from drcrm.arrays.validation import LARGEST_PROBABILITY
from drcrm.errors import InputError, escape_unprintable, prefix_errors
from drcrm.files import standard_descriptor, write_text
from drcrm.logs.encoding.columns import BOOLEAN_PAIRS, boolean_numbers, categories, is_missing, numbers, times_of
from drcrm.logs.read_log import first_frame, name_of, short_name
from drcrm.logs.readers.base import Columns
from drcrm.mapping.log_mapping import LogMapping

ROWS = 50_000  # number of rows that are read
MAX_ACTIONS = 1000  # also the largest number of categories of a feature
FEW = 20  # a column with more values may have ids
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
COMMA = re.compile(r"\s*(?![+-]?[1-9]\d{0,2},\d{3}\s*$)([+-]?\d*),(\d+)\s*")  # cannot separate thousands
PLAIN = re.compile(r"(?!(yes|no|on|off|true|false|null|y|n)$)[a-z_][a-z0-9_]*", re.IGNORECASE)  # not a name in YAML
WORDS = {  # words that are typical of the names of columns
    key: frozenset(words.split())
    for key, words in {
        "propensity": "propensity propensities prob probability pscore chance ps p pi",
        "reward": "reward rewards click clicks clicked conversion converted purchase purchased bought revenue profit "
        "gain payoff outcome response margin earnings",
        "cost": "cost costs loss regret penalty",
        "action": "action act arm item decision treatment variant choice chosen offer ad banner campaign creative "
        "product recommendation recommended section article headline content template layout",
        "group": "user visitor customer client member account session cookie person patient household uid userid",
        "time": "time timestamp date datetime day dt ts when at",
        "id": "id ids key hash uuid",
        "marked": "chosen shown selected displayed presented logged picked taken promoted featured recommended served",
        "logged": "score logging logged policy log of the selection sampling b",  # next to the words of a propensity
        "outcome": "signup signed subscribed registered dwell watched completed unsubscribed unsubscribe churned "
        "returned refund refunded refunds complaint complaints cancelled canceled cancellation bounced optout",
    }.items()
}
EXPECTED = {  # the required keys: keys that stand for them, and what their columns must be
    "action": (["list", "chosen", "action"], f"2 to {MAX_ACTIONS} values", "action, arm or item"),
    "propensity": (["propensity"], "numbers in (0, 1] in all rows", "propensity or prob"),
    "reward": (["reward", "cost"], "different numbers", "reward, click or cost"),
}
NESTED = (
    "# not read: {0}, which has lists or maps. If it lists candidates, write instead of an action: list: {0}\n"
    "# chosen: COLUMN  # of the logged candidate's position in the list, from 0; its features are {0}.NAME"
)
OPTIONAL = {
    "group": "rows with the same value depend on each other",
    "time": "orders the rows, to check for drift; with `split: last 25 %`, the last rows are held out",
}
ADVICE = {  # comments about a key without a column
    "action": ["# labels: [FIRST, SECOND]  # for several decisions per row: a column of 0 and 1 for each"],
    "propensity": [
        "# propensity: {uniform: true}  # if all actions were equally probable",
        "# If the probabilities of the logged actions are unknown, estimate them; this weakens the guarantees:",
        "# propensity: null",
        "# propensity_model: auto",
    ],
    "reward": ["# cost: COLUMN  # instead of a reward, if lower is better"],
}


def init(log: Any, output: Path, delimiter: str | None, encoding: str | None) -> None:
    """Write a proposal, and print which keys are missing, or, if none is, what to do next."""
    is_printed = standard_descriptor(output) == 1
    if output.exists() and not is_printed:
        raise InputError(f"{output} exists already, expected a new file; nothing was written")
    known = LogMapping(delimiter=delimiter, encoding=encoding)
    with prefix_errors(name_of(log)):
        frame = first_frame(
            log, lambda header: Columns([name for name in header if header.count(name) == 1], []), ROWS, known
        )
    frame, pairs, nested = read_columns(frame)
    roles = assign_roles(frame)
    settings = {"delimiter": known.delimiter, "encoding": known.encoding, "booleans": pairs}
    sections = [
        [
            f"# Proposed by drcrm init from the first values of {escape_unprintable(short_name(log))}.",
            "# Check each line. A line that begins with # has no effect.",
        ]
    ]
    sections += _mapping_sections(frame, roles, settings)
    sections.append([NESTED.format(_quote(name)) for name in nested])
    write_text(output, "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n")
    missing = [key for key, (keys, *_) in EXPECTED.items() if roles.keys().isdisjoint(keys)]
    config = "MAPPING.yaml" if is_printed else str(output)
    logs = [log] if isinstance(log, str | Path) else log
    words = shlex.join([*map(str, logs), "--config", config, "--output", "policy.npz", "--report", "report.html"])
    advice = f"The mapping lacks {' and '.join(missing)}. Its comments have candidates."
    advice = advice if missing else f"Check {config}, then learn a policy:\n\n    drcrm learn {words}"
    print(advice, file=sys.stderr if is_printed else sys.stdout)


def read_columns(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Return a table as floats, times and texts, pairs of texts that were read as 1 and 0, and what is left out.

    Columns of lists or maps are left out.
    """
    nested = [
        str(name)
        for name, column in frame.items()
        if column.map(lambda value: isinstance(value, list | dict | np.ndarray)).any()
    ]
    typed = {name: _typed_column(column) for name, column in frame.drop(columns=nested).items()}
    table = pd.DataFrame({name: column for name, (column, _) in typed.items()})
    return table, sorted({pair for _, pair in typed.values()} - {""}), nested


def _typed_column(column: pd.Series) -> tuple[pd.Series, str]:
    """Return a column as floats, times or texts, and the texts that are read as 1 and 0, at most one pair.

    A comma is a decimal sign if some number of the column shows that it does not separate thousands.
    """
    name, (codes, values) = str(column.name), categories(column, str(column.name))
    texts = {value.lower() for value in values}
    pair = next((pair for pair in BOOLEAN_PAIRS if {*pair.split("/")} <= texts), "")
    if any(map(COMMA.fullmatch, values)):
        column = column.replace(f"^{COMMA.pattern}$", r"\1.\2", regex=True)
    with suppress(InputError):
        floats = numbers(column, name, optional=True, booleans=boolean_numbers([pair] if pair else []))
        return pd.Series(floats, name=name), pair
    with suppress(InputError):
        return pd.Series(times_of(column, name)[0], name=name), ""
    return pd.Series(np.array(values, dtype=object)[codes], name=name).mask(is_missing(column)), ""


def _words(name: str) -> set[str]:
    """Return the words of a name, in lower case."""
    return {word.lower() for word in WORD.findall(name)}


def _kind(column: pd.Series) -> str:
    """Return the kind of a feature: numeric, categorical or time."""
    return {"f": "numeric", "M": "time"}.get(column.dtype.kind, "categorical")


def _has_word(name: str, key: str) -> bool:
    """Return whether a name has a word that is typical of a key.

    For a group or an action, all words must be typical or mean ID: user_id is a group, but user_age is not. For a
    propensity, too, but it may name the action: p_arm is a propensity, but p_churn is not.
    """
    words = _words(name)
    beside = {"propensity": WORDS["logged"] | WORDS["action"], "action": WORDS["id"], "group": WORDS["id"]}
    return not words.isdisjoint(WORDS[key]) and (key not in beside or words <= WORDS[key] | beside[key])


def _fits(column: pd.Series, key: str) -> bool:
    """Return whether the values of a column are possible for a key of the mapping."""
    n, distinct, is_complete = len(column), column.nunique(), column.notna().all()
    is_number, is_time = _kind(column) == "numeric", _kind(column) == "time"
    is_code = is_complete and (not is_number or (column % 1 == 0).all())
    fits = {
        "propensity": is_number and ((column > 0) & (column <= LARGEST_PROBABILITY)).all(),
        "reward": is_number and distinct > 1,
        "cost": is_number and distinct > 1,
        "action": is_code and 2 <= distinct <= min(MAX_ACTIONS, n // 2),
        "group": FEW < distinct < n,
        "time": is_time and is_complete,
    }
    return bool(fits[key])


def _suggests(column: pd.Series, key: str) -> bool:
    """Return whether the name says that a column is for a key, even if its values cannot be read.

    Texts are for a propensity, a reward or a cost only if the name has no other word: click is an outcome,
    click_source is a feature.
    """
    name, is_outcome = str(column.name), key in ("propensity", "reward", "cost")
    is_readable = _kind(column) == "numeric" or _words(name) <= WORDS[key]
    return _has_word(name, key) and (_fits(column, key) or (is_outcome and is_readable))


def assign_roles(frame: pd.DataFrame) -> dict[str, str]:
    """Return the name of the column of each key of the mapping, unless several columns fit.

    Without a name for the reward, the only column of 0 and 1 is the reward. In a table with a row for each candidate,
    the other keys are those of the chosen rows.
    """
    roles = _find_lists(frame)
    if roles:
        frame = frame[frame[roles["chosen"]] == 1].drop(columns=[*roles.values()])
    for key in ("propensity", "reward", "cost", *(() if roles else ("action",)), *OPTIONAL):
        fitting = [name for name in frame if _has_word(name, key) and _fits(frame[name], key)]
        names = [name for name in fitting if name not in roles.values()]
        if len(names) == 1 and not (key == "cost" and any(_has_word(name, "reward") for name in frame)):
            roles[key] = names[0]
    binary = [name for name in frame if {*frame[name].dropna().unique()} == {0, 1} and name not in roles.values()]
    has_outcome = any(_suggests(frame[name], key) for name in frame for key in ("reward", "cost"))
    return roles | ({"reward": binary[0]} if len(binary) == 1 and not has_outcome else {})


def _find_lists(frame: pd.DataFrame) -> dict[str, str]:
    """Return the columns of the list and of the chosen candidate, if a name and the values show them.

    The rows of a list follow one another. Exactly one of them is 1 in the column of the chosen candidate; in the last
    list, it may come after the rows that were read. If several columns have a value for each list, an id comes first,
    and a time last.
    """
    marks = [
        name
        for name in frame
        if {*frame[name].dropna().unique()} == {0, 1} and not _words(name).isdisjoint(WORDS["marked"])
    ]
    order = sorted(frame, key=lambda name: (_kind(frame[name]) == "time", _words(name).isdisjoint(WORDS["id"])))
    for name, chosen in ((name, chosen) for name in order for chosen in marks):
        ids, values = pd.factorize(frame[name], use_na_sentinel=False)
        *complete, last = np.bincount(ids, frame[chosen] == 1)
        if {*complete} == {1} and last <= 1 and len(values) < len(ids) and (np.diff(ids) >= 0).all():
            return {"list": name, "chosen": chosen}
    return {}


def _mapping_sections(frame: pd.DataFrame, roles: dict[str, str], settings: dict[str, object]) -> Iterator[list[str]]:
    """Yield the lines of each section of the mapping."""
    free = frame[[name for name in frame if name not in roles.values()]]
    for required, (keys, *_) in EXPECTED.items():
        names = {key: roles[key] for key in keys if key in roles}
        lines = [f"{key}: {_quote(name)}  # {_describe(frame[name])}" for key, name in names.items()]
        yield lines or _candidates(required, free)
    optional = [f"{key}: {json.dumps(value)}" for key, value in settings.items() if value]
    for key, purpose in OPTIONAL.items():
        names = [name for name in free if _suggests(free[name], key)]
        optional += [f"{key}: {_quote(roles[key])}  # {purpose}"] if key in roles else []
        optional += [f"# {key}: {_quote(name)}  # optional: {purpose}" for name in names if key not in roles]
    yield [
        *optional,
        "# least_propensity: 0.01  # optional: the smallest probability of any action, if π0 takes them all",
    ]
    yield [*_feature_lines(free, frame[roles["chosen"]] if "chosen" in roles else None)]


def _candidates(key: str, free: pd.DataFrame) -> list[str]:
    """Return comments about a key without a column: candidates, and what to do if there is none."""
    keys, values, words = EXPECTED[key]
    by_name = [
        (name, column) for name in keys if name in WORDS for _, column in free.items() if _suggests(column, name)
    ]
    listed = by_name or [(key, column) for _, column in free.items() if _fits(column, key)][:10]
    lines = [
        f"# {key}: not certain, "
        + ("check these columns." if by_name else f"no column has both {values} and a name such as {words}."),
        *(["# Remove the # in front of the right line, and its column from the features:"] if listed else []),
    ]
    for name, column in listed:
        obstacle = "" if _fits(column, name) else f"; expected {values}"
        lines.append(f"# {name}: {_quote(str(column.name))}  # {_describe(column)}{obstacle}")
    return lines if key == "propensity" and by_name else [*lines, *ADVICE[key]]


def _feature_lines(free: pd.DataFrame, chosen: pd.Series | None) -> Iterator[str]:
    """Yield the features, and comments about columns that are left out. ``chosen`` marks the chosen rows of lists."""
    reasons = {str(name): _why_no_feature(column, chosen) for name, column in free.items()}
    yield "# Features must be known before the decision. Remove the other columns."
    yield "features:" if not all(reasons.values()) else "features: {}"
    for kind in ("numeric", "categorical", "time"):
        names = [name for name, reason in reasons.items() if not reason and _kind(free[name]) == kind]
        yield from [f"  {kind}:", *(f"  - {_quote(name)}" for name in names)] if names else []
    yield from (f"# not a feature: {_quote(name)} ({reason})" for name, reason in reasons.items() if reason)


def _why_no_feature(column: pd.Series, chosen: pd.Series | None) -> str:
    """Return why a column is left out of the features, or an empty text."""
    name, n, distinct, is_number = str(column.name), len(column), column.nunique(), _kind(column) == "numeric"
    if chosen is not None and column[chosen == 1].nunique() == distinct:  # a value for each list
        n = int((chosen == 1).sum())
    keys = ("propensity", "reward", "cost", *(() if chosen is not None else ("action",)), "group")
    key = next((key for key in keys if _suggests(column, key)), "")
    reasons = {
        "no values": distinct == 0,
        "a single value": distinct == 1 and column.notna().all(),
        "only chosen rows have values": chosen is not None and column[chosen != 1].isna().all(),
        f"its name suggests {'an' if key == 'action' else 'a'} {key}": key,
        "its name suggests an outcome; if it is known before the decision, add it to the features": not _words(
            name
        ).isdisjoint(WORDS["outcome"]),
        f"a text with {distinct} different values": _kind(column) == "categorical"
        and distinct > min(MAX_ACTIONS, max(FEW, n // 2)),
        "a number with a different value in each row": is_number and distinct == n > FEW and (column % 1 == 0).all(),
        "its name suggests a time": is_number and distinct > MAX_ACTIONS and _has_word(name, "time"),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _describe(column: pd.Series) -> str:
    """Return the number of values and examples, or the range of the numbers."""
    values, is_numeric = column.dropna().unique(), _kind(column) == "numeric"
    if is_numeric and len(values) > 3:
        return f"{len(values)} values from {format_number(values.min())} to {format_number(values.max())}"
    texts = [format_number(value) if is_numeric else str(value)[:20] for value in values[:3]]
    return escape_unprintable(f"{len(values)} values: {', '.join(texts)}{', …' if len(values) > 3 else ''}")


def _quote(name: str) -> str:
    """Return a name as a scalar of YAML, without quotes if that is safe."""
    return name if PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=not name.isprintable())
