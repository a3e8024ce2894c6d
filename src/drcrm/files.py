"""Reading and writing files: outputs that appear completely or not at all, npz without pickle, CSV and JSON.

A command checks the paths of its files with :func:`require_separate_outputs`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # loads scipy.sparse at its first use

from drcrm.errors import InputError, prefix_errors, refuse_errors

if TYPE_CHECKING:
    import pandas as pd

PART = ".part-"  # start of the names of temporary folders
CSR_PARTS = "data", "indices", "indptr", "shape"
INPUTS, OUTPUTS = ("log", "contexts", "config", "policy", "baseline"), ("output", "best", "json", "report")


def check_file_name(name: str) -> str:
    """Return ``name`` if it is a plain file name; raise InputError if it could lead out of its folder."""
    if name in ("", ".", "..") or name[:1] == "-" or "/" in name or not name.isprintable() or len(name.encode()) > 255:
        raise InputError(f"{name!r} is not a file name, expected no path, no '-' in front, and at most 255 bytes")
    return name


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to. If the block raises no exception, the written file replaces ``path``.

    The replacement is atomic and keeps the permissions. If ``path`` is a link, its target is replaced. ``-`` is
    standard output. If ``path`` is a pipe, device or socket, the bytes are copied to it. An OSError names ``path``.
    """
    path = Path(path)
    try:
        with _streamed(path) if is_stream(path) else _replaced(path) as part:
            yield part
    except OSError as error:
        if error.errno and (not error.filename or PART in str(error.filename)):
            error.filename = str(path)
        raise


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Yield a path in a temporary folder next to the file, then move the written file to its place."""
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=PART, ignore_cleanup_errors=True) as folder:
        part = Path(folder) / path.name
        yield part
        if target.is_file():
            shutil.copymode(target, part)
        os.replace(part, target)


@contextmanager
def _streamed(path: Path) -> Iterator[Path]:
    """Yield a path in a temporary folder, then copy the file to a stream. Writers of npz and Parquet need to seek."""
    descriptor = standard_descriptor(path)
    with TemporaryDirectory(prefix="drcrm-") as folder:
        part = Path(folder) / path.name
        yield part
        if descriptor == 1:
            sys.stdout.flush()
        with open(part, "rb") as source, open(descriptor or path, "wb", closefd=descriptor is None) as stream:
            shutil.copyfileobj(source, stream)


def is_stream(path: str | Path) -> bool:
    """Return whether a path is standard output or error, a pipe, a device or a socket, which cannot be replaced."""
    if standard_descriptor(path):
        return True
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def standard_descriptor(path: str | Path) -> int | None:
    """Return 1 if a path is standard output, 2 if it is standard error, else None."""
    return {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}.get(str(path))


def is_terminal(path: str | Path) -> bool:
    """Return whether a path is standard output or error, and that stream is a terminal."""
    descriptor = standard_descriptor(path)
    return descriptor is not None and os.isatty(descriptor)


def require_separate_outputs(**options: Any) -> None:
    """Raise InputError if an output cannot be written, is a folder or an input, or equals another output.

    ``options`` are those of a command, by name. Links are followed. Only /dev/null may be used for several outputs.
    """
    paths: list[tuple[str, Path]] = []
    for name in (*INPUTS, *OUTPUTS):
        value = options.get(name)
        values = value if isinstance(value, list) else [value]
        paths += [(name, Path(path)) for path in values if isinstance(path, Path | str)]
    for name, output in [(name, path) for name, path in paths if name in OUTPUTS]:
        for role, path in paths:
            if role != name and _are_same(output, path):
                raise InputError(f"{output} is both --{name} and {role}, expected two different files")
            if role in INPUTS and _contains(path, output):
                raise InputError(f"--{name} {output} is a file of the input folder {path}, expected a file elsewhere")
        if output.is_dir() or not output.name:
            raise InputError(f"--{name} must be a file, got the folder {str(output)!r}")
        if not (is_stream(output) or _can_be_created(output)):
            raise InputError(f"--{name} {output} cannot be written: its folder does not permit it")


def _are_same(output: Path, path: Path) -> bool:
    """Return whether two paths are the same file, pipe or standard stream; False for /dev/null."""
    if str(output) == os.devnull:
        return False
    if (descriptor := standard_descriptor(output)) and descriptor == standard_descriptor(path):
        return True
    exist = output.exists() and path.exists()
    return os.path.samefile(output, path) if exist else os.path.realpath(output) == os.path.realpath(path)


def _can_be_created(output: Path) -> bool:
    """Return whether the deepest existing folder of the path permits writing."""
    return os.access(next(folder for folder in Path(os.path.realpath(output)).parents if folder.exists()), os.W_OK)


def _contains(folder: Path, output: Path) -> bool:
    """Return whether an output would replace a file in a folder."""
    return folder.is_dir() and output.is_file() and folder.resolve() in Path(os.path.realpath(output)).parents


def write_npz(path: str | Path, **arrays: Any) -> None:
    """Write arrays by name. A CSR matrix becomes four arrays, such as ``X.data``, which :func:`read_npz` joins."""
    flat: dict[str, Any] = {}
    for name, array in arrays.items():
        if hasattr(array, "indptr"):
            flat |= {f"{name}.{part}": np.asarray(getattr(array, part)) for part in CSR_PARTS}
        else:
            flat[name] = array
    with atomic(path) as part, open(part, "wb") as stream:
        np.savez(stream, **flat)


def read_npz(
    path: str | Path, names: Iterable[str], optional: Iterable[str] = ()
) -> dict[str, np.ndarray | scipy.sparse.csr_array]:
    """Return the arrays ``names``, and the arrays of ``optional`` that the file has.

    Raise InputError if the file is missing or damaged, or an array of ``names`` is missing.
    """
    if not Path(path).exists():
        raise InputError(f"{path}: no such file")
    with prefix_errors(path), refuse_errors("not a readable npz file"), zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy") for name in archive.namelist()}
        return {name: _read_array(archive, members, name) for name in (*names, *members.intersection(optional))}


def _read_array(archive: zipfile.ZipFile, members: Set[str], name: str) -> np.ndarray | scipy.sparse.csr_array:
    """Return an array of an archive with these members, or a CSR matrix from its parts."""
    if f"{name}.shape" not in members:
        if name not in members:
            raise InputError(f"no array {name!r}, only {sorted(members)}")
        return _read_member(archive, name)
    data, indices, indptr, shape = (_read_member(archive, f"{name}.{part}") for part in CSR_PARTS)
    matrix = scipy.sparse.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
    matrix.check_format(full_check=True)
    return matrix


def _read_member(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Return an array. Read the file to its end, so that zipfile compares the checksum."""
    with archive.open(f"{name}.npy") as member:
        array = np.lib.format.read_array(member, allow_pickle=False)
        member.read()
    return array


def write_csv(path: str | Path, columns: list[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a table in the order of ``columns``; None and NaN become empty cells, floats keep all digits."""
    with atomic(path) as part, open(part, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[column]) for column in columns] for row in rows)


def read_csv(path: str | Path, columns: Sequence[str], dtype: type | None = None) -> pd.DataFrame:
    """Read a CSV file, or a gzip file of one, that must have ``columns``. Only empty cells are missing values."""
    import pandas as pd

    opened = gzip.open if str(path).endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as stream:
            text = stream.read()
        table = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""], dtype=dtype)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a readable csv file ({' '.join(str(error).split())})") from None
    if not text.endswith("\n"):
        raise InputError(f"{path}: the file is cut off: its last line has no line feed")
    if missing := [name for name in columns if name not in table]:
        raise InputError(f"{path}: no column {missing[0]!r}, expected {', '.join(columns)}")
    return table


def write_text(path: str | Path, text: str) -> None:
    """Write text in UTF-8."""
    with atomic(path) as part:
        part.write_bytes(text.encode())


def write_json(path: str | Path, value: object) -> None:
    """Write a value as JSON with sorted keys."""
    write_text(path, json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False) + "\n")


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)
