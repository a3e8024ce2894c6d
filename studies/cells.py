"""Tables of the studies: means by key, and the cells of the tables that pages include."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm.logs.diagnostics.comparison.verdict import VERDICTS


def means(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return the means of all other columns by key, and the number of ``logs``."""
    numbers = [name for name in rows.columns if name not in keys]
    groups = rows.astype(dict.fromkeys(numbers, float)).groupby([*keys], sort=False)
    return groups[numbers].mean().assign(logs=groups.size()).reset_index()


def with_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a column for each verdict, 1 or 0, in place of the column ``verdict``."""
    shares = pd.get_dummies(rows["verdict"]).reindex(columns=list(VERDICTS), fill_value=False)
    return pd.concat([rows.drop(columns="verdict"), shares], axis=1)


def number(value: float, digits: int = 3, sign: str = "") -> str:
    """Return a number with a minus sign, or a dash for NaN; ± 0.0 keeps its sign."""
    return "–" if pd.isna(value) else f"{value:{sign}.{digits}f}".replace("-", "−")


def joined(values: Iterable[float], digits: int = 3, separator: str = " · ", sign: str = "") -> str:
    return separator.join(number(value, digits, sign) for value in values)


def table_of(header: Iterable[str], rows: Iterable[Iterable[str]]) -> pd.DataFrame:
    """Return a table of texts. Its columns may have equal names."""
    return pd.DataFrame([list(row) for row in rows], columns=list(header))


def verdict_table(table: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return the share of each verdict but *worse* by key."""
    verdicts = [verdict for verdict in VERDICTS if verdict != "worse"]
    cells = ((*map(str, row[: len(keys)]), *map(number, row[len(keys) :])) for row in table[[*keys, *verdicts]].values)
    return table_of((*keys, *verdicts), cells)


def compare(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table whose cells are published, with the differences from the published numbers.

    ``difference`` is the published value minus ours, ``difference_in_errors`` the same in joint standard errors.
    """
    published = pd.read_csv(Path(__file__).with_name("published_tables.csv"), dtype={"setting": str})
    cell = ["table", "setting", "dataset", "method"]
    rows = table.merge(published, on=cell, suffixes=("", "_published")).rename(columns={"value_published": "published"})
    rows["difference"] = rows["published"] - rows["value"]
    errors = np.hypot(rows["standard_error"], rows["standard_error_published"])
    return rows.assign(difference_in_errors=rows["difference"] / errors)
