"""``drcrm init``: propose a mapping for a log from the names and the values of its columns.

A key is proposed only if one column fits it by its name, its type and its values. Other candidates become comments.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm.errors import InputError, escape_unprintable, prefix_errors
from drcrm.files import standard_descriptor, write_text
from drcrm.logs.cli.setup.columns import BENEFITS, FEW, MAX_ACTIONS, Column, assign_roles
from drcrm.logs.encoding.columns import (
    BOOLEAN_PAIRS,
    ISO,
    MISSING_TEXTS,
    as_iso,
    boolean_numbers,
    categories,
    is_missing,
    numbers,
)
from drcrm.logs.read_log import first_frame
from drcrm.logs.readers.base import Columns
from drcrm.logs.readers.tables import map_open_bandit_columns
from drcrm.mapping.log_mapping import LogMapping

ROWS = 50_000  # number of rows that are read
MAX_CATEGORIES = 1000  # a text column with more values is not a categorical feature
LINE = 100  # characters; a longer list of columns is written with one column per line
NESTED = list, dict, np.ndarray  # types of values that cannot be features
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")  # commas may be decimal or separate thousands
YAML_WORDS = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
EXPECTED = {
    "propensity": "numbers in (0, 1] in all rows, with a name such as propensity or prob",
    "reward": "different numbers, with a name such as reward, click or cost",
    "action": f"2 to {MAX_ACTIONS} values, with a name such as action, arm or item",
}
REQUIRED = "action", "propensity", "reward"
OPTIONAL = {
    "group": "rows with the same value depend on each other",
    "time": "orders the rows, to check for drift; with `split: last 25 %`, the last rows are held out",
}
LEAST_PROPENSITY = (
    "# least_propensity: 0.01  # optional: the smallest probability of any action, if the logging policy takes them all"
)
ADVICE = {  # comments about a key without a column
    "action": ["# labels: [FIRST, SECOND]  # for several decisions per row: a column of 0 and 1 for each"],
    "propensity": [
        "# If the probabilities of the logged actions are unknown, estimate them; this weakens the guarantees:",
        "# propensity: null",
        "# propensity_model: auto",
    ],
    "reward": ["# cost: COLUMN  # instead of a reward, if lower is better"],
}


def run(options: argparse.Namespace) -> None:
    """Run the command: write the proposal, and print which keys are missing and what to do next."""
    output: Path = options.output
    is_printed = standard_descriptor(output) == 1
    if output.exists() and not is_printed:
        raise InputError(f"{output} exists already, expected a new file; nothing was written")
    known = LogMapping(delimiter=options.delimiter, encoding=options.encoding)
    columns = read_columns(options.log, known)
    roles = assign_roles(columns)
    title = f"# Proposed by drcrm init from the names and the first values of {escape_unprintable(options.log.name)}."
    sections = [[title, "# Check each line. A line that begins with # has no effect."]]
    sections += _mapping_sections(columns, roles, known)
    write_text(output, "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n")
    stream = sys.stderr if is_printed else sys.stdout
    if missing := [key for key in REQUIRED if _keys_of(key, roles) is None]:
        print(f"The mapping lacks {' and '.join(missing)}. Its comments have candidates.", file=stream)
        return
    config = "MAPPING.yaml" if is_printed else str(output)
    words = shlex.join([str(options.log), "--config", config, "--output", "policy.npz", "--report", "report.html"])
    if is_printed:
        print("To save the mapping in a file, add: --output MAPPING.yaml", file=stream)
    print(f"Check {config}, then learn a policy:\n\n    drcrm learn {words}", file=stream)


def _keys_of(required: str, roles: dict[str, str]) -> tuple[str, ...] | None:
    """Return the keys that stand for a required one, such as list and chosen for action; None if it is unknown."""
    alternatives = {"action": [("action",), ("list", "chosen")], "reward": [("reward",), ("cost",)]}
    return next((keys for keys in alternatives.get(required, [(required,)]) if roles.keys() >= {*keys}), None)


def read_columns(path: Path, known: LogMapping) -> list[Column]:
    """Return the columns of the first rows of a log; InputError if its format needs no mapping.

    Numbers with commas are no numbers if other columns have points, or if all commas may separate thousands.
    """
    with prefix_errors(path):
        frame = first_frame(path, _select_all, ROWS, known)
    columns = [
        _column(frame[name]) for name in frame if not frame[name].map(lambda value: isinstance(value, NESTED)).any()
    ]
    signs = {column.decimal for column in columns}
    if "," in signs and "." not in signs:
        return columns
    obstacle = "its commas may separate thousands, or be decimal signs beside points in other columns"
    return [
        replace(column, numbers=None, decimal="", obstacle=obstacle) if column.decimal in (",", "?") else column
        for column in columns
    ]


def _select_all(header: list[str]) -> Columns:
    """Return the columns with unique names; InputError if the delimiter is wrong or the file needs no mapping."""
    if any("|" in name for name in header):
        raise InputError("has | in the names of its columns; if it is between the columns, add --delimiter '|'")
    if map_open_bandit_columns(header, LogMapping()) != LogMapping():
        raise InputError("is the Open Bandit Dataset's csv, which needs no mapping")
    return Columns([name for name in header if header.count(name) == 1], [])


def _column(column: pd.Series) -> Column:
    """Return a column of a frame. Its numbers may have decimal commas, but no thousands separators."""
    name = str(column.name)
    codes, values = categories(column, name)
    missing = is_missing(column)
    if missing.all():
        return Column(name, codes, values, None, is_time=False, obstacle="no values")
    texts = column.astype(str).str.strip().mask(missing)
    if column.dtype.kind == "M" or texts[~missing].map(as_iso).str.fullmatch(ISO.strip("^$")).all():
        return Column(name, codes, values, None, is_time=True)
    with_points, distinct = texts.str.replace(r"^([+-]?\d*),(\d+)$", r"\1.\2", regex=True), {*texts[~missing]}
    has_commas = [value for value in distinct if "," in value]
    # A column has one pair: t/f/n, or yes/no beside on/off, are categories.
    pair = next((pair for pair in BOOLEAN_PAIRS if {*pair.split("/")} <= {value.lower() for value in distinct}), "")
    try:
        as_numbers = numbers(with_points, name, optional=True, booleans=boolean_numbers([pair] if pair else []))
    except InputError as error:
        return Column(name, codes, values, None, is_time=False, obstacle=str(error))
    commas = "?" if all(map(UNCLEAR.fullmatch, has_commas)) else ","
    decimal = commas if has_commas else "." if any("." in value for value in distinct) else ""
    return Column(name, codes, values, as_numbers, False, decimal, pair)


def _mapping_sections(columns: list[Column], roles: dict[str, str], known: LogMapping) -> Iterator[list[str]]:
    """Yield the lines of each section of the mapping."""
    by_name = {column.name: column for column in columns}
    free = [column for column in columns if column.name not in roles.values()]
    for required in REQUIRED:
        keys = _keys_of(required, roles)
        lines = [f"{key}: {_quote(roles[key])}  # {by_name[roles[key]].describe()}" for key in keys or ()]
        yield lines or _candidates(required, free)
    given = {"delimiter": known.delimiter, "encoding": known.encoding}
    optional = [f"{key}: {_quote(value)}" for key, value in given.items() if value]
    commas = [column for column in columns if column.decimal == ","]
    optional += [f'decimal: ","  # {_quote(column.name)} has {column.describe()}' for column in commas[:1]]
    outcomes = {roles.get("reward"), roles.get("cost")}
    numeric = [column for column in columns if column in free or column.name in outcomes]
    if pairs := sorted({column.booleans for column in numeric if column.booleans}):
        optional.append(f"booleans: [{', '.join(pairs)}]" if len(pairs) > 1 else f"booleans: {pairs[0]}")
    for key, purpose in OPTIONAL.items():
        names = [column.name for column in free if column.has_word(key) and column.fits(key)]
        optional += [f"{key}: {_quote(roles[key])}  # {purpose}"] if key in roles else []
        optional += [] if key in roles else [f"# {key}: {_quote(name)}  # optional: {purpose}" for name in names]
    yield [*optional, LEAST_PROPENSITY]
    yield [*_feature_lines(free, by_name.get(roles.get("chosen", "")))]


def _candidates(key: str, free: list[Column]) -> list[str]:
    """Return comments about a key without a column: candidates, and what to do if there is none."""
    names = ["reward", "cost"] if key == "reward" else [key]
    named = [(name, column) for name in names for column in free if column.suggests(name) and not column.is_time]
    listed = named or [(key, column) for column in free if column.fits(key)][:10]
    reason = "check these columns" if named else f"no column has {EXPECTED[key]}"
    lines = [f"# {key}: not certain, {reason}."]
    if listed:
        lines.append("# Remove the # in front of the right line, and its column from the features:")
    for name, column in listed:
        problem = (
            "" if column.fits(name) else f"; {column.obstacle or 'expected ' + EXPECTED[key].partition(', with')[0]}"
        )
        lines.append(f"# {name}: {_quote(column.name)}  # {column.describe()}{escape_unprintable(problem)}")
    return lines if key == "propensity" and named else [*lines, *ADVICE[key]]


def _feature_lines(free: list[Column], chosen: Column | None) -> Iterator[str]:
    """Yield the features, and comments about columns that are left out. ``chosen`` marks the chosen rows of lists."""
    groups: dict[str, list[Column]] = {"numeric": [], "categorical": [], "time": []}
    omitted: list[str] = []
    for column in free:
        if reason := _why_no_feature(column, chosen):
            omitted.append(f"# not a feature: {_quote(column.name)} ({escape_unprintable(reason)})")
        else:
            groups["time" if column.is_time else "categorical" if column.numbers is None else "numeric"].append(column)
    yield "# Features must be known before the decision. Remove the other columns."
    yield "features:" if any(groups.values()) else "features: {}"
    for key, columns in groups.items():
        names = [_quote(column.name) for column in columns]
        line = f"  {key}: [{', '.join(names)}]"
        if names:
            yield from [line] if len(line) <= LINE else [f"  {key}:", *(f"  - {name}" for name in names)]
    yield from omitted
    if outcomes := [column for column in free if column.is_outcome and column.numbers is not None][:3]:
        yield "# guardrails:  # optional: what the policy must not worsen"
        yield from (f"#   {_guardrail(column)}" for column in outcomes)
    if slices := [_quote(column.name) for column in groups["categorical"] if len(column.values) <= FEW][:3]:
        yield f"# slice: [{', '.join(slices)}]  # optional: the report has a line for each of their values"


def _guardrail(column: Column) -> str:
    """Return a guardrail for an outcome, which is a cost unless its name suggests a reward."""
    name, is_reward = _quote(column.name), not column.words.isdisjoint(BENEFITS.split())
    return f"{name}: {{{f'reward: {name}, at_least: -1 %' if is_reward else f'cost: {name}, at_most: 1 %'}}}"


def _why_no_feature(column: Column, chosen: Column | None) -> str:
    """Return why a column is left out of the features, or an empty text."""
    n, distinct = len(column.codes), len(column.values)
    if MISSING_TEXTS.issuperset(column.values):
        return "no values"
    if distinct == 1:
        return "a single value"
    if chosen is not None and chosen.numbers is not None:
        is_missing = np.array([value in MISSING_TEXTS for value in column.values])[column.codes]
        if is_missing[chosen.numbers != 1].all():
            return "only chosen rows have values"
    keys = ("propensity", "reward", "cost", *(() if chosen else ("action",)), "group")
    if key := next((key for key in keys if column.suggests(key)), ""):
        return f"its name suggests {'an' if key == 'action' else 'a'} {key}"
    if column.is_outcome:
        return "its name suggests an outcome; if it is known before the decision, add it to the features"
    if column.numbers is None and not column.is_time and distinct > min(MAX_CATEGORIES, max(FEW, n // 2)):
        return column.obstacle if "commas" in column.obstacle else f"a text with {distinct} different values"
    if column.is_whole and distinct == n > FEW:
        return "a number with a different value in each row"
    has_times = column.has_word("time") and column.numbers is not None and distinct > MAX_CATEGORIES
    return "its name suggests a time" if has_times else ""


def _quote(name: str) -> str:
    """Return a name as a scalar of YAML, without quotes if that is safe."""
    is_plain = PLAIN.fullmatch(name) and name.lower() not in YAML_WORDS
    return name if is_plain else json.dumps(name, ensure_ascii=not name.isprintable())
