"""Named arrays that are collected batch by batch, in memory or in memory-mapped files."""

from collections.abc import Hashable, Mapping
from pathlib import Path

from drcrm.arrays.mapped_arrays import ArrayWriter, Features, count_bytes, write_blocks


class ArrayCollector:
    """Collect batches of named arrays: call ``append`` for each batch, then ``finish``.

    Parameters
    ----------
    path : Path or None
        Prefix of the file paths; None collects in memory.

    Attributes
    ----------
    nbytes : int
        Size of all arrays.
    """

    def __init__(self, path: Path | None):
        self.nbytes, self._path = 0, path
        self._batches: dict[Hashable, list[Features]] = {}
        self._writers: dict[Hashable, ArrayWriter] = {}

    def append(self, batch: Mapping[Hashable, Features | None]) -> None:
        """Append the rows of a batch to the arrays of the same names; None adds no rows."""
        for name, values in batch.items():
            if values is None:
                continue
            self.nbytes += count_bytes(values)
            if self._path is None:
                self._batches.setdefault(name, []).append(values)
            else:
                self._write(self._path, name, values)

    def move_to(self, path: Path) -> None:
        """Write the arrays in memory, and later batches, to files with this path prefix."""
        self._path = path
        for name in [*self._batches]:
            for values in self._batches.pop(name):
                self._write(path, name, values)

    def finish(self) -> dict[Hashable, Features]:
        """Return the arrays by name; release the batches in memory array by array."""
        try:
            arrays = {name: writer.finish() for name, writer in self._writers.items()}
        finally:
            self.close()
        for name in [*self._batches]:
            arrays[name] = write_blocks(None, iter(self._batches.pop(name)))
        return arrays

    def _write(self, path: Path, name: Hashable, values: Features) -> None:
        if name not in self._writers:
            self._writers[name] = ArrayWriter(path.with_name(f"{path.name}-{len(self._writers)}"))
        self._writers[name].append(values)

    def close(self) -> None:
        """Close the files. Arrays that are not finished are lost."""
        for writer in self._writers.values():
            writer.close()
