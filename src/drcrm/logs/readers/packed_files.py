"""Bytes and lines of files that may be compressed, and formats recognised by content."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drcrm.data.listeners import report_progress
from drcrm.errors import InputError, import_extra
from drcrm.logs.readers.csv_format import BYTE_ORDER_MARKS

SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    ".npz": "npz",
    ".dsjson": "dsjson",
    ".vw": "vw",
}
PACKED = ".gz", ".bz2", ".xz", ".zst", ".zip"
BUFFER = 2**18  # bytes that are read at once, between two reports of progress
START = 2**16  # bytes of a file that show its format
EVENT = re.compile(rb'\[CHECKPOINT|\{.*("(_label\w*|_multi|EventId)"\s*:|"c"\s*:\s*\{)')  # an event of dsjson
VW_LINE = re.compile(rb"\s*(shared\b|\d|\|).*\||\s*\|")  # the label of a line, then a namespace


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


def _open_zstd(file: io.BufferedIOBase) -> Any:
    return io.BufferedReader(import_extra("pyarrow").CompressedInputStream(file, "zstd"))


UNPACK: dict[bytes, Callable[[Any], Any]] = {  # by the first bytes of a file
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _open_zstd,
    b"PK\x03\x04": _open_zip,
}


@contextmanager
def opened(path: Path, reported: bool = False) -> Iterator[io.BufferedIOBase]:
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


def format_of_file(path: Path) -> str:
    """Return the format of a file by its suffix, or by its first bytes if the suffix is not in ``SUFFIXES``."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in PACKED]
    if suffixes and suffixes[-1] in SUFFIXES:
        return SUFFIXES[suffixes[-1]]
    with opened(path) as file:
        start = file.read(START).removeprefix(b"\xef\xbb\xbf").lstrip()
    if b"\0" in start and not start.startswith((b"PAR1", *BYTE_ORDER_MARKS)):
        raise InputError("has no known format, expected CSV, Parquet, npz, dsjson or Vowpal Wabbit's text")
    if start.startswith(b"PAR1"):
        return "parquet"
    if EVENT.match(start) or start.startswith(b"{"):
        return "dsjson" if EVENT.match(start) else "json"
    return "vw" if VW_LINE.match(start.partition(b"\n")[0]) else "csv"


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
