"""Reading and writing the pipeline's files: npz without pickles, and outputs that appear whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from drcrm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def check_file_name(name: str) -> str:
    """Return ``name``; InputError unless it is that of a file in a folder, and leads nowhere else."""
    if name in ("", ".", "..") or name[:1] == "-" or "/" in name or not name.isprintable() or len(name.encode()) > 255:
        raise InputError(f"{name!r} is not the name of a file: no path, no '-' in front, 255 bytes at most")
    return name


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and put what was written in the place of ``path`` if nothing was raised.

    A file is replaced at once and keeps its permissions; of a link, its target is. ``-`` is standard output. A pipe, a
    device or a socket stays what it is and receives the bytes. An error of the system names ``path``.
    """
    path = Path(path)
    try:
        with _streamed(path) if is_stream(path) else _replaced(path) as part:
            yield part
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = str(path)
        raise


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Yield a path in a folder beside a file, or the target of a link, which replaces it in the end.

    The folder that a killed process has left for the same file is removed.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".part-{zlib.crc32(os.fsencode(target.name)):08x}-"  # a name as long as the file's could be too long
    for left in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=prefix) as folder:
        part = Path(folder) / path.name
        yield part
        if target.is_file():
            shutil.copymode(target, part)
        os.replace(part, target)


@contextmanager
def _streamed(path: Path) -> Iterator[Path]:
    """Yield a path in a temporary folder, whose bytes go to a stream in the end: npz and Parquet need to seek."""
    descriptor = standard_descriptor(path)
    if descriptor == 1 and sys.stdout is None:
        raise InputError(f"{path} is standard output, which is closed")
    with tempfile.TemporaryDirectory(prefix="drcrm-") as folder:
        part = Path(folder) / path.name
        yield part
        if descriptor == 1:
            sys.stdout.flush()
        with open(part, "rb") as source, open(descriptor or path, "wb", closefd=descriptor is None) as stream:
            shutil.copyfileobj(source, stream)


def is_stream(path: str | Path) -> bool:
    """Return whether a path is written straight to: standard output or error, a pipe, a device or a socket."""
    if standard_descriptor(path):
        return True
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISBLK(mode):
        raise InputError(f"{path} is a block device, expected a file, a pipe or a character device")
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def standard_descriptor(path: str | Path) -> int | None:
    """Return 1 for a path that is ``-`` or leads to where standard output goes, 2 for standard error, else None.

    /dev/null is neither, although both may go there.
    """
    if str(path) == "-":
        return 1
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        with suppress(OSError):
            # A stream that is None is closed: its number may be that of any file.
            if stream and os.path.samestat(os.stat(path), os.fstat(descriptor)) and not is_null_device(path):
                return descriptor
    return None


def is_terminal(path: str | Path) -> bool:
    """Return whether a path leads to standard output or error, and that to a terminal."""
    descriptor = standard_descriptor(path)
    return descriptor is not None and os.isatty(descriptor)


def is_null_device(path: str | Path) -> bool:
    """Return whether a path leads to the device that forgets what is written to it."""
    return os.path.exists(path) and os.path.samefile(path, os.devnull)


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


def read_npz(
    path: str | Path, names: Iterable[str], optional: Iterable[str] = ()
) -> dict[str, np.ndarray | sparse.csr_array]:
    """Read the named arrays, the ``optional`` ones if they are there.

    InputError says what is wrong with the file, or which array it lacks.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            held = {name.removesuffix(".npy") for name in archive.namelist()}
            return {name: _stored(archive, held, name) for name in (*names, *held.intersection(optional))}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except Exception as error:  # whatever damaged bytes make of it
        message = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: not a readable npz file ({message})") from None


def _stored(archive: zipfile.ZipFile, held: Set[str], name: str) -> np.ndarray | sparse.csr_array:
    """An array of an archive that holds these, or a CSR matrix of its parts."""
    if f"{name}.shape" not in held:
        if name not in held:
            raise InputError(f"no array {name!r}, only {sorted(held)}")
        return _array(archive, name)
    data, *places = (_array(archive, f"{name}.{part}") for part in ("data", "indices", "indptr", "shape"))
    if any(array.dtype.kind not in "iu" for array in places):
        raise InputError(f"{name} is no CSR matrix: its indices, indptr or shape are not whole numbers")
    indices, indptr, shape = places
    matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
    matrix.check_format(full_check=True)
    if matrix.nnz != data.size:
        raise InputError(f"{name} is no CSR matrix: its indptr has {matrix.nnz} of {data.size} values")
    return matrix


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array, read to the end of its bytes, where their checksum is compared."""
    with archive.open(f"{name}.npy") as member:
        array = np.lib.format.read_array(member, allow_pickle=False)
        if member.read(1):
            raise ValueError(f"more bytes than {name} has")
    return array


def write_csv(path: str | Path, columns: list[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows in the order of ``columns``; None and NaN are empty cells, floats keep all digits."""
    with atomic(path) as part, open(part, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[column]) for column in columns] for row in rows)


def read_csv(path: str | Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read a table, of gzip perhaps, that must have these columns; only an empty cell is a missing value."""
    import pandas as pd

    opened = gzip.open if str(path).endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as stream:
            text = stream.read()
        table = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a readable csv file ({' '.join(str(error).split())})") from None
    if not text.endswith("\n"):
        raise InputError(f"{path}: cut off: its last line does not end")
    if missing := [name for name in columns if name not in table]:
        raise InputError(f"{path}: no column {missing[0]!r}, expected {', '.join(columns)}")
    return table


def write_text(path: str | Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: str | Path, value: object) -> None:
    write_text(path, json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False) + "\n")


def write_bytes(path: str | Path, content: bytes) -> None:
    with atomic(path) as part:
        part.write_bytes(content)


def _cell(value) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)
