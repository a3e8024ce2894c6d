"""Reader of Parquet."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drcrm.errors import InputError, import_extra, prefix_errors, refuse_errors
from drcrm.logs.encoding.nested_lists import flatten_objects
from drcrm.logs.readers.base import Select, one_line
from drcrm.logs.readers.tables import TableReader
from drcrm.progress import report_progress


class ParquetReader(TableReader):
    """Reader of Parquet."""

    name, title, suffixes = "parquet", "Parquet", (".parquet", ".pq")

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith(b"PAR1")

    def read_tables(self, file: Path, select: Select) -> Iterator[Any]:
        arrow = import_extra("pyarrow")
        with _open_parquet(file) as table:
            if not table.metadata.num_rows:
                return
            header = flatten_objects(table.schema_arrow.empty_table()).column_names
            columns = select(header).names or header[:1]  # a table without columns has no rows
            for batch in table.iter_batches(self.rows, columns=columns, use_threads=False):
                report_progress(file.stat().st_size * batch.num_rows // table.metadata.num_rows, "bytes")
                yield flatten_objects(arrow.table(batch)).select(columns).replace_schema_metadata()

    def column_types(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the Arrow type that represents a column of files whose types differ, such as null and int64.

        Categories count as their values. Raise InputError if a column has no such type.
        """
        arrow, schemas = import_extra("pyarrow"), []
        for file in self.files:
            with prefix_errors(file), _open_parquet(file) as parquet:
                flat = flatten_objects(parquet.schema_arrow.empty_table()).schema
            kinds = {field.name: field.type for field in flat if field.name in names}
            is_category = arrow.types.is_dictionary
            schemas.append(arrow.schema({n: k.value_type if is_category(k) else k for n, k in kinds.items()}))
        try:
            joint = arrow.unify_schemas(schemas, promote_options="permissive")
        except arrow.ArrowException as error:
            raise InputError(f"expected one type of a column in all files; write CSV ({one_line(error)})") from None
        return dict(zip(joint.names, joint.types, strict=True))


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """Yield an open Parquet file; raise InputError if it is damaged."""
    open_parquet = import_extra("pyarrow.parquet").ParquetFile
    with refuse_errors("is not a readable Parquet file"), open_parquet(path, pre_buffer=False) as file:
        yield file  # with a buffer, the file would stay in memory
