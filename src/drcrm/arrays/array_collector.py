"""Named arrays that are collected batch by batch, in memory or in memory-mapped files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from drcrm.arrays.mapped_arrays import ArrayWriter, Features, count_bytes, write_blocks


class ArrayCollector:
    """Collect batches of named arrays: ``append`` each batch, then ``finish``.

    Parameters
    ----------
    path : Path or None
        Where the names of the files begin; None collects in memory.

    Attributes
    ----------
    nbytes : int
        Of all arrays.
    """

    def __init__(self, path: Path | None):
        self._path, self._batches, self._writers, self.nbytes = path, {}, {}, 0

    def append(self, batch: Mapping[str, Features | None]) -> None:
        """Append the rows of a batch to the arrays of the same names, without those that are None."""
        for name, values in batch.items():
            if values is None:
                continue
            self.nbytes += count_bytes(values)
            if self._path is None:
                self._batches.setdefault(name, []).append(values)
            else:
                self._write(name, values)

    def move_to(self, path: Path) -> None:
        """Write what is in memory, and what is appended later, to files whose names begin with a path."""
        self._path = path
        for name in [*self._batches]:
            for values in self._batches.pop(name):
                self._write(name, values)

    def finish(self) -> dict[str, Features]:
        """Return the arrays by name. Batches in memory are released array by array."""
        try:
            arrays = {name: writer.finish() for name, writer in self._writers.items()}
        finally:
            self.close()
        for name in [*self._batches]:
            arrays[name] = write_blocks(None, iter(self._batches.pop(name)))
        return arrays

    def _write(self, name: object, values: Features) -> None:
        if name not in self._writers:
            path = self._path.with_name(f"{self._path.name}-{len(self._writers)}")
            self._writers[name] = ArrayWriter(path)
        self._writers[name].append(values)

    def close(self) -> None:
        """Close the files; after an error without finishing them."""
        for writer in self._writers.values():
            writer.close()
