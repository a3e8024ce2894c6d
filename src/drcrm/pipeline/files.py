"""Reading and writing the pipeline's files: npz without pickles, and outputs that appear whole or not at all."""

from __future__ import annotations

import csv
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from ..errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside ``path`` to write to, and rename it to ``path`` if nothing was raised."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".part-") as folder:
        part = Path(folder) / path.name
        yield part
        os.replace(part, path)


def write_npz(path: str | Path, **arrays) -> None:
    """Write arrays; a CSR matrix goes as its parts, under names that :func:`read_npz` puts together again."""
    flat = {}
    for name, array in arrays.items():
        if sparse.issparse(array):
            for part in ("data", "indices", "indptr"):
                flat[f"{name}.{part}"] = getattr(array, part)
            flat[f"{name}.shape"] = np.array(array.shape)
        else:
            flat[name] = array
    with atomic(path) as part, open(part, "wb") as stream:
        np.savez(stream, **flat)


def read_npz(path: str | Path, names: Iterable[str]) -> dict[str, np.ndarray | sparse.csr_array]:
    """Read the named arrays; InputError says what is wrong with the file, or which array it lacks."""
    found = {}
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            for name in names:
                if f"{name}.shape" in archive:
                    data, indices, indptr, shape = (
                        archive[f"{name}.{part}"] for part in ("data", "indices", "indptr", "shape")
                    )
                    found[name] = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
                    found[name].check_format(full_check=True)
                elif name in archive:
                    found[name] = archive[name]
                else:
                    raise InputError(f"{path}: no array {name!r}, only {sorted(archive.files)}")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, TypeError, AttributeError, ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not a readable npz file ({error})") from None
    return found


def write_csv(path: str | Path, columns: list[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows in the order of ``columns``; None and NaN are empty cells, floats keep all digits."""
    with atomic(path) as part, open(part, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[column]) for column in columns] for row in rows)


def read_csv(path: str | Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read a table that must have these columns; only an empty cell is a missing value."""
    import pandas as pd

    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: not a readable csv file ({' '.join(str(error).split())})") from None
    missing = [name for name in columns if name not in table]
    if missing:
        raise InputError(f"{path}: no column {missing[0]!r}, expected {', '.join(columns)}")
    return table


def write_text(path: str | Path, text: str) -> None:
    with atomic(path) as part:
        part.write_text(text, encoding="utf-8")


def _cell(value) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)
