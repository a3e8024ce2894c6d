"""Base of the readers of tables: frames with the needed columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from drcrm.data.listeners import report_progress
from drcrm.errors import import_extra
from drcrm.logs.batches.description import Batch
from drcrm.logs.batches.table_rows import dataset_mapping, frame_batch
from drcrm.logs.encoding.base import Contexts
from drcrm.logs.encoding.listed_tables import ListedTableEncoding, ListIds
from drcrm.logs.encoding.tables import TableEncoding, find_columns
from drcrm.logs.readers.base import Columns, Reader, Select

OPTIONS = {"integer_object_nulls": True, "split_blocks": True}  # whole numbers stay whole next to missing values
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class TableReader(Reader):
    """Reader of tables with named columns; a mapping gives their meaning."""

    encodings = (TableEncoding, ListedTableEncoding)

    @abstractmethod
    def read_tables(self, file: Path, select: Select) -> Iterator[Any]:
        """Yield the rows of a file as Arrow tables with the selected columns."""

    def with_decimal_points(self, table: Any, numeric: list[str], first: int) -> Any:
        """Return a table with decimal points in numeric columns; ``first`` is the number of its first row."""
        return table

    def unescape(self, name: Any) -> Any:
        """Return the name of an action without the escapes that ``drcrm predict`` adds."""
        return name

    def read_batches(self, file: Path) -> Iterator[Batch]:
        mapping, list_id = self.mapping, self.mapping.list
        self.n_read, lists = 0, ListIds(list_id) if list_id else None

        def select(header: list[str]) -> Columns:
            nonlocal mapping
            mapping = dataset_mapping(header, mapping).require_table()
            return Columns(mapping.columns, mapping.number_columns)

        for frame, _ in self.read_frames(file, select, list_id):
            batch = frame_batch(frame, mapping, self.name, lists, self.unescape)
            self.n_read += len(frame)
            report_progress(len(frame), "rows")
            yield batch
        if lists:
            lists.finish()

    def read_contexts(self, file: Path, encoding: Any, keep: Sequence[str]) -> Iterator[tuple[Contexts, Any]]:
        lists = ListIds(encoding.list_id)
        columns = Columns([*dict.fromkeys([*encoding.inputs, *keep])], [*encoding.scales])
        for frame, table in self.read_frames(file, lambda header: columns, encoding.list_id):
            yield encoding.read(frame, lists), table.select([*keep])
        lists.finish()

    def read_frames(self, file: Path, select: Select, list_id: str | None = None) -> Iterator[tuple[pd.DataFrame, Any]]:
        """Yield the selected columns of a table twice: as a frame with decimal points, and as Arrow columns as written.

        The index of the frames has the row numbers in the file.
        Consecutive rows with the same value of ``list_id`` are in one frame, so frames may have fewer or more rows.
        """
        arrow, first = import_extra("pyarrow"), 0
        partition, columns, found = partition_of(file), Columns([], []), {}

        def choose(header: list[str]) -> Columns:
            nonlocal columns, found
            known = {name: value for name, value in partition.items() if name not in header}
            columns = select([*header, *known])
            found = find_columns([*header, *known], columns.names)
            names = [name for name in found.values() if name not in known]
            return Columns(names, [found[name] for name in columns.numeric if found[name] not in known])

        for table in _regroup(self.read_tables(file, choose), self.rows, lambda: found.get(list_id or "")):
            rows = range(first, first + len(table))
            for name in partition.keys() - {*table.column_names}:
                table = table.append_column(
                    name, arrow.repeat(arrow.scalar(partition[name], arrow.string()), len(rows))
                )
            table = arrow.table({name: table[column] for name, column in found.items()} or table)
            yield self.with_decimal_points(table, columns.numeric, first).to_pandas(**OPTIONS).set_axis(rows), table
            first = rows.stop
        arrow.default_memory_pool().release_unused()


def partition_of(path: Path) -> dict[str, str | None]:
    """Return the columns that the folders above a file name, like Hive: ``day=2024-05-01``."""
    pairs = [folder.name.split("=", 1) for folder in takewhile(lambda folder: "=" in folder.name, path.parents)]
    return {unquote(name): None if value == HIVE_NULL else unquote(value) for name, value in reversed(pairs)}


def _regroup(tables: Iterable[Any], rows: int, list_column: Callable[[], str | None]) -> Iterator[Any]:
    """Yield Arrow tables of about ``rows`` rows, which end with the last row of a list; the last one may be smaller."""
    arrow = import_extra("pyarrow")
    rest: list[Any] = []
    for table in tables:
        table = arrow.concat_tables([*rest, table])
        while len(table) >= rows and (end := _end_of_list(table, rows, list_column())):
            yield table.slice(0, end)
            table = table.slice(end)
        rest = [table]
    yield from (table for table in rest if len(table))


def _end_of_list(table: Any, rows: int, list_column: str | None) -> int:
    """Return the last end of a list in the first rows of a table, else the first one after them; 0 if there is none."""
    if list_column not in table.column_names:
        return rows
    codes, _ = pd.factorize(table[list_column].to_pandas(**OPTIONS), use_na_sentinel=False)
    ends = np.flatnonzero(np.diff(codes)) + 1
    return int(ends[max(np.searchsorted(ends, rows, "right") - 1, 0)]) if len(ends) else 0
