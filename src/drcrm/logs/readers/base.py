"""Interface of the readers of log files, and files that may be compressed.

A reader of a new format is a class in a file of this folder, and its name in ``READERS``.
"""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from drcrm.errors import InputError, import_extra
from drcrm.logs.batches import Batch
from drcrm.logs.encoding.base import Encoding
from drcrm.mapping.log_mapping import LogMapping
from drcrm.progress import report_progress

BUFFER = 2**18  # bytes that are read at once, between two reports of progress


class Columns(NamedTuple):
    """The columns to read, and those among them that have numbers."""

    names: list[str]
    numeric: list[str]


Select = Callable[[list[str]], Columns]  # from the columns of a file to those that are read


class Reader(ABC):
    """Reader of the files of a log, which all have its format.

    Parameters
    ----------
    files : list of Path
    mapping : LogMapping
    rows : int
        Number of rows of a batch; about as much memory for a format without rows.

    Attributes
    ----------
    name, title : str
        Name of the format in answers, and of a file in messages.
    suffixes : tuple of str
        Ends of the names of its files.
    encodings : tuple of type
        Encodings of its features.
    is_single_file : bool
        Whether a log is a single file.
    skipped : Counter
        Number of lines that were skipped, by reason.
    n_read : int
        Number of rows or lines of the current file that were read so far.
    """

    name: str
    title: str
    suffixes: tuple[str, ...] = ()
    encodings: tuple[type[Encoding], ...]
    is_single_file = False

    def __init__(self, files: list[Path], mapping: LogMapping, rows: int):
        self.files, self.mapping, self.rows = files, mapping, rows
        self.skipped: Counter[str] = Counter()
        self.n_read = 0

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        """Return whether a file without a known suffix has this format, from its first bytes."""
        return False

    @abstractmethod
    def read_batches(self, file: Path) -> Iterator[Batch]:
        """Yield the batches of a file."""

    @abstractmethod
    def read_contexts(self, file: Path, encoding: Any, keep: Sequence[str]) -> Iterator[tuple[Any, Any]]:
        """Yield a file's contexts in the form of ``Contexts``, and the columns ``keep`` of a table as written."""

    def column_types(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the Arrow types of columns, if the files declare types."""
        return {}


class ReportedFile(io.FileIO):
    """File whose bytes count as progress when they are read."""

    def readinto(self, buffer: Any) -> int | None:  # type: ignore[override]
        size = super().readinto(buffer)
        report_progress(size or 0, "bytes")
        return size


def _open_zip(file: io.BufferedIOBase) -> Any:
    archive = zipfile.ZipFile(file)
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    if "[Content_Types].xml" in names:
        raise InputError("is a spreadsheet, expected CSV or another format of logs; save it as CSV")
    if len(names) != 1:
        raise InputError(f"is an archive of {len(names)} files, expected one; unpack it into a folder")
    return archive.open(names[0])


UNPACK: dict[bytes, Callable[[Any], Any]] = {  # by the first bytes of a file
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: io.BufferedReader(import_extra("pyarrow").CompressedInputStream(file, "zstd")),
    b"PK\x03\x04": _open_zip,
}


@contextmanager
def open_file(path: Path, reported: bool = False) -> Iterator[io.BufferedIOBase]:
    """Open a file, decompressed according to its first bytes; InputError if it cannot be read, also in the block.

    With ``reported``, report the progress.
    """
    try:
        with io.BufferedReader((ReportedFile if reported else io.FileIO)(path), BUFFER) as file:
            start = file.peek(8)
            unpack = next((unpack for magic, unpack in UNPACK.items() if start.startswith(magic)), None)
            if unpack is None:
                yield file
            else:
                with unpack(file) as unpacked:
                    yield unpacked
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None)
        message = f"cannot be read: {reason}" if reason else f"is truncated or damaged: {one_line(error)}"
        raise InputError(message) from None


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
