"""Compressed files: damaged, cut off, put together, or under another's name."""

from __future__ import annotations

import bz2
import gzip
import zlib
from pathlib import Path
from random import Random

from drcrm.experiments.datasets.source_formats import DatasetSpec

from .harness import Kind
from .libsvm import agrees, draw_spec, text
from .mutations import mutated


def make(r: Random) -> tuple[str, bytes, DatasetSpec]:
    """Draw a file's suffix, its bytes, and what it must contain."""
    spec, suffix = draw_spec(r), r.choice(["bz2", "bz2", "gz"])
    pack = {"bz2": bz2.compress, "gz": gzip.compress}[suffix if r.random() < 0.95 else r.choice(["bz2", "gz"])]
    content = b"".join(pack(text(r, spec).encode()) for _ in range(r.choice([1, 1, 1, 2, 3])))
    return suffix, mutated(r, content, 2) if r.random() < 0.7 else content, spec


def header(content: bytes) -> bytes:
    """A gz stream without what gzip of Python passes over: flags that mean nothing, and the header's own checksum."""
    flags = content[3] if len(content) > 3 else 0
    if flags & 0x1F == 0x02:
        content = content[:10] + content[12:]
        flags = 0
    return content[:3] + bytes([flags & 0x1F])[: len(content) - 3] + content[4:]


def unpacked(content: bytes, suffix: str) -> bytes | None:
    """Decompress stream after stream; None where something is left that is none, or too little."""
    text = b""
    while content or not text:
        if suffix == "gz":
            content = header(content)
        stream = bz2.BZ2Decompressor() if suffix == "bz2" else zlib.decompressobj(31)
        try:
            text += stream.decompress(content)
        except (OSError, zlib.error):
            return None
        if not stream.eof:
            return None
        content = stream.unused_data
        if suffix == "gz":
            content = content.lstrip(b"\0")  # the format lets zeros follow
        if not content:
            return text
    return text


def check(case: tuple[str, bytes, DatasetSpec], folder: Path) -> bool:
    suffix, content, spec = case
    path = folder / f"a.{suffix}"
    path.write_bytes(content)
    return agrees(path, unpacked(content, suffix), spec)


KIND = Kind("streams", 150, make, check)
