"""Tables whose rows have a list of objects, such as candidates: they become tables with a row for each object."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from drcrm.errors import InputError, import_extra
from drcrm.logs.encoding.columns import numbers, reject_values

PANDAS_OPTIONS = {"integer_object_nulls": True, "split_blocks": True}  # whole numbers stay whole next to missing values


def nested_fields(header: list[str], names: Sequence[str], list_id: str | None) -> list[str]:
    """Return the names such as ``items.price`` that are fields of the objects in the lists of the column ``items``."""
    is_nested = list_id in header
    return [name for name in names if is_nested and name.startswith(f"{list_id}.") and name not in header]


def explode_lists(
    tables: Iterable[Any], list_id: str, fields: Callable[[], list[str]], positions: Sequence[str | None]
) -> Iterator[Any]:
    """Yield Arrow tables with a row for each object in the lists of a column, if its objects have ``fields``.

    The column becomes the number of the list. A column of ``positions``, from 0, becomes 1 in the row of this position,
    and 0 in the others, unless it is a field itself.
    """
    arrow, first = import_extra("pyarrow"), 0
    for table in tables:
        if not (names := fields()):
            yield table
            continue
        objects, sizes = objects_of_lists(table[list_id].combine_chunks(), list_id, first)
        if absent := [name for name in names if name not in objects.column_names]:
            available = ", ".join(objects.column_names)
            raise InputError(f"the objects in {list_id!r} have no field for {absent[0]!r}, expected one of {available}")
        rows, starts = np.repeat(np.arange(len(table)), sizes), np.append(0, np.cumsum(sizes))
        result = table.drop_columns(list_id).take(rows).append_column(list_id, arrow.array(first + rows))
        for name in names:
            result = result.append_column(name, objects[name])
        for name in {*positions} & {*table.column_names}:
            label, expected = f"position {name!r}", "a position in the list, from 0 to its number of objects minus 1"
            places = numbers(table[name].to_pandas(**PANDAS_OPTIONS), label, expected)
            is_bad = (places != np.round(places)) | (places < 0) | (places >= sizes)
            reject_values(is_bad, places, label, expected, np.arange(first, first + len(table)))
            is_chosen = np.zeros(len(rows), dtype=np.int8)
            is_chosen[starts[:-1] + places.astype(int)] = 1
            result = result.set_column(result.column_names.index(name), name, arrow.array(is_chosen))
        first += len(table)
        yield result


def objects_of_lists(lists: Any, name: str, first: int) -> tuple[Any, np.ndarray]:
    """Return the fields of the objects in lists as an Arrow table, and the number of objects in each list, (m,)."""
    arrow = import_extra("pyarrow")
    if not (arrow.types.is_list(lists.type) or arrow.types.is_large_list(lists.type)):
        raise InputError(f"list {name!r} must be a column of lists of objects, because its fields are used")
    sizes = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    if not sizes.all():
        raise InputError(f"row {first + int(np.argmin(sizes))} has no object in {name!r}, expected at least one")
    objects = lists.flatten()
    if not arrow.types.is_struct(objects.type):  # texts of objects, from JSON
        cells = [json.loads(text) if text and text.startswith("{") else None for text in objects.to_pylist()]
        if None in cells:
            raise InputError(f'the lists in {name!r} must have objects such as {{"price": 2.5}}')
        keys = dict.fromkeys(key for cell in cells for key in cell)
        columns = {f"{name}.{key}": arrow.array([cell.get(key) for cell in cells], arrow.string()) for key in keys}
        return arrow.table(columns), sizes
    return flatten_objects(arrow.table({name: objects})), sizes


def flatten_objects(table: Any) -> Any:
    """Return an Arrow table with a column such as ``user.age`` for each field of nested objects.

    A field is left out if the table has another column of this name.
    """
    is_nested = import_extra("pyarrow").types.is_struct
    while any(map(is_nested, kinds := table.schema.types)):
        columns = set(table.column_names)
        are_fields = [is_nested(kind) for kind in kinds for _ in range(kind.num_fields if is_nested(kind) else 1)]
        table = table.flatten()
        flat = enumerate(zip(table.column_names, are_fields, strict=True))
        table = table.select([place for place, (name, is_field) in flat if not (is_field and name in columns)])
    return table
