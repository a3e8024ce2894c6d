"""``drcrm init``: propose a mapping for a log from the names and the values of its columns.

A key is proposed only if one column fits it by its name and its values, or shows by its values. Other candidates become
comments with the reason.
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

from drcrm.cli.setup.columns import FEW, MAX_ACTIONS, Column, assign_roles, known_after
from drcrm.errors import InputError, escape_unprintable, prefix_errors
from drcrm.files import standard_descriptor, write_text
from drcrm.logs.encoding.columns import (
    BOOLEAN_PAIRS,
    ISO,
    MISSING_TEXTS,
    NUMBER,
    THOUSANDS,
    as_iso,
    boolean_numbers,
    categories,
    is_missing,
    numbers,
)
from drcrm.logs.mapping import LogMapping
from drcrm.logs.read_log import first_frame
from drcrm.logs.readers.base import Columns
from drcrm.logs.readers.tables import map_open_bandit_columns

ROWS = 50_000  # number of rows that are read
MAX_CATEGORIES = 1000  # a text column with more values is not a categorical feature
LINE = 100  # characters; a longer list of columns is written with one column per line
NESTED = list, dict, np.ndarray  # types of values that cannot be features
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
YAML_WORDS = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
EXPECTED = {
    "propensity": "numbers in (0, 1] with a name such as propensity or prob",
    "reward": "numbers with a name such as reward, click or cost",
    "action": f"2 to {MAX_ACTIONS} values with a name such as action, arm or item",
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
    missing = [key for key in REQUIRED if key not in roles and not (key == "reward" and "cost" in roles)]
    if missing:
        print(f"The mapping lacks {' and '.join(missing)}. Its comments give the reason and candidates.", file=stream)
    else:
        config = "MAPPING.yaml" if is_printed else str(output)
        words = shlex.join([str(options.log), "--config", config, "--output", "policy.npz", "--report", "report.html"])
        if is_printed:
            print("To save the mapping in a file, add: --output MAPPING.yaml", file=stream)
        print(f"Check {config}, then learn a policy:\n\n    drcrm learn {words}", file=stream)


def read_columns(path: Path, known: LogMapping) -> list[Column]:
    """Return the columns of the first rows of a log; InputError if its format needs no mapping."""
    with prefix_errors(path):
        frame = first_frame(path, _select_all, ROWS, known)
        columns = [
            _column(frame[name]) for name in frame if not frame[name].map(lambda value: isinstance(value, NESTED)).any()
        ]
        with_commas = [column for column in columns if column.has_commas]
        try:
            if with_commas:
                numeric = [column.name for column in columns if column.numbers is not None]
                readable = first_frame(path, lambda header: Columns(numeric, numeric), ROWS, known)
                for column in with_commas:
                    numbers(readable[column.name], column.name, optional=True)
        except InputError as error:  # a thousands separator, decimal points elsewhere, or the format is not CSV
            misread = {"numbers": None, "has_commas": False, "obstacle": str(error), "is_misformatted": True}
            columns = [replace(column, **misread) if column in with_commas else column for column in columns]
        return columns


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
        return Column(name, codes, values, None, is_time=False, obstacle=f"{name} is empty in all rows")
    texts = column.astype(str).str.strip().mask(missing)
    is_time = column.dtype.kind == "M" or bool(texts[~missing].map(as_iso).str.fullmatch(ISO.strip("^$")).all())
    if column.dtype.kind == "M":
        return Column(name, codes, values, None, is_time)
    with_points = texts.str.replace(r"^([+-]?\d*),(\d+)$", r"\1.\2", regex=True)
    commas = texts[(with_points != texts) & ~missing]
    distinct = {*texts[~missing]}
    # A column has one pair: t/f/n, or yes/no beside on/off, are categories.
    pair = next((pair for pair in BOOLEAN_PAIRS if {*pair.split("/")} <= {value.lower() for value in distinct}), "")
    try:
        as_numbers = numbers(with_points, name, optional=True, booleans=boolean_numbers([pair] if pair else []))
    except InputError as error:
        is_number = [THOUSANDS.fullmatch(value) or NUMBER.fullmatch(value) for value in distinct]
        obstacle = "" if is_time else str(error)
        return Column(name, codes, values, None, is_time, obstacle=obstacle, is_misformatted=all(is_number))
    return Column(name, codes, values, as_numbers, is_time, len(commas) > 0, pair)


def _mapping_sections(columns: list[Column], roles: dict[str, Column], known: LogMapping) -> Iterator[list[str]]:
    """Yield the lines of each section of the mapping."""
    free = [column for column in columns if column not in roles.values()]
    for required in REQUIRED:
        key = "cost" if required == "reward" and "cost" in roles else required
        is_known = key in roles
        yield [f"{key}: {_quote(roles[key].name)}  # {roles[key].describe()}"] if is_known else _candidates(key, free)
    keys = {"delimiter": known.delimiter, "encoding": known.encoding}
    optional = [f"{key}: {_quote(value)}" for key, value in keys.items() if value]
    commas = [column for column in columns if column.has_commas]
    optional += [f'decimal: ","  # {_quote(column.name)} has {column.describe()}' for column in commas[:1]]
    numeric = [column for column in columns if column in free or column in (roles.get("reward"), roles.get("cost"))]
    if pairs := sorted({column.booleans for column in numeric if column.booleans}):
        optional.append(f"booleans: [{', '.join(pairs)}]" if len(pairs) > 1 else f"booleans: {pairs[0]}")
    for key, purpose in OPTIONAL.items():
        if key in roles:
            optional.append(f"{key}: {_quote(roles[key].name)}  # {purpose}")
        else:
            names = [_quote(column.name) for column in free if column.has_word(key) and column.fits(key)]
            optional += [f"# {key}: {name}  # optional: {purpose}" for name in names]
    yield [*optional, LEAST_PROPENSITY]
    yield [*_feature_lines(free, roles)]


def _candidates(key: str, free: list[Column]) -> list[str]:
    """Return comments about a key without a column: candidates, and what to do if there is none."""
    fitting = [column for column in free if column.fits(key)]
    by_name = [column for column in fitting if column.has_word(key)]
    names = ["reward", "cost"] if key == "reward" else [key]
    unreadable = [
        f"# {name}: {_quote(column.name)}  # {escape_unprintable(column.obstacle_to(name))}"
        for name in names
        for column in free
        if column.suggests(name) and not column.fits(name) and not column.is_time
    ]
    lines = [f"# {key}: not certain, since {'several columns fit' if by_name else f'no column has {EXPECTED[key]}'}."]
    if unreadable:
        lines += [
            "# Remove the # in front of the right line; correct its values first if the line says why:",
            *unreadable,
        ]
    elif fitting:
        lines.append("# Remove the # in front of the right line:")
    listed = by_name or ([] if unreadable else fitting)
    lines += [f"# {key}: {_quote(column.name)}  # {column.describe()}" for column in listed[:10]]
    return lines if key == "propensity" and (by_name or unreadable) else [*lines, *ADVICE[key]]


def _feature_lines(free: list[Column], roles: dict[str, Column]) -> Iterator[str]:
    """Yield the features, and comments about columns that are left out."""
    groups: dict[str, list[Column]] = {"numeric": [], "categorical": [], "time": []}
    omitted: list[tuple[Column, str]] = []
    for column in free:
        if reason := _why_no_feature(column, roles):
            omitted.append((column, reason))
        else:
            groups["time" if column.is_time else "categorical" if column.numbers is None else "numeric"].append(column)
    yield "# Features must be known before the decision. Remove the other columns."
    yield "features:" if any(groups.values()) else "features: {}"
    for key, columns in groups.items():
        names = [_quote(column.name) for column in columns]
        line = f"  {key}: [{', '.join(names)}]"
        if names:
            yield from [line] if len(line) <= LINE else [f"  {key}:", *(f"  - {name}" for name in names)]
    for column, reason in omitted:
        yield f"# not a feature: {_quote(column.name)} ({escape_unprintable(reason)})"
    outcomes = [column for column, _ in omitted if column.numbers is not None and known_after(column, roles)]
    if outcomes := [column for column in outcomes if np.isfinite(column.numbers).all()][:3]:
        yield "# guardrails:  # optional: what the policy must not worsen"
        yield from (f"#   {_guardrail(column)}" for column in outcomes)
    if slices := [column for column in groups["categorical"][:3] if len(column.values) <= FEW]:
        names = ", ".join(_quote(column.name) for column in slices)
        values = slices[0].describe() if len(slices) == 1 else "their values"
        names = names if len(slices) == 1 else f"[{names}]"
        yield f"# slice: {names}  # optional: the report has a line for each of {values}"


def _guardrail(column: Column) -> str:
    """Return a guardrail for an outcome, which is a cost unless its name suggests a reward."""
    name = _quote(column.name)
    forms = {"cost": f"{{cost: {name}, at_most: 1 %}}", "reward": f"{{reward: {name}, at_least: -1 %}}"}
    alternative = "" if column.direction else f"  # if higher is better: {forms['reward']}"
    return f"{name}: {forms[column.direction or 'cost']}{alternative}"


def _why_no_feature(column: Column, roles: dict[str, Column]) -> str:
    """Return why a column is left out of the features, or an empty text."""
    n, distinct = len(column.codes), len(column.values)
    if MISSING_TEXTS.issuperset(column.values):
        return "no values"
    if distinct == 1:
        return "a single value"
    if column.is_misformatted:
        return column.obstacle
    if column.numbers is None and not column.is_time and distinct > min(MAX_CATEGORIES, max(FEW, n // 2)):
        return f"a text with {distinct} different values"
    if column.is_whole and distinct == n > FEW:
        return "a number with a different value in each row"
    for key in ("propensity", "reward", "cost", "action", "group"):
        if column.suggests(key):
            obstacle = (
                "" if key not in roles or column.fits(key) or column.is_time else f", but {column.obstacle_to(key)}"
            )
            return f"its name suggests {'an' if key == 'action' else 'a'} {key}{obstacle}"
    if column.has_word("time") and column.numbers is not None and distinct > MAX_CATEGORIES:
        return "its name suggests a time"
    reason = known_after(column, roles)
    return reason and f"is it known before the decision? If it is, add it to the features; but {reason}"


def _quote(name: str) -> str:
    """Return a name as a scalar of YAML, without quotes if that is safe."""
    is_plain = PLAIN.fullmatch(name) and name.lower() not in YAML_WORDS
    return name if is_plain else json.dumps(name, ensure_ascii=not name.isprintable())
