"""Logs in memory-mapped files, for comparison with logs in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from drcrm.logs import batches, read_log
from drcrm.logs.decisions import opened_log


def close(first, second, tolerance: float = 1e-8) -> None:
    """Assert that two answers are equal up to a relative tolerance."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key, value in first.items():
            close(value, second[key], tolerance)
    elif isinstance(first, list):
        assert len(first) == len(second)
        for entry, counterpart in zip(first, second, strict=True):
            close(entry, counterpart, tolerance)
    else:
        assert first == (pytest.approx(second, rel=tolerance, abs=1e-8) if isinstance(first, float) else second)


@contextmanager
def mapped_files(monkeypatch, rows: int = 700) -> Iterator[list[Path]]:
    """Put all logs into mapped files, read and encoded in several batches; yield the folders of the files."""
    folders, create = [], opened_log.scratch_folder

    def record(folder: Path) -> Any:
        folders.append(folder)
        return create(folder)

    with monkeypatch.context() as patched:
        patched.setattr(opened_log, "LARGE", -1)
        patched.setattr(opened_log, "scratch_folder", record)
        patched.setattr(read_log, "ROWS", rows)
        patched.setattr(batches, "BLOCK_ROWS", rows - 50)
        yield folders
    assert folders
    assert not any(folder.exists() for folder in folders)
