"""Logs in memory-mapped files, for comparison with logs in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drcrm.logs import opened_log, records
from drcrm.logs.readers import log_files as readers


def close(one, other) -> None:
    """Two answers of the same content, but for rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, each in one.items():
            close(each, other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for each, another in zip(one, other, strict=True):
            close(each, another)
    else:
        assert one == (pytest.approx(other, rel=1e-8, abs=1e-8) if isinstance(one, float) else other)


@contextmanager
def mapped_files(monkeypatch, rows: int = 700) -> Iterator[list[Path]]:
    """Put all logs into mapped files, which are read and encoded in several batches; yield their folders."""
    folders, make = [], opened_log._temporary_folder

    def recorded(parent: Path):
        folder = make(parent)
        folders.append(Path(folder.name))
        return folder

    with monkeypatch.context() as patched:
        patched.setattr(opened_log, "LARGE", -1)
        patched.setattr(opened_log, "_temporary_folder", recorded)
        patched.setattr(readers, "ROWS", rows)
        patched.setattr(records, "BLOCK_ROWS", rows - 50)
        yield folders
    assert folders
    assert not any(folder.exists() for folder in folders)
